"""Moments of one direction from the chains of both."""

import numpy as np
import pytest

from pymc_bdmc.estimators.bar import solve_bar
from pymc_bdmc.estimators.pooled import pool_chains
from tests.systems import GammaWork, GaussianWork


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize(
    "work", [GaussianWork(stds=(1.0,), log_z=2.0), GammaWork(shape=5.0, rate=4.0)]
)
def test_moments_are_those_of_a_direction_alone(work, direction):
    """Values agree to 0.1 nats, and skewnesses to a factor of two (5 and 4 standard deviations)."""
    rng = np.random.default_rng(1)
    forward, reverse = np.sort(work.forward(2_000, rng)), np.sort(work.reverse(1_000, rng))
    pooled = pool_chains(forward, reverse, solve_bar(forward, reverse))
    alone = getattr(work, direction)(1_000_000, rng)
    sign, n = (1, 2_000) if direction == "forward" else (-1, 1_000)
    deviation = np.exp(sign * (alone - work.log_z))
    deviation -= deviation.mean()
    skewness = np.mean(deviation**3) / np.mean(deviation**2) ** 1.5 / np.sqrt(n)
    assert 1 / 2 < pooled.skewness_of_average(direction) / skewness < 2
    expansion = alone.mean() + sign * alone.var() / 2
    assert pooled.expansion(direction)[0] == pytest.approx(expansion, abs=0.1)
    # Broken twin: the directions taken for each other
    other = {"forward": "reverse", "reverse": "forward"}[direction]
    swapped = pooled._replace(**{direction: getattr(pooled, other)})
    assert swapped.expansion(direction)[0] != pytest.approx(expansion, abs=0.1)


def test_equal_weights_have_no_skewness():
    pooled = pool_chains(np.zeros(3), np.zeros(2), 0.0)
    assert pooled.skewness_of_average("forward") == 0
    assert pooled.expansion("reverse") == (0.0, 0.0)


def test_directions_a_thousand_nats_apart():
    """The variance, unlike its power, is above the smallest number."""
    pooled = pool_chains([-500.0, -501.0], [500.0, 501.0], 0.0)
    assert pooled.skewness_of_average("forward") == np.inf


def test_infinite_weights():
    pooled = pool_chains([-np.inf, 0.0, 0.1], [0.0, np.inf], 0.0)
    assert np.isfinite(pooled.skewness_of_average("forward"))
    assert np.isfinite(pooled.skewness_of_average("reverse"))
