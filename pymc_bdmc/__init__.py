"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available.
"""

from importlib import import_module as _import_module

import pymc as _pymc

from pymc_bdmc.base.version import VERSION
from pymc_bdmc.sampling import sample_bdmc

__all__ = [
    "DataPath",
    "FittedPath",
    "FromHyperparameters",
    "FromPrior",
    "Given",
    "Matched",
    "PriorPath",
    "ReferencePath",
    "Schedule",
    "System",
    "agreement",
    "anneal",
    "burn_in_effect",
    "certified",
    "compare",
    "consistency",
    "diagnose",
    "distance",
    "estimators",
    "evidence",
    "expectation",
    "lattice",
    "plot_agreement",
    "plot_burn_in",
    "plot_compare",
    "plot_consistency",
    "plot_convergence",
    "plot_distance",
    "plot_error_analysis",
    "plot_estimators",
    "plot_hysteresis",
    "plot_race",
    "plot_sandwich",
    "plot_tempering",
    "plot_work",
    "rbm",
    "sample_bdmc",
    "schedules",
    "summary",
    "temper",
    "testbed",
    "testing",
    "testsystems",
    "verdict",
]

_HOMES = {
    "DataPath": "paths",
    "FittedPath": "paths",
    "FromHyperparameters": "model.simulation",
    "FromPrior": "model.simulation",
    "Given": "model.simulation",
    "Matched": "model.matching",
    "PriorPath": "paths",
    "ReferencePath": "paths",
    "Schedule": "base.schedules",
    "System": "base.system",
    "agreement": "results.agreement",
    "anneal": "campaign.systems",
    "burn_in_effect": "results.burn_in",
    "certified": "results.certified",
    "compare": "results.compare",
    "consistency": "results.consistency",
    "diagnose": "results.diagnose",
    "distance": "results.distance",
    "evidence": "results.evidence",
    "expectation": "results.expectation",
    "plot_agreement": "plots",
    "plot_burn_in": "plots",
    "plot_compare": "plots",
    "plot_consistency": "plots",
    "plot_convergence": "plots",
    "plot_distance": "plots",
    "plot_error_analysis": "plots",
    "plot_estimators": "plots",
    "plot_hysteresis": "plots",
    "plot_race": "plots",
    "plot_sandwich": "plots",
    "plot_tempering": "plots",
    "plot_work": "plots",
    "schedules": "base.schedules",
    "summary": "results.summary",
    "temper": "tempering.sampler",
    "verdict": "results.verdict",
}
"""Modules of the public names, imported at the first use; other names are modules here."""


def __getattr__(name: str):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _import_module(f"{__name__}.{_HOMES.get(name, name)}")
    found = getattr(module, name, module)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*globals(), *__all__]


__version__ = VERSION

_pymc.sample_bdmc = sample_bdmc
# PyMC 6 has no list of its public names for it to stand in, so `help(pm)` has it in the text.
_mention = "sample_bdmc : bidirectional Monte Carlo, by pymc_bdmc; see help(pymc.sample_bdmc)."
if _pymc.__doc__ and _mention not in _pymc.__doc__:
    _pymc.__doc__ += f"\n\n{_mention}\n"
