"""Hamiltonian Monte Carlo with step sizes that adapt to the local density.

A trajectory has as many pairs of steps as one of `hmc`. In each pair the base step size is halved j
times, until the energy changes by little. Such a pair moves z to z′ and, backwards, z′ to z with
the same error. If going back from z′ also takes j halvings, the pair *joins* z and z′. If it takes
fewer, or if no number of halvings is enough, the state stays at z with the momentum reversed. In
both cases the same rule returns to z after reversing the momentum, so a whole trajectory, with its
last momentum reversed, is an involution. It preserves volume, since the sets of states with equal j
do not overlap and each is moved by shears. Hence the usual acceptance leaves f_β invariant, and the
kernel is its own reversal (Tierney 1998, Section 2). If the base step size is small enough
everywhere, this is HMC, at the same number of gradients.

The choice of the step size and its check at the other end are from Biron-Lattes, Surjanovic, Syed,
Campbell and Bouchard-Côté (2024), arXiv:2310.16782, and for involutions from Liu, Surjanovic,
Biron-Lattes, Bouchard-Côté and Campbell (2024), arXiv:2410.18929, who reject where this kernel
turns back. Choosing it at every step of a trajectory is from Bou-Rabee, Carpenter, Kleppe and Liu
(2025), arXiv:2506.18746.
"""

import numpy as np
from pymc.step_methods import HamiltonianMC

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.hmc import INNER, OUTER, TRAJECTORY, dot, draw_trajectory, drift, kick
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate, tempered
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.reference.metric import draw_momentum, velocity_of

MAX_ERROR = 1.0
"""Largest change of the energy in a pair of steps, nats."""


@njit(nogil=True, cache=True, allocates=False)
def autostep(target, beta, parameters, state, work, rng):
    """Move the continuous elements along one trajectory; return a `Move`.

    Pairs that turned back count as rejected, so that pilots shorten the step size. Exhausted
    halvings count as a divergence.
    """
    proposal, momentum = work.proposal, work.momentum
    copy(state, proposal)
    start = energy = draw_momentum(parameters.metric, momentum, rng) - tempered(state, beta)
    n_steps, step_size = draw_trajectory(parameters.step_size, rng)
    n_pairs = n_steps // 2
    n_joined, diverging, gradients = 0, False, 0
    for i in range(n_pairs):
        joined, exhausted, energy, cost = join(
            target, beta, parameters.metric, step_size, energy, work
        )
        diverging |= exhausted
        gradients += cost
        if joined:
            n_joined += 1
        elif i > 0 and n_joined == 0:  # in neither direction
            break
        else:
            momentum *= -1.0
    acceptance = min(1.0, np.exp(start - energy))
    if rng.random() < acceptance:
        copy(proposal, state)
    return Move(acceptance * n_joined / n_pairs, diverging, gradients)


@njit(nogil=True, cache=True, allocates=False)
def join(target, beta, metric, step_size, energy, work):
    """Replace the proposal and its momentum by the state that a pair of steps joins, if any.

    Return whether it joined, whether all halvings failed, the new energy, and gradient counts.
    """
    near = work.proposal, work.momentum
    far, third = (work.edges[0], work.edge_momenta[0]), (work.edges[1], work.edge_momenta[1])
    gradients = 0
    for halvings in range(9):
        size = step_size / (1 << halvings)
        far_energy, cost = step_twice(target, beta, metric, size, near, far, work.velocity)
        gradients += cost
        if abs(far_energy - energy) <= MAX_ERROR:
            for fewer in range(halvings):
                size = -step_size / (1 << fewer)
                third_energy, cost = step_twice(
                    target, beta, metric, size, far, third, work.velocity
                )
                gradients += cost
                if abs(third_energy - far_energy) <= MAX_ERROR:
                    return False, False, energy, gradients
            copy(far[0], near[0])
            copy_vector(far[1], near[1])
            return True, False, far_energy, gradients
    return False, True, energy, gradients


@njit(nogil=True, cache=True, allocates=False)
def step_twice(target, beta, metric, step_size, start, end, velocity):
    """Write the state and momentum two steps from ``start``; return energy and gradient counts."""
    state, momentum = end
    copy(start[0], state)
    copy_vector(start[1], momentum)
    kick(momentum, state, beta, metric, OUTER * step_size)
    drift(state, momentum, velocity, metric, step_size)
    evaluate(target, state)
    if tempered(state, beta) == -np.inf:
        return np.inf, 1
    kick(momentum, state, beta, metric, INNER * step_size)
    drift(state, momentum, velocity, metric, step_size)
    evaluate(target, state)
    kick(momentum, state, beta, metric, OUTER * step_size)
    velocity_of(metric, momentum, velocity)
    return 0.5 * dot(momentum, velocity) - tempered(state, beta), 2


@njit(nogil=True, cache=True, allocates=False, title="AutoStep HMC")
def autostep_transitions(target, setting, states, first, work, rng):
    """Apply `transitions` with `autostep`."""
    return transitions(autostep, True, target, setting, states, first, work, rng)


AUTOSTEP = NamedKernel("AutoStep HMC", autostep_transitions, HamiltonianMC, True, 0.9, TRAJECTORY)
"""Named kernel; its substitute, PyMC's HamiltonianMC, has no local step size."""
