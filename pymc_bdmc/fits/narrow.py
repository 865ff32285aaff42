"""Find narrow modes of a posterior that samples miss, by optimisation."""

from collections.abc import Callable

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.special import softmax

from pymc_bdmc.estimators import jarzynski_forward
from pymc_bdmc.fits.fit import RARE
from pymc_bdmc.reference.metric import Metric, metric_of
from pymc_bdmc.reference.student import Reference, make_reference, mix_references

SEARCHES = 4
"""Number of optimisations; for the spike and slab each found the spike, in 2 to 14 steps."""
LEAST_SHARE = 0.1
"""Smallest share of the posterior near a narrow mode that is missed."""
NEAR = 0.05
"""Largest distance of maxima that count as one, in units of the reference."""
SLOPE = 1e-5
"""Step of finite differences that give a slope, in units of the reference."""

LogDensity = Callable[[ndarray], ndarray]
"""Function that returns log p + ℓ of every row of θ, nats; −∞ in place of NaN."""


def add_narrow_modes(reference: Reference, log_density: LogDensity, rng: Generator) -> Reference:
    """Add a component to a reference, of one component, at every narrow mode that it misses.

    Some draws are moved to a maximum of log p + ℓ. If log p + ℓ − log r is larger there than at any
    draw, importance sampling with a component there estimates the share of the posterior that r
    misses. With more than 20 elements it cannot, and the reference stays as it is.
    """
    if reference.locations.shape[1] > 20:
        return reference
    parts, scale = [reference], reference.scales[0]
    starts, g = _weighted(reference, log_density, rng)
    modes: list[ndarray] = []
    for start in starts[:SEARCHES]:
        mode = _maximum(log_density, start, scale)
        if any((abs(mode - other) < NEAR * scale).all() for other in modes):
            continue
        modes.append(mode)
        [surplus] = log_density(mode[None]) - reference.log_density(mode[None])
        metric = _shape(log_density, mode, scale) if surplus > g.max() else None
        if metric is None:
            continue
        part = make_reference(mode, metric, reference.degrees_of_freedom)
        mixture = mix_references([*parts, part])
        thetas, g_mixture = _weighted(mixture, log_density, rng)
        if _missed(reference, mixture, thetas, g_mixture) > LEAST_SHARE:
            reference, g = mixture, g_mixture
            parts.append(part)
    return reference


def _weighted(
    reference: Reference, log_density: LogDensity, rng: Generator
) -> tuple[ndarray, ndarray]:
    """Return draws from r, and log p + ℓ − log r there."""
    thetas, log_r = reference.sample(1000, rng)
    return thetas, log_density(thetas) - log_r


def _missed(reference: Reference, mixture: Reference, thetas: ndarray, g: ndarray) -> float:
    """Estimate the share of the posterior that r misses; 0 if draws do not show any."""
    log_ml = jarzynski_forward(g)
    if not log_ml.valid:
        return 0.0
    log_posterior = g + mixture.log_density(thetas) - log_ml.value
    rare = log_posterior - reference.log_density(thetas) > RARE
    return float(softmax(g)[rare].sum())


def _maximum(log_density: LogDensity, start: ndarray, scale: ndarray) -> ndarray:
    """Return the maximum found by BFGS with finite differences, in units of ``scale``."""
    steps = SLOPE * np.concatenate([np.eye(len(start)), -np.eye(len(start))])

    def depth(x: ndarray) -> tuple[float, ndarray]:
        here = np.concatenate([[x], x + steps])
        values = -log_density(scale * here)
        return values[0], np.subtract(*np.split(values[1:], 2)) / (2 * SLOPE)

    options = dict(maxiter=20, gtol=0.01)
    with np.errstate(all="ignore"):  # it may be −∞, and slopes may be huge
        return scale * minimize(depth, start / scale, jac=True, options=options).x


def _shape(log_density: LogDensity, mode: ndarray, scale: ndarray) -> Metric | None:
    """Return the metric of the normal density with the same curvature; None if not a maximum."""
    n = len(mode)
    rows, columns = np.triu_indices(n)
    unit, bending = SLOPE * scale, np.empty((n, n))
    for _ in range(3):  # each iteration gives the units of the next
        steps = np.diag(unit)
        together, across = steps[rows] + steps[columns], steps[rows] - steps[columns]
        same = log_density(mode + together) + log_density(mode - together)
        other = log_density(mode + across) + log_density(mode - across)
        bending[rows, columns] = bending[columns, rows] = (other - same) / 4
        if not np.isfinite(bending).all():
            return None
        values, vectors = np.linalg.eigh(bending)
        if not values.min() > 0:
            return None
        covariance = vectors / values @ vectors.T
        deviations = unit * np.sqrt(np.diag(covariance))
        unit = 0.1 * deviations
    metric = metric_of(covariance)._replace(scale=deviations)
    return metric if (metric.excess > -1).all() else None  # rounding, if curvatures differ much
