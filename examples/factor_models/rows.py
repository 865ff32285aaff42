"""Draw single rows of the factor models, given features and an observation."""

from typing import NamedTuple

import numpy as np

from factor_models.features import FAST, NORMAL, Features, fit, predictive
from pymc_bdmc.base.compiling import njit


@njit(**FAST)
def value_row(model, features, y, weight, row, aim, rng):
    """Draw a row from all its possible values (see `visit`)."""
    residual, reach = np.empty(y.size), np.empty(row.size)
    log_p = model.log_probabilities.copy()
    for v in range(log_p.size):
        distance, spread = fit(features, model.values[v], y, residual, reach)
        log_p[v] += predictive(model, distance, spread, weight, y.size)
    marginal = log_p.max()
    marginal += np.log(np.sum(np.exp(log_p - marginal)))
    if len(aim):
        chosen = 0
        while np.any(model.values[chosen] != aim[0]):
            chosen += 1
    else:
        left, chosen = rng.random(), 0
        left -= np.exp(log_p[0] - marginal)
        while left > 0.0 and chosen < log_p.size - 1:
            chosen += 1
            left -= np.exp(log_p[chosen] - marginal)
    row[:] = model.values[chosen]
    return log_p[chosen] - marginal, marginal


class Loadings(NamedTuple):
    """Normal distribution of rows given features, with the precision matrix C = lower lower'."""

    lower: np.ndarray
    root: np.ndarray
    """Inverse of lower'."""
    pull: np.ndarray
    """Matrix by which an observation is multiplied, shape (K, D)."""
    log_det: float
    """Log determinant of C."""
    precision: float
    """w/σ²."""


@njit(**FAST)
def loadings_of(model, known, weight):
    """Return the distribution of rows with this weight, given features of shape (K, D)."""
    precision = weight / model.noise**2
    lower = np.linalg.cholesky(
        precision * known @ known.T + np.eye(len(known)) / model.row_scale**2
    )
    root = np.ascontiguousarray(np.linalg.inv(lower).T)
    log_det = 2.0 * np.sum(np.log(np.diag(lower)))
    return Loadings(lower, root, precision * root.T @ known, log_det, precision)


@njit(**FAST)
def normal_row(model, loadings, y, row, aim, rng):
    """Draw a normal row (see `visit`)."""
    lower, root, pull, log_det, precision = loadings
    white, squares, marginal = np.zeros(row.size), 0.0, precision * np.sum(y**2) + log_det
    for k in range(row.size):
        shift = 0.0
        for d in range(y.size):
            shift += pull[k, d] * y[d]
        marginal -= shift**2
        if len(aim):
            for j in range(k, row.size):
                white[k] += lower[j, k] * aim[0, j]
            squares += (white[k] - shift) ** 2
        else:
            noise = rng.standard_normal()
            white[k] = shift + noise
            squares += noise**2
    row[:] = 0.0
    for k in range(row.size):
        for j in range(k, row.size):
            row[k] += root[k, j] * white[j]
    weight = precision * model.noise**2
    marginal += weight * y.size * np.log(2.0 * np.pi * model.noise**2)
    marginal += 2.0 * row.size * np.log(model.row_scale)
    return 0.5 * (log_det - row.size * np.log(2.0 * np.pi) - squares), -0.5 * marginal


class Aim(NamedTuple):
    """Values that the elements of a binary row take, unless they are drawn at random."""

    row: np.ndarray
    """The values, shape (1, K), or (0, K) if elements are drawn at random."""
    floor: float
    """Limit in nats that the log density of y must exceed for an element to be replaced."""


@njit(**FAST)
def binary_row(model, features, y, weight, row, backwards, aim, rng):
    """Draw the elements of a binary row in place, one after another, or set them by an `Aim`.

    Returns
    -------
    float
        Log probability of the result.
    """
    residual, reach = np.empty(y.size), np.empty(row.size)
    distance, spread = fit(features, row, y, residual, reach)
    now, log_p = predictive(model, distance, spread, weight, y.size), 0.0
    for i in range(row.size):
        k = row.size - 1 - i if backwards else i
        sign, other = 1.0 - 2.0 * row[k], 0.0
        for d in range(y.size):
            other += (residual[d] - sign * features.mean[k, d]) ** 2
        wider = spread + 2.0 * sign * reach[k] + features.covariance[k, k]
        then = predictive(model, other, wider, weight, y.size)
        rise = sign * model.log_odds + then - now  # log odds of the other value
        if len(aim.row):
            flips = aim.row[0, k] != row[k] and then > aim.floor
        else:
            flips = rng.random() * (1.0 + np.exp(-rise)) < 1.0
        log_p -= np.logaddexp(0.0, -rise if flips else rise)
        if flips:
            row[k] = 1.0 - row[k]
            now, spread = then, wider
            for d in range(y.size):
                residual[d] -= sign * features.mean[k, d]
            for j in range(row.size):
                reach[j] += sign * features.covariance[k, j]
    return log_p


@njit(**FAST)
def visit(model, features, y, weight, row, aim, rng):
    """Draw a row given its observation and the features, in place, or set it to ``aim``.

    Parameters
    ----------
    features : Features
        Distribution of the features given the other rows, or known features for normal rows.
    aim : ndarray of shape (1, K) or (0, K)
        The resulting row, or no row if it is drawn at random.

    Returns
    -------
    log_probability : float
        Log probability of the result.
    marginal : float
        Log p(y | features), summed over the row, nats.
    """
    if model.kind == NORMAL:
        return normal_row(model, loadings_of(model, features.mean, weight), y, row, aim, rng)
    return value_row(model, features, y, weight, row, aim, rng)


@njit(**FAST)
def log_row_marginals(model, known, y, rng):
    """Return log p(Y | R), summed over the rows, for features R of shape (K, D); nats."""
    total, row = 0.0, np.empty(len(known))
    features = Features(known, np.zeros((row.size, row.size)))
    none = np.empty((0, row.size))
    for n in range(len(y)):
        total += visit(model, features, y[n], 1.0, row, none, rng)[1]
    return total
