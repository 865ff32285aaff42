"""Densities of one number by their heights at fixed nodes: exponential between two of them."""

import numpy as np
from numpy import ndarray
from scipy.integrate import trapezoid

from pymc_bdmc.base.compiling import njit

_SIDE = np.concatenate([np.arange(0.5, 4, 0.5), 4 * 1.15 ** np.arange(20)])
NODES = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])
"""Places, in deviations from a mode, at which a density is evaluated. Chosen: a normal density is
at most 0.1 nats above its chords where it matters, and the second of two modes that are as wide as
the first is seen at 30 deviations. Beyond ±57 a density falls like 1/z²."""
LAST = float(NODES[-1])

SCALE = np.sqrt(1.25)
"""Scale of t₄ that gives it the curvature of the standard normal distribution at the mode."""
SURE = 0.1
"""Share of t₄ in every density that is evaluated, so that weights are bounded. Chosen."""


def log_t4(z: ndarray) -> ndarray:
    """Return the log density of t₄ of the scale `SCALE`, nats."""
    return np.log(0.375 / SCALE) - 2.5 * np.log1p((z / SCALE) ** 2 / 4)


HEIGHTS_OF_T4 = log_t4(NODES)


def log_integral(heights: ndarray) -> ndarray:
    """Return the log integral of densities with these log heights at the nodes, by trapezoids."""
    highest = heights.max(axis=-1)
    return highest + np.log(trapezoid(np.exp(heights - highest[..., None]), NODES, axis=-1))


def with_tails(heights: ndarray) -> ndarray:
    """Return the log heights of these densities, divided by their integrals, mixed with t₄."""
    normalised = heights - log_integral(heights)[..., None]
    return np.logaddexp(np.log1p(-SURE) + normalised, np.log(SURE) + HEIGHTS_OF_T4)


def log_density_at(z: ndarray, heights: ndarray) -> ndarray:
    """Return the log heights between and beyond the nodes; all arrays end in one axis of places."""
    inner = np.clip(z, -LAST, LAST)
    k = np.clip(np.searchsorted(NODES, inner, side="right") - 1, 0, len(NODES) - 2)
    share = (inner - NODES[k]) / (NODES[k + 1] - NODES[k])
    k = np.broadcast_to(k, np.broadcast_shapes(k.shape, (*heights.shape[:-1], 1)))
    low, high = (np.take_along_axis(heights, each, axis=-1) for each in (k, k + 1))
    return low + share * (high - low) - 2 * np.log(np.maximum(np.abs(z) / LAST, 1.0))


@njit(nogil=True, cache=True)
def masses_of(heights, masses):
    """Write the integral up to every node, and that of all, to ``masses``, of one more element."""
    masses[0] = np.exp(heights[0]) * LAST
    for k in range(len(NODES) - 1):
        rise, width = heights[k + 1] - heights[k], NODES[k + 1] - NODES[k]
        mean = np.expm1(rise) / rise if abs(rise) > 1e-9 else 1.0
        masses[k + 1] = masses[k] + np.exp(heights[k]) * mean * width
    masses[-1] = masses[-2] + np.exp(heights[-1]) * LAST


@njit(nogil=True, cache=True)
def quantile(u, heights, masses):
    """Return the place below which the mass is a share u of all, and the log density there."""
    total = masses[-1]
    mass = min(max(u, 1e-300), 1 - 1e-16) * total
    k = np.searchsorted(masses, mass, side="right") - 1
    if k < 0:
        z = -LAST * masses[0] / mass
        return z, heights[0] - 2 * np.log(-z / LAST) - np.log(total)
    if k >= len(NODES) - 1:
        z = LAST * (total - masses[-2]) / (total - mass)
        return z, heights[-1] - 2 * np.log(z / LAST) - np.log(total)
    slope = (heights[k + 1] - heights[k]) / (NODES[k + 1] - NODES[k])
    rest = (mass - masses[k]) * np.exp(-heights[k])
    step = np.log1p(slope * rest) / slope if abs(slope) > 1e-9 else rest
    return NODES[k] + step, heights[k] + slope * step - np.log(total)


@njit(nogil=True, cache=True)
def cdf(z, heights, masses):
    """Return the share of the mass below a place, and the log density there."""
    total = masses[-1]
    if z < -LAST:
        below = masses[0] * LAST / -z
        return below / total, heights[0] - 2 * np.log(-z / LAST) - np.log(total)
    if z >= LAST:
        above = (total - masses[-2]) * LAST / z
        return 1 - above / total, heights[-1] - 2 * np.log(z / LAST) - np.log(total)
    k = np.searchsorted(NODES, z, side="right") - 1
    slope = (heights[k + 1] - heights[k]) / (NODES[k + 1] - NODES[k])
    step = z - NODES[k]
    rest = np.expm1(slope * step) / slope if abs(slope) > 1e-9 else step
    mass = masses[k] + np.exp(heights[k]) * rest
    return mass / total, heights[k] + slope * step - np.log(total)
