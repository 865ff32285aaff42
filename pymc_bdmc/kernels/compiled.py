"""Transitions of the compiled engine: HMC, NUTS, Metropolis and moves of discrete elements.

All leave f_β invariant for fixed parameters, and all are self-adjoint but for the scan over the
discrete elements, which the reversal runs backwards. ``density`` is a function of
`JittedDensity`; continuous elements of θ come first, and ``metric`` is of them alone.
"""

import numpy as np

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.metric import draw_momentum, velocity_of
from pymc_bdmc.kernels.normal import standard_normal
from pymc_bdmc.kernels.state import copy, evaluate, is_legal, tempered

__all__ = [
    "HMC",
    "METROPOLIS",
    "NUTS",
    "TRAJECTORY",
    "transition",
]

NUTS, HMC, METROPOLIS = range(3)

MAX_ENERGY_ERROR = 1000.0
TRAJECTORY = 0.5 * np.pi
"""Mean duration of an HMC trajectory: a normal variable of scale 1 forgets its start in it."""
OUTER = 2 * 0.21178
INNER = 2 - 2 * OUTER
"""Kicks at the ends and in the middle of two drifts, in step sizes. Leapfrog has 0.5 and 1, and at
the same cost a far larger energy error. Blanes, Casas and Sanz-Serna (2014), Section 4."""


@njit(nogil=True, cache=True, forceinline=True)
def kick(momentum, state, beta, metric, step_size):
    """Change the momentum by the gradient of log f_β."""
    for i in range(momentum.size):
        gradient = state.log_prior_gradient[i] + beta * state.log_likelihood_gradient[i]
        momentum[i] += step_size * metric.scale[i] * gradient


@njit(nogil=True, cache=True, forceinline=True)
def drift(state, momentum, velocity, metric, step_size):
    """Move along the velocity, which is that of the momentum from now on."""
    velocity_of(metric, momentum, velocity)
    for i in range(velocity.size):
        state.theta[i] += step_size * metric.scale[i] * velocity[i]


@njit(nogil=True, cache=True, forceinline=True)
def dot(a, b):
    """Inner product."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(nogil=True, cache=True)
def hmc(density, data, beta, state, work, metric, step_size, max_steps, rng):
    """Hamiltonian Monte Carlo with a random step size and duration of the trajectory.

    Both are drawn before the trajectory and independently of it, so they keep the kernel
    self-adjoint, and no period of the target can trap the chain. Neal (2011), Section 3.2.

    Returns
    -------
    acceptance, diverging, gradient_evaluations
    """
    proposal, momentum, velocity = work.proposal, work.momentum, work.velocity
    copy(state, proposal)
    energy = draw_momentum(metric, momentum, rng) - tempered(state, beta)
    step_size *= 0.8 + 0.4 * rng.random()
    time = TRAJECTORY * (0.85 + 0.3 * rng.random())
    n_steps = 2 * int(min(max(np.ceil(0.5 * time / step_size), 1.0), max_steps // 2))
    step_size = min(step_size, time / n_steps)
    kick(momentum, proposal, beta, metric, OUTER * step_size)
    for i in range(n_steps):
        drift(proposal, momentum, velocity, metric, step_size)
        evaluate(density, data, proposal)
        if tempered(proposal, beta) == -np.inf:
            return 0.0, True, i + 1
        part = INNER if i % 2 == 0 else 2.0 * OUTER if i < n_steps - 1 else OUTER
        kick(momentum, proposal, beta, metric, part * step_size)
    velocity_of(metric, momentum, velocity)
    error = 0.5 * dot(momentum, velocity) - tempered(proposal, beta) - energy
    if not error < MAX_ENERGY_ERROR:
        return 0.0, True, n_steps
    acceptance = min(1.0, np.exp(-error))
    if rng.random() < acceptance:
        copy(proposal, state)
    return acceptance, False, n_steps


@njit(nogil=True, cache=True)
def turns(total, left, right):
    """Whether the ends of a trajectory approach each other. Betancourt (2017), App. A.4.2."""
    return dot(total, left) <= 0.0 or dot(total, right) <= 0.0


@njit(nogil=True, cache=True)
def nuts(density, data, beta, state, work, metric, step_size, max_depth, rng):
    """Multinomial no-U-turn sampler, with the recursion unrolled.

    Hoffman and Gelman (2014); Betancourt (2017), App. A.3; Phan, Pradhan and Jankowiak (2019).
    A subtree of 2^j leaves is built leaf by leaf: the left ends of its own subtrees wait in
    ``checkpoints`` until their right ends come.

    Returns
    -------
    acceptance, diverging, gradient_evaluations
    """
    left, right = work.edges
    candidate, proposal = work.candidate, work.proposal
    momenta, velocities, (total, part) = work.edge_momenta, work.edge_velocities, work.momentum_sums
    starts, sums = work.checkpoints
    energy = draw_momentum(metric, total, rng) - tempered(state, beta)
    momenta[0] = momenta[1] = total
    velocity_of(metric, total, velocities[0])
    velocities[1] = velocities[0]
    copy(state, left)
    copy(state, right)
    copy(state, proposal)
    log_weight, acceptance, n_leaves = 0.0, 0.0, 0
    for depth in range(max_depth):
        forward = rng.random() < 0.5
        edge = right if forward else left
        momentum, velocity = momenta[int(forward)], velocities[int(forward)]
        step = step_size if forward else -step_size
        part[:] = 0.0
        part_log_weight = -np.inf
        for leaf in range(1 << depth):
            kick(momentum, edge, beta, metric, 0.5 * step)
            drift(edge, momentum, velocity, metric, step)
            evaluate(density, data, edge)
            kick(momentum, edge, beta, metric, 0.5 * step)
            velocity_of(metric, momentum, velocity)
            n_leaves += 1
            error = 0.5 * dot(momentum, velocity) - tempered(edge, beta) - energy
            if not error < MAX_ENERGY_ERROR:
                copy(proposal, state)
                return acceptance / n_leaves, True, n_leaves
            acceptance += min(1.0, np.exp(-error))
            part_log_weight = np.logaddexp(part_log_weight, -error)
            if np.log(rng.random()) < -error - part_log_weight:
                copy(edge, candidate)
            # Binary digits of the leaf say which subtrees start and end here.
            level = _ones(leaf >> 1)
            if leaf % 2 == 0:
                starts[level] = velocity
                sums[level] = part
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
                        return acceptance / n_leaves, False, n_leaves
                    level -= 1
        if np.log(rng.random()) < part_log_weight - log_weight:
            copy(candidate, proposal)
        log_weight = np.logaddexp(log_weight, part_log_weight)
        for i in range(part.size):
            total[i] += part[i]
        if turns(total, velocities[0], velocities[1]):
            break
    copy(proposal, state)
    return acceptance / n_leaves, False, n_leaves


@njit(nogil=True, cache=True)
def _ones(n):
    """Number of binary ones."""
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count


@njit(nogil=True, cache=True)
def metropolis(density, data, beta, state, work, metric, step_size, rng):
    """Random walk of all continuous elements together.

    Returns
    -------
    acceptance, diverging, gradient_evaluations
    """
    proposal = work.proposal
    proposal.theta[:] = state.theta
    draw_momentum(metric, work.momentum, rng)
    drift(proposal, work.momentum, work.velocity, metric, step_size)
    evaluate(density, data, proposal)
    acceptance = min(1.0, np.exp(tempered(proposal, beta) - tempered(state, beta)))
    if rng.random() < acceptance:
        copy(proposal, state)
    return acceptance, False, 0


@njit(nogil=True, cache=True)
def discrete_scan(density, data, beta, state, work, widths, categories, backwards, rng):
    """Metropolis moves of the discrete elements, one after the other; return mean acceptance.

    An element with finitely many values proposes another one uniformly (of two: the flip); any
    other element takes a symmetric step of random length, in the order of its ``widths``.
    """
    proposal = work.proposal
    proposal.theta[:] = state.theta
    total, first = 0.0, state.log_prior_gradient.size  # after the continuous elements
    n = categories.size
    for k in range(n):
        j = n - 1 - k if backwards else k
        old = state.theta[first + j]
        if categories[j] > 0:
            new = float(int(rng.random() * (categories[j] - 1)))
            if new >= old:
                new += 1.0
        else:
            length = 1.0 + np.floor(2.4 * widths[j] * abs(standard_normal(rng)) * rng.random())
            new = old + length if rng.random() < 0.5 else old - length
        proposal.theta[first + j] = new
        evaluate(density, data, proposal)
        acceptance = min(1.0, np.exp(tempered(proposal, beta) - tempered(state, beta)))
        total += acceptance
        if rng.random() < acceptance:
            state.theta[first + j] = new
            state.terms[:] = proposal.terms
        else:
            proposal.theta[first + j] = old
    return total / n


@njit(nogil=True, cache=True)
def prior_move(density, data, beta, state, work, draw, rng):
    """Move to an independent draw from the prior with probability min(1, exp(β (ℓ′ − ℓ))).

    At low β it forgets the past; at any β it frees a chain from where the data fit far worse.
    A draw at which the density is no number is moved to, so that the caller finds it.
    """
    proposal = work.proposal
    proposal.theta[:] = draw
    evaluate(density, data, proposal)
    log_ratio = beta * (proposal.terms[1] - state.terms[1])
    accepted = log_ratio > np.log(1.0 - rng.random())
    broken = not is_legal(proposal) and np.all(np.isfinite(draw))  # else beyond the transforms
    if broken or (accepted and tempered(proposal, beta) > -np.inf):
        copy(proposal, state)


@njit(nogil=True, cache=True)
def transition(
    kind, with_gradient, without_gradient, data, beta, state, work,
    metric, step_size, length, draw, widths, categories, reverse, rng,
):  # fmt: skip
    """K_t: to ``draw`` if it is not empty, discrete elements, continuous elements.

    The reversal takes them the other way round.

    Returns
    -------
    acceptance : float
        Mean over the discrete and the continuous elements.
    rate : float
        Acceptance that the step size decides: of the continuous elements, if there are any.
    diverging, gradient_evaluations
    """
    acceptance, rate, diverging, n_parts = 0.0, 0.0, False, 0
    differentiates = metric.scale.size > 0 and kind != METROPOLIS
    gradients = 1 if draw.size and differentiates else 0
    if draw.size and not reverse:
        prior_move(with_gradient, data, beta, state, work, draw, rng)
        if not is_legal(state):
            return 0.0, 0.0, False, gradients
    if categories.size and not reverse:
        acceptance += discrete_scan(
            without_gradient, data, beta, state, work, widths, categories, False, rng
        )
        n_parts += 1
    if metric.scale.size:
        if categories.size and differentiates:
            evaluate(with_gradient, data, state)
            gradients += 1
        if kind == HMC:
            rate, diverging, n = hmc(
                with_gradient, data, beta, state, work, metric, step_size, length, rng
            )
        elif kind == NUTS:
            rate, diverging, n = nuts(
                with_gradient, data, beta, state, work, metric, step_size, length, rng
            )
        else:
            rate, diverging, n = metropolis(
                without_gradient, data, beta, state, work, metric, step_size, rng
            )
        acceptance += rate
        gradients += n
        n_parts += 1
    if categories.size and reverse:
        acceptance += discrete_scan(
            without_gradient, data, beta, state, work, widths, categories, True, rng
        )
        n_parts += 1
    if draw.size and reverse:
        prior_move(with_gradient, data, beta, state, work, draw, rng)
    acceptance /= max(n_parts, 1)
    return acceptance, rate if metric.scale.size else acceptance, diverging, gradients
