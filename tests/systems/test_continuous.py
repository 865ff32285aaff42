"""Continuous systems: evidence by quadrature, both directions, exact draws, the PyMC models."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import kstest, norm

from pymc_bdmc.estimators import bar, jarzynski_forward, jarzynski_reverse
from pymc_bdmc.testsystems import (
    BimodalCauchy,
    BimodalGaussian,
    ConjugateRegression,
    UnidentifiedBinomial,
)
from tests.models import interpreted
from tests.systems import SpikeAndSlab

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 for each of at most twenty comparisons

SYSTEMS = [BimodalGaussian(), BimodalCauchy(), SpikeAndSlab(spike_std=0.3)]
BINOMIAL = UnidentifiedBinomial(20, 12)
CONJUGATE = [ConjugateRegression.random(2, 5, np.random.default_rng(1)), BINOMIAL]


def ids(system):
    return type(system).__name__


def in_one_dimension(system):
    """The system, and its unnormalised posterior density."""
    system = replace(system, dimension=1)
    prior = norm(0, system.prior_std)
    return system, lambda x: prior.pdf(x) * np.exp(system.log_likelihood(np.array([[x]]))[0])


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_log_evidence_in_one_dimension(system):
    system, density = in_one_dimension(system)
    integral = quad(density, -60, 60, points=[-10, 0, 10], limit=500)[0]
    assert np.log(integral) == pytest.approx(system.log_z, abs=1e-6)


@pytest.mark.parametrize("system", CONJUGATE, ids=ids)
def test_log_evidence_in_two_dimensions(system):
    line = np.linspace(-8, 8, 401)
    x = np.array(np.meshgrid(line, line)).reshape(2, -1)
    values = np.exp(norm.logpdf(x).sum(axis=0) + system.log_likelihood(x))
    integral = values.sum() * (line[1] - line[0]) ** 2
    assert np.log(integral) == pytest.approx(system.log_z, abs=1e-5)


@pytest.mark.parametrize("system", [*SYSTEMS, *CONJUGATE], ids=ids)
def test_both_directions_estimate_log_z(system):
    """Twin: reverse chains that start from the prior."""
    rng = np.random.default_rng(2)
    forward, reverse = system.forward(1500, rng), system.reverse(1500, rng)
    estimate, broken = bar(forward, reverse), bar(forward, system.forward(1500, rng))
    assert abs(estimate.value - system.log_z) < Z_ALPHA * estimate.error
    assert abs(broken.value - system.log_z) > Z_ALPHA * estimate.error


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_posterior_draws_are_exact(system):
    """Counts in cells, α = 7e-6 each. Twin: draws from the prior."""
    (system, density), rng = in_one_dimension(system), np.random.default_rng(2)
    edges, n = np.linspace(-15, 15, 31), 100_000
    integrals = [quad(density, a, b, limit=200)[0] for a, b in pairwise(edges)]
    expected = n * np.array(integrals) / np.exp(system.log_z)
    usable = expected > 20
    for draw, is_exact in ((system.draw_posterior, True), (system.draw_prior, False)):
        apart = np.abs(np.histogram(draw(n, rng)[0], edges)[0] - expected)
        assert (apart[usable] < 4.5 * np.sqrt(expected[usable])).all() == is_exact


def test_posterior_draws_of_the_binomial_are_exact():
    """The product against its density −log r · Beta; Kolmogorov-Smirnov at α = 1e-3."""
    draws = BINOMIAL.draw_posterior(20_000, np.random.default_rng(3))
    grid = np.linspace(0, 1, 20_001)[1:-1]
    density = -np.log(grid) * grid**12 * (1 - grid) ** 8
    distribution = np.cumsum(density) / density.sum()

    def p_value(r):
        return kstest(r, lambda x: np.interp(x, grid, distribution)).pvalue

    assert p_value(np.prod(ndtr(draws), axis=0)) > 1e-3
    # Broken twin: the posterior of a uniform product
    assert p_value(np.random.default_rng(4).beta(13, 9, size=20_000)) < 1e-3
    # Given the product, either factor is as likely to be the larger one.
    assert abs(np.mean(draws[0] > draws[1]) - 0.5) < Z_ALPHA * 0.5 / np.sqrt(20_000)


def test_forward_misses_the_spike_and_reverse_shows_it():
    system, rng = SpikeAndSlab(), np.random.default_rng(3)
    forward, reverse = system.forward(1000, rng), system.reverse(1000, rng)
    average = jarzynski_forward(forward)
    assert average.value == pytest.approx(np.log(0.1), abs=0.05)
    assert average.error < 0.05
    assert reverse.mean() - forward.mean() > 10
    for estimate in (bar(forward, reverse), jarzynski_reverse(reverse)):
        assert abs(estimate.value - system.log_z) < Z_ALPHA * estimate.error


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_pymc_model_is_the_same_system(system):
    """So are its draws of data: y − x is near −d with the weight of the mode at +d."""
    model = system.model()
    x = np.random.default_rng(4).normal(0, system.prior_std, size=(system.dimension, 5))
    with interpreted():
        log_likelihood = model.compile_fn(model.datalogp, inputs=model.value_vars)
        values = [log_likelihood({"x": column}) for column in x.T]
    np.testing.assert_allclose(values, system.log_likelihood(x), rtol=1e-10)
    if model.observed_RVs:
        with interpreted():
            draws = pm.draw(model["y"] - model["x"], draws=2000, random_seed=5)
        near, weight = np.mean(np.median(draws, axis=1) < 0), system.upper_weight
        assert abs(near - weight) < Z_ALPHA * np.sqrt(weight * (1 - weight) / 2000)


def test_more_chains_than_a_batch_and_bad_input():
    system, rng = SpikeAndSlab(dimension=1), np.random.default_rng(7)
    log_weights, states = system.anneal("forward", 10_003, rng, schedule=[0, 1], moves=1)
    assert (log_weights.shape, states.shape) == ((10_003,), (1, 10_003))
    with pytest.raises(ValueError, match="direction"):
        system.anneal("sideways", 1, rng)
    with pytest.raises(ValueError, match="exactly 1"):
        system.anneal("forward", 1, rng, schedule=[0, 0.5])
