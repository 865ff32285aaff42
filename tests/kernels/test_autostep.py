"""Local step sizes: both ends of a step agree on it, and it costs nothing where none is needed."""

from functools import cache

import numba
import numpy as np
import pytest

from pymc_bdmc.kernels import autostep, hmc
from pymc_bdmc.kernels.metric import draw_momentum
from pymc_bdmc.kernels.reference import no_reference
from pymc_bdmc.kernels.state import (
    Parameters,
    Target,
    evaluate,
    make_state,
    make_workspace,
    tempered,
)
from tests.kernels.test_compiled import METRIC, exact_draws, gamma_poisson
from tests.mutants import broken_kernels

TARGET = Target(gamma_poisson, gamma_poisson, np.zeros(0), np.zeros(0, int), no_reference())
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
            joined, _, energy, gradients[j] = join(target, 1.0, metric, LONG_STEP, energy, work)
            if joined:
                momentum *= -1.0
                join(target, 1.0, metric, LONG_STEP, energy, work)
                errors[j] = np.abs(state.theta - thetas[j]).max() + np.abs(momentum + start).max()
        return errors, gradients

    return run


def there_and_back(join):
    """The same from 5000 states."""
    thetas = np.random.default_rng(1).normal(0, 2, size=(5000, 2))  # where scales differ widely
    return returner(join)(TARGET, METRIC, thetas, np.random.default_rng(2))


def test_steps_lead_back():
    """From the far end, with the momentum reversed, however often the step size was halved."""
    errors, gradients = there_and_back(autostep.join)
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


@cache
def mover(kernel):
    """A function that returns moved states, the share of divergent moves, and all gradients."""

    @numba.njit
    def run(target, parameters, thetas, rng):
        divergent, gradients, size = 0, 0, thetas.shape[1]
        state, work = make_state(size, size), make_workspace(size, size)
        for theta in thetas:
            state.theta[:] = theta
            evaluate(target, state)
            move = kernel(target, 1.0, parameters, state, work, rng)
            divergent += move.diverging
            gradients += move.gradient_evaluations
            theta[:] = state.theta
        return thetas, divergent / len(thetas), gradients

    return run


def moves(kernel, step_size, metric=METRIC):
    """One of each of 500 exact draws."""
    thetas = exact_draws(1.0, np.random.default_rng(3), 500)
    parameters = Parameters(metric, step_size, np.zeros(0))
    return mover(kernel)(TARGET, parameters, thetas, np.random.default_rng(4))


def test_without_need_it_is_hmc():
    """Same moves from the same stream, at as many gradients; long steps make the difference."""
    ours, _, gradients = moves(autostep.autostep, 0.1)
    theirs, _, as_many = moves(hmc.hmc, 0.1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert gradients == as_many
    assert moves(autostep.autostep, LONG_STEP)[2] > 1.2 * moves(hmc.hmc, LONG_STEP)[2]


def test_to_turn_back_is_not_to_diverge():
    """Only where no number of halvings will do; the twin counts what turned back at both ends."""
    kernel = autostep.autostep
    assert moves(kernel, LONG_STEP)[1] == 0
    with broken_kernels().having("turning back counts as diverging"):
        assert moves(broken_kernels().autostep, LONG_STEP)[1] > 0
    wide = METRIC._replace(scale=1e6 * METRIC.scale)
    assert moves(kernel, LONG_STEP, wide)[1] == 1
