"""The metric of the compiled kernels: the shape of a tempered density, diagonal plus low rank."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.normal import standard_normal

__all__ = ["Metric", "deviations", "draw_momentum", "estimate_metric", "velocity_of"]

MAX_DENSE = 200
"""Most elements of θ for which directions are sought."""
NOTABLE = 1.5
"""Ratio of variances from which on a direction is worth its cost."""
CORRELATED = 8
"""Samples of a walk that say as much as one that is independent: a pilot's stage has 8 a member."""
SHRINKAGE = 1e-6
"""Share of the identity in covariances of scaled samples: enough to invert, too small to bias."""
LARGEST = 1e30
"""Largest scaled sample: effects whose scale has no upper end go beyond, and squares overflow."""
MOST_UNEVEN = 1e6
"""Ratio of deviations along two directions, beyond which nothing in float64 is left of it."""


class Metric(NamedTuple):
    """Covariance D (I + Σ_k excess_k u_k u_kᵀ) D with D = diag(scale), about that of θ.

    The kernels keep momenta and velocities in units of ``scale``.
    """

    scale: np.ndarray
    """Shape (n,)."""
    directions: np.ndarray
    """Orthonormal u_k, shape (k, n)."""
    excess: np.ndarray
    """Shape (k,), above −1; 0 is no direction at all."""


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def velocity_of(metric, momentum, velocity):
    """Write (I + Σ_k excess_k u_k u_kᵀ) p to ``velocity``."""
    for i in range(momentum.size):
        velocity[i] = momentum[i]
    for k in range(metric.excess.size):
        _add_along(metric.directions[k], metric.excess[k], velocity)


@njit(nogil=True, cache=True, forceinline=True, allocates=False)
def draw_momentum(metric, momentum, rng):
    """Draw a momentum, whose covariance is the inverse of the metric; return its kinetic energy."""
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
    """Stretch a vector along a direction; orthogonal directions may follow one another."""
    if factor == 0.0:
        return
    along = 0.0
    for i in range(vector.size):
        along += direction[i] * vector[i]
    for i in range(vector.size):
        vector[i] += factor * along * direction[i]


def estimate_metric(
    thetas: np.ndarray,
    gradients: np.ndarray,
    weights: np.ndarray | None = None,
    for_moves: bool = True,
) -> Metric:
    """The metric from samples of a density and the gradients of its logarithm.

    It minimises the Fisher divergence from the transformed density to a standard normal one:
    the geometric mean of the covariance of θ and the inverse covariance of the gradients. For a
    normal density it is exact as soon as the samples span the space. Without gradients it is the
    covariance of θ, as far as it is clear. Seyboldt, Carlson and Carpenter (2026),
    arXiv:2603.18845.

    With more than `MAX_DENSE` elements it is diagonal. Then moves go by the gradients alone: what
    the diagonals leave correlated has to be crossed in steps that the stiffest directions bear, and
    it is these that ℓ depends on.

    Parameters
    ----------
    thetas : ndarray of shape (N, n)
        Samples.
    gradients : ndarray of shape (N, n)
        Of the log density there; all 0 where they are not known.
    weights : ndarray of shape (N,), optional
        Of the samples.
    for_moves : bool, default True
        Whether kernels move by it; if not, it describes the density.
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
            return Metric(conditional, np.zeros((0, n)), np.zeros(0))
        scale = np.sqrt(scale * conditional)
        if 1 < n <= MAX_DENSE:
            return Metric(
                scale, *_directions(thetas[known] / scale, gradients[known] * scale, weights)
            )
    elif 1 < n <= MAX_DENSE:
        return Metric(scale, *_clear_directions(thetas / scale, weights))
    return Metric(scale, np.zeros((0, n)), np.zeros(0))


def _directions(thetas, gradients, weights) -> tuple[np.ndarray, np.ndarray]:
    """Notable principal axes of the geometric mean of two covariances, and excess along them."""
    values, vectors = eigh(_covariance(gradients, weights))
    values = np.maximum(values, SHRINKAGE / 2)  # as they are, but for rounding errors
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    inner, turned = eigh(root @ _covariance(thetas, weights) @ root)
    half = inverse @ (turned * np.maximum(inner, 0.0) ** 0.25)
    variances, directions = eigh(half @ half.T)
    variances = np.clip(variances, MOST_UNEVEN**-2, MOST_UNEVEN**2)
    notable = np.abs(np.log(variances)) > np.log(NOTABLE)
    return directions[:, notable].T.copy(), variances[notable] - 1


def _clear_directions(thetas, weights) -> tuple[np.ndarray, np.ndarray]:
    """Principal axes of samples alone that noise does not explain, and excess along them.

    Of independent elements the variances along them lie within (1 ± sqrt(n / N))².
    Marchenko and Pastur (1967).
    """
    noise = np.sqrt(thetas.shape[1] * CORRELATED * (weights @ weights))
    variances, directions = eigh(_covariance(thetas, weights))
    notable = variances > NOTABLE * (1 + noise) ** 2
    notable |= variances < max(1 - noise, 0) ** 2 / NOTABLE
    return directions[:, notable].T.copy(), variances[notable] - 1


def deviations(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Standard deviation of every column; never 0."""
    mean = weights @ values
    distances = values - mean
    unit = np.abs(distances).max(axis=0, initial=0.0)
    unit[unit == 0] = 1.0  # squares of effects whose scale has no upper end overflow without it
    return unit * np.sqrt(weights @ (distances / unit) ** 2) + 1e-10 * (1 + np.abs(mean))


def _covariance(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Drawn to the identity a little: directions without samples stay."""
    values = np.clip(values, -LARGEST, LARGEST)
    covariance = np.atleast_2d(np.cov(values.T, aweights=weights, ddof=0))
    return (covariance + SHRINKAGE * np.eye(len(covariance))) / (1 + SHRINKAGE)
