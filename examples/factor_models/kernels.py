"""Sweep the factor models by compiled Gibbs updates, and weigh them along a path."""

from typing import NamedTuple

import numba
import numpy as np
from numba import types

from factor_models.features import (
    BINARY,
    FAST,
    NORMAL,
    Factors,
    absorb,
    draw_features,
    features_of,
)
from factor_models.rows import (
    Aim,
    binary_row,
    loadings_of,
    normal_row,
    value_row,
    visit,
)
from pymc_bdmc.base.compiling import CalledByAddress, njit


class ObservationWeights(NamedTuple):
    """Weights of the observations along a path."""

    weights: np.ndarray
    """Weights of every observation, shape (T + 1, N); from 0 to 1."""
    enters: bool
    """Whether a row is drawn given its observation when its weight becomes positive."""
    backwards: bool
    """Whether the path leads from all data to the prior."""


@njit(**FAST, title="sweeps of the factor models")
def sweep(model, rows, y, weights, backwards, aim, rng):
    """Draw every row with positive weight, in place, or ``backwards`` for the reversal.

    Discrete rows are drawn one after another, with the features integrated out. For normal rows,
    features are drawn given all rows, and then the rows given the features. This sweep is its own
    reversal.

    Parameters
    ----------
    aim : ndarray of shape (N, K) or (0, K)
        The resulting rows, or no rows if they are drawn at random.

    Returns
    -------
    float
        Log probability of the result, given the features if they were drawn.
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

    A row that enters is drawn in place given its observation, and weighted by the marginal density
    (Grosse et al. 2015, Eqs 16-20). Backwards, the weight is that of the forward step to this
    state.
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
def constrained_sweep(model, rows, y, candidates, floor, rng):
    """Replace rows by candidates from the prior if log p(Y | L) stays above ``floor``.

    Parameters
    ----------
    candidates : ndarray of shape (N, K)
        Prior draws. A normal row is rotated by a random angle towards its candidate. The elements
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
