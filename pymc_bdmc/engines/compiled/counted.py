"""log p + ℓ on given data, as Python functions that count their calls and can be stopped."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from scipy.special import chdtri

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.kernels.state import copy_vector, evaluate, make_state
from pymc_bdmc.reference.student import Slopes

UNLIKELY, FEW_ELEMENTS = 0.1, 5
"""States too unlikely to judge a fit by: this share of a normal posterior of at most so many
elements. Chosen: with 61 elements, the 10 % cut lies 38 nats below the top, and climbs of logistic
regressions pass states there that no fit needs to cover."""
TIMED = 32
"""Number of calls that are timed. To read the clock of a thread can take longer than a call."""


class Stopped(Exception):
    """An engine was stopped."""


class Counted:
    """log p + ℓ of a problem, with the number of its evaluations and the CPU seconds of one.

    Every evaluation raises `Stopped` once Ctrl-C has set the problem's flag.

    Parameters
    ----------
    problem : Problem
        A path from the prior.
    """

    def __init__(self, problem: Problem):
        self._problem, self.draw_prior, self.climbing = problem, problem.draw, problem.climbing
        self._passed: list[tuple[np.ndarray, float]] = []
        self.evaluations, self._is_conditional = 0, False
        self._seconds: list[float] = []

    @property
    def seconds(self) -> float:
        """Return the CPU seconds of an evaluation, the least of all calls; NaN before any.

        Calls for few states take longer for each, since to read the clock takes time too.
        """
        return min(self._seconds, default=np.nan)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p + ℓ and its gradient, zeros if it has none."""
        (value,), (gradient,) = self.slopes(theta[None])
        self._passed.append((theta.copy(), value))
        return float(value), gradient

    def likelihood(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return ℓ and its gradient."""
        (value,), (gradient,) = self.slopes(theta[None], whole=False)
        return float(value), gradient

    def most_likely_passed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the likely states that climbs passed, and log p + ℓ there, nats.

        States of this density hold all but `UNLIKELY` of the mass of a normal posterior of few
        elements. A climb moves along a curve. If it passes states as unlikely as those of many
        elements together, these are far in a tail, where no fit needs to be good.
        """
        if not self._passed:
            return np.empty((0, 0)), np.empty(0)
        thetas, heights = map(np.array, zip(*self._passed, strict=True))
        few = min(thetas.shape[1], FEW_ELEMENTS)
        likely = heights >= heights.max() - chdtri(few, UNLIKELY) / 2
        return thetas[likely], heights[likely]

    @contextmanager
    def _counting(self, n: int) -> Iterator[None]:
        if self._problem.stop[0]:
            raise Stopped
        self.evaluations += n
        is_timed = n > 0 and len(self._seconds) < TIMED
        started = time.thread_time() if is_timed else np.nan
        yield
        if is_timed:
            self._seconds.append((time.thread_time() - started) / n)

    def terms(self, thetas: np.ndarray) -> np.ndarray:
        """Return log p and ℓ of every row, shape (rows, 2), nats."""
        with self._counting(len(thetas)):
            return self._problem.terms(thetas)

    def slopes(self, thetas: np.ndarray, *, whole: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return log p + ℓ of every row, shape (rows,), nats, and its gradient; or ℓ alone."""
        values, gradients = np.empty(len(thetas)), np.empty(thetas.shape)
        with self._counting(len(thetas)):
            rows = np.ascontiguousarray(thetas)
            slopes_of(self._problem.target, rows, whole, values, gradients)
        return values, gradients

    def slopes_in(self, latent: np.ndarray) -> Slopes:
        """Return a function like `slopes`, with gradients in some elements of θ and zeros else.

        What depends on the other elements alone is computed once for rows in which these are equal.
        """
        conditional = self._problem.jitted.conditional(latent)
        if conditional is None:
            return self.slopes
        if not self._is_conditional:
            self._is_conditional, self._seconds = True, []
        others = np.setdiff1d(np.arange(self._problem.jitted.size), latent)

        def slopes(thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values, gradients = np.empty(len(thetas)), np.empty(thetas.shape)
            with self._counting(len(thetas)):
                rows, target = np.ascontiguousarray(thetas), self._problem.target
                conditional_slopes(conditional, target, rows, others, values, gradients)
            return values, gradients

        return slopes


@njit(nogil=True, cache=True)
def slopes_of(target, thetas, whole, values, gradients):
    """Write log p + ℓ of every row of continuous θ, or ℓ alone, and the gradients."""
    size = thetas.shape[1]
    state = make_state(size, size)
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate(target, state)
        values[j] = state.terms[1]
        copy_vector(state.log_likelihood_gradient, gradients[j])
        if whole:
            values[j] += state.terms[0]
            for i in range(size):
                gradients[j, i] += state.log_prior_gradient[i]


@njit(nogil=True, cache=True)
def conditional_slopes(conditional, target, thetas, others, values, gradients):
    """Write log p + ℓ of every row of θ, and the gradients, by a density in two parts."""
    size, data, interval = thetas.shape[1], target.data, target.interval
    first = np.empty((2, conditional.held))
    longer = np.empty(size + conditional.held)
    second = np.empty((2, size))
    for j in range(len(thetas)):
        is_new = j == 0
        for i in others:
            is_new |= thetas[j, i] != thetas[j - 1, i]
        if is_new:
            failed, _ = conditional.first(thetas[j], data, interval, first[0], first[1])
            copy_vector(first[0], longer[size:])
        copy_vector(thetas[j], longer)
        log_prior, ell = conditional.second(longer, data, interval, second[0], second[1])
        value = log_prior + ell + failed
        values[j] = -np.inf if np.isnan(value) else value
        for i in range(size):
            gradients[j, i] = second[0, i] + second[1, i]
