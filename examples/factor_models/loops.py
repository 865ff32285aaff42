"""Anneal populations of rows along a path of observation weights, in both directions."""

from typing import NamedTuple

import numpy as np

from factor_models.kernels import ObservationWeights
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.run.resampling import THRESHOLD, effective_size, resample, update_weights

PATHS = ("prior", "data")


class Record(NamedTuple):
    """Records of a run at every temperature."""

    rises: np.ndarray
    """Weighted mean log weight of the step to every temperature, shape (T + 1,), nats."""
    kept: np.ndarray
    """Path of the first sample of a reverse run, shape (T + 1, N, K), or (0, N, K) if not kept."""


def observation_weights(name: str, betas: np.ndarray, n: int) -> ObservationWeights:
    """Weigh N observations along a path, either all by β or one after another.

    Parameters
    ----------
    name : {"prior", "data"}
        On the path "data", βN observations are present (Habeck 2017, Section 6.4). With β in steps
        of 1/N this is the path of particle learning.
    betas : ndarray of shape (T + 1,)
    n : int
        N.

    Examples
    --------
    >>> from factor_models.loops import observation_weights
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


@njit(nogil=True, cache=True, title="annealing of the factor models")
def anneal(moves, model, y, path, states, rng, stop, record):
    """Anneal a population along a path, in place, with resampling.

    A forward run goes from the prior to all data. If a run ``backwards`` has kept a path in the
    ``record``, the first particle follows this path with its log weights, and the others are drawn
    conditionally.

    A run backwards takes exact posterior samples to the prior, with inverse weights. A single
    sample is a reverse chain. Several samples, which may be equal at first, are resampled, which is
    the sequential harmonic mean estimator (Algorithm 3 of Grosse et al. 2015).

    Parameters
    ----------
    moves : Moves
    path : ObservationWeights
    states : ndarray of shape (n, N, K)
    record : Record
        Record whose ``rises`` are overwritten, and in a run backwards also its ``kept`` path.

    Returns
    -------
    float
        log Ẑ, nats; NaN if the run was stopped.
    """
    rises, kept = record
    n, none, back = len(states), states[0, :0], path.backwards
    first, sign = (0, -1.0) if back else (min(len(kept), 1), 1.0)
    weights, steps, log_z = np.full(n, 1.0 / n), np.empty(n), 0.0
    last = len(path.weights) - 1
    for s in range(last):
        t = last - s if back else s + 1
        for i in range(first, n):
            if back:
                moves.sweep(model, states[i], y, path.weights[t], back, none, rng)
            steps[i] = moves.weigh(model, states[i], y, path, t, rng)
        if first:
            states[0], steps[0] = kept[t], rises[t]
        elif len(kept):
            kept[t] = states[0]
        rises[t] = np.sum(weights * steps)
        highest, rest = update_weights(weights, sign * steps, 1.0)
        log_z += sign * (highest + rest)
        if effective_size(weights) < THRESHOLD * n:
            states[:] = states[resample(weights, first == 1, rng.random())]
            weights[:] = 1.0 / n
        if not back:
            for i in range(first, n):
                moves.sweep(model, states[i], y, path.weights[t], back, none, rng)
        if stop[0]:
            return np.nan
    return log_z
