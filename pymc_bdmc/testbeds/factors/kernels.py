"""Sweep the factor models by compiled Gibbs updates, for any weights of the observations.

Observation n is its row l_n times the features R, plus noise; its likelihood has a weight w_n from
0 (absent) to 1: f_w(L) = p(L) ∫ p(R) Π_n N(y_n | l_n R, σ²)^w_n dR. Given L the columns of R are
independent and normal with one covariance, so an observation is added or removed by an update of
rank one (Doshi-Velez and Ghahramani 2009), and all the densities needed are `predictive`.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from pymc_bdmc.base.compiling import CalledByAddress, njit

FAST: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},  # sums use SIMD lanes; NaN and infinities stay
}

ONE_HOT, NORMAL, BINARY = range(3)
"""Kinds of rows: a choice of one feature, a vector of loadings, or a set of features."""


class Factors(NamedTuple):
    """Model in the form of the kernels."""

    kind: int
    values: np.ndarray
    """All possible rows, shape (V, K); V = 0 for normal rows."""
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


class ObservationWeights(NamedTuple):
    """Weights of the observations along a path."""

    weights: np.ndarray
    """Weights of every observation, shape (T + 1, N); from 0 to 1."""
    enters: bool
    """Whether a row is drawn given its observation when its weight becomes positive."""
    backwards: bool
    """Whether the path leads from all data to the prior."""


@njit(**FAST)
def predictive(model, distance, spread, weight, size):
    """Return log ∫ N(y | l R, σ²)^w over R, from |y − l E[R]|² and l Cov l', nats.

    A negative weight is for an observation that is removed.
    """
    precision = weight / model.noise**2
    shrinkage = 1.0 + precision * spread
    constant = weight * np.log(2.0 * np.pi * model.noise**2) + np.log(shrinkage)
    return -0.5 * (size * constant + distance * precision / shrinkage)


@njit(**FAST)
def fit(features, row, y, residual, reach):
    """Write y − l E[R] and Cov l' to the last two; return |y − l E[R]|² and l Cov l'."""
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
    """Add an observation to the distribution of the features; a negative weight removes it.

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
    """Draw R; return it as a distribution without variance."""
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


@njit(**FAST)
def value_row(model, features, y, weight, row, aim, rng):
    """Draw a row from all its possible values; see `visit`."""
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
    """Distribution of normal rows given features; C⁻¹ is the covariance, C = lower lower'."""

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
    """Draw a normal row; see `visit`."""
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
    """Result of a binary row that is not drawn at random, element by element."""

    row: np.ndarray
    """The elements, shape (1, K); (0, K) if they are drawn at random."""
    floor: float
    """Nats that the log density of y must exceed for an element to be taken."""


@njit(**FAST)
def binary_row(model, features, y, weight, row, backwards, aim, rng):
    """Draw the elements of a binary row one after the other, or by an `Aim`, in place.

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
        Features given the other rows; for normal rows, known features.
    aim : ndarray of shape (1, K) or (0, K)
        The result, if it is not to be drawn at random.

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


@njit(**FAST, title="sweeps of the testbed")
def sweep(model, rows, y, weights, backwards, aim, rng):
    """Draw every row with positive weight, in place; the reversal goes ``backwards``.

    Discrete rows are drawn one after the other, with the features integrated out. Normal rows are
    drawn given features, which are drawn given all rows; this is its own reversal.

    Parameters
    ----------
    aim : ndarray of shape (N, K) or (0, K)
        The result, if it is not to be drawn at random.

    Returns
    -------
    float
        Log probability of the result, given the features if these were drawn.
    """
    features, _ = features_of(model, rows, y, weights)
    log_p, latest = 0.0, 0.0
    if model.kind == NORMAL:
        features = draw_features(features, rng)
        loadings = loadings_of(model, features.mean, latest)
    for i in range(len(y)):
        n = len(y) - 1 - i if backwards else i
        weight = weights[n]
        if weight == 0.0:
            continue
        if model.kind == NORMAL:
            if weight != latest:
                loadings, latest = loadings_of(model, features.mean, weight), weight
            log_p += normal_row(model, loadings, y[n], rows[n], aim[n : n + 1], rng)[0]
            continue
        absorb(model, features, rows[n], y[n], -weight)
        if model.kind == BINARY:
            whole = Aim(aim[n : n + 1], -np.inf)
            log_p += binary_row(model, features, y[n], weight, rows[n], backwards, whole, rng)
        else:
            log_p += value_row(model, features, y[n], weight, rows[n], aim[n : n + 1], rng)[0]
        absorb(model, features, rows[n], y[n], weight)
    return log_p


@njit(**FAST)
def weigh(model, rows, y, path, t, rng):
    """Return the log weight of a state from the weights t − 1 of a path to the weights t, nats.

    A row that enters is drawn given its observation, in place, and weighted by the marginal: Eqs
    16-20 of Grosse et al. (2015). Backwards, the weight is that of the forward step to this state.
    """
    enters, backwards = path.enters, path.backwards
    old, new = path.weights[t - 1], path.weights[t]
    present, changes, arrivals = new.copy(), 0, 0
    for n in range(len(y)):
        if enters and old[n] == 0.0 and new[n] > 0.0:
            present[n] = 0.0
            arrivals += 1
        changes += present[n] != old[n]
    rise = 0.0
    if changes:
        rise = features_of(model, rows, y, present)[1] - features_of(model, rows, y, old)[1]
    if not arrivals:
        return rise
    if backwards:
        present[:] = new
    for i in range(len(y)):
        n = len(y) - 1 - i if backwards else i
        if old[n] > 0.0 or new[n] == 0.0:
            continue
        # Normal rows need known features, drawn before the row enters, or backwards before it
        # leaves.
        present[n] = new[n] if backwards and model.kind == NORMAL else 0.0
        features, _ = features_of(model, rows, y, present)
        if model.kind == NORMAL:
            features = draw_features(features, rng)
        row = rows[n].copy() if backwards else rows[n]
        rise += visit(model, features, y[n], new[n], row, rows[:0], rng)[1]
        present[n] = 0.0 if backwards else new[n]
    return rise


class Moves(NamedTuple):
    """The two operations along a path, for the compiled loops."""

    sweep: CalledByAddress
    weigh: CalledByAddress


def _moves():
    vector, matrix = types.float64[::1], types.float64[:, ::1]
    names = types.BaseTuple.from_types
    model = names((types.int64, matrix, vector, *[types.float64] * 4), Factors)
    path = names((matrix, types.boolean, types.boolean), ObservationWeights)
    rng = numba.typeof(np.random.default_rng(0))
    swept = types.float64(model, matrix, matrix, vector, types.boolean, matrix, rng)
    weighed = types.float64(model, matrix, matrix, path, types.int64, rng)
    return Moves(CalledByAddress(sweep, swept), CalledByAddress(weigh, weighed))


MOVES = _moves()


@njit(**FAST)
def log_row_marginals(model, known, y, rng):
    """Return log p(Y | R), summed over the rows, for features R of shape (K, D); nats."""
    total, row = 0.0, np.empty(len(known))
    features = Features(known, np.zeros((row.size, row.size)))
    none = np.empty((0, row.size))
    for n in range(len(y)):
        total += visit(model, features, y[n], 1.0, row, none, rng)[1]
    return total


@njit(**FAST)
def constrained_sweep(model, rows, y, candidates, floor, rng):
    """Replace rows by candidates from the prior if log p(Y | L) stays above ``floor``.

    Parameters
    ----------
    candidates : ndarray of shape (N, K)
        Prior draws. A normal row is rotated by a random angle towards its candidate; the elements
        of a binary row are replaced one by one.

    Returns
    -------
    float
        Log p(Y | L), nats.
    """
    features, log_likelihood = features_of(model, rows, y, np.ones(len(y)))
    for n in range(len(y)):
        candidate = candidates[n]
        if model.kind == NORMAL:
            angle = 0.5 * np.pi * rng.random() ** 2
            candidate = np.cos(angle) * rows[n] + np.sin(angle) * candidate
        without = log_likelihood + absorb(model, features, rows[n], y[n], -1.0)
        if model.kind == BINARY:
            aim = Aim(candidates[n : n + 1], floor - without)
            binary_row(model, features, y[n], 1.0, rows[n], False, aim, rng)
            log_likelihood = without + absorb(model, features, rows[n], y[n], 1.0)
            continue
        moved = without + absorb(model, features, candidate, y[n], 1.0)
        if moved > floor:
            rows[n], log_likelihood = candidate, moved
        else:
            absorb(model, features, candidate, y[n], -1.0)
            absorb(model, features, rows[n], y[n], 1.0)
    return log_likelihood
