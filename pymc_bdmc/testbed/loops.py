"""Anneal populations of rows along a path of observation weights, in both directions."""

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.resampling import THRESHOLD, effective_size, resample, reweigh
from pymc_bdmc.testbed.kernels import ObservationWeights

__all__ = ["PATHS", "ascend", "descend", "observation_weights"]

PATHS = ("prior", "data")


def observation_weights(name: str, betas: np.ndarray, n: int) -> ObservationWeights:
    """Weigh N observations along a path: all have weight β, or one after the other rises.

    Parameters
    ----------
    name : {"prior", "data"}
        On "data", βN observations are present (Habeck 2017, Section 6.4). With β in steps of 1/N
        this is the path of particle learning.
    betas : ndarray of shape (T + 1,)
    n : int
        N.

    Examples
    --------
    >>> from pymc_bdmc.testbed.loops import observation_weights
    >>> observation_weights("data", np.array([0, 0.5, 0.75, 1]), 2).weights
    array([[0. , 0. ],
           [1. , 0. ],
           [1. , 0.5],
           [1. , 1. ]])
    """
    if name == "prior":
        return ObservationWeights(np.repeat(betas[:, None], n, axis=1), False, False)
    # 3 · (1/3 · N) may exceed N/N by rounding, and every weight other than 1 costs time.
    return ObservationWeights(
        np.clip((betas[:, None] * n - np.arange(n)).round(9), 0, 1), True, False
    )


@njit(nogil=True, cache=True, title="annealing of the testbed")
def ascend(moves, model, y, path, states, kept, rises, rng, stop):
    """Anneal a population from the prior to all data, in place, with resampling.

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    kept : ndarray of shape (T + 1, N, K) or (0, N, K)
        Path of the first particle, from `descend`; the others are then drawn conditionally.
    rises : ndarray of shape (T + 1,)
        Receives the weighted mean log weight of every step; with ``kept``, that of the first
        particle.

    Returns
    -------
    float
        log Ẑ, nats; NaN where it was stopped.
    """
    n, first, none = len(states), min(len(kept), 1), states[0, :0]
    weights, steps, log_z = np.full(n, 1.0 / n), np.empty(n), 0.0
    for t in range(1, len(path.weights)):
        for i in range(first, n):
            steps[i] = moves.weigh(model, states[i], y, path, t, rng)
        if first:
            states[0], steps[0] = kept[t], rises[t]
        rises[t] = np.sum(weights * steps)
        highest, rest = reweigh(weights, steps, 1.0)
        log_z += highest + rest
        if effective_size(weights) < THRESHOLD * n:
            states[:] = states[resample(weights, first == 1, rng)]
            weights[:] = 1.0 / n
        for i in range(first, n):
            moves.sweep(model, states[i], y, path.weights[t], path.backwards, none, rng)
        if stop[0]:
            return np.nan
    return log_z


@njit(nogil=True, cache=True)
def descend(moves, model, y, path, states, kept, rises, rng, stop):
    """Anneal exact posterior samples to the prior, in place, with inverse weights.

    The path must go ``backwards``.

    A single sample is a reverse chain. Several, which may be equal at first, are resampled: this is
    the sequential harmonic mean estimator, Algorithm 3 of Grosse et al. (2015).

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    kept : ndarray of shape (T + 1, N, K) or (0, N, K)
        Receives the path of the first sample.
    rises : ndarray of shape (T + 1,)
        Receives the weighted mean log weight of every step.

    Returns
    -------
    float
        log Ẑ, nats; NaN where it was stopped.
    """
    n, none = len(states), states[0, :0]
    weights, steps, log_z = np.full(n, 1.0 / n), np.empty(n), 0.0
    for t in range(len(path.weights) - 1, 0, -1):
        for i in range(n):
            moves.sweep(model, states[i], y, path.weights[t], path.backwards, none, rng)
            steps[i] = moves.weigh(model, states[i], y, path, t, rng)
        if len(kept):
            kept[t] = states[0]
        rises[t] = np.sum(weights * steps)
        highest, rest = reweigh(weights, -steps, 1.0)
        log_z -= highest + rest
        if effective_size(weights) < THRESHOLD * n:
            states[:] = states[resample(weights, False, rng)]
            weights[:] = 1.0 / n
        if stop[0]:
            return np.nan
    return log_z
