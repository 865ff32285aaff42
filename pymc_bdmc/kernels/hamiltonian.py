"""Shared parts of Hamiltonian kernels: kicks, drifts, and the threshold of a divergence."""

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.metric import velocity_of

MAX_ENERGY_ERROR = 1000.0


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
