"""Hamiltonian Monte Carlo with random step size and trajectory length.

Both are drawn before the trajectory and independently of it, so the kernel stays self-adjoint, and
periodic orbits of the target cannot trap the chain. See Neal (2011), Section 3.2.
"""

import numpy as np
from pymc.step_methods import HamiltonianMC

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move
from pymc_bdmc.kernels.hamiltonian import MAX_ENERGY_ERROR, dot, drift, kick
from pymc_bdmc.kernels.state import copy, evaluate, tempered
from pymc_bdmc.kernels.transition import NamedKernel, transitions
from pymc_bdmc.reference.metric import draw_momentum, velocity_of

MAX_STEPS = 16
"""Most steps of a trajectory; several short ones at increasing β are better than a long one."""
TRAJECTORY = 0.5 * np.pi
"""Mean length of a trajectory, after which a standard normal variable forgets its start."""
OUTER = 2 * 0.21178
INNER = 2 - 2 * OUTER
"""Kicks at the ends and in the middle of two drifts, in step sizes. Leapfrog has 0.5 and 1, with a
far larger energy error at the same cost: Blanes, Casas and Sanz-Serna (2014), Section 4."""


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def draw_trajectory(typical_step_size, rng):
    """Draw the number of steps, which is even, and their size."""
    longest = typical_step_size * (0.8 + 0.4 * rng.random())
    time = TRAJECTORY * (0.85 + 0.3 * rng.random())
    n_steps = 2 * int(min(max(np.ceil(0.5 * time / longest), 1.0), MAX_STEPS // 2))
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
