"""Importance sampling from a reference near the posterior, which needs no annealing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Point, Run, Tuning
from pymc_bdmc.fits import limits
from pymc_bdmc.reference.contract import AnyReference, Density

REMEMBERED = 1e-3
"""Share of its start that a burn-in may remember. Chosen."""


class Drawn[R: AnyReference](NamedTuple):
    """Draws from a reference, with their importance weights."""

    reference: R
    thetas: ndarray
    g: ndarray
    """Log weights log p + ℓ − log r, nats."""
    variance: float
    """Relative variance of the weights."""
    evaluations: int
    """Evaluations of log p + ℓ that the draws and their weights took."""


def draw_weighted[R: AnyReference](
    density: Density, reference: R, n: int, rng: Generator
) -> Drawn[R]:
    """Return n draws from the reference; the variance is infinite if all are impossible."""
    before = density.evaluations
    thetas, log_r = reference.sample(n, rng, density)
    g, variance = log_weights_at(thetas, log_r, density), np.inf
    evaluations = density.evaluations - before
    if (g > -np.inf).any():
        variance = n * float((softmax(g) ** 2).sum()) - 1
    return Drawn(reference, thetas, g, variance, evaluations)


def log_weights_at(thetas: ndarray, log_r: ndarray, density: Density) -> ndarray:
    """Return g = log p + ℓ − log r at draws from r, nats; −∞ if impossible, or log r unknown."""
    log_f = density.terms(thetas).sum(axis=1)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        return np.where((log_f == -np.inf) | ~(log_r < np.inf), -np.inf, log_f - log_r)


@dataclass(frozen=True, eq=False)
class DrawTuning(Tuning):
    """Tuning of runs with T = 1, of draws from a reference with importance weights and no kernel.

    ℓ is g = log p + ℓ − log r, and a move is an evaluation of a draw and its weight.
    """

    is_conclusive: bool = True
    """Whether all searches on the first data set ended at the same mode, with nothing wider."""

    @property
    def is_nested(self) -> bool:
        """Whether draws are normal in the latent variables, so that they reach necks."""
        return self.reference.core.knows_tails

    def shortened(self, burn_in: int) -> int:
        """Return as many Metropolis moves as leave `REMEMBERED` of a start, or the given number.

        Each move forgets the start with at least the probability of the mean weight over the
        largest one: Mengersen and Tweedie (1996). That is known only if weights are even.
        """
        g = self.prior_log_likelihood
        largest = np.exp(g.max() - logsumexp(g)) * len(g)
        if largest > limits.EVEN_WEIGHTS:
            return burn_in
        # The largest weight of all may be twice the largest one seen.
        moves = np.log(REMEMBERED) / np.log1p(-1 / (2.0 * largest))
        return min(burn_in, int(np.ceil(moves)))


def metropolis(
    theta: ndarray, reference: AnyReference, density: Density, n: int, rng: Generator
) -> tuple[ndarray, float]:
    """Return a state after n Metropolis moves to draws from r at β = 1; and `distance_after`."""
    new, log_r = reference.sample(n, rng, density)
    thetas = np.concatenate([theta[None], new])
    log_r = np.concatenate([reference.log_density(thetas[:1], density, rng), log_r])
    g, place = log_weights_at(thetas, log_r, density), 0
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        for k, limit in enumerate(np.log(rng.random(n)), start=1):
            place = k if g[k] - g[place] >= limit else place
    return thetas[place], distance_after(n, g[0], g[1:])


def distance_after(n: int, start: float, g: ndarray) -> float:
    """Estimate a bound on the total variation from the posterior after n Metropolis moves.

    Draws from r, whose log weights are g, and the start stand for the posterior, by weight. Couple
    the chain with one from the posterior, with the same proposals and uniform numbers. If the state
    with the larger weight moves, so does the other, and both are equal from then on. Until then
    that state stays, so it moves with the same probability each time.
    """
    both = np.append(g, start)
    both = both[both > -np.inf]
    if n == 0 or both.size == 0:
        return 1.0
    larger = np.maximum(both, start)
    moves = np.exp(np.minimum(g - larger[:, None], 0)).mean(axis=1)
    return float(softmax(both) @ (1 - moves) ** n)


def importance_run(g: ndarray, ends: Point, evaluations: int, of_start: Mapping[str, float]) -> Run:
    """Return a run with T = 1 of particles with log weights g; in reverse the first is θ*."""
    n, weights, possible = len(g), softmax(g), g > -np.inf
    sizes = np.array([float(n), 1 / (weights @ weights)])
    return Run(
        float(logsumexp(g) - np.log(n)),
        np.array([g.mean(), weights[possible] @ g[possible]]),
        np.full((2, 2), np.nan),
        np.zeros(2, dtype=int),
        evaluations,
        ends,
        weights,
        sizes,
        np.zeros(2, dtype=bool),
        n,
        1,
        of_start=of_start,
    )


def log_e_value(weights: ndarray) -> float:
    """Return the log of an e-value against the first of several particles as a posterior sample.

    If it is one, and the others are draws from r, then given all of them it is each one with its
    normalised weight as probability. A bet on other probabilities has an expectation of 1: equal
    ones gain if the particle lies too far out, and those in proportion to the squared weight if r
    has too little mass there. This is the mean of both.
    """
    first = weights[0]
    with np.errstate(divide="ignore"):
        bets = 1 / (weights.size * first), first / np.sum(weights**2)
    return float(np.log(np.mean(bets)))
