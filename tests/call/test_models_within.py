"""Every public function that takes a model takes an object that has one, such as Bambi's."""

import inspect
from types import SimpleNamespace

import bambi
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.density.refuse import model_of

FEW = {"chains": 4, "temperatures": 4, "random_seed": 1, "cores": 1, "progressbar": False}
QUICK = FEW | {"path": "prior", "step": "metropolis", "particles": 4}
BETS = {"budget": 256, "random_seed": 1}


def build(scale=1.0):
    """A model of Bambi with one variable."""
    priors = {"Intercept": bambi.Prior("Normal", mu=0, sigma=scale), "sigma": 1.0}
    model = bambi.Model("y ~ 1", pd.DataFrame({"y": [0.5, 1.0]}), priors=priors)
    model.build()
    return model


@pytest.fixture(scope="module")
def thing():
    return build()


@pytest.fixture(scope="module")
def result(thing):
    return bdmc.sample_bdmc(thing, simulate=None, **QUICK | {"chains": 64})


DRAWS = xr.Dataset(
    {"Intercept": (("chain", "draw"), np.random.default_rng(0).normal(size=(4, 200)))}
)
CALLS = {
    "agreement": lambda m, dt: bdmc.agreement(dt, DRAWS, model=m),
    "averaged": lambda m, dt: bdmc.averaged({"a": dt, "b": dt}, models={"a": m, "b": m}),
    "compare_designs": lambda m, dt: bdmc.compare_designs({"a": m, "b": m}, datasets=2, **QUICK),
    "compare_models": lambda m, dt: bdmc.compare_models({"a": m, "b": m}, max_looks=1, **QUICK),
    "distance": lambda m, dt: bdmc.distance(dt, stats.norm(0.5, 1), model=m, draws=100),
    "elasticity": lambda m, dt: bdmc.elasticity(dt, build, [1.0], model=m),
    "hypothesis": lambda m, dt: bdmc.hypothesis(dt, m, "Intercept > 0"),
    "information_gain": lambda m, dt: bdmc.information_gain(m, datasets=2, **QUICK),
    "log_ml": lambda m, dt: bdmc.log_ml(DRAWS, m),
    "plan": lambda m, dt: bdmc.plan(
        {"a": lambda n: m, "b": lambda n: m}, [2], datasets=1, progressbar=False
    ),
    "plot_agreement": lambda m, dt: bdmc.plot_agreement(dt, DRAWS, model=m),
    "plot_distance": lambda m, dt: bdmc.plot_distance(dt, stats.norm(0.5, 1), model=m, draws=100),
    "point_null": lambda m, dt: bdmc.point_null(dt, {"Intercept": 0}, model=m),
    "pointwise_orders": lambda m, dt: bdmc.pointwise_orders(m, 1, **FEW),
    "sample": lambda m, dt: bdmc.sample(m, simulate=None, **QUICK),
    "sample_bdmc": lambda m, dt: bdmc.sample_bdmc(m, simulate=None, **QUICK),
    "score_test": lambda m, dt: bdmc.score_test(DRAWS, m),
    "sensitivity": lambda m, dt: bdmc.sensitivity(dt, build, [1.0], model=m),
    "temper": lambda m, dt: bdmc.temper(
        m, chains=2, draws=2, temperatures=3, initial=1, iterations=1, step="metropolis"
    ),
    "check_bayes_factor": lambda m, dt: bdmc.testing.check_bayes_factor(
        lambda y: 0.0, m, m, **BETS
    ),
    "check_conditionals": lambda m, dt: bdmc.testing.check_conditionals(
        lambda point: stats.norm(0.5, 3**-0.5).logpdf(point["Intercept"]), m, "Intercept", **BETS
    ),
    "check_exact_rank": lambda m, dt: bdmc.testing.check_exact_rank("metropolis", m, **BETS),
    "check_geweke": lambda m, dt: bdmc.testing.check_geweke("metropolis", m, **BETS),
    "check_gradient": lambda m, dt: bdmc.testing.check_gradient(m, **BETS),
    "check_invariance": lambda m, dt: bdmc.testing.check_invariance("metropolis", m, **BETS),
    "check_prior_sampler": lambda m, dt: bdmc.testing.check_prior_sampler(m, **BETS),
    "check_sampler": lambda m, dt: bdmc.testing.check_sampler("metropolis", m, **BETS),
}
MODELS = {"build", "designs", "joint", "model", "model_0", "models", "system"}
"""Names of arguments that are models, or functions that return one."""


def test_every_function_is_called():
    takes_models = {
        name
        for module in (bdmc, bdmc.testing)
        for name in module.__all__
        if inspect.isfunction(function := getattr(module, name))
        and MODELS & set(inspect.signature(function).parameters)
    }
    assert takes_models - {"anneal"} == set(CALLS)  # which runs other systems than models


@pytest.mark.parametrize("name", CALLS)
def test_it_takes_a_model_of_bambi(name, thing, result):
    assert CALLS[name](thing, result) is not None


def test_the_model_in_an_object():
    model = pm.Model()
    assert model_of(SimpleNamespace(model=model)) is model  # as PyMC-Marketing's
    unbuilt = bambi.Model("y ~ 1", pd.DataFrame({"y": [0.5, 1.0]}))
    with pytest.raises(TypeError, match=r"model: it has no PyMC model yet; call its build\(\)"):
        pm.sample_bdmc(unbuilt)
    with pytest.raises(TypeError, match=r"call its build_model\(\)"):
        pm.sample_bdmc(SimpleNamespace(build_model=build))
    with pytest.raises(TypeError, match=r"model: a pymc.Model is needed"):
        pm.sample_bdmc(SimpleNamespace(model="none"))
