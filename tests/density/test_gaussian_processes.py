"""Gaussian processes: compiled densities are PyMC's own, in every form.

In one form they have two parts, so that what depends on the parameters alone is computed once.
Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5, seeded).
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import CheckAndRaise
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.density import compiled
from pymc_bdmc.density.compiled import fixed_parts
from pymc_bdmc.density.structure import latent_variables
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.engines.problem import conditional_slopes
from pymc_bdmc.fits import limits
from pymc_bdmc.fits.fit import Fitting
from pymc_bdmc.run.tasks import FitTask
from tests.models import SIGMAS, interpreted

X = np.linspace(0.0, 1.0, 6)[:, None]
COUNTS, REALS = np.array([0, 2, 1, 4, 0, 3]), np.array([0.1, 0.9, -0.4, 0.8, 0.2, -1.1])
TIMES, DATA = np.arange(6.0), np.array([0.3, 0.9, 1.1, 0.2, -0.5, -0.9])
SQUARES = np.subtract.outer(TIMES, TIMES) ** 2
KRONECKER = [X[:3], X[:2]]


def covariance(name=""):
    """A covariance with two unknown parameters."""
    length, size = pm.InverseGamma(f"length{name}", 5, 2), pm.HalfNormal(f"size{name}")
    return size**2 * pm.gp.cov.Matern52(1, ls=length)


def two_axes():
    return [covariance("_a"), covariance("_b")]


def matrix():
    unit = pt.exp(-np.abs(X - X.T) / pm.InverseGamma("length", 5, 2))
    return pm.MvNormal("f", 0, cov=pm.HalfNormal("size") ** 2 * unit + 1e-6 * np.eye(6))


def counts(f):
    pm.NegativeBinomial("y", mu=pt.exp(f), alpha=pm.Exponential("shape", 0.1), observed=COUNTS)


def observed(gp, *places):
    gp.marginal_likelihood("y", *places, REALS, sigma=pm.HalfNormal("noise"))


MODELS = {
    "HSGP": lambda: counts(pm.gp.HSGP(m=[4], c=1.5, cov_func=covariance()).prior("f", X)),
    "LatentKron": lambda: counts(pm.gp.LatentKron(cov_funcs=two_axes()).prior("f", KRONECKER)),
    "MvNormal": lambda: counts(matrix()),
    "Latent": lambda: counts(pm.gp.Latent(cov_func=covariance()).prior("f", X)),
    "Marginal": lambda: observed(pm.gp.Marginal(cov_func=covariance()), X),
    "VFE": lambda: observed(pm.gp.MarginalApprox("VFE", cov_func=covariance()), X, X[::2]),
    "MarginalKron": lambda: observed(pm.gp.MarginalKron(cov_funcs=two_axes()), KRONECKER),
}


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
    assert not np.allclose(density.terms(thetas), right_terms * (1 + 1e-6), rtol=1e-9, atol=0)
    latent = np.flatnonzero(engine.jitted.elements_of(latent_variables(model)))
    forms = [(density.slopes, np.arange(thetas.shape[1]))]
    if latent.size:
        forms.append((density.slopes_in(latent), latent))
    for evaluate, found in forms:
        values, gradients = evaluate(thetas)
        np.testing.assert_allclose(values, right_terms.sum(axis=1), rtol=1e-9)
        np.testing.assert_allclose(gradients[:, found], slopes[:, found], rtol=1e-7, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_compiled_densities_are_pymcs_own(name):
    with pm.Model() as model:
        MODELS[name]()
    engine = CompiledEngine(TemperedDensity(model))
    compare(model, engine)
    latent = np.flatnonzero(engine.jitted.elements_of(latent_variables(model)))
    assert not latent.size or engine.jitted.conditional(latent) is not None


@pytest.fixture(scope="module")
def process():
    """White noise through a kernel of unknown width: no Cholesky factor has to be compiled."""
    with pm.Model() as model:
        kernel = pt.exp(-pt.constant(SQUARES) * pm.LogNormal("rate", -1, 1))
        pm.Normal("y", kernel @ pm.Normal("f", shape=6), 0.3, observed=DATA)
    return model


@pytest.fixture(scope="module")
def engine(process):
    return CompiledEngine(TemperedDensity(process))


def test_the_density_of_a_process_is_pymcs_own(process, engine):
    """Twin: a density that is a millionth too large."""
    compare(process, engine)


def test_two_parts_equal_one_density_on_two_data_sets(engine):
    """Twin: the covariance of the first row for all rows."""
    density = engine.on({"y": np.stack([DATA, DATA[::-1]])})
    latent = np.arange(1, 7)
    thetas = np.random.default_rng(0).normal(size=(6, 7))
    thetas[:3, 0] = thetas[0, 0]
    values, gradients = density.slopes(thetas)
    found = density.slopes_in(latent)(thetas)
    np.testing.assert_allclose(found[0], values, rtol=1e-12)
    np.testing.assert_allclose(found[1][:, latent], gradients[:, latent], rtol=1e-9, atol=1e-9)
    assert (found[1][:, 0] == 0).all()
    assert density.evaluations == 12

    wrong, conditional = np.empty(6), engine.jitted.conditional(latent)
    target, never = engine.on({"y": np.stack([DATA, DATA[::-1]])}).target, latent[:0]
    conditional_slopes(conditional, target, never, thetas, wrong, np.empty((6, 7)))
    np.testing.assert_allclose(wrong[:3], values[:3], rtol=1e-12)
    assert (np.abs(wrong[3:] - values[3:]) > 1e-3).all()


def test_log_ml_of_a_gaussian_process(process):
    """By quadrature over the width of the kernel. Twin: a noise that is a tenth larger."""

    def log_ml(noise):
        grid, step = np.linspace(-8, 6, 400, retstep=True)
        kernels = np.exp(-SQUARES * np.exp(grid)[:, None, None])
        covs = kernels @ kernels + noise**2 * np.eye(6)
        ells = [stats.multivariate_normal(np.zeros(6), cov).logpdf(DATA) for cov in covs]
        return logsumexp(ells + stats.norm(-1, 1).logpdf(grid)) + np.log(step)

    dt = pm.sample_bdmc(process, simulate=None, random_seed=1, cores=1, progressbar=False)
    found = bdmc.log_ml(dt)
    assert "1 parameter, 6 latent variables" in dt.attrs["path_reason"]
    assert abs(found.value - log_ml(0.3)) < SIGMAS * found.error
    assert abs(found.value - log_ml(0.33)) > SIGMAS * found.error


def test_a_nested_fit_is_used_where_weights_of_a_mixture_are_uneven(engine, monkeypatch):
    """Twin: mixtures with such weights would do, if none were nested and prior draws were few.

    They would have more components then, so that weights were even.
    """
    monkeypatch.setattr(CompiledEngine, "_draws_for", lambda *_: 256)

    def uneven_mixtures():
        seeds = np.random.SeedSequence(1).spawn(8)
        fits = [engine.fit(FitTask(engine.density.data, seed)) for seed in seeds]
        mixtures = [each for each in fits if each.tuning and not each.tuning.is_nested]
        return [each for each in mixtures if each.variance > limits.EVEN]

    assert not uneven_mixtures()
    monkeypatch.setattr(Fitting, "_is_adapted", lambda *_: False)
    nothing = np.zeros_like(engine._structure.latent)
    monkeypatch.setattr(engine, "_structure", engine._structure._replace(latent=nothing))
    assert uneven_mixtures()


@pytest.fixture(scope="module")
def group():
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=3)
        pm.Normal("y", effect, 1, observed=DATA[:3])
    return model


def test_shortcuts_that_fail_are_survived(group, monkeypatch, caplog):
    """The plain forms are used, and the log has the causes.

    Groups are not split in any case, since no matrix depends on the scale alone.
    """

    def fail(*args, **kwargs):
        raise AttributeError("this way is closed")

    def compile_plainly(*args, mode, **kwargs):
        return compile_graph(*args, mode=mode, **kwargs) if mode is compiled.MODES[-1] else fail()

    assert TemperedDensity(group).jitted.conditional(np.arange(3)) is None
    compile_graph = compiled.compile_graph
    monkeypatch.setattr(compiled, "_cfuncs", {})
    monkeypatch.setattr(compiled, "fixed_parts", fail)
    monkeypatch.setattr(compiled, "compile_graph", compile_plainly)
    caplog.set_level("DEBUG", "pymc.bdmc")
    compare(group, CompiledEngine(TemperedDensity(group)))
    causes = [each.message for each in caplog.records if "this way is closed" in each.message]
    assert len(causes) == 3
    assert all(each.startswith("No shortcut for ") for each in causes)


def test_fixed_parts():
    """They need a shape, else their place among the fixed numbers is not known.

    PyTensor checks a scale by a scalar that is no tensor: the tensor that it is made of is kept.
    """
    z, known = pt.vector("z", shape=(2,)), pt.vector("known", shape=(2,))
    assert fixed_parts([(pt.exp(known) * z).sum()], [z])
    assert not fixed_parts([(pt.exp(pt.vector("unknown")) * z).sum()], [z])
    scale = pt.scalar("scale")
    is_positive = pt.all(scale > 0)
    checked = CheckAndRaise(ValueError, "scale")(z * scale, is_positive)
    assert fixed_parts([checked], [z]) == {is_positive: 1}
