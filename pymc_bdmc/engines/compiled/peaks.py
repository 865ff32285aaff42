"""Find narrow peaks of a posterior that samples miss, by optimisation."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from pymc_bdmc.estimators import jarzynski_forward
from pymc_bdmc.reference.metric import Metric, metric_of
from pymc_bdmc.reference.student import (
    Reference,
    draw_reference,
    log_reference,
    make_reference,
    mix_references,
)

MOST_ELEMENTS = 20
"""Most elements of θ for which importance sampling can estimate the mass of a peak."""
CLIMBS = 4
"""Number of optimisations; for the spike and slab each found the spike, in 2 to 14 steps."""
DRAWS = 1000
"""Number of draws that estimate the mass of a peak."""
MOST_STEPS = 20
"""Most steps of an optimisation."""
RARE = 3.0
"""r misses a state if log r is this many nats below the log posterior."""
LEAST_SHARE = 0.1
"""Smallest share of the posterior near a missed peak."""
FLAT = 0.01
"""Slope in nats at which an optimisation ends, in units of the reference."""
NEAR = 0.05
"""Largest distance of maxima that count as one, in units of the reference."""
SLOPE, CURVATURE = 1e-5, 0.1
"""Steps of finite differences, in units of the reference and of the peak."""

LogDensity = Callable[[np.ndarray], np.ndarray]
"""Function that returns log p + ℓ of every row of θ, nats; −∞ in place of NaN."""


def add_peaks(reference: Reference, log_density: LogDensity, rng: np.random.Generator) -> Reference:
    """Add a component to the reference at every narrow peak that it misses.

    Some draws are moved to a maximum of log p + ℓ. If log p + ℓ − log r is larger there than at any
    draw, importance sampling with a component at the maximum estimates the share of the posterior
    that r misses.

    Parameters
    ----------
    reference : Reference
        Reference with one component, fitted to samples of the posterior.
    log_density : callable
        log p + ℓ of every row of an array of θ, nats.
    rng : numpy.random.Generator
        Generator for this purpose only.

    Returns
    -------
    Reference
        Unchanged if it misses no peak, or if θ has more than `MOST_ELEMENTS` elements.
    """
    if reference.locations.shape[1] > MOST_ELEMENTS:
        return reference
    parts, scale = [reference], reference.scales[0]
    starts, g = _weighted(reference, log_density, rng)
    tops: list[np.ndarray] = []
    for start in starts[:CLIMBS]:
        top = _climb(log_density, start, scale)
        if any((abs(top - other) < NEAR * scale).all() for other in tops):
            continue
        tops.append(top)
        [surplus] = log_density(top[None]) - log_reference(reference, top[None])
        metric = _shape(log_density, top, scale) if surplus > g.max() else None
        if metric is None:
            continue
        peak = make_reference(top, metric, reference.degrees_of_freedom)
        mixture = mix_references([*parts, peak])
        thetas, g_mixture = _weighted(mixture, log_density, rng)
        if _missed(reference, mixture, thetas, g_mixture) > LEAST_SHARE:
            reference, g = mixture, g_mixture
            parts.append(peak)
    return reference


def _weighted(
    reference: Reference, log_density: LogDensity, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return draws from r, and log p + ℓ − log r there."""
    thetas = draw_reference(reference, DRAWS, rng)
    return thetas, log_density(thetas) - log_reference(reference, thetas)


def _missed(reference: Reference, mixture: Reference, thetas: np.ndarray, g: np.ndarray) -> float:
    """Estimate the share of the posterior that r misses; 0 if draws do not show any."""
    log_ml = jarzynski_forward(g)
    if not log_ml.valid:
        return 0.0
    log_posterior = g + log_reference(mixture, thetas) - log_ml.value
    rare = log_posterior - log_reference(reference, thetas) > RARE
    return float(softmax(g)[rare].sum())


def _climb(log_density: LogDensity, start: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the maximum found by BFGS with finite differences, in units of ``scale``."""
    steps = SLOPE * np.concatenate([np.eye(len(start)), -np.eye(len(start))])

    def depth(x: np.ndarray) -> tuple[float, np.ndarray]:
        here = np.concatenate([[x], x + steps])
        values = -log_density(scale * here)
        return values[0], np.subtract(*np.split(values[1:], 2)) / (2 * SLOPE)

    options = dict(maxiter=MOST_STEPS, gtol=FLAT)
    with np.errstate(all="ignore"):  # it may be −∞, and slopes may be huge
        return scale * minimize(depth, start / scale, jac=True, options=options).x


def _shape(log_density: LogDensity, top: np.ndarray, scale: np.ndarray) -> Metric | None:
    """Return the metric of the normal density with the same curvature; None if not a maximum."""
    n = len(top)
    rows, columns = np.triu_indices(n)
    unit, bending = SLOPE * scale, np.empty((n, n))
    for _ in range(3):  # each iteration gives the units of the next
        steps = np.diag(unit)
        together, across = steps[rows] + steps[columns], steps[rows] - steps[columns]
        same = log_density(top + together) + log_density(top - together)
        other = log_density(top + across) + log_density(top - across)
        bending[rows, columns] = bending[columns, rows] = (other - same) / 4
        if not np.isfinite(bending).all():
            return None
        values, vectors = np.linalg.eigh(bending)
        if not values.min() > 0:
            return None
        covariance = vectors / values @ vectors.T
        deviations = unit * np.sqrt(np.diag(covariance))
        unit = CURVATURE * deviations
    metric = metric_of(covariance)._replace(scale=deviations)
    return metric if (metric.excess > -1).all() else None  # rounding, if curvatures differ much
