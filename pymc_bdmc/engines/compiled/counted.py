"""log p + ℓ on given data, as Python functions that count their calls and can be stopped."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy import ndarray
from numpy.random import Generator

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.kernels.state import copy_vector, evaluate, make_state
from pymc_bdmc.reference.contract import Density, Slopes
from pymc_bdmc.run.loop import Stopped


class Counted(Density):
    """log p + ℓ of a problem whose path starts at the prior.

    Every evaluation raises `Stopped` once Ctrl-C has set the problem's flag.
    """

    evaluations = 0
    seconds = np.nan

    def __init__(self, problem: Problem):
        super().__init__()
        self._problem, self.has_gradient = problem, problem.has_gradient
        self._is_conditional, self._n_timed = False, 0

    def draw_prior(self, n: int, rng: Generator) -> ndarray:
        """Draw θ from the prior, one a row."""
        return self._problem.draw(n, rng)

    def likelihood(self, theta: ndarray) -> tuple[float, ndarray]:
        """Return ℓ and its gradient."""
        (value,), (gradient,) = self.slopes(theta[None], whole=False)
        return float(value), gradient

    @contextmanager
    def _counting(self, n: int) -> Iterator[None]:
        """Count n evaluations, and time the first calls: to read the clock can take longer.

        The least time counts, since calls for few states take longer for each.
        """
        if self._problem.stop[0]:
            raise Stopped
        self.evaluations += n
        is_timed = n > 0 and self._n_timed < 32
        started = time.thread_time() if is_timed else np.nan
        yield
        if is_timed:
            self.seconds = np.fmin(self.seconds, (time.thread_time() - started) / n)
            self._n_timed += 1

    def terms(self, thetas: ndarray) -> ndarray:
        """Return log p and ℓ of every row, shape (rows, 2)."""
        with self._counting(len(thetas)):
            return self._problem.terms(thetas)

    def slopes(self, thetas: ndarray, *, whole: bool = True) -> tuple[ndarray, ndarray]:
        """Return log p + ℓ of every row, shape (rows,), and its gradient; or ℓ alone."""
        values, gradients = np.empty(len(thetas)), np.empty(thetas.shape)
        with self._counting(len(thetas)):
            rows = np.ascontiguousarray(thetas)
            slopes_of(self._problem.target, rows, whole, values, gradients)
        return values, gradients

    def slopes_in(self, latent: ndarray) -> Slopes:
        """Return a function like `slopes`, with gradients in some elements of θ and zeros else.

        What depends on the other elements alone is computed once for rows in which these are equal.
        """
        conditional = self._problem.jitted.conditional(latent)
        if conditional is None:
            return self.slopes
        if not self._is_conditional:
            self._is_conditional, self.seconds, self._n_timed = True, np.nan, 0
        others = np.setdiff1d(np.arange(self._problem.jitted.size), latent)

        def slopes(thetas: ndarray) -> tuple[ndarray, ndarray]:
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
