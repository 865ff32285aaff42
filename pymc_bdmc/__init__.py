"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available.
"""

import pymc as _pymc

from pymc_bdmc import estimators, lattice, rbm, schedules, testsystems
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

__all__ = [
    "FromHyperparameters",
    "FromPrior",
    "Given",
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

_pymc.sample_bdmc = sample_bdmc
# Without a list of its own, PyMC 6 answers `__all__` with that of `pymc.stats`, and `help(pm)`
# shows nothing else.
_names = vars(_pymc).get("__all__") or [name for name in vars(_pymc) if not name.startswith("_")]
_pymc.__all__ = sorted({*_names, "sample_bdmc"})
