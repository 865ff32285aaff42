"""Metric of the compiled kernels, of diagonal plus low-rank form; and standard normal numbers."""

import math
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from scipy.linalg import eigh

from pymc_bdmc.base.compiling import njit

MAX_DENSE = 200
"""Most elements of θ for which the metric has directions."""
NOTABLE = 1.5
"""Smallest ratio of variances for which a direction is used."""
SHRINKAGE = 1e-6
"""Share of the identity added to covariances of scaled samples, to make them invertible."""

_LAYERS = 256
_EDGE = 3.6541528853610088  # where the tail begins, and the area of a layer: Marsaglia and Tsang
_AREA = 0.00492867323399


def _ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return widths of the layers from the base up, densities, and limits that need no test."""
    widths = [_AREA * math.exp(0.5 * _EDGE**2), _EDGE]
    while len(widths) < _LAYERS:
        height = _AREA / widths[-1] + math.exp(-0.5 * widths[-1] ** 2)
        widths.append(math.sqrt(-2 * math.log(height)))
    x = np.array([*widths, 0.0])
    return x, np.exp(-0.5 * x**2), x[1:] / x[:-1]


_WIDTHS, _DENSITIES, _INSIDE = _ziggurat()


@njit(nogil=True, cache=True, allocates=False)
def standard_normal(rng):
    """Draw by the ziggurat method (Marsaglia and Tsang 2000), mostly from one uniform number.

    Seeds give the same numbers in all versions of numba.
    """
    while True:
        place = _LAYERS * rng.random()
        layer = int(place)
        u = 2.0 * (place - layer) - 1.0  # other digits, so independent of the layer
        x = u * _WIDTHS[layer]
        if abs(u) < _INSIDE[layer]:
            return x
        if layer == 0:
            while True:
                beyond = -math.log(1.0 - rng.random()) / _EDGE
                if -2.0 * math.log(1.0 - rng.random()) > beyond**2:
                    return math.copysign(_EDGE + beyond, u)
        low, high = _DENSITIES[layer], _DENSITIES[layer + 1]
        if low + rng.random() * (high - low) < math.exp(-0.5 * x**2):
            return x


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def copy_vector(source, target):
    """Overwrite one vector by another; slices in numba take several times as long."""
    for i in range(source.size):
        target[i] = source[i]


class Metric(NamedTuple):
    """Covariance D (I + Σ_k excess_k u_k u_kᵀ) D with D = diag(scale), near that of θ.

    The kernels keep momenta and velocities in units of ``scale``.
    """

    scale: ndarray
    """Standard deviations D, shape (n,)."""
    directions: ndarray
    """Orthonormal u_k, shape (k, n)."""
    excess: ndarray
    """Relative excess of the variance along each direction, shape (k,), above −1; 0 has no
    effect."""


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def velocity_of(metric, momentum, velocity):
    """Write (I + Σ_k excess_k u_k u_kᵀ) p to ``velocity``."""
    for i in range(momentum.size):
        velocity[i] = momentum[i]
    for k in range(metric.excess.size):
        _add_along(metric.directions[k], metric.excess[k], velocity)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def draw_momentum(metric, momentum, rng):
    """Draw a momentum with the inverse metric as covariance; return its kinetic energy."""
    energy = 0.0
    for i in range(momentum.size):
        momentum[i] = standard_normal(rng)
        energy += 0.5 * momentum[i] ** 2
    for k in range(metric.excess.size):
        factor = 1.0 / np.sqrt(1.0 + metric.excess[k]) - 1.0
        _add_along(metric.directions[k], factor, momentum)
    return energy


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"}, allocates=False)
def _add_along(direction, factor, vector):
    """Scale a vector along a direction; may be repeated for orthogonal directions."""
    if factor == 0.0:
        return
    along = 0.0
    for i in range(vector.size):
        along += direction[i] * vector[i]
    for i in range(vector.size):
        vector[i] += factor * along * direction[i]


def diagonal_metric(scale: ndarray) -> Metric:
    """Return the metric of independent elements."""
    return Metric(scale, np.zeros((0, len(scale))), np.zeros(0))


def metric_of(covariance: ndarray) -> Metric:
    """Return the metric of a covariance matrix, with all its directions."""
    scale = np.sqrt(np.diag(covariance))
    variances, directions = eigh(covariance / np.outer(scale, scale))
    return Metric(scale, directions.T.copy(), variances - 1)


def root_of(metric: Metric) -> ndarray:
    """Return a matrix L with L Lᵀ the covariance of a metric, shape (n, n)."""
    along = (np.sqrt(1 + metric.excess) - 1) * metric.directions.T
    return metric.scale[:, None] * (np.eye(len(metric.scale)) + along @ metric.directions)


def estimate_metric(
    thetas: ndarray, gradients: ndarray, weights: ndarray | None = None, for_moves: bool = True
) -> Metric:
    """Estimate the metric from samples of a density and the gradients of its logarithm.

    It minimises the Fisher divergence from the transformed density to a standard normal one: the
    geometric mean of the covariance of θ and the inverse covariance of the gradients. For a normal
    density it is exact if the samples span the space. Without gradients it is the covariance of θ,
    with the directions that noise does not explain. See Seyboldt, Carlson and Carpenter (2026),
    arXiv:2603.18845.

    Samples and gradients have shape (N, n); gradients are all 0 if not known. With more than
    `MAX_DENSE` elements the metric is diagonal; ``for_moves`` it then uses the gradients only,
    since the stiffest directions, on which ℓ depends most, limit step sizes.
    """
    n = thetas.shape[1]
    weights = np.full(len(thetas), 1 / len(thetas)) if weights is None else weights
    scale = deviations(thetas, weights)
    known = np.isfinite(gradients).all(axis=1)
    if (weights[known] @ np.abs(gradients[known])).any():
        weights = weights[known] / weights[known].sum()
        # E[(θ − E θ) ∇log f] = −1, so by Cauchy and Schwarz 1/sd(∇log f) ≤ sd(θ), but for noise.
        conditional = np.minimum(scale, 1 / deviations(gradients[known], weights))
        if for_moves and n > MAX_DENSE:
            return diagonal_metric(conditional)
        scale = np.sqrt(scale * conditional)
        if 1 < n <= MAX_DENSE:
            return Metric(
                scale, *_directions(thetas[known] / scale, gradients[known] * scale, weights)
            )
    elif 1 < n <= MAX_DENSE:
        return Metric(scale, *_clear_directions(thetas / scale, weights))
    return diagonal_metric(scale)


def _directions(thetas, gradients, weights) -> tuple[ndarray, ndarray]:
    """Return notable principal axes of the geometric mean of two covariances, and the excess."""
    values, vectors = eigh(_covariance(gradients, weights))
    values = np.maximum(values, SHRINKAGE / 2)  # values are positive except for rounding errors
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    inner, turned = eigh(root @ _covariance(thetas, weights) @ root)
    half = inverse @ (turned * np.maximum(inner, 0.0) ** 0.25)
    variances, directions = eigh(half @ half.T)
    variances = np.clip(variances, 1e-12, 1e12)  # what float64 can resolve
    notable = np.abs(np.log(variances)) > np.log(NOTABLE)
    return directions[:, notable].T.copy(), variances[notable] - 1


def _clear_directions(thetas, weights) -> tuple[ndarray, ndarray]:
    """Return the principal axes of samples that noise does not explain, and the excess.

    For independent elements the variances along the axes lie within (1 ± sqrt(n / N))²: Marchenko
    and Pastur (1967).
    """
    # Eight correlated samples count as an independent one: a pilot's stage has 8 per member.
    noise = np.sqrt(thetas.shape[1] * 8 * (weights @ weights))
    variances, directions = eigh(_covariance(thetas, weights))
    notable = variances > NOTABLE * (1 + noise) ** 2
    notable |= variances < max(1 - noise, 0) ** 2 / NOTABLE
    return directions[:, notable].T.copy(), variances[notable] - 1


def spread_of(values: ndarray) -> Metric:
    """Return a diagonal metric by the middle half of samples, since tails may be heavy."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    inner = np.clip(values, low - (high - low), high + (high - low))
    return diagonal_metric(deviations(inner, np.full(len(values), 1 / len(values))))


def deviations(values: ndarray, weights: ndarray) -> ndarray:
    """Return the standard deviation of every column; never 0."""
    mean = weights @ values
    distances = values - mean
    unit = np.abs(distances).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0  # prevents overflow of squares
    return unit * np.sqrt(weights @ (distances / unit) ** 2) + 1e-10 * (1 + np.abs(mean))


def _covariance(values: ndarray, weights: ndarray) -> ndarray:
    """Return the covariance, shrunk slightly towards the identity."""
    values = np.clip(values, -1e30, 1e30)  # squares of unbounded scales would overflow
    covariance = np.atleast_2d(np.cov(values.T, aweights=weights, ddof=0))
    return (covariance + SHRINKAGE * np.eye(len(covariance))) / (1 + SHRINKAGE)
