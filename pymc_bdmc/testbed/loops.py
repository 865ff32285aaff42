"""Populations of rows on their way along a path of observation weights, and back."""

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.resampling import THRESHOLD, effective_size, resample, reweigh
from pymc_bdmc.testbed.kernels import ObservationWeights

__all__ = ["PATHS", "ascend", "descend", "observation_weights"]

PATHS = ("prior", "data")


def observation_weights(name: str, betas: np.ndarray, n: int) -> ObservationWeights:
    """Weights of N observations along a path: all are β, or one rises after the other.

    Parameters
    ----------
    name : {"prior", "data"}
        On the second, βN observations have come: Habeck (2017), Section 6.4. With β in steps of 1/N
        it is that of particle learning.
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
    # 3 · (1/3 · N) may exceed N/N by rounding, and every weight that is not 1 costs a law of rows.
    return ObservationWeights(
        np.clip((betas[:, None] * n - np.arange(n)).round(9), 0, 1), True, False
    )


@njit(nogil=True, cache=True, title="annealing of the testbed")
def ascend(moves, model, y, path, states, kept, rises, rng, stop):
    """Take a population from the prior up to all data, in place, and resample it on the way.

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    kept : ndarray of shape (T + 1, N, K) or (0, N, K)
        The way of the first particle, from `descend`; the others are then drawn given that.
    rises : ndarray of shape (T + 1,)
        Gets the weighted means of the log weights of every step; with ``kept`` those of the first.

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
    """Take exact posterior samples down to the prior, in place, weighing each step by its inverse.

    The path is one that goes ``backwards``.

    One sample is a reverse chain; several, which may all be the same at first, are resampled: the
    sequential harmonic mean estimator, Algorithm 3 of Grosse et al. (2015).

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    kept : ndarray of shape (T + 1, N, K) or (0, N, K)
        Gets the way of the first.
    rises : ndarray of shape (T + 1,)
        Gets the weighted means of the log weights of every step.

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
