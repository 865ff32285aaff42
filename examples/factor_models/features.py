"""Update the distribution of the features, given rows and any weights of the observations.

Observation n is its row l_n times the features R, plus noise. Its likelihood has a weight w_n from
0 (absent) to 1: f_w(L) = p(L) ∫ p(R) Π_n N(y_n | l_n R, σ²)^w_n dR. Given L the columns of R are
independent and normal with one covariance, so an observation is added or removed by an update of
rank one (Doshi-Velez and Ghahramani 2009), and `predictive` gives all necessary densities.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit

FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"reassoc", "contract", "nsz"},  # sums use SIMD lanes; NaN and infinities stay
}

ONE_HOT, NORMAL, BINARY = range(3)
"""Kinds of rows: a choice of one feature, a vector of loadings, or a set of features."""


class Factors(NamedTuple):
    """Model in the form of the kernels."""

    kind: int
    values: np.ndarray
    """All possible rows, shape (V, K), with V = 0 for normal rows."""
    log_probabilities: np.ndarray
    """Log probabilities of the values, shape (V,)."""
    log_odds: float
    """Log odds of a feature in a binary row."""
    row_scale: float
    """Standard deviation of the elements of a normal row."""
    feature_scale: float
    noise: float


class Features(NamedTuple):
    """Normal distribution of R."""

    mean: np.ndarray
    """Mean of R, shape (K, D)."""
    covariance: np.ndarray
    """Covariance of every column, shape (K, K)."""


@njit(**FAST)
def predictive(model, distance, spread, weight, size):
    """Return log ∫ N(y | l R, σ²)^w over R, from |y − l E[R]|² and l Cov l', nats.

    A negative weight removes an observation.
    """
    precision = weight / model.noise**2
    shrinkage = 1.0 + precision * spread
    constant = weight * np.log(2.0 * np.pi * model.noise**2) + np.log(shrinkage)
    return -0.5 * (size * constant + distance * precision / shrinkage)


@njit(**FAST)
def fit(features, row, y, residual, reach):
    """Return |y − l E[R]|² and l Cov l', and write y − l E[R] and Cov l' to the last arguments."""
    mean, covariance = features
    residual[:], reach[:] = y, 0.0
    for k in range(row.size):
        if row[k] != 0.0:  # most elements are zero
            for d in range(y.size):
                residual[d] -= row[k] * mean[k, d]
            for j in range(row.size):
                reach[j] += row[k] * covariance[k, j]
    distance = spread = 0.0
    for d in range(y.size):
        distance += residual[d] * residual[d]
    for k in range(row.size):
        spread += row[k] * reach[k]
    return distance, spread


@njit(**FAST)
def absorb(model, features, row, y, weight):
    """Add an observation to the distribution of the features, or remove it by a negative weight.

    Returns
    -------
    float
        `predictive` of the observation, nats.
    """
    if weight == 0.0:
        return 0.0
    residual, reach = np.empty(y.size), np.empty(row.size)
    distance, spread = fit(features, row, y, residual, reach)
    precision = weight / model.noise**2
    gain = precision / (1.0 + precision * spread)
    for k in range(row.size):
        if reach[k] != 0.0:
            for d in range(y.size):
                features.mean[k, d] += gain * reach[k] * residual[d]
            for j in range(row.size):
                features.covariance[k, j] -= gain * reach[k] * reach[j]
    return predictive(model, distance, spread, weight, y.size)


@njit(**FAST)
def features_of(model, rows, y, weights):
    """Return the distribution of the features given all rows, and its log normaliser, nats."""
    n_features = rows.shape[1]
    covariance = model.feature_scale**2 * np.eye(n_features)
    features = Features(np.zeros((n_features, y.shape[1])), covariance)
    log_likelihood = 0.0
    for n in range(len(y)):
        log_likelihood += absorb(model, features, rows[n], y[n], weights[n])
    return features, log_likelihood


@njit(**FAST)
def draw_features(features, rng):
    """Draw R, and return it as a distribution without variance."""
    mean, covariance = features
    noise = np.empty_like(mean)
    for k in range(mean.shape[0]):
        for d in range(mean.shape[1]):
            noise[k, d] = rng.standard_normal()
    return Features(mean + np.linalg.cholesky(covariance) @ noise, np.zeros_like(covariance))


@njit(**FAST)
def log_prior(model, rows):
    """Return log p(L), nats."""
    n, k = rows.shape
    if model.kind == ONE_HOT:
        return np.sum(rows @ model.log_probabilities)
    if model.kind == BINARY:
        return np.sum(rows) * model.log_odds - n * k * np.logaddexp(0.0, model.log_odds)
    squares = np.sum((rows / model.row_scale) ** 2)
    return -0.5 * (squares + n * k * np.log(2.0 * np.pi * model.row_scale**2))
