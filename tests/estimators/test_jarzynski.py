"""Exponential averages and cumulant expansions, and the tails that their checks look at.

Tests in test_coverage.py show that intervals cover unless they are called invalid.
"""

import numpy as np
import pytest

from pymc_bdmc import estimators as est
from pymc_bdmc.estimators.checks import shape_by_states, shape_of_weights
from tests.systems import GammaWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def missing_a_mode(share, probability, rng):
    """Weights of mean 1, of which those in a mode with this share are few and large."""
    inside = rng.random((2000, 48)) < probability
    return np.where(inside, share / probability, (1 - share) / (1 - probability))


def with_a_pareto_tail(share, shape, rng):
    """Weights of mean 1, of which this share is Pareto distributed."""
    return 1 - share + share * (1 - shape) * rng.random((2000, 48)) ** -shape


@pytest.mark.parametrize(
    ("draw", "share", "rarity"), [(missing_a_mode, 0.1, 0.03), (with_a_pareto_tail, 0.2, 0.7)]
)
def test_large_weights_that_were_found_are_no_reason_to_refuse(draw, share, rarity):
    """Broken twin: a limit of 0.65 on the observed skewness, as for log-normal weights.

    It refuses a tenth more samples, 4 standard deviations; those that it keeps are more often 4
    errors or more too low.
    """
    rng = np.random.default_rng(8)
    rows = np.log(draw(share, rarity, rng)) + rng.normal(-0.005, 0.1, (2000, 48))
    runs = [est.jarzynski_forward(row) for row in rows]
    z, valid = np.array([(run.value / run.error, run.valid) for run in runs]).T
    deviations = np.exp(rows) - np.exp(rows).mean(axis=1, keepdims=True)
    skewness = np.sum(deviations**3, axis=1) / np.sum(deviations**2, axis=1) ** 1.5
    valid, twin = valid == 1, (valid == 1) & (skewness <= 0.65)
    assert twin.mean() < valid.mean() - 0.05
    assert np.mean(z[valid] < -4) <= np.mean(z[twin] < -4)
    assert np.mean(z[valid] > 4) < 0.002


def test_log_weights_whose_moments_overflow():
    """Chains lost in the tail of a prior: an answer without a warning, marked as invalid."""
    weights = np.append(np.random.default_rng(8).normal(size=100), [-1e188, -1e200, 1e90])
    estimate = est.jarzynski_forward(weights)
    assert estimate.value == pytest.approx(1e90)
    assert not estimate.valid


def test_weights_that_are_equal_but_for_a_few():
    """A few chains were on their way to a mode that none reached. The twin's weights all vary."""
    weights = np.zeros(48)
    weights[:4] = 0.1
    assert not est.jarzynski_forward(weights).valid
    assert est.jarzynski_forward(weights).reason.startswith("nearly all weights are equal")
    assert est.jarzynski_forward(weights + np.linspace(0, 1e-3, 48)).valid


def test_bounded_weights_have_no_heavy_tail():
    """A few weights are at their bound and the others nearly equal. The twin judges by k alone."""
    rng = np.random.default_rng(1)
    weights = 1 + 1e-4 * rng.exponential(size=128)
    weights[:8] = 2.2 - 0.1 * rng.random(8)
    assert est.pareto_shape(weights) > 1
    assert np.isnan(est.pareto_shape(weights[:10]))
    assert shape_of_weights(weights) == 0


def test_a_heavy_tail_is_noted():
    """At least 90 % of 200 samples of weights without a mean are noted; 98 % are expected.

    With 128 weights the prior of k pulls a shape of 1.5 to 1.14 ± 0.33; α is below 1e-6.
    """
    samples = np.random.default_rng(2).pareto(1 / 1.5, size=(200, 128))
    shapes = np.array([shape_of_weights(sample) for sample in samples])
    assert np.mean(shapes > 0.5) > 0.9
    assert np.mean(shapes) > 1


@pytest.mark.parametrize(("largest", "shape"), [(900.0, 1.0), (np.inf, 1.0), (0.0, 0.0)])
def test_a_tail_that_underflows_is_the_heaviest(largest, shape):
    """A few weights are e^900 times as large as the others, or infinite; equal ones have none."""
    assert shape_by_states(np.append(np.zeros(400), np.full(4, largest)))[0] == shape


def test_combination_cancels_third_and_fourth_cumulants():
    """If K(t) is a quartic in t, its cumulants at 0 and 1 give K(1) exactly."""
    a, b, c, d = 0.3, 0.5, -0.2, 0.07

    def two_points(mean, variance):
        return mean + np.sqrt(variance / 2) * np.array([-1, 1])  # unbiased variance of two

    forward = two_points(a, 2 * b)
    reverse = two_points(a + 2 * b + 3 * c + 4 * d, 2 * b + 6 * c + 12 * d)
    estimate = est.cumulant_combined(forward, reverse)
    assert estimate.value == pytest.approx(a + b + c + d, abs=1e-12)


def test_the_error_of_an_expansion_contains_the_bias():
    """Skew work of 400 chains: 95 % intervals without the neglected terms cover 90 % or less."""
    work = GammaWork(shape=2.0, rate=3.0)
    rows = work.forward(1000 * 400, np.random.default_rng(8)).reshape(1000, 400)
    runs = [est.cumulant_forward(row) for row in rows]
    values, errors = np.array([(r.value, r.error) for r in runs]).T
    deviation = rows - rows.mean(axis=1, keepdims=True)
    noise = np.std(deviation + deviation**2 / 2, axis=1) / 20
    assert np.mean(np.abs(values) < 1.96 * noise) < 0.85
    assert np.mean(np.abs(values) < 1.96 * errors) > 0.93
