"""Moments of one direction from the chains of both."""

import numpy as np
import pytest

from pymc_bdmc.estimators.bar import solve_bar
from pymc_bdmc.estimators.methods import expansion, pool_chains, weighted_skewness
from tests.systems import GammaWork, GaussianWork


def skewness_of_average(log_weights, probability, sign):
    """Skewness of one weight in an average, from both directions."""
    exponents = sign * log_weights
    return weighted_skewness(np.exp(exponents - exponents.max()), probability)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(
    "work", [GaussianWork(stds=(1.0,), log_z=2.0), GammaWork(shape=5.0, rate=4.0)]
)
def test_moments_are_those_of_a_direction_alone(work, direction):
    """Values agree to 0.1 nats, and skewnesses to a factor of two (5 and 4 standard deviations)."""
    rng = np.random.default_rng(1)
    forward, reverse = np.sort(work.forward(2_000, rng)), np.sort(work.reverse(1_000, rng))
    log_z = solve_bar(forward, reverse)
    pooled = pool_chains(forward, reverse, log_z, direction)
    alone = getattr(work, direction)(1_000_000, rng)
    sign = 1 if direction == "forward" else -1
    deviation = np.exp(sign * (alone - work.log_z))
    deviation -= deviation.mean()
    skewness = np.mean(deviation**3) / np.mean(deviation**2) ** 1.5
    assert 1 / 2 < skewness_of_average(*pooled, sign) / skewness < 2
    expected = alone.mean() + sign * alone.var() / 2
    assert expansion(*pooled, sign)[0] == pytest.approx(expected, abs=0.1)
    # Broken twin: the directions taken for each other
    other = {"forward": "reverse", "reverse": "forward"}[direction]
    swapped = pool_chains(forward, reverse, log_z, other)
    assert expansion(*swapped, sign)[0] != pytest.approx(expected, abs=0.1)


def test_equal_weights_have_no_skewness():
    assert skewness_of_average(*pool_chains(np.zeros(3), np.zeros(2), 0.0, "forward"), 1) == 0
    pooled = pool_chains(np.zeros(3), np.zeros(2), 0.0, "reverse")
    value, influence = expansion(*pooled, -1)
    assert (value, weighted_skewness(influence, pooled[1])) == (0.0, 0.0)


def test_directions_a_thousand_nats_apart():
    """The variance, unlike its power, is above the smallest number."""
    forward, reverse = np.array([-501.0, -500.0]), np.array([500.0, 501.0])
    pooled = pool_chains(forward, reverse, 0.0, "forward")
    assert skewness_of_average(*pooled, 1) == np.inf


def test_infinite_weights():
    forward, reverse = np.array([-np.inf, 0.0, 0.1]), np.array([0.0, np.inf])
    for sign, direction in ((1, "forward"), (-1, "reverse")):
        pooled = pool_chains(forward, reverse, 0.0, direction)
        assert np.isfinite(skewness_of_average(*pooled, sign))
