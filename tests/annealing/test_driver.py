"""The loop applies kernels and collects ℓ in the order of the definition, in both directions."""

import numpy as np
import pytest

from pymc_bdmc.annealing import anneal
from pymc_bdmc.types import Direction, Move

BETAS = np.array([0.0, 0.2, 0.7, 1.0])


class Counting:
    """Adds 10^t: the state tells which kernels were applied, in which order."""

    def __init__(self):
        self.applied = []

    def step(self, t, point):
        self.applied.append(t)
        return {"x": point["x"] + 10.0**t}, Move(0.1 * t, t == 2, t)


def log_likelihood(point):
    return float(point["x"]) ** 2


def test_forward_weighs_before_it_moves():
    kernel = Counting()
    chain = anneal(kernel, log_likelihood, BETAS, {"x": np.array(1.0)}, Direction.FORWARD)
    assert kernel.applied == [1, 2, 3]
    states = [1.0, 11.0, 111.0, 1111.0]
    np.testing.assert_array_equal(chain.log_likelihood, np.square(states))
    expected = 0.2 * 1**2 + 0.5 * 11**2 + 0.3 * 111**2
    assert chain.log_weight == pytest.approx(expected, rel=1e-14)
    assert chain.end["x"] == 1111


def test_reverse_moves_before_it_weighs():
    kernel = Counting()
    chain = anneal(kernel, log_likelihood, BETAS, {"x": np.array(1.0)}, Direction.REVERSE)
    assert kernel.applied == [3, 2, 1]
    # θ_3 = 1, θ_2 = 1001, θ_1 = 1101, θ_0 = 1111
    np.testing.assert_array_equal(chain.log_likelihood, np.square([1111.0, 1101, 1001, 1]))
    expected = 0.2 * 1111**2 + 0.5 * 1101**2 + 0.3 * 1001**2
    assert chain.log_weight == pytest.approx(expected, rel=1e-14)
    assert chain.end["x"] == 1111


@pytest.mark.parametrize("direction", list(Direction))
def test_what_the_kernels_report_is_kept_by_temperature(direction):
    chain = anneal(Counting(), log_likelihood, BETAS, {"x": np.array(1.0)}, direction)
    np.testing.assert_allclose(chain.acceptance, [np.nan, 0.1, 0.2, 0.3])
    np.testing.assert_array_equal(chain.diverging, [False, False, True, False])
    assert chain.gradient_evaluations == 6


def test_an_impossible_state_gives_weight_zero():
    chain = anneal(Counting(), lambda p: -np.inf, BETAS, {"x": np.array(1.0)}, Direction.FORWARD)
    assert chain.log_weight == -np.inf
