"""Runs that need no annealing: importance sampling from a reference near the posterior."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.types import Point, Population, Run
from pymc_bdmc.engines.compiled.loops import slope_of, terms_of
from pymc_bdmc.engines.compiled.pilot import (
    FEW_MEMBERS,
    ITERATIONS,
    DrawTuning,
    MoveStage,
    tune_at_the_end,
)
from pymc_bdmc.engines.compiled.tops import fit_to_tops
from pymc_bdmc.engines.tasks import Fit
from pymc_bdmc.estimators import pareto_shape
from pymc_bdmc.kernels.metric import Metric, deviations, metric_of
from pymc_bdmc.kernels.reference import (
    DEGREES_OF_FREEDOM,
    Reference,
    draw_reference,
    log_reference,
    make_reference,
    mix_references,
    parts_of,
)
from pymc_bdmc.kernels.state import Target

__all__ = ["FEW_PRIOR_STATES", "PRIOR_STATES", "Counted", "find_fit", "weigh"]

MOST_ELEMENTS = 500
"""Most elements of θ, whose curvature takes about two gradients for each."""
CLIMBS, FEW_CLIMBS = 16, 4
"""Fewest climbs from prior draws on a first data set, and on those like it: the chance that all end
at the same of two tops with equal basins is 3e-5."""
PRIOR_STATES, FEW_PRIOR_STATES = 256, 64
"""Prior draws among which a fit looks for what it misses; those at hand on further data."""
CHECKED = 128
"""Draws by which a fit is judged."""
MOST_VARIANCE = 10.0
"""Largest relative variance of the weights of draws."""
HEAVY = 1.0
"""Largest Pareto k of these weights, above which they would have no mean."""
UNEVEN, IMPROVING, IMPROVEMENTS = 2.0, 512, 2
"""Relative variance from which a fit is improved, by so many draws, so many times at most."""
RARE, MISSED = 3.0, 0.01
"""Nats by which log r lies below the log posterior where r misses it, and the share of the
posterior there, by prior draws, from which a fit is not used."""


class Counted:
    """log p + ℓ on given data, and how often it was evaluated."""

    def __init__(self, target: Target):
        self._target = target
        self.evaluations = 0

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p + ℓ and its gradient."""
        self.evaluations += 1
        gradient = np.empty(len(theta))
        return slope_of(self._target, np.ascontiguousarray(theta), gradient), gradient

    def terms(self, thetas: np.ndarray) -> np.ndarray:
        """Return log p and ℓ of every row, shape (rows, 2), nats."""
        self.evaluations += len(thetas)
        terms = np.empty((len(thetas), 2))
        terms_of(self._target, np.ascontiguousarray(thetas), terms)
        return terms


def find_fit(
    density: Counted,
    prior: np.ndarray,
    known: DrawTuning | None,
    given: Reference | None,
    move: MoveStage,
    rng: np.random.Generator,
) -> Fit | None:
    """Find a reference from which draws need no annealing; see `Fit`.

    A t distribution is laid at every top that climbs come to. Then draws from it are weighed: their
    weights must be even enough, and hardly any of the posterior may lie where prior draws find it
    and the reference does not.

    Parameters
    ----------
    density : Counted
    prior : ndarray of shape (P, n)
        Prior draws.
    known : DrawTuning or None
        Tuning on other, similar data: climbs start at its tops too, and its step size is kept.
    given : Reference or None
        A reference to be judged, in place of a fit.
    move : callable
        Function as in `pilot`, which tunes the kernel at β = 1.
    rng : numpy.random.Generator

    Returns
    -------
    Fit or None
        None if it was stopped.
    """

    def failed(reason: str) -> Fit:
        return Fit(None, reason, np.inf, density.evaluations)

    n = prior.shape[1]
    if given is not None:
        reference, reason = given, "fitted to draws"
    elif n > MOST_ELEMENTS:
        return failed(f"θ has more than {MOST_ELEMENTS} elements")
    elif known is None:
        found, reason = fit_to_tops(
            density, prior, _shape(prior), DEGREES_OF_FREEDOM, climbs=CLIMBS
        )
    else:
        like = known.reference
        assert like is not None, "it was fitted"
        starts = chain(like.locations, prior)
        shape = Metric(like.scales[0], like.directions[0], like.excesses[0])
        climbs = len(like.locations) + FEW_CLIMBS
        found, reason = fit_to_tops(density, starts, shape, like.degrees_of_freedom, climbs)
    if given is None:
        if found is None:
            return failed(reason)
        reference = found
    drawn = _weighted(density, reference, CHECKED, rng)
    if drawn.variance > UNEVEN:
        drawn = min(drawn, _improved(density, drawn, rng), key=lambda each: each.variance)
    thetas, g, reference, variance = drawn.thetas, drawn.g, drawn.reference, drawn.variance
    if not variance <= MOST_VARIANCE:
        return failed(f"weights of draws from a fit have a relative variance of {variance:.2g}")
    weights = softmax(g)
    if known is None:
        tail = pareto_shape(weights)
        if tail > HEAVY:
            return failed(f"weights of draws from a fit have no mean, by a Pareto k of {tail:.2g}")
        missed = _missed(density, prior, reference, logsumexp(g) - np.log(CHECKED))
        if missed > MISSED:
            return failed(f"{missed:.0%} of the posterior lies where a fit has hardly any draws")
    cost, seen = density.evaluations, g[g > -np.inf]
    means = np.array([seen.mean(), weights[weights > 0] @ g[weights > 0]])
    if known is None:
        tuned = tune_at_the_end(thetas, weights, reference, move, rng)
        if tuned is None:
            return None
        table, acceptance, gradients, seconds = tuned
        cost += round(gradients * FEW_MEMBERS * ITERATIONS)
        known = DrawTuning(
            np.ones(1), table, np.array([acceptance]), np.array([0.0, 1.0]), means, seen, cost,
            reference, None, np.nan, g, seconds_a_move=seconds, gradients_a_move=gradients,
        )  # fmt: skip
    tuning = replace(
        known.adapted_to(reference), mean_log_likelihood=means, prior_log_likelihood=seen,
        last_log_likelihood=g, gradient_evaluations=cost,
    )  # fmt: skip
    share = 1 / (1 + variance)
    reason += f"; draws from a fit there are worth {share:.0%} of as many from the posterior"
    return Fit(tuning, reason, variance, cost)


class _Drawn(NamedTuple):
    """Draws from a reference with g = log p + ℓ − log r, and the relative variance of weights."""

    reference: Reference
    thetas: np.ndarray
    g: np.ndarray
    variance: float


def _weighted(density: Counted, reference: Reference, n: int, rng: np.random.Generator) -> _Drawn:
    """Return n draws from the reference; the variance is infinite if log p is no number at one."""
    thetas = draw_reference(reference, n, rng)
    values = density.terms(thetas).sum(axis=1)
    if not (values < np.inf).all() or not (values > -np.inf).any():
        return _Drawn(reference, thetas, values, np.inf)
    g = values - log_reference(reference, thetas)
    return _Drawn(reference, thetas, g, n * float((softmax(g) ** 2).sum()) - 1)


def _improved(density: Counted, drawn: _Drawn, rng: np.random.Generator) -> _Drawn:
    """Return draws from t distributions with the moments of weighted draws, if these suffice.

    Every component takes the draws that are likely to be its own: population Monte Carlo (Cappé,
    Douc, Guillin, Marin and Robert 2008). Weights are truncated at √S times their mean (Ionides
    2008).
    """
    n, n_parts = drawn.thetas.shape[1], len(drawn.reference.locations)
    for _ in range(IMPROVEMENTS):
        more = _weighted(density, drawn.reference, IMPROVING, rng)
        weights = softmax(more.g) if more.variance < np.inf else np.zeros(IMPROVING)
        weights = np.minimum(weights, IMPROVING**-0.5)
        worth = weights.sum() ** 2 / max(weights @ weights, 1e-300)
        if not worth >= n_parts * n * (n + 3):
            break
        thetas, own = more.thetas, parts_of(more.reference)
        shares = softmax([log_reference(part, thetas) for part in own], axis=0)
        parts = []
        for share in shares * weights:
            share /= share.sum()
            mean = share @ thetas
            covariance = (share * (thetas - mean).T) @ (thetas - mean)
            metric = metric_of(covariance)
            parts.append(make_reference(mean, metric, drawn.reference.degrees_of_freedom))
        better = _weighted(density, mix_references(parts), len(drawn.g), rng)
        if not better.variance < drawn.variance:
            break
        drawn = better
    return drawn


def _shape(prior: np.ndarray) -> Metric:
    """Return the spread of prior draws; that of their middle half, since tails may be heavy."""
    n = prior.shape[1]
    low, high = np.quantile(prior, [0.25, 0.75], axis=0)
    inner = np.clip(prior, low - (high - low), high + (high - low))
    return Metric(
        deviations(inner, np.full(len(prior), 1 / len(prior))), np.zeros((0, n)), np.zeros(0)
    )


def _missed(density: Counted, prior: np.ndarray, reference: Reference, log_ml: float) -> float:
    """Estimate, by prior draws, the share of the posterior where the reference has little mass."""
    log_prior, ells = density.terms(prior).T
    with np.errstate(invalid="ignore", over="ignore"):
        rare = log_prior + ells - log_ml - log_reference(reference, prior) > RARE
        return float(np.exp(np.where(rare, ells - log_ml, -np.inf)).mean())


def weigh(g: np.ndarray, ends: Point, evaluations: int) -> Run:
    """Return a run with T = 1 whose particles are weighed and do not move.

    Parameters
    ----------
    g : ndarray of shape (N,)
        log p + ℓ − log r at draws from r, nats; −∞ where the model is impossible. In a reverse run
        the first is at θ*.
    ends : Point
        The draws by variable.
    evaluations : int
        Of log p + ℓ, with or without gradients.
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
        Population(sizes, np.zeros(2, dtype=bool), n),
        1,
    )
