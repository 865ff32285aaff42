"""log p + ℓ on given data, as Python functions that count their calls and can be stopped."""

import time
from collections.abc import Callable

import numpy as np
from scipy.special import chdtri

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.engines.compiled.tops import BY_GRADIENTS, Climbing
from pymc_bdmc.kernels.state import Target, copy_vector, evaluate, evaluate_terms, make_state

UNLIKELY = 0.1
"""Share of a normal posterior whose states are too unlikely to judge a fit by."""


class Stopped(Exception):
    """An engine was stopped."""


class Counted:
    """log p + ℓ on given data, with the number of its evaluations and the CPU seconds of one.

    Parameters
    ----------
    target : Target
    stop : ndarray of shape (1,)
        Set by Ctrl-C; the next evaluation raises `Stopped` then.
    draw_prior : callable
        ``draw_prior(n, rng)`` draws n θ from the prior, one a row.
    climbing : Climbing
        How its tops are found; `BY_VALUES` if it has no gradient.
    """

    def __init__(
        self,
        target: Target,
        stop: np.ndarray,
        draw_prior: Callable[[int, np.random.Generator], np.ndarray],
        climbing: Climbing = BY_GRADIENTS,
    ):
        self._target, self._stop, self.draw_prior = target, stop, draw_prior
        self.climbing = climbing
        self._passed: list[tuple[np.ndarray, float]] = []
        self.evaluations = 0
        self._seconds: list[float] = []

    @property
    def seconds(self) -> float:
        """Return the median CPU seconds of an evaluation; NaN before any."""
        return float(np.median(self._seconds)) if self._seconds else np.nan

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p + ℓ and its gradient, zeros if it has none."""
        self._count(1)
        gradient, started = np.zeros(len(theta)), time.thread_time()
        value = slope_of(self._target, np.ascontiguousarray(theta), gradient)
        self._seconds.append(time.thread_time() - started)
        self._passed.append((theta.copy(), value))
        return value, gradient

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return ℓ and its gradient."""
        self._count(1)
        gradient = np.zeros(len(theta))
        return likelihood_slope_of(self._target, np.ascontiguousarray(theta), gradient), gradient

    def most_likely_passed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the likely states that climbs passed, and log p + ℓ there, nats.

        States of this density hold all but `UNLIKELY` of the mass of a normal posterior.
        """
        if not self._passed:
            return np.empty((0, 0)), np.empty(0)
        thetas, heights = map(np.array, zip(*self._passed, strict=True))
        heights[np.isnan(heights)] = -np.inf
        likely = heights >= heights.max() - chdtri(thetas.shape[1], UNLIKELY) / 2
        return thetas[likely], heights[likely]

    def _count(self, n: int) -> None:
        if self._stop[0]:
            raise Stopped
        self.evaluations += n

    def terms(self, thetas: np.ndarray) -> np.ndarray:
        """Return log p and ℓ of every row, shape (rows, 2), nats."""
        self._count(len(thetas))
        terms, started = np.empty((len(thetas), 2)), time.thread_time()
        terms_of(self._target, np.ascontiguousarray(thetas), terms)
        self._seconds.append((time.thread_time() - started) / max(len(thetas), 1))
        return terms

    def slopes(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p + ℓ of every row, shape (rows,), nats, and its gradient there."""
        self._count(len(thetas))
        values, gradients, started = (
            np.empty(len(thetas)),
            np.empty(thetas.shape),
            time.thread_time(),
        )
        slopes_of(self._target, np.ascontiguousarray(thetas), values, gradients)
        self._seconds.append((time.thread_time() - started) / max(len(thetas), 1))
        return values, gradients


@njit(nogil=True, cache=True)
def slope_of(target, theta, gradient):
    """Return log p + ℓ of a continuous θ, and write its gradient."""
    state = make_state(theta.size, theta.size)
    copy_vector(theta, state.theta)
    evaluate(target, state)
    for i in range(theta.size):
        gradient[i] = state.log_prior_gradient[i] + state.log_likelihood_gradient[i]
    return state.terms[0] + state.terms[1]


@njit(nogil=True, cache=True)
def likelihood_slope_of(target, theta, gradient):
    """Return ℓ of a continuous θ, and write its gradient."""
    state = make_state(theta.size, theta.size)
    copy_vector(theta, state.theta)
    evaluate(target, state)
    copy_vector(state.log_likelihood_gradient, gradient)
    return state.terms[1]


@njit(nogil=True, cache=True)
def terms_of(target, thetas, terms):
    """Write log p and ℓ of every row of ``thetas`` to ``terms``, of shape (rows, 2)."""
    size = thetas.shape[1]
    state = make_state(size, size - target.categories.size)
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate_terms(target, state)
        copy_vector(state.terms, terms[j])


@njit(nogil=True, cache=True)
def slopes_of(target, thetas, values, gradients):
    """Write log p + ℓ of every row of continuous θ to ``values``, and their gradients."""
    for j in range(len(thetas)):
        values[j] = slope_of(target, thetas[j], gradients[j])
