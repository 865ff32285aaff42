"""Cumulant expansions: exact for Gaussian work, flagged elsewhere."""

import math

import numpy as np
import pytest

from pymc_bdmc.estimators import cumulant_combined, cumulant_forward, cumulant_reverse
from tests.systems import GammaWork, GaussianWork

Z_ALPHA = 3.7  # two-sided α = 2.2e-4 for each of three comparisons

ESTIMATORS = {
    "forward": lambda f, r: cumulant_forward(f),
    "reverse": lambda f, r: cumulant_reverse(r),
    "combined": cumulant_combined,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gaussian_work(name):
    work, rng = GaussianWork(stds=(3.0,), log_z=2.0), np.random.default_rng(1)
    forward, reverse = work.forward(5000, rng), work.reverse(2000, rng)
    estimate = ESTIMATORS[name](forward, reverse)
    assert abs(estimate.value - 2.0) < Z_ALPHA * estimate.error
    # Broken twin: the variance's sign swapped (in the combination: the reverse weights' sign)
    broken = {
        "forward": forward.mean() - forward.var() / 2,
        "reverse": reverse.mean() + reverse.var() / 2,
        "combined": cumulant_combined(forward, -reverse).value,
    }[name]
    assert abs(broken - 2.0) > Z_ALPHA * estimate.error


@pytest.mark.parametrize("name", ESTIMATORS)
def test_error_is_the_spread_of_replicates(name):
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(2)
    runs = [ESTIMATORS[name](work.forward(300, rng), work.reverse(300, rng)) for _ in range(600)]
    covered = sum(abs(r.value) < 1.96 * r.error for r in runs)
    tolerance = Z_ALPHA * np.sqrt(600 * 0.95 * 0.05)
    assert abs(covered - 570) < tolerance
    assert abs(sum(abs(r.value) < 1.96 * r.error / 2 for r in runs) - 570) > tolerance


def test_combination_cancels_third_and_fourth_cumulants():
    # K(t) of a quartic in t: its cumulants at 0 and 1 give K(1) exactly.
    a, b, c, d = 0.3, 0.5, -0.2, 0.07
    mean_f, var_f = a, 2 * b
    mean_r, var_r = a + 2 * b + 3 * c + 4 * d, 2 * b + 6 * c + 12 * d

    def two_points(mean, variance):
        return mean + np.sqrt(variance / 2) * np.array([-1, 1])  # unbiased variance of two

    estimate = cumulant_combined(two_points(mean_f, var_f), two_points(mean_r, var_r))
    assert estimate.value == pytest.approx(a + b + c + d, abs=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_says_invalid_for_skewed_work(name, skewed_work):
    rng = np.random.default_rng(3)
    estimate = ESTIMATORS[name](skewed_work.forward(1000, rng), skewed_work.reverse(1000, rng))
    assert not estimate.valid


@pytest.mark.parametrize(
    ("work", "direction", "chains"),
    [
        (GaussianWork(stds=(0.3,)), "forward", 100),
        (GaussianWork(stds=(0.45,)), "reverse", 200),
        (GammaWork(shape=200.0, rate=40.0), "forward", 100),
        (GammaWork(shape=200.0, rate=40.0), "reverse", 100),
    ],
)
def test_one_sided_interval_covers_where_valid(work, direction, chains):
    """Valid intervals cover 93-97 %. If they cover 95 %, they leave this range with α < 1e-3."""
    estimator = {"forward": cumulant_forward, "reverse": cumulant_reverse}[direction]
    draws = getattr(work, direction)(2000 * chains, np.random.default_rng(5))
    runs = [estimator(row) for row in draws.reshape(2000, chains)]
    valid = np.array([r.valid for r in runs])
    assert valid.mean() > 0.6
    covers = np.array([abs(r.value) < 1.96 * r.error for r in runs])
    assert 0.93 < covers[valid].mean() < 0.97


def test_a_check_by_the_third_cumulant_alone_picks_out_what_is_wrong():
    """Broken twin: of skew samples, those that look Gaussian are those that missed the tail."""
    rows = GammaWork(shape=1.0, rate=2.0).reverse(2000 * 100, np.random.default_rng(6))
    rows = rows.reshape(2000, 100)
    runs = [cumulant_reverse(row) for row in rows]
    third = np.mean((rows - rows.mean(axis=1, keepdims=True)) ** 3, axis=1)
    covers = np.array([abs(r.value) < 1.96 * r.error for r in runs])
    small = np.abs(third) / 6 < [0.3 * r.error for r in runs]
    assert small.mean() > 0.5
    assert covers[small].mean() < 0.93
    assert np.mean([r.valid for r in runs]) < 0.05


def test_symmetric_tails_are_not_valid():
    """The third cumulant of symmetric work is zero, and the expansion lacks the fourth."""
    work = GaussianWork(means=(0.0, 0.0), stds=(0.3, 1.0), weights=(0.8, 0.2))
    rows = work.forward(500 * 2000, np.random.default_rng(7)).reshape(500, 2000)
    assert np.mean([cumulant_forward(row).valid for row in rows]) < 0.1


def test_the_error_contains_the_bias():
    """Skew work of 400 chains: 95 % intervals without the neglected terms cover 90 % or less."""
    work = GammaWork(shape=2.0, rate=3.0)
    rows = work.forward(1000 * 400, np.random.default_rng(8)).reshape(1000, 400)
    runs = [cumulant_forward(row) for row in rows]
    values, errors = np.array([(r.value, r.error) for r in runs]).T
    deviation = rows - rows.mean(axis=1, keepdims=True)
    noise = np.std(deviation + deviation**2 / 2, axis=1) / 20
    assert np.mean(np.abs(values) < 1.96 * noise) < 0.85
    assert np.mean(np.abs(values) < 1.96 * errors) > 0.93


def test_remainders_of_the_expansions():
    """Lagrange's remainder K‴(t)/6, and (K⁗(1) − K⁗(0))/720 of the rule, on K = −a log(1 + t/b).

    Gamma work of shape a and rate b; the derivatives bound the errors of the exact expansions.
    """
    a, b = 3.0, 6.0

    def derivative(n, t):
        return a * (-1) ** n * math.factorial(n - 1) / (b + t) ** n

    log_z = -a * np.log(1 + 1 / b)
    one_sided = derivative(1, 0) + derivative(2, 0) / 2
    assert derivative(3, 0) / 6 < log_z - one_sided < derivative(3, 1) / 6
    combined = (derivative(1, 0) + derivative(1, 1)) / 2
    combined += (derivative(2, 0) - derivative(2, 1)) / 12
    fifth = sorted(derivative(5, t) / 720 for t in (0, 1))
    assert fifth[0] < log_z - combined < fifth[1]
    next_term = (derivative(4, 1) - derivative(4, 0)) / 720
    assert log_z - combined == pytest.approx(next_term, rel=0.05)
    # Broken twin: the third cumulants in their place
    assert log_z - combined != pytest.approx((derivative(3, 1) - derivative(3, 0)) / 720, rel=0.5)


def test_combination_says_invalid_for_a_spike(spike_work):
    rng = np.random.default_rng(4)
    estimate = cumulant_combined(spike_work.forward(1000, rng), spike_work.reverse(1000, rng))
    assert not estimate.valid


@pytest.mark.parametrize("name", ["forward", "combined"])
def test_zero_weights_have_no_cumulants(name):
    estimate = ESTIMATORS[name](np.full(3, -np.inf), np.zeros(3))
    assert np.isnan(estimate.value)
    assert not estimate.valid
    assert "no cumulants" in estimate.reason


@pytest.mark.parametrize("name", ESTIMATORS)
def test_one_chain(name):
    estimate = ESTIMATORS[name]([1.0], [2.0])
    assert np.isnan(estimate.value)
    assert "one chain" in estimate.reason


@pytest.mark.parametrize("name", ESTIMATORS)
def test_too_few_chains_are_given_as_the_reason(name):
    work, rng = GaussianWork(stds=(0.1,)), np.random.default_rng(4)
    few, many = (ESTIMATORS[name](work.forward(n, rng), work.reverse(n, rng)) for n in (16, 64))
    assert not few.valid
    assert "16 chains where" in few.reason
    assert "where" not in many.reason
