"""Densities in two parts: the part that depends on the parameters alone is computed once.

The statistical test passes within `SIGMAS` standard errors (two-sided α = 6e-5, seeded).
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import CheckAndRaise
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.density.compiled import fixed_parts
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.engines.problem import conditional_slopes
from pymc_bdmc.fits import limits
from pymc_bdmc.run.tasks import FitTask
from tests.models import SIGMAS

TIMES = np.arange(6.0)
DATA = np.array([0.3, 0.9, 1.1, 0.2, -0.5, -0.9])
NOISE = 0.3


def kernel(length):
    return np.exp(-0.5 * np.subtract.outer(TIMES, TIMES) ** 2 / length**2) + 1e-6 * np.eye(6)


@pytest.fixture(scope="module")
def process():
    """A Gaussian process with an unknown length scale, observed with noise."""
    with pm.Model() as model:
        length = pm.LogNormal("length", 0.5, 0.5)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=length)).prior("f", TIMES[:, None])
        pm.Normal("y", f, NOISE, observed=DATA)
    return model


def test_two_parts_equal_one_density(process):
    """On two data sets. Twin: the covariance of the first row for all rows."""
    engine = CompiledEngine(TemperedDensity(process))
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
    """By quadrature over the length scale. Twin: a noise that is a tenth larger."""

    def log_ml(noise):
        grid = np.linspace(-3, 4, 400)
        ells = [
            stats.multivariate_normal(np.zeros(6), kernel(np.exp(u)) + noise**2 * np.eye(6))
            for u in grid
        ]
        prior = stats.norm(0.5, 0.5).logpdf(grid)
        found = np.array([each.logpdf(DATA) for each in ells])
        return logsumexp(found + prior) + np.log(grid[1] - grid[0])

    with process:
        dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    found = bdmc.log_ml(dt)
    assert "1 parameter, 6 latent variables" in dt.attrs["path_reason"]
    assert abs(found.value - log_ml(NOISE)) < SIGMAS * found.error
    assert abs(found.value - log_ml(1.1 * NOISE)) > SIGMAS * found.error


def test_a_nested_fit_is_used_where_weights_of_a_mixture_are_uneven(process, monkeypatch):
    """Twin: mixtures with such weights would do, if none were nested and prior draws were few."""
    monkeypatch.setattr(CompiledEngine, "_draws_for", lambda *_: 256)
    engine = CompiledEngine(TemperedDensity(process))

    def uneven_mixtures():
        seeds = np.random.SeedSequence(1).spawn(8)
        fits = [engine.fit(FitTask(engine.density.data, seed)) for seed in seeds]
        mixtures = [each for each in fits if each.tuning and not each.tuning.is_nested]
        return [each for each in mixtures if each.variance > limits.EVEN]

    assert not uneven_mixtures()
    nothing = np.zeros_like(engine._structure.latent)
    engine._structure = engine._structure._replace(latent=nothing)
    assert uneven_mixtures()


def test_groups_are_not_split():
    """Since no matrix depends on the scale alone."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=3)
        pm.Normal("y", effect, 1, observed=DATA[:3])
    engine = CompiledEngine(TemperedDensity(model))
    assert engine.jitted.conditional(np.arange(3)) is None


def test_fixed_parts_need_a_shape():
    """Else their place among the fixed numbers is not known."""
    z = pt.vector("z", shape=(2,))
    known, unknown = pt.vector("known", shape=(2,)), pt.vector("unknown")
    assert fixed_parts([(pt.exp(known) * z).sum()], [z])
    assert not fixed_parts([(pt.exp(unknown) * z).sum()], [z])


def test_a_condition_is_kept_as_the_tensor_that_it_is_made_of():
    """PyTensor checks a scale by a scalar that is no tensor, and so has no elements to keep."""
    z, scale = pt.vector("z", shape=(2,)), pt.scalar("scale")
    is_positive = pt.all(scale > 0)
    checked = CheckAndRaise(ValueError, "scale")(z * scale, is_positive)
    assert fixed_parts([checked], [z]) == {is_positive: 1}
