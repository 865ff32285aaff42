"""K_t of the compiled engine, put together from its parts: prior, discrete, continuous elements.

Every part leaves f_β invariant for fixed parameters and is its own reversal, but for the scan over
the discrete elements. So the reversal takes the parts the other way round, and that scan backwards.
"""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.autostep import autostep
from pymc_bdmc.kernels.discrete import discrete_scan
from pymc_bdmc.kernels.hmc import hmc
from pymc_bdmc.kernels.metropolis import metropolis
from pymc_bdmc.kernels.nuts import nuts
from pymc_bdmc.kernels.prior_move import prior_move
from pymc_bdmc.kernels.state import evaluate, is_legal
from pymc_bdmc.types import Move

__all__ = ["AUTOSTEP", "HMC", "METROPOLIS", "NUTS", "CompiledKernel", "transition"]

NUTS, HMC, METROPOLIS, AUTOSTEP = range(4)


class CompiledKernel(NamedTuple):
    """A way to move the continuous elements, as the compiled loops see it."""

    branch: int
    """NUTS, HMC, METROPOLIS or AUTOSTEP."""
    needs_gradient: bool
    target_acceptance: float
    """That a pilot adapts the step size to."""
    largest_step_size: float
    """Beyond which a longer step changes nothing."""


@njit(nogil=True, cache=True)
def transition(target, kernel, parameters, beta, draw, state, work, reverse, rng):
    """Apply K_t, or its reversal, to ``state`` in place.

    Returns
    -------
    Move
        With the acceptance of the discrete and that of the continuous elements; NaN without any.
    """
    discrete = continuous = np.nan
    diverging, gradients = False, 0
    has_discrete = target.categories.size > 0
    has_continuous = parameters.metric.scale.size > 0
    differentiates = has_continuous and kernel.needs_gradient
    if draw.exists and differentiates:
        gradients += 1
    if not reverse:
        prior_move(target, beta, draw, state, work, rng)
        if draw.exists and not is_legal(state):
            return Move((discrete, continuous), False, gradients)
        if has_discrete:
            discrete = discrete_scan(target, beta, parameters, state, work, False, rng).acceptance
    if has_continuous:
        if has_discrete and differentiates:
            evaluate(target, state)
            gradients += 1
        if kernel.branch == HMC:
            move = hmc(target, beta, parameters, state, work, rng)
        elif kernel.branch == AUTOSTEP:
            move = autostep(target, beta, parameters, state, work, rng)
        elif kernel.branch == NUTS:
            move = nuts(target, beta, parameters, state, work, rng)
        else:
            move = metropolis(target, beta, parameters, state, work, rng)
        continuous, diverging = move.acceptance, move.diverging
        gradients += move.gradient_evaluations
    if reverse:
        if has_discrete:
            discrete = discrete_scan(target, beta, parameters, state, work, True, rng).acceptance
        prior_move(target, beta, draw, state, work, rng)
    return Move((discrete, continuous), diverging, gradients)
