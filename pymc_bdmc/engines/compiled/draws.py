"""Runs that need no annealing: importance sampling from a reference near the posterior."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Point, Run, Tuning
from pymc_bdmc.engines.compiled.counted import Counted
from pymc_bdmc.engines.compiled.improving import log_weights_at
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.defensive import Defensive
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.reference.student import AnyReference
from pymc_bdmc.run.tasks import MOST_VARIANCE

REMEMBERED, MARGIN = 1e-3, 2.0
"""Share of its start that a burn-in may remember, and the factor by which the largest weight may
exceed the largest one seen. Chosen."""
EVEN_WEIGHTS = 3.0
"""Largest weight over the mean weight with which a burn-in is shortened. Measured on twelve models,
three seeds each: posterior draws then remember at most 1e-5 after the moves made. With a largest
weight of 4 to 25, that of more draws can be 20 times as large, and 100 moves may not be enough."""
MOST_TAME_VARIANCE = 64.0
"""Largest relative variance of the weights of a good nested or defensive fit. The tails of these
weights are known to be light, and more draws are cheaper than annealing."""


@dataclass(frozen=True, eq=False)
class DrawTuning(Tuning):
    """Tuning of runs with T = 1 that weigh draws from a reference, which no kernel moves.

    ℓ is g = log p + ℓ − log r, and a move is an evaluation of a draw and its weight.
    """

    @property
    def is_nested(self) -> bool:
        """Return whether draws are normal in the latent variables, so that they reach necks."""
        return isinstance(core_of(self.reference), NestedReference)

    @property
    def knows_tails(self) -> bool:
        """Return whether the structure of the model says how heavy the tails must be."""
        return _is_tame(self.reference)

    def shortened(self, burn_in: int) -> int:
        """Return as many Metropolis moves as leave `REMEMBERED` of a start, or the given number.

        Each move forgets the start with at least the probability of the mean weight over the
        largest one: Mengersen and Tweedie (1996). That is known only if weights are even.
        """
        g = self.prior_log_likelihood
        largest = np.exp(g.max() - logsumexp(g)) * len(g)
        if largest > EVEN_WEIGHTS:
            return burn_in
        moves = np.log(REMEMBERED) / np.log1p(-1 / (MARGIN * largest))
        return min(burn_in, int(np.ceil(moves)))


def most_variance(reference: AnyReference) -> float:
    """Return the largest relative variance of weights with which a reference may be used."""
    return MOST_TAME_VARIANCE if _is_tame(reference) else MOST_VARIANCE


def _is_tame(reference: AnyReference) -> bool:
    """Return whether the structure of the model says how heavy the tails must be."""
    return isinstance(reference, Defensive | NestedReference | AnnealedReference)


def core_of(reference: AnyReference) -> AnyReference:
    """Return the mixture or the nested reference that another reference contains."""
    if isinstance(reference, Defensive | AnnealedReference):
        return reference.reference
    return reference


def settled(
    theta: np.ndarray,
    reference: AnyReference,
    density: Counted,
    n: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Return a state after n Metropolis moves to draws from the reference, at β = 1.

    Also return an estimate of at most how far it is from the posterior (`distance_after`).
    """
    new, log_r = reference.sample(n, rng, density)
    thetas = np.concatenate([theta[None], new])
    log_r = np.concatenate([reference.log_density(thetas[:1], density, rng), log_r])
    g, place = log_weights_at(thetas, log_r, density), 0
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        for k, limit in enumerate(np.log(rng.random(n)), start=1):
            place = k if g[k] - g[place] >= limit else place
    return thetas[place], distance_after(n, g[0], g[1:])


def distance_after(n: int, start: float, g: np.ndarray) -> float:
    """Estimate a bound on the total variation from the posterior after n Metropolis moves.

    Couple the chain with one that starts from the posterior, with the same proposals and the same
    uniform numbers. If the state with the larger weight moves, so does the other one, and both are
    equal from then on. Until then that state stays, so it moves with the same probability each
    time.

    Parameters
    ----------
    n : int
    start : float
        g = log p + ℓ − log r at the start, nats.
    g : ndarray of shape (N,)
        The same at draws from r. They and the start stand for the posterior, by weight.
    """
    both = np.append(g, start)
    both = both[both > -np.inf]
    if n == 0 or both.size == 0:
        return 1.0
    larger = np.maximum(both, start)
    moves = np.exp(np.minimum(g - larger[:, None], 0)).mean(axis=1)
    return float(softmax(both) @ (1 - moves) ** n)


def weigh(g: np.ndarray, ends: Point, evaluations: int, of_start: Mapping[str, float]) -> Run:
    """Return a run with T = 1 whose particles are weighed and do not move.

    Parameters
    ----------
    g : ndarray of shape (N,)
        log p + ℓ − log r at draws from r, nats; −∞ if the model is impossible there. In a reverse
        run the first one belongs to θ*.
    ends : Point
        The draws by variable.
    evaluations : int
        Number of evaluations of log p + ℓ.
    of_start : mapping of str to float
        See `Run`.
    """
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


def log_e_value(weights: np.ndarray) -> float:
    """Return the log of an e-value against the first of several particles as a posterior sample.

    If it is one, and the others are draws from r, then given all of them it is each one with a
    probability equal to its normalised weight. A bet that names other probabilities has an
    expectation of 1: equal ones gain if the particle lies too far out, and those in proportion to
    the squared weight if it lies where r has too little mass. This is the mean of both.
    """
    first = weights[0]
    with np.errstate(divide="ignore"):
        bets = 1 / (weights.size * first), first / np.sum(weights**2)
    return float(np.log(np.mean(bets)))
