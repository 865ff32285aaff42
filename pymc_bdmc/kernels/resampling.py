"""Weights of a population of particles, and resampling in proportion to them.

The resampling is systematic: every particle has as many copies as its weight promises, to less than
one. With a particle that must be kept it is conditional, and the order of the others stays that of
the circle: Chopin and Singh (2015), Section 4. benchmarks/resampling.py compares it with others.
"""

from functools import cache

import numpy as np

from pymc_bdmc.base.compiling import njit

__all__ = [
    "MAX_PLACES",
    "THRESHOLD",
    "effective_size",
    "mean_of",
    "places",
    "resample",
    "reweigh",
    "systematic",
]

THRESHOLD = 0.9
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

    The logarithm of the mean weight grows by increment · ``highest`` + ``rest``. Far draws from a
    heavy tail, with an ℓ of −10^20, do not touch the digits of either.

    Returns
    -------
    highest : float
        Largest ℓ of a particle with a weight, nats.
    rest : float
        In nats: 0 for a single particle, −∞ if every weight becomes zero.
    """
    highest, total = -np.inf, 0.0
    for i in range(weights.size):
        if weights[i] > 0.0:
            highest = max(highest, ells[i])
    if highest == -np.inf:
        return highest, -np.inf
    for i in range(weights.size):
        if weights[i] > 0.0:
            weights[i] *= np.exp(increment * (ells[i] - highest))
            total += weights[i]
    for i in range(weights.size):
        weights[i] /= total
    return highest, np.log(total)


@njit(nogil=True, cache=True)
def effective_size(weights):
    """Kish's effective number of particles of normalised weights."""
    return 1.0 / np.sum(weights**2)


@njit(nogil=True, cache=True)
def systematic(weights, n, phase):
    """Draw n of the particles in proportion to their weights, by one random number.

    The particles lie on a circle, each as long as its weight, and those under the points
    (phase + j)/n are drawn.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Their sum need not be 1.
    n : int
        Number of draws.
    phase : float
        Uniform in [0, 1).

    Returns
    -------
    ndarray of int, shape (n,)
        Increasing.
    """
    ends = np.cumsum(weights)
    ends /= ends[-1]
    drawn = np.empty(n, np.int64)
    k = 0
    for j in range(n):
        while k < ends.size - 1 and (phase + j) / n > ends[k]:
            k += 1
        drawn[j] = k
    return drawn


@njit(nogil=True, cache=True)
def resample(weights, kept, rng):
    """Draw the ancestors of all particles, each with its weight times their number in the mean.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Normalised.
    kept : bool
        Whether particle 0 has to be its own ancestor: then the others are drawn given that.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int, shape (N,)
    """
    n, phase, own = weights.size, rng.random(), 0
    if kept:
        # Given that particle 0 is chosen, one of its points is anywhere between its ends.
        point = n * (weights[0] / np.cumsum(weights)[-1]) * phase
        own = min(int(point), n - 1)
        phase = point - own
    ancestors = np.roll(systematic(weights, n, phase), -own)
    if kept:
        ancestors[0] = 0  # also where its weight is too small to have a point
    return ancestors
