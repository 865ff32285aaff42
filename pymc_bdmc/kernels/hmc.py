"""Hamiltonian Monte Carlo with random step size and trajectory length, and a random walk.

Both are drawn before the trajectory and independently of it, so the kernel stays self-adjoint, and
periodic orbits of the target cannot trap the chain. See Neal (2011), Section 3.2.
"""

import numpy as np
from pymc.step_methods import HamiltonianMC, Metropolis

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
    """Move the continuous elements along one trajectory; return a `Move`."""
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


HMC = NamedKernel("HMC", hmc_transitions, HamiltonianMC, True, 0.9, TRAJECTORY)
"""Named kernel; steps are no longer than the trajectory."""


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


METROPOLIS = NamedKernel("Metropolis", metropolis_transitions, Metropolis, False, 0.3)
