"""Bidirectional Monte Carlo for PyMC models.

How far is a sampler's posterior from the true one, and how strongly do the data support the
model? Both answers are in nats. Importing the package makes ``pymc.sample_bdmc`` available.

How strongly do the data support a model?
    ``bdmc.log_ml(pm.sample_bdmc(model, simulate=None))``
The same, from draws that I have
    ``bdmc.log_ml(idata, a)``
Which of two models do they support?
    ``bdmc.compare_models({"a": a, "b": b})``
The same, with results that you have
    ``bdmc.bayes_factor(dt_a, dt_b)``
Is p above a half?
    ``bdmc.hypothesis(dt_a, a, "p > 0.5")``
Is p equal to 0.5?
    ``bdmc.point_null(dt_a, {"p": 0.5}, model=a)``
What do all models say together?
    ``bdmc.averaged({"a": dt_a, "b": dt_b})``
How much does the prior matter?
    ``bdmc.sensitivity(dt_a, build, [1, 2, 5])``
Can the draws of this run be trusted?
    ``bdmc.verdict(pm.sample_bdmc(model))``
Can I trust the draws that I have?
    ``bdmc.verdict(pm.sample_bdmc(model, posterior=idata))``
How good is my ADVI?
    ``bdmc.distance(dt_a, approximation)``
How good is NUTS on my model?
    ``bdmc.verdict(pm.sample_bdmc(model, step=pm.NUTS))``
Is my sampler correct?
    ``bdmc.testing.check_invariance(pm.Metropolis, model)``
How much will an experiment tell?
    ``bdmc.information_gain(model)``
What do I write in a paper?
    ``bdmc.report({"a": dt_a, "b": dt_b})``

Here ``dt_a`` and ``dt_b`` are results of ``pm.sample_bdmc`` on two models, and ``build(scale)``
makes a model with that scale of a prior. ``bdmc.__all__`` lists all public names.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pymc

from pymc_bdmc import estimators as estimators
from pymc_bdmc import lattice as lattice
from pymc_bdmc import rbm as rbm
from pymc_bdmc import testing as testing
from pymc_bdmc import testsystems as testsystems
from pymc_bdmc.base import VERSION, warn_if_newer
from pymc_bdmc.base import schedules as schedules
from pymc_bdmc.base.schedules import Schedule as Schedule
from pymc_bdmc.base.types import System as System
from pymc_bdmc.call.systems import anneal as anneal
from pymc_bdmc.paths import DataPath as DataPath
from pymc_bdmc.paths import FittedPath as FittedPath
from pymc_bdmc.paths import Path as Path
from pymc_bdmc.paths import PriorPath as PriorPath
from pymc_bdmc.paths import ReferencePath as ReferencePath
from pymc_bdmc.results.agreement import agreement as agreement
from pymc_bdmc.results.compare import bayes_factor as bayes_factor
from pymc_bdmc.results.compare import compare as compare
from pymc_bdmc.results.compare import pointwise as pointwise
from pymc_bdmc.results.consistency import consistency as consistency
from pymc_bdmc.results.distance import distance as distance
from pymc_bdmc.results.hypothesis import hypothesis as hypothesis
from pymc_bdmc.results.log_ml import evidence as evidence
from pymc_bdmc.results.log_ml import log_ml as log_ml
from pymc_bdmc.results.particles import expectation as expectation
from pymc_bdmc.results.reweighting import elasticity as elasticity
from pymc_bdmc.results.sandwich import burn_in_effect as burn_in_effect
from pymc_bdmc.results.sandwich import certified as certified
from pymc_bdmc.results.score import score_test as score_test
from pymc_bdmc.results.summary import report as report
from pymc_bdmc.results.summary import summary as summary
from pymc_bdmc.results.verdict import diagnose as diagnose
from pymc_bdmc.results.verdict import verdict as verdict
from pymc_bdmc.sampling import sample_bdmc as sample
from pymc_bdmc.sampling import sample_bdmc as sample_bdmc
from pymc_bdmc.simulations import FromHyperparameters as FromHyperparameters
from pymc_bdmc.simulations import FromPosterior as FromPosterior
from pymc_bdmc.simulations import FromPrior as FromPrior
from pymc_bdmc.simulations import Given as Given
from pymc_bdmc.studies.averaged import averaged as averaged
from pymc_bdmc.studies.compare_models import compare_models as compare_models
from pymc_bdmc.studies.design import compare_designs as compare_designs
from pymc_bdmc.studies.design import information_gain as information_gain
from pymc_bdmc.studies.design import plan as plan
from pymc_bdmc.studies.point_null import point_null as point_null
from pymc_bdmc.studies.sensitivity import pointwise_orders as pointwise_orders
from pymc_bdmc.studies.sensitivity import sensitivity as sensitivity
from pymc_bdmc.testbeds.tempering import temper as temper

if TYPE_CHECKING:
    from pymc_bdmc.plots import plot_agreement as plot_agreement
    from pymc_bdmc.plots import plot_burn_in as plot_burn_in
    from pymc_bdmc.plots import plot_compare as plot_compare
    from pymc_bdmc.plots import plot_consistency as plot_consistency
    from pymc_bdmc.plots import plot_convergence as plot_convergence
    from pymc_bdmc.plots import plot_distance as plot_distance
    from pymc_bdmc.plots import plot_error_analysis as plot_error_analysis
    from pymc_bdmc.plots import plot_estimators as plot_estimators
    from pymc_bdmc.plots import plot_hysteresis as plot_hysteresis
    from pymc_bdmc.plots import plot_information as plot_information
    from pymc_bdmc.plots import plot_plan as plot_plan
    from pymc_bdmc.plots import plot_pointwise as plot_pointwise
    from pymc_bdmc.plots import plot_sandwich as plot_sandwich
    from pymc_bdmc.plots import plot_sensitivity as plot_sensitivity
    from pymc_bdmc.plots import plot_tempering as plot_tempering
    from pymc_bdmc.plots import plot_work as plot_work

__all__ = [
    "DataPath", "FittedPath", "FromHyperparameters", "FromPosterior", "FromPrior", "Given",
    "Path", "PriorPath", "ReferencePath", "Schedule", "System", "agreement", "anneal",
    "averaged", "bayes_factor", "burn_in_effect", "certified", "compare", "compare_designs",
    "compare_models", "consistency", "diagnose", "distance", "elasticity", "estimators", "evidence",
    "expectation", "hypothesis", "information_gain", "lattice", "log_ml", "plan", "plot_agreement",
    "plot_burn_in", "plot_compare", "plot_consistency", "plot_convergence", "plot_distance",
    "plot_error_analysis", "plot_estimators", "plot_hysteresis", "plot_information", "plot_plan",
    "plot_pointwise", "plot_sandwich", "plot_sensitivity", "plot_tempering", "plot_work",
    "point_null", "pointwise", "pointwise_orders", "rbm", "report", "sample", "sample_bdmc",
    "schedules", "score_test", "sensitivity", "summary", "temper", "testing", "testsystems",
    "verdict",
]  # fmt: skip
__version__ = VERSION

warn_if_newer(pymc.__version__)
pymc.sample_bdmc = sample_bdmc


def __getattr__(name: str) -> Any:
    """Import plots when they are used: arviz-plots and its backends take as long as PyMC."""
    if name.startswith("plot_") and name in __all__:
        return getattr(import_module("pymc_bdmc.plots"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of plots too."""
    return sorted({*globals(), *__all__})
