"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available, and
imports PyMC only where something needs it.
"""

from importlib import import_module as _import_module

from pymc_bdmc.base.hooks import when_imported
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.sampling import sample_bdmc

_HOMES = {
    "DataPath": "paths",
    "FittedPath": "paths",
    "FromHyperparameters": "model.simulation",
    "FromPrior": "model.simulation",
    "Given": "model.simulation",
    "Matched": "model.matching",
    "Path": "paths",
    "PriorPath": "paths",
    "ReferencePath": "paths",
    "Schedule": "base.schedules",
    "System": "base.system",
    "agreement": "results.agreement",
    "anneal": "campaign.systems",
    "bayes_factor": "results.bayes_factor",
    "burn_in_effect": "results.burn_in",
    "certified": "results.certified",
    "compare": "results.compare",
    "compare_models": "studies.compare_models",
    "consistency": "results.consistency",
    "diagnose": "results.diagnose",
    "distance": "results.distance",
    "elasticity": "results.elasticity",
    "evidence": "results.evidence",
    "expectation": "results.expectation",
    "log_ml": "results.log_ml",
    "plot_agreement": "plots.agreement",
    "plot_burn_in": "plots.burn_in",
    "plot_compare": "plots.compare",
    "plot_consistency": "plots.consistency",
    "plot_convergence": "plots.convergence",
    "plot_distance": "plots.distance",
    "plot_error_analysis": "plots.error_analysis",
    "plot_estimators": "plots.estimators",
    "plot_hysteresis": "plots.hysteresis",
    "plot_pointwise": "plots.pointwise",
    "plot_race": "plots.race",
    "plot_sandwich": "plots.sandwich",
    "plot_sensitivity": "plots.sensitivity",
    "plot_tempering": "plots.tempering",
    "plot_work": "plots.work",
    "point_null": "studies.point_null",
    "pointwise": "results.pointwise",
    "pointwise_orders": "studies.pointwise_orders",
    "report": "results.report",
    "schedules": "base.schedules",
    "sensitivity": "studies.sensitivity",
    "summary": "results.summary",
    "temper": "testbeds.tempering",
    "verdict": "results.verdict",
}
"""Modules of the public names, which are imported at the first use."""

_MODULES = ["estimators", "lattice", "rbm", "testbed", "testing", "testsystems"]

__all__ = sorted([*_HOMES, *_MODULES, "sample_bdmc"])


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


def _enter(pymc) -> None:
    """Make `sample_bdmc` a function of PyMC."""
    pymc.sample_bdmc = sample_bdmc
    # PyMC 6 has no list of its public names for it to stand in, so `help(pm)` has it in the text.
    mention = "sample_bdmc : bidirectional Monte Carlo, by pymc_bdmc; see help(pymc.sample_bdmc)."
    if pymc.__doc__ and mention not in pymc.__doc__:
        pymc.__doc__ += f"\n\n{mention}\n"


when_imported("pymc", _enter)
