"""Local step sizes: both ends of a step agree on it, and it costs nothing where none is needed."""

import numpy as np
import pytest

from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.kernels.state import Parameters
from tests.kernels.test_compiled import (
    METRIC,
    exact_draws,
    gamma_poisson,
    move_all,
    move_in_python,
    target_of,
)
from tests.mutants import in_python

TARGET = target_of(gamma_poisson)
LONG_STEP = 0.7


@np.errstate(all="ignore")
def there_and_back(fault=None):
    """The error of each return of 1500 states, NaN if the first step is refused, and gradients."""
    kernels, rng = in_python(fault), np.random.default_rng(2)
    thetas = np.random.default_rng(1).normal(0, 2, size=(1500, 2))  # where scales differ widely
    work, errors, gradients = kernels.make_workspace(2, 2), np.full(1500, np.nan), []
    state, momentum = work.proposal, work.momentum
    for j, theta in enumerate(thetas):
        state.theta[:] = theta
        kernels.evaluate(TARGET, state)
        energy = kernels.draw_momentum(METRIC, momentum, rng) - kernels.tempered(state, 1.0)
        start = momentum.copy()
        joined, _, energy, cost = kernels.join(TARGET, 1.0, METRIC, LONG_STEP, energy, work)
        gradients.append(cost)
        if joined:
            momentum *= -1.0
            kernels.join(TARGET, 1.0, METRIC, LONG_STEP, energy, work)
            errors[j] = abs(state.theta - theta).max() + abs(momentum + start).max()
    return errors, np.array(gradients)


def test_steps_lead_back():
    """From the far end, with the momentum reversed, however often the step size was halved."""
    errors, gradients = there_and_back()
    joined = ~np.isnan(errors)
    assert joined.mean() > 0.75
    halvings = (gradients[joined] - 2) // 4  # each costs two gradients at either end
    assert np.bincount(halvings)[:3].min() > 6
    assert np.nanmax(errors) < 1e-6


@pytest.mark.parametrize("fault", ["far end not asked", "ends judge the sign of the error"])
def test_ends_that_do_not_agree_are_exposed(fault):
    errors, _ = there_and_back(fault)
    assert np.mean(errors > 1e-3) > 0.01


def moves(name, step_size, metric=METRIC):
    """Three of each of 500 exact draws: the states, what diverged of them, and all gradients."""
    thetas = exact_draws(1.0, np.random.default_rng(3), 500)
    parameters, rng = Parameters(metric, step_size, np.zeros(0)), np.random.default_rng(4)
    transitions = KERNELS[name].compiled.transitions
    report = move_all(transitions, TARGET, 1.0, thetas, parameters, False, rng)
    return thetas, *report[2:]


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
    wide = METRIC._replace(scale=1e6 * METRIC.scale)
    assert moves("autostep", LONG_STEP, wide)[1] == 1
    twin, rng = in_python("turning back counts as diverging"), np.random.default_rng(4)
    draws, parameters = exact_draws(1.0, rng, 300), Parameters(METRIC, LONG_STEP, np.zeros(0))
    assert move_in_python(twin, "autostep", TARGET, 1.0, draws, parameters, rng, 3) > 0
