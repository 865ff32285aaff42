"""Exponential averages: log of mean, not mean of logs; and a check that speaks up."""

import numpy as np
import pytest

from pymc_bdmc.estimators import jarzynski_forward, jarzynski_reverse, pareto_shape
from tests.systems import GammaWork, GaussianBridge, GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_mean_of_logs_for_log_of_mean(gaussian_work):
    rng = np.random.default_rng(1)
    forward, reverse = gaussian_work.forward(100_000, rng), gaussian_work.reverse(100_000, rng)
    for estimate, mean_of_logs in [
        (jarzynski_forward(forward), forward.mean()),
        (jarzynski_reverse(reverse), reverse.mean()),
    ]:
        assert estimate.valid
        assert abs(estimate.value - 3.0) < Z_ALPHA * estimate.error
        assert abs(mean_of_logs - 3.0) > 10 * estimate.error


def test_swapped_sign_of_reverse_work(gaussian_work):
    reverse = gaussian_work.reverse(2000, np.random.default_rng(2))
    estimate = jarzynski_reverse(-reverse)
    assert abs(estimate.value - 3.0) > 1.0


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_says_invalid_where_coverage_drops(n):
    # At a spread of 3 nats a 95 % interval covers 48, 58, 73 %.
    work, rng = GaussianWork(stds=(3.0,)), np.random.default_rng(3)
    valid = [jarzynski_forward(work.forward(n, rng)).valid for _ in range(200)]
    assert np.mean(valid) < 0.05


def test_says_valid_for_easy_work():
    work, rng = GaussianWork(stds=(0.3,)), np.random.default_rng(4)
    valid = [jarzynski_forward(work.forward(100, rng)).valid for _ in range(200)]
    assert np.mean(valid) > 0.9


def one_direction(system, direction, chains, rng, replicates=2000):
    """Exponents whose exponentials average to one, a row for each replicate."""
    draws = getattr(system, direction)(replicates * chains, rng).reshape(replicates, chains)
    return draws - system.log_z if direction == "forward" else system.log_z - draws


@pytest.mark.parametrize(
    ("system", "direction", "chains"),
    [
        (GaussianWork(stds=(0.2,)), "forward", 30),
        (GaussianWork(stds=(0.4,)), "reverse", 200),
        (GammaWork(shape=1.0, rate=5.0), "forward", 100),
        (GammaWork(shape=20.0, rate=5.0), "forward", 1000),  # left-skewed log weights
        (GammaWork(shape=5.0, rate=5.0), "reverse", 500),  # Pareto-tailed weights
        (GaussianBridge.equal_divergence(400, correlation=0.5), "reverse", 300),
    ],
)
def test_interval_covers_where_valid(system, direction, chains):
    """Valid intervals cover 93-97 %; 2000 intervals of 95 % leave this range with α = 4e-5 each."""
    rows = one_direction(system, direction, chains, np.random.default_rng(5))
    runs = [jarzynski_forward(row) for row in rows]
    valid = np.array([r.valid for r in runs])
    covers = np.array([abs(r.value) < 1.96 * r.error for r in runs])
    assert valid.mean() > 0.5
    assert 0.93 < covers[valid].mean() < 0.97


def test_a_check_by_observed_skewness_alone_picks_out_what_is_too_low():
    """Broken twin: of equally skew samples, those that missed heavy weights look the best."""
    work = GaussianWork(stds=(1.6,))
    rows = one_direction(work, "forward", 100, np.random.default_rng(6))
    weights = np.exp(rows)
    errors = weights.std(axis=1, ddof=1) / weights.mean(axis=1) / 10
    deviations = weights - weights.mean(axis=1, keepdims=True)
    skewness = np.sum(deviations**3, axis=1) / np.sum(deviations**2, axis=1) ** 1.5
    covers = np.abs(np.log(weights.mean(axis=1))) < 1.96 * errors
    assert np.mean(skewness <= 0.65) > 0.5
    assert covers[skewness <= 0.65].mean() < 0.85
    assert np.mean([jarzynski_forward(row).valid for row in rows]) < 0.02


def missing_a_mode(share, probability, rng):
    """Weights of mean 1, of which those in a mode with this share are few and large."""
    inside = rng.random((4000, 48)) < probability
    return np.where(inside, share / probability, (1 - share) / (1 - probability))


def with_a_pareto_tail(share, shape, rng):
    """Weights of mean 1, of which this share is Pareto distributed."""
    return 1 - share + share * (1 - shape) * rng.random((4000, 48)) ** -shape


@pytest.mark.parametrize(
    ("draw", "share", "rarity"),
    [
        (missing_a_mode, 0.1, 0.03),
        (with_a_pareto_tail, 0.5, 0.5),
        (with_a_pareto_tail, 0.2, 0.7),
    ],
)
def test_large_weights_that_were_found_are_no_reason_to_refuse(draw, share, rarity):
    """Broken twin: a limit of 0.65 on the observed skewness, as for log-normal weights.

    It refuses a tenth more samples, 5 standard deviations; those that it keeps are more often 4
    errors or more too low.
    """
    rng = np.random.default_rng(8)
    rows = np.log(draw(share, rarity, rng)) + rng.normal(-0.005, 0.1, (4000, 48))
    runs = [jarzynski_forward(row) for row in rows]
    z = np.array([run.value / run.error for run in runs])
    valid = np.array([run.valid for run in runs])
    weights = np.exp(rows)
    deviations = weights - weights.mean(axis=1, keepdims=True)
    skewness = np.sum(deviations**3, axis=1) / np.sum(deviations**2, axis=1) ** 1.5
    twin = valid & (skewness <= 0.65)
    assert twin.mean() < valid.mean() - 0.05
    assert np.mean(z[valid] < -4) <= np.mean(z[twin] < -4)
    assert np.mean(z[valid] > 4) < 0.002


def test_a_check_by_pareto_k_picks_out_what_is_too_low():
    """Broken twin: k < 1 − 1/log₁₀ K passes fewer of the good samples, and the worse ones."""
    work = GammaWork(shape=1.0, rate=2.0)  # weights with two moments
    rows = one_direction(work, "reverse", 100, np.random.default_rng(7), replicates=1000)
    runs = [jarzynski_forward(row) for row in rows]
    valid = np.array([run.valid for run in runs])
    covers = np.array([abs(run.value) < 1.96 * run.error for run in runs])
    below = np.array([pareto_shape(np.exp(row)) < 0.5 for row in rows])
    assert valid.mean() > below.mean() + 0.1
    assert covers[valid].mean() > covers[below].mean()


def test_symmetric_tails_cost_some_coverage():
    """One chain in five is three times as wide. 1000 intervals of 88 % would have α = 1e-9."""
    work = GaussianWork(means=(0.0, 0.0), stds=(0.3, 1.0), weights=(0.8, 0.2))
    rows = one_direction(work, "forward", 300, np.random.default_rng(7), replicates=1000)
    runs = [run for run in map(jarzynski_forward, rows) if run.valid]
    assert np.mean([abs(run.value) < 1.96 * run.error for run in runs]) > 0.88


def test_log_weights_whose_moments_overflow():
    """Chains lost in the tail of a prior: an answer without a warning, marked as invalid."""
    weights = np.append(np.random.default_rng(8).normal(size=100), [-1e188, -1e200, 1e90])
    estimate = jarzynski_forward(weights)
    assert estimate.value == pytest.approx(1e90)
    assert not estimate.valid


def test_all_weights_zero():
    estimate = jarzynski_forward([-np.inf, -np.inf])
    assert estimate.value == -np.inf
    assert np.isnan(estimate.error)
    assert not estimate.valid


def test_weights_that_are_equal_but_for_a_few():
    """A few chains were on their way to a mode that none reached. The twin's weights all vary."""
    weights = np.zeros(48)
    weights[:4] = 0.1
    assert not jarzynski_forward(weights).valid
    assert jarzynski_forward(weights).reason.startswith("nearly all weights are equal")
    assert jarzynski_forward(weights + np.linspace(0, 1e-3, 48)).valid
