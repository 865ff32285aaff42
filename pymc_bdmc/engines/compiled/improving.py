"""Weigh draws from a reference, and improve it by them: population Monte Carlo."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_bdmc.reference.metric import metric_of, root_of
from pymc_bdmc.reference.student import (
    MOST_DEGREES,
    AnyReference,
    Density,
    Reference,
    log_reference,
    make_reference,
    metric_at,
    mix_references,
    parts_of,
    shares_of,
    with_degrees,
)

CHECKED = 128
"""Number of draws that judge a fit."""
UNEVEN, IMPROVEMENTS, IMPROVING = 0.3, 4, (512, 2048)
"""A fit is improved if the relative variance of its weights exceeds the first number. The second is
the most improvements, the third the numbers of new draws to use if the present ones are too few."""
ROUNDS, EM_STEPS = 6, 5
"""Most rounds in which a mixture is adapted, and steps of expectation and maximisation in each."""
MOST_COMPONENTS, LEAST_SHARE, LEAST_DRAWS = 8, 0.02, 4
"""Most components of an adapted mixture; the share, and the effective number of draws per element,
below which a component is dropped. Measured: with any number of draws, narrow components leave
holes between them in six dimensions, and the variance of weights is twice as large."""
APART, SLIGHT = 0.7, 1e-3
"""Distance of the halves of a split component from its centre, in standard deviations; and the
share of the overall variance that is added to each component so that it does not collapse."""


class Drawn[R: AnyReference](NamedTuple):
    """Draws from a reference with g = log p + ℓ − log r, and the relative variance of weights."""

    reference: R
    thetas: np.ndarray
    g: np.ndarray
    variance: float
    evaluations: int = 0
    """Evaluations of log p + ℓ that the draws and their weights took."""


def weighted[R: AnyReference](
    density: Density, reference: R, n: int, rng: np.random.Generator
) -> Drawn[R]:
    """Return n draws from the reference; the variance is infinite if log p is +∞ at one."""
    before = density.evaluations
    thetas, log_r = reference.sample(n, rng, density)
    g = log_weights_at(thetas, log_r, density)
    evaluations = density.evaluations - before
    if not (g < np.inf).all() or not (g > -np.inf).any():
        return Drawn(reference, thetas, g, np.inf, evaluations)
    return Drawn(reference, thetas, g, n * float((softmax(g) ** 2).sum()) - 1, evaluations)


def log_weights_at(thetas: np.ndarray, log_r: np.ndarray, density: Density) -> np.ndarray:
    """Return g = log p + ℓ − log r at draws from r, nats.

    g is −∞ if the model is impossible there, or log r is ∞.

    Parameters
    ----------
    thetas : ndarray of shape (N, n_elements)
    log_r : ndarray of shape (N,)
        log r there, nats.
    density : Density
    """
    log_f = density.terms(thetas).sum(axis=1)
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        return np.where((log_f == -np.inf) | (log_r == np.inf), -np.inf, log_f - log_r)


def improved(
    density: Density, drawn: Drawn[Reference], rng: np.random.Generator
) -> Drawn[Reference]:
    """Return draws from t distributions whose weights are as even as possible.

    If θ has many elements and the degrees of freedom were not chosen, these become the number of
    elements. The tails are then lighter, and the weights for a normal posterior nearly even. Next,
    every component gets the moments of the weighted draws that likely belong to it: population
    Monte Carlo (Cappé, Douc, Guillin, Marin and Robert 2008). Both steps are tried only if the
    weights are uneven, and kept only if they become more even.
    """
    n = drawn.thetas.shape[1]
    if UNEVEN < drawn.variance < np.inf and drawn.reference.degrees_of_freedom == MOST_DEGREES < n:
        lighter = weighted(density, with_degrees(drawn.reference, n), CHECKED, rng)
        drawn = min(drawn, lighter, key=lambda each: each.variance)
    for _ in range(IMPROVEMENTS):
        if not UNEVEN < drawn.variance < np.inf:
            break
        source, needed = drawn, len(drawn.reference.locations) * n * (n + 3)
        for size in IMPROVING:
            if _worth(source) < needed <= size / CHECKED * _worth(drawn):
                source = weighted(density, drawn.reference, size, rng)
        if _worth(source) < needed:
            break
        better = weighted(density, _matched(source), CHECKED, rng)
        if not better.variance < drawn.variance:
            break
        drawn = better
    return drawn


def _truncated(drawn: "Drawn | _Pool") -> np.ndarray:
    """Return weights of draws, at most √S times their mean: Ionides (2008)."""
    return np.minimum(softmax(drawn.g), len(drawn.g) ** -0.5)


def _worth(drawn: Drawn[Reference]) -> float:
    """Return the effective number of weighted draws."""
    weights = _truncated(drawn)
    return float(weights.sum() ** 2 / (weights @ weights)) if drawn.variance < np.inf else 0.0


def _matched(drawn: Drawn[Reference]) -> Reference:
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


def adapted[R: AnyReference](
    density: Density,
    reference: Reference,
    n: int,
    rng: np.random.Generator,
    around: Callable[[Reference], R],
) -> Drawn[R]:
    """Adapt a mixture of t distributions to a density of few elements, by n draws a round.

    All draws so far are weighed as draws from the mixture of all references used so far. Two
    mixtures are fitted to them: one with the present components, and one with each component split
    in two. The mixture with the more even weights is used next: Cornuet, Marin, Mira and Robert
    (2012), Adaptive multiple importance sampling.

    Parameters
    ----------
    around : callable
        Returns the reference to draw from, given the mixture of t distributions in it.
    """
    drawn = best = weighted(density, around(reference), n, rng)
    thetas, log_f, used = np.empty((0, drawn.thetas.shape[1])), np.empty(0), []
    for _ in range(ROUNDS):
        if best.variance <= UNEVEN or np.isinf(drawn.variance):
            break
        thetas = np.concatenate([thetas, drawn.thetas])
        log_r = drawn.reference.log_density(drawn.thetas, density, rng)
        log_f = np.concatenate([log_f, drawn.g + log_r])
        used.append(drawn.reference)
        log_mixed = logsumexp([each.log_density(thetas, density, rng) for each in used], axis=0)
        pool = _Pool(thetas, log_f - log_mixed)
        candidates = [_em(pool, reference), _em(pool, _split(pool, reference))]
        log_rs = [around(each).log_density(thetas, density, rng) for each in candidates]
        second = [second_moment(pool.g, log_f - log_r) for log_r in log_rs]
        reference = candidates[int(np.argmin(second))]
        drawn = weighted(density, around(reference), n, rng)
        best = min(best, drawn, key=lambda each: each.variance)
    return best


class _Pool(NamedTuple):
    """Draws from several references, with g up to a constant for their mixture."""

    thetas: np.ndarray
    g: np.ndarray


def second_moment(g: np.ndarray, candidate: np.ndarray) -> float:
    """Return the log of the mean square of weights under a candidate, up to a constant; nats.

    Parameters
    ----------
    g, candidate : ndarray of shape (S,)
        Log weights of the draws for the mixture that they come from, and for the candidate.
    """
    with np.errstate(invalid="ignore"):
        found = logsumexp(g - logsumexp(g) + candidate)
    return float(found) if np.isfinite(found) else np.inf


def _split(pool: _Pool, reference: Reference) -> Reference:
    """Return a mixture in which every component is split in two along its skewness."""
    if len(reference.locations) > MOST_COMPONENTS // 2:
        return reference
    parts, shares = [], []
    near = softmax([log_reference(part, pool.thetas) for part in parts_of(reference)], axis=0)
    for share, own, part in zip(shares_of(reference), near, parts_of(reference), strict=True):
        metric = metric_at(part, 0)
        z = np.linalg.solve(root_of(metric), (pool.thetas - part.locations[0]).T).T
        weights = own * _truncated(pool)
        skewness = weights @ np.clip(z, -5, 5) ** 3
        length = np.linalg.norm(skewness)
        shift = root_of(metric) @ (skewness / length if length > 0 else np.eye(len(skewness))[0])
        for sign in (-APART, APART):
            place = part.locations[0] + sign * shift
            parts.append(make_reference(place, metric, part.degrees_of_freedom))
            shares.append(share / 2)
    return mix_references(parts, np.array(shares))


def _em(pool: _Pool, reference: Reference) -> Reference:
    """Return the mixture after some steps of weighted expectation and maximisation.

    It stays as it is if a single draw has all the weight.
    """
    weights, thetas = _truncated(pool), pool.thetas
    weights = weights / weights.sum()
    if weights.max() > 1 - np.finfo(float).eps:
        return reference
    mean = weights @ thetas
    floor = SLIGHT * np.diag(weights @ (thetas - mean) ** 2)
    for _ in range(EM_STEPS):
        parts, shares = [], []
        near = softmax([log_reference(part, thetas) for part in parts_of(reference)], axis=0)
        for share in near * weights:
            total, least = share.sum(), LEAST_DRAWS * len(mean)
            if total < LEAST_SHARE or total**2 < least * (share @ share):  # (Σw)²/Σw² draws
                continue
            share = share / total
            mean = share @ thetas
            covariance = (share * (thetas - mean).T) @ (thetas - mean) + floor
            dof = reference.degrees_of_freedom
            parts.append(make_reference(mean, metric_of(covariance), dof))
            shares.append(total)
        if not parts:
            return reference
        reference = mix_references(parts, np.array(shares) / np.sum(shares))
    return reference
