"""Runs that need no annealing: importance sampling from a reference near the posterior."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtri, logsumexp, softmax

from pymc_bdmc.base.types import Point, Population, Run
from pymc_bdmc.engines.compiled.loops import slope_of, terms_of
from pymc_bdmc.engines.compiled.tops import BY_GRADIENTS, Climbing, fit_to_tops
from pymc_bdmc.engines.tasks import MOST_VARIANCE, Fit
from pymc_bdmc.estimators import pareto_shape
from pymc_bdmc.kernels.metric import Metric, deviations, metric_of
from pymc_bdmc.kernels.reference import (
    MOST_DEGREES,
    Reference,
    draw_reference,
    log_reference,
    make_reference,
    metric_at,
    mix_references,
    parts_of,
    with_degrees,
)
from pymc_bdmc.kernels.state import Target

__all__ = [
    "FEW_PRIOR_STATES",
    "PRIOR_STATES",
    "Counted",
    "DrawTuning",
    "Stopped",
    "first_fit",
    "further_fit",
    "log_weights_at",
    "moved",
    "settled",
    "weigh",
]

CLIMBS, FEW_CLIMBS = 16, 4
"""Fewest climbs from prior draws on a first data set, where the chance that all end at the same of
two tops with equal basins is 3e-5; and for each top of it on those like it."""
OVERLOOKED = 1e-3
"""Largest chance, on a first data set, that one top more than were found, with as large a basin, is
overlooked: 16 climbs for one top, 20 for two, 48 for five and 58 for six."""
PRIOR_STATES, FEW_PRIOR_STATES = 256, 64
"""Prior draws among which a fit looks for what it misses; those at hand on further data."""
CHECKED = 128
"""Draws by which a fit is judged."""
HEAVY = 1.0
"""Largest Pareto k of these weights, above which they would have no mean."""
UNEVEN, IMPROVEMENTS, IMPROVING = 0.3, 4, (512, 2048)
"""Relative variance from which a fit is improved, so many times at most, by the draws at hand or,
if these are too few, by so many."""
RARE, MISSED = 3.0, 0.03
"""Nats by which log r lies below the log posterior where r misses it, and the share of the
posterior there, by prior draws, from which a fit is not used."""
UNLIKELY, MOST_SURPLUS = 0.1, 5.0
"""Share of a normal posterior at states too unlikely for a fit to be judged there by what climbs
passed, and the nats by which g may be larger at the others than at any draw from the fit. Measured
on thin ridges (6 nats or more) and on models of which a normal mixture is a good fit (below 3)."""
NEGLIGIBLE = 10.0
"""Nats below the mean weight at which a draw does not count, whatever its likelihood."""


@dataclass(frozen=True, eq=False)
class DrawTuning:
    """Tuning of runs with T = 1 that weigh draws from a reference, which no kernel moves.

    Attributes
    ----------
    reference : Reference
    mean_log_likelihood : ndarray of shape (2,)
        Means of g = log p + ℓ − log r under r and under the posterior, nats.
    prior_log_likelihood : ndarray of shape (S,)
        g > −∞ at draws from r, nats.
    gradient_evaluations : int
        Cost of the fit.
    seconds_a_move : float
        CPU seconds of an evaluation of log p + ℓ.
    """

    reference: Reference
    mean_log_likelihood: np.ndarray
    prior_log_likelihood: np.ndarray
    gradient_evaluations: int
    seconds_a_move: float = field(default=np.nan, compare=False)
    path_betas: ClassVar[np.ndarray] = np.array([0.0, 1.0])
    accepted_draws: ClassVar[int] = 1
    gradients_a_move: ClassVar[float] = 1.0
    rhat: ClassVar[float] = np.nan
    last_log_likelihood: ClassVar[np.ndarray] = np.empty(0)
    fit: ClassVar[None] = None
    peaks: ClassVar[int] = 0
    weighs_draws: ClassVar[bool] = True

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return NaN at each β."""
        return np.full(len(betas), np.nan)


class Stopped(Exception):
    """An engine was stopped."""


class Counted:
    """log p + ℓ on given data, with the number of its evaluations and the CPU seconds of one.

    Parameters
    ----------
    target : Target
    stop : ndarray of shape (1,)
        Set by Ctrl-C; the next evaluation raises `Stopped` then.
    climbing : Climbing
        How its tops are found; `BY_VALUES` if it has no gradient.
    """

    def __init__(self, target: Target, stop: np.ndarray, climbing: Climbing = BY_GRADIENTS):
        self._target, self._stop, self.climbing = target, stop, climbing
        self.evaluations = 0
        self._seconds: list[float] = []
        self._passed: list[tuple[np.ndarray, float]] = []

    @property
    def seconds(self) -> float:
        """Return the median over calls, of which the first may compile; NaN before it."""
        return float(np.median(self._seconds)) if self._seconds else np.nan

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p + ℓ and its gradient, zeros if it has none."""
        self._count(1)
        gradient, started = np.zeros(len(theta)), time.thread_time()
        value = slope_of(self._target, np.ascontiguousarray(theta), gradient)
        self._seconds.append(time.thread_time() - started)
        self._passed.append((theta.copy(), value))
        return value, gradient

    def most_likely_passed(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the states that climbs passed among the most likely, and log p + ℓ there, nats.

        A normal posterior has all but `UNLIKELY` of its mass at states of such a density.
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


def first_fit(
    density: Counted,
    prior: np.ndarray,
    given: Reference | None,
    rng: np.random.Generator,
    degrees_of_freedom: float | None = None,
) -> Fit:
    """Find a reference from which draws need no annealing; see `Fit`.

    A t distribution is laid at every top that climbs come to. Then draws from it are weighed: their
    weights must be even enough, and hardly any of the posterior may lie where prior draws find it
    and the reference does not.

    Parameters
    ----------
    density : Counted
    prior : ndarray of shape (P, n)
        Prior draws.
    given : Reference or None
        A reference that is taken in place of a fit, if it is good enough.
    rng : numpy.random.Generator
    degrees_of_freedom : float, optional
        Degrees of freedom of a fit, if they were chosen.
    """
    known = ""

    def failed(reason: str) -> Fit:
        return Fit(None, known + reason, np.inf, density.evaluations, bool(known))

    log_prior, ells = terms = density.terms(prior).T
    if not (log_prior + ells < np.inf).all() or not len(prior):  # also for NaN
        return failed("log p is NaN or +∞ at some prior draws")
    if given is not None:
        fit = _judged(density, given, "fitted to the draws that were given", prior, terms, rng)
        if fit.tuning is not None:
            return fit
        known = f"a fit to the draws that were given is far from the posterior ({fit.reason}); "
    if prior.shape[1] > (most := density.climbing.most_elements):
        return failed(f"θ has more than {most} elements")
    starts, shape = _starts(prior, ells, CLIMBS), _shape(prior)
    tops = fit_to_tops(
        density, starts, shape, CLIMBS, degrees_of_freedom, OVERLOOKED, density.climbing
    )
    if tops.reference is None or not tops.is_all:
        return failed(tops.reason)
    fit = _judged(density, tops.reference, tops.reason, prior, terms, rng)
    return fit._replace(reason=known + fit.reason, refuses_draws=bool(known))


def _judged(
    density: Counted,
    reference: Reference,
    reason: str,
    prior: np.ndarray,
    terms: np.ndarray,
    rng: np.random.Generator,
) -> Fit:
    """Return the fit, improved by its own draws; without a tuning if these need annealing.

    Parameters
    ----------
    terms : ndarray of shape (2, P)
        log p and ℓ of the prior draws.
    """

    def failed(reason: str) -> Fit:
        return Fit(None, reason, np.inf, density.evaluations)

    drawn = _improved(density, _weighted(density, reference, CHECKED, rng), rng)
    if not drawn.variance <= MOST_VARIANCE:
        return failed(
            f"weights of draws from a fit have a relative variance of {drawn.variance:.2g}"
        )
    tail = pareto_shape(np.exp(drawn.g - drawn.g.max()))
    if tail > HEAVY:
        return failed(f"weights of draws from a fit may have no mean (Pareto k = {tail:.2g})")
    missed = _missed(drawn, prior, *terms)
    if missed > MISSED:
        part = f"{min(missed, 1):.0%} of the posterior"
        return failed(f"weighted prior draws put {part} where a fit has almost no probability")
    surplus = _surplus(density, drawn)
    if surplus > MOST_SURPLUS:
        return failed(
            "optimisations passed likely states where a fit has almost no probability (its density "
            f"there is {surplus:.2g} nats too low)"
        )
    share = 1 / (1 + drawn.variance)
    reason += f"; draws from the fit have a relative effective sample size of {share:.0%}"
    return _fit(density, drawn, reason)


def further_fit(
    density: Counted, prior: np.ndarray, known: DrawTuning, rng: np.random.Generator
) -> Fit:
    """Fit a reference to data like those of a known tuning.

    Climbs start at the known tops, and at some prior draws. The fit fails if they came to no top,
    or may have missed one. It is judged less than a first one: the runs on these data show what it
    misses.

    Parameters
    ----------
    density : Counted
    prior : ndarray of shape (P, n)
        Prior draws.
    known : DrawTuning
    rng : numpy.random.Generator
    """
    like = known.reference
    further = FEW_CLIMBS * len(like.locations)
    starts = chain(like.locations, _starts(prior, density.terms(prior)[:, 1], further))
    climbs, shape = len(like.locations) + further, metric_at(like, 0)
    tops = fit_to_tops(
        density, starts, shape, climbs, like.degrees_of_freedom, climbing=density.climbing
    )
    if tops.reference is None or not tops.is_all:
        return Fit(None, tops.reason, np.inf, density.evaluations)
    drawn = _improved(density, _weighted(density, tops.reference, CHECKED, rng), rng)
    if not drawn.variance < np.inf:
        return Fit(None, "log p is NaN or +∞ at a draw from a fit", np.inf, density.evaluations)
    return _fit(density, drawn, tops.reason)


def _fit(density: Counted, drawn: "_Drawn", reason: str) -> Fit:
    """Return the fit that draws show."""
    weights, seen = softmax(drawn.g), drawn.g > -np.inf
    means = np.array([drawn.g[seen].mean(), weights[seen] @ drawn.g[seen]])
    tuning = DrawTuning(drawn.reference, means, drawn.g[seen], density.evaluations, density.seconds)
    return Fit(tuning, reason, drawn.variance, density.evaluations)


class _Drawn(NamedTuple):
    """Draws from a reference with g = log p + ℓ − log r, and the relative variance of weights."""

    reference: Reference
    thetas: np.ndarray
    g: np.ndarray
    variance: float


def _weighted(density: Counted, reference: Reference, n: int, rng: np.random.Generator) -> _Drawn:
    """Return n draws from the reference; the variance is infinite if log p is no number at one."""
    thetas = draw_reference(reference, n, rng)
    g = log_weights_at(thetas, density, reference)
    if not (g < np.inf).all() or not (g > -np.inf).any():
        return _Drawn(reference, thetas, g, np.inf)
    return _Drawn(reference, thetas, g, n * float((softmax(g) ** 2).sum()) - 1)


def log_weights_at(thetas: np.ndarray, density: Counted, reference: Reference) -> np.ndarray:
    """Return g = log p + ℓ − log r at draws from r, nats.

    It is −∞ where the model is impossible; and where ℓ is NaN, if the prior density is so low that
    no likelihood of the other draws would make up for it. So a likelihood that overflows far from
    the posterior, where a t distribution still has draws, does no harm. Anywhere else NaN stays.
    """
    log_prior, ells = density.terms(thetas).T
    log_r = log_reference(reference, thetas)
    g, lost = log_prior + ells - log_r, np.isnan(ells)
    if lost.any() and not lost.all():
        most = log_prior + ells[~lost].max() - log_r
        mean = logsumexp(g[~lost]) - np.log(len(g))
        g[lost & (most < mean - NEGLIGIBLE)] = -np.inf
    return g


def _improved(density: Counted, drawn: _Drawn, rng: np.random.Generator) -> _Drawn:
    """Return draws from t distributions with even weights, as far as that is to be had.

    With many elements they first get as many degrees of freedom, if these were not chosen: lighter
    tails, with which the weights of a normal posterior are nearly even. Then they get the moments
    of the weighted draws, every component those of the draws that are likely to be its own:
    population Monte Carlo (Cappé, Douc, Guillin, Marin and Robert 2008). Either is done only where
    weights are uneven, and kept only if they become more even.
    """
    n = drawn.thetas.shape[1]
    if UNEVEN < drawn.variance < np.inf and drawn.reference.degrees_of_freedom == MOST_DEGREES < n:
        lighter = _weighted(density, with_degrees(drawn.reference, n), CHECKED, rng)
        drawn = min(drawn, lighter, key=lambda each: each.variance)
    for _ in range(IMPROVEMENTS):
        if not UNEVEN < drawn.variance < np.inf:
            break
        source, needed = drawn, len(drawn.reference.locations) * n * (n + 3)
        for size in IMPROVING:
            if _worth(source) < needed <= size / CHECKED * _worth(drawn):
                source = _weighted(density, drawn.reference, size, rng)
        if _worth(source) < needed:
            break
        better = _weighted(density, _matched(source), CHECKED, rng)
        if not better.variance < drawn.variance:
            break
        drawn = better
    return drawn


def _truncated(drawn: _Drawn) -> np.ndarray:
    """Return weights of draws, at most √S times their mean: Ionides (2008)."""
    return np.minimum(softmax(drawn.g), len(drawn.g) ** -0.5)


def _worth(drawn: _Drawn) -> float:
    """Return the effective number of weighted draws."""
    weights = _truncated(drawn)
    return float(weights.sum() ** 2 / (weights @ weights)) if drawn.variance < np.inf else 0.0


def _matched(drawn: _Drawn) -> Reference:
    """Return a mixture whose components have the moments of the weighted draws near them."""
    thetas, r = drawn.thetas, drawn.reference
    near = softmax([log_reference(part, thetas) for part in parts_of(r)], axis=0)
    parts = []
    for share in near * _truncated(drawn):
        share /= share.sum()
        mean = share @ thetas
        covariance = (share * (thetas - mean).T) @ (thetas - mean)
        parts.append(make_reference(mean, metric_of(covariance), r.degrees_of_freedom))
    return mix_references(parts)


def _starts(prior: np.ndarray, ells: np.ndarray, climbs: int) -> Iterable[np.ndarray]:
    """Return prior draws where climbs start: for half of them those with the highest ℓ."""
    best = np.argsort(-ells, kind="stable")[: climbs // 2]
    return chain(prior[best], prior)


def _shape(prior: np.ndarray) -> Metric:
    """Return the spread of prior draws; that of their middle half, since tails may be heavy."""
    n = prior.shape[1]
    low, high = np.quantile(prior, [0.25, 0.75], axis=0)
    inner = np.clip(prior, low - (high - low), high + (high - low))
    return Metric(
        deviations(inner, np.full(len(prior), 1 / len(prior))), np.zeros((0, n)), np.zeros(0)
    )


def _missed(drawn: _Drawn, prior: np.ndarray, log_prior: np.ndarray, ells: np.ndarray) -> float:
    """Return the share of the posterior where the reference has little mass, by prior draws."""
    log_ml = logsumexp(drawn.g) - np.log(len(drawn.g))
    with np.errstate(invalid="ignore", over="ignore"):
        rare = log_prior + ells - log_ml - log_reference(drawn.reference, prior) > RARE
        return float(np.exp(np.where(rare, ells - log_ml, -np.inf)).mean())


def _surplus(density: Counted, drawn: _Drawn) -> float:
    """Return how far g exceeds, at likely states that climbs passed, all values at draws; nats.

    Climbs follow a thin curved ridge, whose arms a normal approximation at its top does not cover;
    draws from that may all have even weights.
    """
    thetas, heights = density.most_likely_passed()
    if not len(thetas):  # nothing was climbed
        return -np.inf
    return float((heights - log_reference(drawn.reference, thetas)).max() - drawn.g.max())


def settled(
    theta: np.ndarray,
    reference: Reference,
    density: Counted,
    n: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return a state after n Metropolis moves to draws from the reference, at β = 1; see `moved`.

    The posterior is forgotten at a rate of 1 less the inverse of the largest weight: Mengersen and
    Tweedie (1996).
    """
    thetas = np.concatenate([theta[None], draw_reference(reference, n, rng)])
    g = log_weights_at(thetas, density, reference)
    states = moved(thetas[:1], g[:1], thetas[1:, None], g[1:, None], rng)[:, 0]
    return states[-1] if n else theta


def moved(
    thetas: np.ndarray, g: np.ndarray, new: np.ndarray, new_g: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return states after each of n Metropolis moves to draws from the reference, at β = 1.

    The posterior is invariant.

    Parameters
    ----------
    thetas : ndarray of shape (N, n_elements)
        States before.
    g : ndarray of shape (N,)
        log p + ℓ − log r there, nats.
    new : ndarray of shape (n, N, n_elements)
        Draws from the reference.
    new_g : ndarray of shape (n, N)
        log p + ℓ − log r there, nats.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n, N, n_elements)
    """
    states = np.empty_like(new)
    for k, limits in enumerate(np.log(rng.random(new_g.shape))):
        with np.errstate(invalid="ignore"):  # −∞ less −∞
            accepted = new_g[k] - g >= limits
        g = np.where(accepted, new_g[k], g)
        states[k] = thetas = np.where(accepted[:, None], new[k], thetas)
    return states


def weigh(g: np.ndarray, ends: Point, evaluations: int, further: int = 0) -> Run:
    """Return a run with T = 1 whose particles are weighed and do not move.

    Parameters
    ----------
    g : ndarray of shape (N,)
        log p + ℓ − log r at draws from r, nats; −∞ where the model is impossible. In a reverse run
        the first is at θ*.
    ends : Point
        The draws by variable, and all states after each further move at β = 1.
    evaluations : int
        Number of evaluations of log p + ℓ.
    further : int, default 0
        Number of these moves.
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
        np.tile(weights, 1 + further) / (1 + further),
        Population(sizes, np.zeros(2, dtype=bool), n),
        1,
    )
