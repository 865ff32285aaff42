"""Anneal populations of rows along a path of observation weights, in both directions."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.resampling import THRESHOLD, effective_size, resample, reweigh
from pymc_bdmc.testbeds.factors.kernels import ObservationWeights

__all__ = ["PATHS", "Record", "ascend", "descend", "observation_weights"]

PATHS = ("prior", "data")


class Record(NamedTuple):
    """Records of a run at every temperature."""

    rises: np.ndarray
    """Weighted mean log weight of the step to every temperature, shape (T + 1,), nats."""
    kept: np.ndarray
    """Path of the first sample of a reverse run, shape (T + 1, N, K); (0, N, K) if not kept."""


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
    >>> from pymc_bdmc.testbeds.factors.loops import observation_weights
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
def ascend(moves, model, y, path, states, rng, stop, record):
    """Anneal a population from the prior to all data, in place, with resampling.

    If `descend` has kept a path in the ``record``, the first particle follows it, with the log
    weights there, and the others are drawn conditionally.

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    record : Record
        Its ``rises`` are overwritten.

    Returns
    -------
    float
        log Ẑ, nats; NaN where it was stopped.
    """
    rises, kept = record
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
def descend(moves, model, y, path, states, rng, stop, record):
    """Anneal exact posterior samples to the prior, in place, with inverse weights.

    The path must go ``backwards``.

    A single sample is a reverse chain. Several, which may be equal at first, are resampled: this is
    the sequential harmonic mean estimator, Algorithm 3 of Grosse et al. (2015).

    Parameters
    ----------
    moves : Moves
    states : ndarray of shape (n, N, K)
    record : Record
        Is filled.

    Returns
    -------
    float
        log Ẑ, nats; NaN where it was stopped.
    """
    rises, kept = record
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
