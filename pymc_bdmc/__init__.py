"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available.
"""

import pymc as _pymc

from pymc_bdmc import estimators, lattice, rbm, schedules, testsystems
from pymc_bdmc.annealing.paths import FittedPath, PriorPath, ReferencePath
from pymc_bdmc.model.simulation import FromHyperparameters, FromPrior, Given
from pymc_bdmc.plots import (
    plot_convergence,
    plot_error_analysis,
    plot_estimators,
    plot_hysteresis,
    plot_sandwich,
    plot_tempering,
    plot_work,
)
from pymc_bdmc.results.certified import certified
from pymc_bdmc.results.diagnose import diagnose
from pymc_bdmc.results.evidence import evidence
from pymc_bdmc.results.expectation import expectation
from pymc_bdmc.results.summary import summary
from pymc_bdmc.sampling import sample_bdmc
from pymc_bdmc.schedules import Schedule
from pymc_bdmc.tempering.sampler import temper
from pymc_bdmc.version import VERSION

__all__ = [
    "FittedPath",
    "FromHyperparameters",
    "FromPrior",
    "Given",
    "PriorPath",
    "ReferencePath",
    "Schedule",
    "certified",
    "diagnose",
    "estimators",
    "evidence",
    "expectation",
    "lattice",
    "plot_convergence",
    "plot_error_analysis",
    "plot_estimators",
    "plot_hysteresis",
    "plot_sandwich",
    "plot_tempering",
    "plot_work",
    "rbm",
    "sample_bdmc",
    "schedules",
    "summary",
    "temper",
    "testsystems",
]

__version__ = VERSION

_pymc.sample_bdmc = sample_bdmc
# PyMC 6 has no list of its public names for it to stand in, so `help(pm)` has it in the text.
_mention = "sample_bdmc : bidirectional Monte Carlo, by pymc_bdmc; see help(pymc.sample_bdmc)."
if _pymc.__doc__ and _mention not in _pymc.__doc__:
    _pymc.__doc__ += f"\n\n{_mention}\n"
