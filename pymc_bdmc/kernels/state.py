"""Arguments of the compiled kernels: a target, parameters, a state, and working memory."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.metric import copy_vector as copy_vector
from pymc_bdmc.reference.student import Reference, refer


class Target(NamedTuple):
    """Path of densities for given data; f_β combines its two terms."""

    with_gradient: Callable
    """Function of `JittedDensity`; the one without gradients if none are needed."""
    without_gradient: Callable
    data: np.ndarray
    interval: np.ndarray
    """β and a later β', between which ℓ is the slope of log f on a path of the data; shape (2,)."""
    categories: np.ndarray
    """Number of values of every discrete element, 0 if unlimited. These elements come last in θ."""
    reference: Reference
    """Reference at the start of the path, if not the prior; then every element is continuous."""
    undefined: np.ndarray
    """Number of evaluations so far at which log p or ℓ was NaN or +∞, shape (1,)."""


class Parameters(NamedTuple):
    """Parameters of a kernel at one β, chosen before the chain starts."""

    metric: Metric
    step_size: float
    """Step size in units of the metric."""
    widths: np.ndarray
    """Standard deviations of the discrete elements."""


class State(NamedTuple):
    """θ with log p(θ), ℓ(θ) and their gradients; every transition updates it in place."""

    theta: np.ndarray
    terms: np.ndarray
    """log p(θ) and ℓ(θ), shape (2,); with a reference r, log r and g = log p + ℓ − log r."""
    log_prior_gradient: np.ndarray
    log_likelihood_gradient: np.ndarray


class Workspace(NamedTuple):
    """Working memory of the transitions, allocated once per chain."""

    proposal: State
    momentum: np.ndarray
    velocity: np.ndarray
    edges: tuple[State, State]
    edge_momenta: np.ndarray
    edge_velocities: np.ndarray
    candidate: State
    momentum_sums: np.ndarray
    """Momentum sums of the tree and of the current subtree, shape (2, n)."""
    checkpoints: np.ndarray
    """Velocity at the left end, and momentum sum before it, by subtree; shape (2, depth, n)."""


@njit(nogil=True, cache=True)
def make_state(size, n_continuous):
    """Return an uninitialised state."""
    return State(np.empty(size), np.empty(2), np.zeros(n_continuous), np.zeros(n_continuous))


@njit(nogil=True, cache=True)
def make_states(n, size, n_continuous):
    """Return uninitialised states, one per row of every array."""
    return State(
        np.empty((n, size)),
        np.empty((n, 2)),
        np.zeros((n, n_continuous)),
        np.zeros((n, n_continuous)),
    )


@njit(nogil=True, inline="always")
def state_at(states, i):
    """Return one of several states, as a view."""
    return State(
        states.theta[i],
        states.terms[i],
        states.log_prior_gradient[i],
        states.log_likelihood_gradient[i],
    )


@njit(nogil=True, inline="always")
def part_of(states, first, last):
    """Return some of several states, as a view."""
    return State(
        states.theta[first:last],
        states.terms[first:last],
        states.log_prior_gradient[first:last],
        states.log_likelihood_gradient[first:last],
    )


@njit(nogil=True, cache=True)
def make_workspace(size, n):
    """Allocate working memory for θ with ``size`` elements, of which ``n`` are continuous."""
    return Workspace(
        make_state(size, n),
        np.empty(n),
        np.empty(n),
        (make_state(size, n), make_state(size, n)),
        np.empty((2, n)),
        np.empty((2, n)),
        make_state(size, n),
        np.empty((2, n)),
        np.empty((2, 10, n)),  # trajectories of at most 2^10 steps
    )


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def copy(source, target):
    """Overwrite one state by another."""
    copy_vector(source.theta, target.theta)
    copy_vector(source.terms, target.terms)
    copy_vector(source.log_prior_gradient, target.log_prior_gradient)
    copy_vector(source.log_likelihood_gradient, target.log_likelihood_gradient)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def evaluate(target, state):
    """Evaluate both terms and their gradients at θ."""
    _evaluate(target.with_gradient, target, state)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def evaluate_terms(target, state):
    """Evaluate both terms at θ; the gradients are then meaningless."""
    _evaluate(target.without_gradient, target, state)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def _evaluate(density, target, state):
    """Evaluate both terms; if one is NaN or +∞, ℓ is −∞, so that every kernel rejects such a θ."""
    log_prior, ell = density(
        state.theta,
        target.data,
        target.interval,
        state.log_prior_gradient,
        state.log_likelihood_gradient,
    )
    if not log_prior + ell < np.inf:
        target.undefined[0] += 1
        ell = -np.inf
        if not log_prior < np.inf:
            log_prior = -np.inf
    state.terms[0] = log_prior
    state.terms[1] = ell
    if len(target.reference.locations) > 0:
        refer(target.reference, state)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def tempered(state, beta):
    """Return log f_β, with 0·(−∞) = 0 and ∞ − ∞ as −∞."""
    value = state.terms[0]
    if beta > 0.0:
        value += beta * state.terms[1]
    return value if value == value else -np.inf
