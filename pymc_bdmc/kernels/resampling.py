"""Weights of a population of particles, and resampling in proportion to them.

The resampling is systematic after sorting by ℓ, so every particle has as many copies as its weight
promises, to less than one, and so has every stretch of ℓ, which decides about the weights to come.
With a particle that must be kept it is conditional: Chopin and Singh (2015), Section 4.
"""

from functools import cache

import numpy as np

from pymc_bdmc.compiling import njit

__all__ = [
    "MAX_PLACES",
    "THRESHOLD",
    "effective_size",
    "mean_of",
    "places",
    "resample",
    "reweigh",
]

THRESHOLD = 0.5
"""Effective share of the particles below which they are resampled."""

MAX_PLACES = 256
"""Most temperatures at which they may be: there a reverse run keeps the states of its path."""


@cache
def places(n_temperatures: int) -> np.ndarray:
    """Temperatures at which a population may be resampled, for each number of them the same.

    Returns
    -------
    ndarray of bool, shape (T + 1,)
        That all runs share.

    Examples
    --------
    >>> from pymc_bdmc.kernels.resampling import places
    >>> places(3)
    array([False,  True,  True,  True])
    """
    chosen = np.zeros(n_temperatures + 1, dtype=bool)
    n = min(n_temperatures, MAX_PLACES)
    chosen[np.linspace(1, n_temperatures, n).astype(int)] = True
    return chosen


@njit(nogil=True, cache=True)
def mean_of(weights, ells):
    """Weighted mean of those ℓ that are finite; −∞ if none is."""
    total = mass = 0.0
    for i in range(weights.size):
        if weights[i] > 0.0 and ells[i] > -np.inf:
            total += weights[i] * ells[i]
            mass += weights[i]
    return total / mass if mass > 0.0 else -np.inf


@njit(nogil=True, cache=True)
def reweigh(weights, ells, increment):
    """Multiply normalised weights by exp(increment · ℓ) and normalise them, in place.

    Returns
    -------
    float
        By how much the logarithm of the mean weight grows beyond increment · `mean_of` ℓ, nats: 0
        for a single particle, −∞ if every weight becomes zero.
    """
    mean, top = mean_of(weights, ells), -np.inf
    if mean == -np.inf:
        return -np.inf
    for i in range(weights.size):
        if weights[i] > 0.0:
            top = max(top, increment * (ells[i] - mean))
    total = 0.0
    for i in range(weights.size):
        if weights[i] > 0.0:
            weights[i] *= np.exp(increment * (ells[i] - mean) - top)
            total += weights[i]
    for i in range(weights.size):
        weights[i] /= total
    return top + np.log(total)


@njit(nogil=True, cache=True)
def effective_size(weights):
    """Kish's effective number of particles of normalised weights."""
    return 1.0 / np.sum(weights**2)


@njit(nogil=True, cache=True)
def resample(weights, ells, kept, rng):
    """Draw the ancestors of all particles, each with its weight times their number in the mean.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Normalised.
    ells : ndarray of shape (N,)
        ℓ, nats.
    kept : bool
        Whether particle 0 has to be its own ancestor: then the others are drawn given that.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int, shape (N,)
    """
    n = weights.size
    order = np.arange(n)
    for i in range(n - 1, 0, -1):  # among equals the order must not depend on who is kept
        j = int(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]
    order = order[np.argsort(ells[order], kind="mergesort")]
    ends = np.cumsum(weights[order])
    ends /= ends[-1]
    # The points (phase + j)/N, of which those between the ends of a particle are its copies
    phase, own = rng.random(), -1
    if kept:
        # Given that the kept one is chosen, one of the points is anywhere between its ends.
        place = np.argmin(order)
        below = ends[place - 1] if place > 0 else 0.0
        point = n * (below + phase * (ends[place] - below))
        own = min(int(point), n - 1)
        phase = point - own
    ancestors = np.empty(n, np.int64)
    k, free = 0, 1 if kept else 0
    for j in range(n):
        while k < n - 1 and (phase + j) / n > ends[k]:
            k += 1
        if j == own:
            ancestors[0] = 0
        else:
            ancestors[free] = order[k]
            free += 1
    return ancestors
