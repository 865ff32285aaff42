"""The multinomial no-U-turn sampler, with its recursion unrolled.

A subtree of 2^j leaves is built leaf by leaf; ``checkpoints`` stores the left ends of its own
subtrees until their right ends are reached. See Hoffman and Gelman (2014); Betancourt (2017), App.
A.3; Phan, Pradhan and Jankowiak (2019).
"""

import numpy as np
from pymc.step_methods.hmc import NUTS as PyMCNUTS

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.hmc import MAX_ENERGY_ERROR, dot, drift, kick
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate, tempered
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.reference.metric import draw_momentum, velocity_of


@njit(nogil=True, cache=True, allocates=False)
def nuts(target, beta, parameters, state, work, rng):
    """Move the continuous elements to a state of one trajectory; return a `Move`."""
    metric = parameters.metric
    left, right = work.edges
    candidate, proposal = work.candidate, work.proposal
    momenta, velocities, (total, part) = work.edge_momenta, work.edge_velocities, work.momentum_sums
    starts, sums = work.checkpoints
    energy = draw_momentum(metric, total, rng) - tempered(state, beta)
    copy_vector(total, momenta[0])
    copy_vector(total, momenta[1])
    velocity_of(metric, total, velocities[0])
    copy_vector(velocities[0], velocities[1])
    copy(state, left)
    copy(state, right)
    copy(state, proposal)
    log_weight, acceptance, n_leaves = 0.0, 0.0, 0
    for depth in range(len(starts)):
        forward = rng.random() < 0.5
        edge = right if forward else left
        momentum, velocity = momenta[int(forward)], velocities[int(forward)]
        step = parameters.step_size if forward else -parameters.step_size
        part[:] = 0.0
        part_log_weight = -np.inf
        for leaf in range(1 << depth):
            leapfrog(target, beta, metric, step, edge, momentum, velocity)
            n_leaves += 1
            error = 0.5 * dot(momentum, velocity) - tempered(edge, beta) - energy
            if not error < MAX_ENERGY_ERROR:
                copy(proposal, state)
                return Move(acceptance / n_leaves, True, n_leaves)
            acceptance += min(1.0, np.exp(-error))
            part_log_weight = np.logaddexp(part_log_weight, -error)
            if np.log(rng.random()) < -error - part_log_weight:
                copy(edge, candidate)
            # Binary digits of the leaf give the subtrees that start and end here.
            level = _ones(leaf >> 1)
            if leaf % 2 == 0:
                copy_vector(velocity, starts[level])
                copy_vector(part, sums[level])
            for i in range(part.size):
                part[i] += momentum[i]
            if leaf % 2:
                for _ in range(_ones((~leaf & (leaf + 1)) - 1)):
                    forth = back = 0.0
                    for i in range(part.size):
                        span = part[i] - sums[level, i]
                        forth += span * velocity[i]
                        back += span * starts[level, i]
                    if forth <= 0.0 or back <= 0.0:
                        copy(proposal, state)
                        return Move(acceptance / n_leaves, False, n_leaves)
                    level -= 1
        if np.log(rng.random()) < part_log_weight - log_weight:
            copy(candidate, proposal)
        log_weight = np.logaddexp(log_weight, part_log_weight)
        for i in range(part.size):
            total[i] += part[i]
        if turns(total, velocities[0], velocities[1]):
            break
    copy(proposal, state)
    return Move(acceptance / n_leaves, False, n_leaves)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def leapfrog(target, beta, metric, step, state, momentum, velocity):
    """Take one leapfrog step in place."""
    kick(momentum, state, beta, metric, 0.5 * step)
    drift(state, momentum, velocity, metric, step)
    evaluate(target, state)
    kick(momentum, state, beta, metric, 0.5 * step)
    velocity_of(metric, momentum, velocity)


@njit(nogil=True, cache=True, allocates=False)
def turns(total, left, right):
    """Return whether the ends of a trajectory approach each other (Betancourt 2017, A.4.2)."""
    return dot(total, left) <= 0.0 or dot(total, right) <= 0.0


@njit(nogil=True, cache=True, allocates=False)
def _ones(n):
    """Return the number of binary ones."""
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


@njit(nogil=True, cache=True, allocates=False, title="NUTS")
def nuts_transitions(target, setting, states, first, work, rng):
    """Apply `transitions` with `nuts`."""
    return transitions(nuts, True, target, setting, states, first, work, rng)


NUTS = NamedKernel("NUTS", nuts_transitions, PyMCNUTS, True, 0.8)
