"""Bimodal and spike-and-slab systems: exact answers, both directions, and the PyMC models."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from pymc_bdmc.estimators import bar, jarzynski_forward, jarzynski_reverse
from pymc_bdmc.testsystems import BimodalCauchy, BimodalGaussian
from tests.models import interpreted
from tests.systems import SpikeAndSlab

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 for each of at most fifteen comparisons

SYSTEMS = [BimodalGaussian(), BimodalCauchy(), SpikeAndSlab(spike_std=0.3)]


def ids(system):
    return type(system).__name__


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_log_evidence_in_one_dimension(system):
    system = replace(system, dimension=1)

    def density(x):
        prior = norm(0, system.prior_std).pdf(x)
        return prior * np.exp(system.log_likelihood(np.array([[x]]))[0])

    integral = quad(density, -60, 60, points=[-10, 0, 10], limit=500)[0]
    assert np.log(integral) == pytest.approx(system.log_z, abs=1e-6)


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_both_directions_estimate_log_z(system):
    rng = np.random.default_rng(1)
    estimate = bar(system.forward(4000, rng), system.reverse(4000, rng))
    assert abs(estimate.value - system.log_z) < Z_ALPHA * estimate.error
    # Broken twin: reverse chains that start from the prior
    broken = bar(system.forward(4000, rng), system.forward(4000, rng))
    assert abs(broken.value - system.log_z) > Z_ALPHA * estimate.error


@pytest.mark.parametrize("system", SYSTEMS, ids=ids)
def test_posterior_draws_are_exact(system):
    system, rng = replace(system, dimension=1), np.random.default_rng(2)
    x = system.draw_posterior(100_000, rng)[0]
    edges = np.linspace(-15, 15, 31)
    counts = np.histogram(x, edges)[0]

    def density(x):
        return np.exp(
            norm(0, system.prior_std).logpdf(x)
            + system.log_likelihood(np.array([[x]]))[0]
            - system.log_z
        )

    chances = np.array([quad(density, a, b, limit=200)[0] for a, b in pairwise(edges)])
    error = np.sqrt(np.maximum(chances * x.size, 1.0))
    usable = chances * x.size > 20
    assert (np.abs(counts - chances * x.size)[usable] < 4.5 * error[usable]).all()
    # Broken twin: draws from the prior
    prior = np.histogram(system.draw_prior(x.size, rng)[0], edges)[0]
    assert (np.abs(prior - chances * x.size)[usable] > 4.5 * error[usable]).any()


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
    model = system.model()
    x = np.random.default_rng(4).normal(0, system.prior_std, size=(system.dimension, 5))
    log_likelihood = model.compile_fn(model.datalogp, inputs=model.value_vars)
    values = [log_likelihood({"x": column}) for column in x.T]
    np.testing.assert_allclose(values, system.log_likelihood(x), rtol=1e-10)


@pytest.mark.parametrize("system", SYSTEMS[:2], ids=ids)
def test_draws_of_a_pymc_model(system):
    model = system.model()
    with interpreted():
        draws = pm.draw(model["y"] - model["x"], draws=2000, random_seed=5)
    assert draws.shape == (2000, system.dimension)
    # y − x is near −d with the weight of the mode at +d
    near = np.mean(np.median(draws, axis=1) < 0)
    error = np.sqrt(system.upper_weight * (1 - system.upper_weight) / 2000)
    assert abs(near - system.upper_weight) < Z_ALPHA * error


@pytest.mark.slow
def test_bimodal_gaussian_at_a_million_chains():
    system = BimodalGaussian()
    log_weights, states = system.anneal("forward", 1_000_000, np.random.default_rng(6))
    weights = np.exp(log_weights - log_weights.max())
    mean = np.sum(weights * system.parallel(states)) / weights.sum()
    assert abs(mean - (-20.0308)) < 0.02
    estimate = jarzynski_forward(log_weights)
    assert abs(estimate.value - system.log_z) < Z_ALPHA * estimate.error


def test_more_chains_than_a_batch():
    log_weights, states = SpikeAndSlab(dimension=1).anneal(
        "forward", 10_003, np.random.default_rng(7), schedule=[0, 1], moves=1
    )
    assert log_weights.shape == (10_003,)
    assert states.shape == (1, 10_003)


def test_refuses():
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match="direction"):
        SpikeAndSlab().anneal("sideways", 1, rng)
    with pytest.raises(ValueError, match="exactly 1"):
        SpikeAndSlab().anneal("forward", 1, rng, schedule=[0, 0.5])
