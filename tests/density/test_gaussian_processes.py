"""Gaussian processes of PyMC: compiled densities have the values of PyMC's own, in every form."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_bdmc.density import compiled
from pymc_bdmc.density.structure import latent_variables
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from tests.models import interpreted

X = np.linspace(0.0, 1.0, 6)[:, None]
COUNTS, REALS = np.array([0, 2, 1, 4, 0, 3]), np.array([0.1, 0.9, -0.4, 0.8, 0.2, -1.1])


def covariance(name=""):
    """A covariance with two unknown parameters."""
    length, size = pm.InverseGamma(f"length{name}", 5, 2), pm.HalfNormal(f"size{name}")
    return size**2 * pm.gp.cov.Matern52(1, ls=length)


def periodic():
    covariance = pm.gp.cov.Periodic(1, period=1.0, ls=pm.InverseGamma("length", 5, 2))
    return pm.gp.HSGPPeriodic(m=3, scale=pm.HalfNormal("size"), cov_func=covariance)


def two_axes():
    return [covariance("_a"), covariance("_b")]


def matrix():
    distances = np.abs(X - X.T)
    unit = pt.exp(-distances / pm.InverseGamma("length", 5, 2))
    return pm.MvNormal("f", 0, cov=pm.HalfNormal("size") ** 2 * unit + 1e-6 * np.eye(6))


KRONECKER = [X[:3], X[:2]]
PRIORS = {
    "Latent": lambda: pm.gp.Latent(cov_func=covariance()).prior("f", X),
    "TP": lambda: pm.gp.TP(scale_func=covariance(), nu=4).prior("f", X),
    "HSGP": lambda: pm.gp.HSGP(m=[4], c=1.5, cov_func=covariance()).prior("f", X),
    "HSGPPeriodic": lambda: periodic().prior("f", X),
    "LatentKron": lambda: pm.gp.LatentKron(cov_funcs=two_axes()).prior("f", KRONECKER),
    "MvNormal": matrix,
}
LIKELIHOODS = {
    "Poisson": lambda f: pm.Poisson("y", pt.exp(f), observed=COUNTS),
    "NegativeBinomial": lambda f: pm.NegativeBinomial(
        "y", mu=pt.exp(f), alpha=pm.Exponential("shape", 0.1), observed=COUNTS
    ),
    "StudentT": lambda f: pm.StudentT(
        "y", nu=4, mu=f, sigma=pm.HalfNormal("noise"), observed=REALS
    ),
}


def approximate(approx):
    gp = pm.gp.MarginalApprox(approx=approx, cov_func=covariance())
    gp.marginal_likelihood("y", X, X[::2], REALS, sigma=pm.HalfNormal("noise"))


MARGINAL = {
    "Marginal": lambda: pm.gp.Marginal(cov_func=covariance()).marginal_likelihood(
        "y", X, REALS, sigma=pm.HalfNormal("noise")
    ),
    "FITC": lambda: approximate("FITC"),
    "VFE": lambda: approximate("VFE"),
    "DTC": lambda: approximate("DTC"),
    "MarginalKron": lambda: pm.gp.MarginalKron(cov_funcs=two_axes()).marginal_likelihood(
        "y", KRONECKER, REALS, sigma=pm.HalfNormal("noise")
    ),
}
QUICK = ("MvNormal", "Poisson")
"""The model that is tested each time. Of its two parts, the first one checks a scale."""


def model_of(prior, likelihood=None):
    with pm.Model() as model:
        LIKELIHOODS[likelihood](PRIORS[prior]()) if likelihood else MARGINAL[prior]()
    return model


def compare(model, engine):
    """Compare log p, ℓ and gradients of a compiled density with PyMC's own at two prior draws."""
    draws = [engine.density.draw_prior(np.random.default_rng(seed))[0] for seed in (1, 2)]
    with interpreted():
        terms = [model.varlogp, model.datalogp]
        gradients = pt.grad(model.logp(), model.value_vars)
        own = model.compile_fn([*terms, *gradients], inputs=model.value_vars)
    right = [own(draw) for draw in draws]
    right_terms = np.array([each[:2] for each in right])
    slopes = np.array([np.concatenate([part.ravel() for part in each[2:]]) for each in right])

    density = engine.on(engine.density.data)
    thetas = np.array([engine.jitted.ravel(draw) for draw in draws])
    np.testing.assert_allclose(density.terms(thetas), right_terms, rtol=1e-9)
    latent = np.flatnonzero(engine.jitted.elements_of(latent_variables(model)))
    forms = [(density.slopes, np.arange(thetas.shape[1]))]
    if latent.size:
        forms.append((density.slopes_in(latent), latent))
    for evaluate, found in forms:
        values, gradients = evaluate(thetas)
        np.testing.assert_allclose(values, right_terms.sum(axis=1), rtol=1e-9)
        np.testing.assert_allclose(gradients[:, found], slopes[:, found], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(names, id="-".join(names), marks=[pytest.mark.slow] * (names != QUICK))
        for names in [*((each,) for each in MARGINAL), *product(PRIORS, LIKELIHOODS)]
    ],
)
def test_compiled_densities_are_pymcs_own(names):
    model = model_of(*names)
    engine = CompiledEngine(TemperedDensity(model))
    compare(model, engine)
    latent = np.flatnonzero(engine.jitted.elements_of(latent_variables(model)))
    assert not latent.size or engine.jitted.conditional(latent) is not None


@pytest.fixture
def quick_model(monkeypatch):
    monkeypatch.setattr(compiled, "_cfuncs", {})
    return model_of(*QUICK)


def test_wrong_numbers_are_found(quick_model):
    """Twin of the comparison: two parts whose density is a millionth too large."""
    engine = CompiledEngine(TemperedDensity(quick_model))
    vars(engine.jitted)["_terms"] = [(1 + 1e-6) * each for each in engine.jitted._terms]
    with pytest.raises(AssertionError):
        compare(quick_model, engine)


def test_shortcuts_that_fail_are_survived(quick_model, monkeypatch, caplog):
    """The plain forms are used, and the log has the causes."""

    def fail(*args, **kwargs):
        raise AttributeError("this way is closed")

    def compile_plainly(*args, mode, **kwargs):
        return compile_graph(*args, mode=mode, **kwargs) if mode is PLAIN else fail()

    compile_graph, PLAIN = compiled.compile_graph, compiled.MODES[-1]
    monkeypatch.setattr(compiled, "fixed_parts", fail)
    monkeypatch.setattr(compiled, "compile_graph", compile_plainly)
    caplog.set_level("DEBUG", "pymc.bdmc")
    compare(quick_model, CompiledEngine(TemperedDensity(quick_model)))
    causes = [each.message for each in caplog.records if "this way is closed" in each.message]
    assert len(causes) == 2
    assert all(each.startswith("No shortcut for ") for each in causes)
