"""Improve a reference by draws from it with importance weights: population Monte Carlo."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.special import logsumexp, softmax

from pymc_bdmc.fits import limits
from pymc_bdmc.fits.draws import Drawn, draw_weighted
from pymc_bdmc.reference.contract import AnyReference, Density
from pymc_bdmc.reference.metric import metric_of, root_of
from pymc_bdmc.reference.student import MOST_DEGREES, Reference, make_reference, mix_references

CHECKED = 128
"""Number of draws that judge a fit."""
LEAST_SHARE, LEAST_DRAWS = 0.02, 4
"""Share, and effective number of draws per element, below which a component of an adapted mixture
is dropped. Measured: with any number of draws, narrow components leave holes between them in six
dimensions, and the variance of weights is twice as large."""


def improved(density: Density, drawn: Drawn[Reference], rng: Generator) -> Drawn[Reference]:
    """Return draws from t distributions whose weights are as even as possible.

    If θ has many elements and the degrees of freedom were not chosen, these become the number of
    elements, so that weights for a normal posterior are nearly even. Next, every component gets the
    moments of the weighted draws that likely belong to it, or the mean and the width alone if draws
    are too few for all: population Monte Carlo (Cappé, Douc, Guillin, Marin and Robert 2008). Both
    are tried only if weights are uneven, and kept only if they become more even.
    """
    n, dof = drawn.thetas.shape[1], drawn.reference.degrees_of_freedom
    if limits.UNEVEN < drawn.variance < np.inf and dof == MOST_DEGREES < n:
        lighter = draw_weighted(density, drawn.reference.with_degrees(n), CHECKED, rng)
        drawn = min(drawn, lighter, key=lambda each: each.variance)
    components = len(drawn.reference.locations)
    needed, least = components * n * (n + 3), components * LEAST_DRAWS * (n + 1)
    for _ in range(4):
        if not limits.UNEVEN < drawn.variance < np.inf:
            break
        source = drawn
        for size in (512, 2048):  # new draws, if the present ones are too few
            if _effective_size(source) < needed <= size / CHECKED * _effective_size(drawn):
                source = draw_weighted(density, drawn.reference, size, rng)
        if _effective_size(source) < least:
            source = draw_weighted(density, drawn.reference, 2048, rng)
        if _effective_size(source) < least:
            break
        has_shape = _effective_size(source) >= needed
        better = draw_weighted(density, _matched(source, has_shape), CHECKED, rng)
        if not better.variance < drawn.variance:
            break
        drawn = better
    return drawn


def _truncated(g: ndarray) -> ndarray:
    """Return weights of draws, at most √S times their mean: Ionides (2008)."""
    return np.minimum(softmax(g), len(g) ** -0.5)


def _effective_size(drawn: Drawn[Reference]) -> float:
    weights = _truncated(drawn.g)
    return float(weights.sum() ** 2 / (weights @ weights)) if drawn.variance < np.inf else 0.0


def _matched(drawn: Drawn[Reference], has_shape: bool) -> Reference:
    """Return a mixture whose components have the moments of the weighted draws near them.

    If draws do not give a shape, each component keeps its own, moved and scaled.
    """
    thetas, r = drawn.thetas, drawn.reference
    near = r.memberships(thetas) * _truncated(drawn.g)
    near /= near.sum(axis=1, keepdims=True)
    if has_shape:
        parts = [_component(each, thetas, r.degrees_of_freedom) for each in near]
    else:
        parts = [_moved(each, thetas, r, k) for k, each in enumerate(near)]
    return mix_references(parts)


def _moved(weights: ndarray, thetas: ndarray, reference: Reference, k: int) -> Reference:
    """Return a component with the mean and the mean square distance of weighted draws."""
    mean, metric = weights @ thetas, reference.metric(k)
    z = np.linalg.solve(root_of(metric), (thetas - mean).T)
    width = np.sqrt(weights @ (z**2).sum(axis=0) / len(mean))
    metric = metric._replace(scale=width * metric.scale)
    return make_reference(mean, metric, reference.degrees_of_freedom)


def _component(
    weights: ndarray, thetas: ndarray, dof: float, floor: ndarray | float = 0.0
) -> Reference:
    """Return a t distribution with the moments of weighted draws."""
    mean = weights @ thetas
    covariance = (weights * (thetas - mean).T) @ (thetas - mean) + floor
    return make_reference(mean, metric_of(covariance), dof)


def adapted[R: AnyReference](
    density: Density,
    reference: Reference,
    n: int,
    rng: Generator,
    around: Callable[[Reference], R],
    uneven: float = limits.UNEVEN,
) -> Drawn[R]:
    """Adapt a mixture of t distributions to a density of few elements, by n draws a round.

    Draws are from the reference that ``around`` makes of the mixture, with weights as draws from
    the mixture of all references so far. To them are fitted a mixture with the present components,
    and one with each component split in two; the one with the more even weights is used next:
    Cornuet, Marin, Mira and Robert (2012), Adaptive multiple importance sampling. It ends where the
    relative variance of the weights is at most ``uneven``.
    """
    drawn = best = draw_weighted(density, around(reference), n, rng)
    thetas, log_f, used = np.empty((0, drawn.thetas.shape[1])), np.empty(0), []
    for _ in range(6):
        if best.variance <= uneven or np.isinf(drawn.variance):
            break
        thetas = np.concatenate([thetas, drawn.thetas])
        log_r = drawn.reference.log_density(drawn.thetas, density, rng)
        log_f = np.concatenate([log_f, drawn.g + log_r])
        used.append(drawn.reference)
        log_mixed = logsumexp([each.log_density(thetas, density, rng) for each in used], axis=0)
        g = log_f - log_mixed
        weights = _truncated(g)
        candidates = [
            _em(thetas, weights, each) for each in (reference, _split(thetas, weights, reference))
        ]
        log_rs = [around(each).log_density(thetas, density, rng) for each in candidates]
        second = [second_moment(g, log_f - log_r) for log_r in log_rs]
        reference = candidates[int(np.argmin(second))]
        drawn = draw_weighted(density, around(reference), n, rng)
        best = min(best, drawn, key=lambda each: each.variance)
    return best


def moved_to(phis: ndarray, g: ndarray, reference: Reference) -> Reference:
    """Return a mixture after EM steps with draws of log weights g; the last component stays."""
    last = make_reference(
        reference.locations[-1], reference.metric(-1), reference.degrees_of_freedom
    )
    share = reference.shares[-1]
    moved = _em(phis, _truncated(g), reference)
    return mix_references([moved, last], np.array([1 - share, share]))


def second_moment(g: ndarray, candidate: ndarray) -> float:
    """Return the log of the mean square of weights under a candidate, up to a constant; nats.

    Draws have log weights g for the mixture that they come from, and others for the candidate.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        found = logsumexp(g - logsumexp(g) + candidate)
    return float(found) if np.isfinite(found) else np.inf


def _split(thetas: ndarray, weights: ndarray, reference: Reference) -> Reference:
    """Return a mixture in which every component is split in two along its skewness."""
    if len(reference.locations) > 4:  # more than eight are not adapted
        return reference
    parts, shares = [], []
    near = reference.memberships(thetas)
    for k, (share, location) in enumerate(zip(reference.shares, reference.locations, strict=True)):
        metric = reference.metric(k)
        root = root_of(metric)
        z = np.linalg.solve(root, (thetas - location).T).T
        skewness = near[k] * weights @ np.clip(z, -5, 5) ** 3
        length = np.linalg.norm(skewness)
        shift = root @ (skewness / length if length > 0 else np.eye(len(skewness))[0])
        for distance in (-0.7, 0.7):  # from the centre, in standard deviations
            place = location + distance * shift
            parts.append(make_reference(place, metric, reference.degrees_of_freedom))
            shares.append(share / 2)
    return mix_references(parts, np.array(shares))


def _em(thetas: ndarray, weights: ndarray, reference: Reference) -> Reference:
    """Return the mixture after EM steps with weights; unchanged if one draw has all the weight."""
    weights = weights / weights.sum()
    if weights.max() > 1 - np.finfo(float).eps:
        return reference
    mean = weights @ thetas
    # A share of the overall variance keeps components from collapsing.
    floor = 1e-3 * np.diag(weights @ (thetas - mean) ** 2)
    for _ in range(5):
        parts, shares = [], []
        for each in reference.memberships(thetas) * weights:
            total, least = each.sum(), LEAST_DRAWS * len(mean)
            if total < LEAST_SHARE or total**2 < least * (each @ each):  # (Σw)²/Σw² draws
                continue
            parts.append(_component(each / total, thetas, reference.degrees_of_freedom, floor))
            shares.append(total)
        if not parts:
            return reference
        reference = mix_references(parts, np.array(shares) / np.sum(shares))
    return reference
