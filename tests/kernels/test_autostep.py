"""Local step sizes: both ends of a step agree on it, and it costs nothing where none is needed."""

from functools import cache

import numba
import numpy as np
import pytest

from pymc_bdmc.kernels.moves import join
from pymc_bdmc.kernels.state import Parameters, evaluate, make_workspace, tempered
from pymc_bdmc.reference.metric import draw_momentum
from tests.kernels.test_compiled import METRIC, exact_draws, gamma_poisson, mover, target_of
from tests.mutants import broken_kernels

TARGET = target_of(gamma_poisson)
LONG_STEP = 0.7


@cache
def returner(join):
    """A function that returns the error of each return, and the gradients that it took."""

    @numba.njit
    def run(target, metric, thetas, rng):
        errors = np.full(len(thetas), np.nan)
        gradients = np.zeros(len(thetas), np.int64)
        work = make_workspace(thetas.shape[1], thetas.shape[1])
        state, momentum, start = work.proposal, work.momentum, np.empty(thetas.shape[1])
        for j in range(len(thetas)):
            state.theta[:] = thetas[j]
            evaluate(target, state)
            energy = draw_momentum(metric, momentum, rng) - tempered(state, 1.0)
            start[:] = momentum
            for back in (False, True):
                joined, _, energy, cost = join(target, 1.0, metric, LONG_STEP, energy, work)
                if back:
                    errors[j] = np.abs(state.theta - thetas[j]).max()
                    errors[j] += np.abs(momentum + start).max()
                else:
                    gradients[j] = cost
                    if not joined:
                        break
                    momentum *= -1.0
        return errors, gradients

    return run


def there_and_back(join):
    """The same from 5000 states."""
    thetas = np.random.default_rng(1).normal(0, 2, size=(5000, 2))  # where scales differ widely
    return returner(join)(TARGET, METRIC, thetas, np.random.default_rng(2))


def test_steps_lead_back():
    """From the far end, with the momentum reversed, however often the step size was halved."""
    errors, gradients = there_and_back(join)
    joined = ~np.isnan(errors)
    assert joined.mean() > 0.75
    halvings = (gradients[joined] - 2) // 4  # each costs two gradients at either end
    assert np.bincount(halvings)[:3].min() > 20
    assert np.nanmax(errors) < 1e-6


@pytest.mark.parametrize("fault", ["far end not asked", "ends judge the sign of the error"])
def test_ends_that_do_not_agree_are_exposed(fault):
    with broken_kernels().having(fault):
        errors, _ = there_and_back(broken_kernels().join)
    assert np.mean(errors > 1e-3) > 0.01


def moves(name, step_size, metric=METRIC, broken=False):
    """Three of each of 500 exact draws: the states, what diverged of them, and all gradients."""
    thetas = exact_draws(1.0, np.random.default_rng(3), 500)
    parameters = Parameters(metric, step_size, np.zeros(0))
    rng = np.random.default_rng(4)
    _, divergent, gradients = mover(name, broken)(TARGET, 1.0, thetas, parameters, rng)
    return thetas, divergent, gradients


def test_without_need_it_is_hmc():
    """Same moves from the same stream, at as many gradients; long steps make the difference."""
    ours, _, gradients = moves("autostep", 0.1)
    theirs, _, as_many = moves("hmc", 0.1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert gradients == as_many
    assert moves("autostep", LONG_STEP)[2] > 1.2 * moves("hmc", LONG_STEP)[2]


def test_to_turn_back_is_not_to_diverge():
    """Only where no number of halvings will do; the twin counts what turned back at both ends."""
    assert moves("autostep", LONG_STEP)[1] == 0
    with broken_kernels().having("turning back counts as diverging"):
        assert moves("autostep", LONG_STEP, broken=True)[1] > 0
    wide = METRIC._replace(scale=1e6 * METRIC.scale)
    assert moves("autostep", LONG_STEP, wide)[1] == 1
