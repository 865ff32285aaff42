"""The histogram estimator and its posterior, against their definitions and exact cases."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from pymc_bdmc.estimators import bar, histogram, histogram_posterior, work_distribution
from tests.systems import GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


@pytest.fixture
def weights(gaussian_work):
    rng = np.random.default_rng(1)
    return gaussian_work.forward(300, rng), gaussian_work.reverse(120, rng)


def fixed_point_step(forward, reverse, log_z):
    """Iterate the two-state weighted histogram equations once."""
    pooled = np.concatenate([forward, reverse])
    masses = 1 / (forward.size + reverse.size * np.exp(pooled - log_z))
    return np.log(np.sum(masses * np.exp(pooled)) / masses.sum())


def test_value_is_the_fixed_point(weights):
    estimate = histogram(*weights)
    assert fixed_point_step(*weights, estimate.value) == pytest.approx(estimate.value, abs=1e-9)
    log_z = 0.0
    for _ in range(500):
        log_z = fixed_point_step(*weights, log_z)
    assert log_z == pytest.approx(estimate.value, abs=1e-9)


def test_likelihood_is_highest_there(weights):
    forward, reverse = weights
    found = work_distribution(forward, reverse)

    def log_likelihood(log_p):
        log_p = log_p - logsumexp(log_p)
        return log_p.sum() - reverse.size * logsumexp(log_p - found.work)

    best, rng = log_likelihood(found.log_forward), np.random.default_rng(2)
    for scale in (1e-3, 1e-1, 1.0):
        step = scale * rng.normal(size=found.work.size)
        assert log_likelihood(found.log_forward + step) < best


def test_error_agrees_with_bennett():
    work, rng = GaussianWork(), np.random.default_rng(3)
    pair = work.forward(5000, rng), work.reverse(2000, rng)
    assert histogram(*pair).error == pytest.approx(bar(*pair).error, rel=0.03)


def test_distributions_obey_crooks_and_match_the_exact_densities():
    work, rng = GaussianWork(log_z=2.0), np.random.default_rng(4)
    found = work_distribution(work.forward(20_000, rng), work.reverse(20_000, rng))
    assert logsumexp(found.log_forward) == pytest.approx(0, abs=1e-9)
    assert logsumexp(found.log_reverse) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(
        found.log_reverse, found.log_forward - found.work - found.log_z, atol=1e-12
    )
    edges = np.linspace(-6, 2, 17)
    # W = −log w: forward N(−log Z + 1/2, 1), reverse N(−log Z − 1/2, 1)
    for density, centre in zip(found.densities(edges), (-1.5, -2.5), strict=True):
        masses = np.diff(norm(centre, 1).cdf(edges))
        error = np.sqrt(masses / 20_000) + 1e-4
        assert (np.abs(density * np.diff(edges) - masses) < 4 * error).all()  # α = 1e-3 over 16
        swapped = np.diff(norm(-4 - centre, 1).cdf(edges))
        assert (np.abs(density * np.diff(edges) - swapped) > 4 * error).any()


def test_posterior_of_one_pair_is_uniform():
    log_z = histogram_posterior([0.0], [2.0], draws=3000, random_seed=5).log_z
    assert kstest(log_z[::3], "uniform", args=(0, 2)).pvalue > 1e-3
    assert kstest(log_z[::3], norm(log_z.mean(), log_z.std()).cdf).pvalue < 1e-3


@pytest.mark.parametrize("concentration", [0.0, 0.5])
def test_posterior_agrees_with_importance_sampling(concentration):
    forward, reverse = np.array([-1.0, 0.3, -0.5]), np.array([0.8, 1.0])
    pooled = np.concatenate([forward, reverse])
    rng = np.random.default_rng(6)
    masses = rng.dirichlet(np.full(5, 1 + concentration), size=200_000)
    log_z = np.log(masses @ np.exp(pooled))
    importance = np.exp(-2 * log_z)
    importance /= importance.sum()
    exact_mean = importance @ log_z
    exact_std = np.sqrt(importance @ (log_z - exact_mean) ** 2)
    draws = histogram_posterior(
        forward, reverse, draws=5000, concentration=concentration, random_seed=7
    ).log_z
    # draws are thinned, yet count them as a third
    error = exact_std / np.sqrt(5000 / 3)
    assert abs(draws.mean() - exact_mean) < Z_ALPHA * error
    assert abs(draws.std() - exact_std) < Z_ALPHA * error
    # Broken twin: reverse works taken for forward ones (no factor of Z to the −n_r)
    assert abs(draws.mean() - log_z.mean()) > Z_ALPHA * error


def test_posterior_agrees_with_maximum_likelihood(weights):
    posterior, best = histogram_posterior(*weights, draws=2000, random_seed=8), histogram(*weights)
    assert posterior.estimate.value == pytest.approx(best.value, abs=0.2 * best.error)
    assert posterior.estimate.error == pytest.approx(best.error, rel=0.1)
    lower, upper = posterior.interval(0.95)
    assert lower < best.value < upper
    assert posterior.estimate.valid
    # A flat Dirichlet prior pulls log Z up: that is why it is not the default.
    flat = histogram_posterior(*weights, draws=500, concentration=1.0, random_seed=8)
    assert flat.estimate.value > best.value + best.error


@pytest.mark.slow
def test_posterior_interval_covers():
    rng, covered, narrow = np.random.default_rng(9), [], []
    for std in (0.5, 1.5, 3.0):
        work = GaussianWork(stds=(std,))
        for _ in range(667):
            pair = work.forward(100, rng), work.reverse(100, rng)
            posterior = histogram_posterior(*pair, draws=300, random_seed=rng)
            lower, upper = posterior.interval()
            covered.append(lower <= 0 <= upper)
            lower, upper = posterior.interval(0.9)  # the broken twin
            narrow.append(lower <= 0 <= upper)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(narrow) < 0.93


def test_zero_and_vast_weights():
    found = work_distribution([-np.inf, -1e5, 0.0], [1e5, 0.0, np.inf])
    assert logsumexp(found.log_forward) == pytest.approx(0, abs=1e-9)
    posterior = histogram_posterior([-np.inf, -1e5, 0.0], [1e5, 0.0], draws=50, random_seed=1)
    assert np.isfinite(posterior.log_z).all()


def test_no_finite_weights():
    assert histogram([-np.inf], [0.0]).value == -np.inf
    with pytest.raises(ValueError, match="no finite"):
        work_distribution([-np.inf], [0.0])
    with pytest.raises(ValueError, match="finite forward"):
        histogram_posterior([-np.inf], [0.0])


def test_same_seed_same_draws(weights):
    first, second = (histogram_posterior(*weights, draws=20, random_seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.log_z, second.log_z)
