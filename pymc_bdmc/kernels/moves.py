"""Compiled moves of the continuous elements: HMC, a random walk, NUTS, and HMC with local steps.

A new one is registered in `KERNELS`.
"""

import numpy as np
from pymc.step_methods import NUTS, HamiltonianMC, Metropolis

from pymc_bdmc.base.arguments import check_choice
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.state import copy, copy_vector, evaluate, evaluate_terms, tempered
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.reference.metric import draw_momentum, velocity_of

TRAJECTORY = 0.5 * np.pi
"""Mean length of a trajectory, after which a standard normal variable forgets its start."""
OUTER = 2 * 0.21178
INNER = 2 - 2 * OUTER
"""Kicks at the ends and in the middle of two drifts, in step sizes. Leapfrog has 0.5 and 1, with a
far larger energy error at the same cost: Blanes, Casas and Sanz-Serna (2014), Section 4."""

MAX_ENERGY_ERROR = 1000.0
"""Error of the energy, in nats, from which a trajectory counts as divergent; as in PyMC."""
MAX_ERROR = 1.0
"""Largest change of the energy in a pair of steps, nats."""


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def kick(momentum, state, beta, metric, step_size):
    """Change the momentum by the gradient of log f_β."""
    for i in range(momentum.size):
        gradient = state.log_prior_gradient[i] + beta * state.log_likelihood_gradient[i]
        momentum[i] += step_size * metric.scale[i] * gradient


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def drift(state, momentum, velocity, metric, step_size):
    """Compute the velocity of the momentum, and move along it."""
    velocity_of(metric, momentum, velocity)
    for i in range(velocity.size):
        state.theta[i] += step_size * metric.scale[i] * velocity[i]


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def dot(a, b):
    """Return the inner product."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def draw_trajectory(typical_step_size, rng):
    """Draw the number of steps, which is even, and their size."""
    longest = typical_step_size * (0.8 + 0.4 * rng.random())
    time = TRAJECTORY * (0.85 + 0.3 * rng.random())
    # At most 16 steps: several short trajectories at increasing β are better than a long one.
    n_steps = 2 * int(min(max(np.ceil(0.5 * time / longest), 1.0), 8))
    return n_steps, min(longest, time / n_steps)


@njit(nogil=True, inline="always")
def hmc(target, beta, parameters, state, work, rng):
    """Move the continuous elements along one trajectory; return a `Move`.

    Step size and length of the trajectory are random. Both are drawn before it and independently of
    it, so the kernel stays self-adjoint, and periodic orbits of the target cannot trap the chain.
    See Neal (2011), Section 3.2.
    """
    metric = parameters.metric
    proposal, momentum, velocity = work.proposal, work.momentum, work.velocity
    copy(state, proposal)
    energy = draw_momentum(metric, momentum, rng) - tempered(state, beta)
    n_steps, step_size = draw_trajectory(parameters.step_size, rng)
    kick(momentum, proposal, beta, metric, OUTER * step_size)
    for i in range(n_steps):
        drift(proposal, momentum, velocity, metric, step_size)
        evaluate(target, proposal)
        if tempered(proposal, beta) == -np.inf:
            return Move(0.0, True, i + 1)
        part = INNER if i % 2 == 0 else 2.0 * OUTER if i < n_steps - 1 else OUTER
        kick(momentum, proposal, beta, metric, part * step_size)
    velocity_of(metric, momentum, velocity)
    error = 0.5 * dot(momentum, velocity) - tempered(proposal, beta) - energy
    if not error < MAX_ENERGY_ERROR:
        return Move(0.0, True, n_steps)
    acceptance = min(1.0, np.exp(-error))
    if rng.random() < acceptance:
        copy(proposal, state)
    return Move(acceptance, False, n_steps)


@njit(nogil=True, cache=True, allocates=False, title="HMC")
def hmc_transitions(target, setting, states, first, work, rng):
    """Apply `transitions` with `hmc`."""
    return transitions(hmc, True, target, setting, states, first, work, rng)


@njit(nogil=True, cache=True, allocates=False)
def metropolis(target, beta, parameters, state, work, rng):
    """Propose one step of a random walk of all continuous elements; return a `Move`."""
    metric, proposal = parameters.metric, work.proposal
    copy_vector(state.theta, proposal.theta)
    draw_momentum(metric, work.momentum, rng)
    drift(proposal, work.momentum, work.velocity, metric, parameters.step_size)
    evaluate_terms(target, proposal)
    acceptance = min(1.0, np.exp(tempered(proposal, beta) - tempered(state, beta)))
    if rng.random() < acceptance:
        copy(proposal, state)
    return Move(acceptance, False, 0)


@njit(nogil=True, cache=True, allocates=False, title="Metropolis")
def metropolis_transitions(target, setting, states, first, work, rng):
    """Apply `transitions` with `metropolis`."""
    return transitions(metropolis, False, target, setting, states, first, work, rng)


@njit(nogil=True, cache=True, allocates=False)
def nuts(target, beta, parameters, state, work, rng):
    """Move the continuous elements to a state of one trajectory; return a `Move`.

    This is the multinomial no-U-turn sampler, with its recursion unrolled. A subtree of 2^j leaves
    is built leaf by leaf; ``checkpoints`` stores the left ends of its own subtrees until their
    right ends are reached. See Hoffman and Gelman (2014); Betancourt (2017), App. A.3; Phan,
    Pradhan and Jankowiak (2019).
    """
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


@njit(nogil=True, cache=True, allocates=False)
def autostep(target, beta, parameters, state, work, rng):
    """Move along a trajectory whose step sizes adapt to the local density; return a `Move`.

    A trajectory has as many pairs of steps as one of `hmc`. In each pair the base step size is
    halved j times, until the energy changes by little. Such a pair moves z to z′ and, backwards, z′
    to z with the same error. If going back from z′ also takes j halvings, the pair *joins* z and
    z′. If it takes fewer, or if no number of halvings is enough, the state stays at z with the
    momentum reversed. In both cases the same rule returns to z after reversing the momentum, so a
    whole trajectory, with its last momentum reversed, is an involution. It preserves volume, since
    the sets of states with equal j do not overlap and each is moved by shears. Hence the usual
    acceptance leaves f_β invariant, and the kernel is its own reversal (Tierney 1998, Section 2).
    If the base step size is small enough everywhere, this is HMC, at the same number of gradients.

    The choice of the step size and its check at the other end are from Biron-Lattes, Surjanovic,
    Syed, Campbell and Bouchard-Côté (2024), arXiv:2310.16782, and for involutions from Liu,
    Surjanovic, Biron-Lattes, Bouchard-Côté and Campbell (2024), arXiv:2410.18929, who reject where
    this kernel turns back. Choosing it at every step of a trajectory is from Bou-Rabee, Carpenter,
    Kleppe and Liu (2025), arXiv:2506.18746.

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


KERNELS = {
    "nuts": NamedKernel("NUTS", nuts_transitions, NUTS, True, 0.8),
    "hmc": NamedKernel("HMC", hmc_transitions, HamiltonianMC, True, 0.9, TRAJECTORY),
    # Its substitute, PyMC's HamiltonianMC, has no local step size.
    "autostep": NamedKernel(
        "AutoStep HMC", autostep_transitions, HamiltonianMC, True, 0.9, TRAJECTORY
    ),
    "metropolis": NamedKernel("Metropolis", metropolis_transitions, Metropolis, False, 0.3),
}
"""Kernels by the name that ``step`` takes. With HMC, no step is longer than the trajectory."""


def compiled_kernel(step: str | NamedKernel | None) -> NamedKernel:
    """Return the kernel of a name, by default HMC; a kernel object is returned unchanged."""
    if isinstance(step, NamedKernel):
        return step
    name = "hmc" if step is None else step  # among step methods PyMC chooses
    check_choice("step", name, KERNELS)
    return KERNELS[name]
