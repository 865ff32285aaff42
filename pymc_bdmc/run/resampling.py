"""Weight the particles of a population, and resample in proportion to the weights.

Resampling is systematic: the number of copies of a particle differs from its expectation by less
than one. If a particle must be kept, resampling is conditional on that, in the same circular order:
Chopin and Singh (2015), Section 4. benchmarks/resampling.py compares it with other schemes.
"""

from functools import cache

import numpy as np

from pymc_bdmc.base.compiling import njit

THRESHOLD = 0.9
"""Ratio of the effective sample size to the number of particles, below which they are resampled.
Measured (benchmarks/resampling.py)."""
MAX_PLACES = 256
"""Most temperatures with resampling; a reverse run stores the states of its path there. Chosen."""


@cache
def places(n_temperatures: int) -> np.ndarray:
    """Mask, shape (T + 1,), of the temperatures at which particles may be resampled."""
    chosen = np.zeros(n_temperatures + 1, dtype=bool)
    n = min(n_temperatures, MAX_PLACES)
    chosen[np.linspace(1, n_temperatures, n).astype(int)] = True
    return chosen


@njit(nogil=True, cache=True)
def mean_of(weights, ells):
    """Return the weighted mean of the finite ℓ; −∞ if none is finite."""
    total = mass = 0.0
    for i in range(weights.size):
        if weights[i] > 0.0 and ells[i] > -np.inf:
            total += weights[i] * ells[i]
            mass += weights[i]
    return total / mass if mass > 0.0 else -np.inf


@njit(nogil=True, cache=True)
def update_weights(weights, ells, increment):
    """Multiply normalised weights by exp(increment · ℓ) and normalise them, in place.

    The log of the mean weight grows by increment · ``highest`` + ``rest``: the largest ℓ of a
    particle with positive weight, and a remainder, −∞ if every weight becomes zero. This form
    avoids rounding errors if some particles have a very low ℓ, such as −10^20.
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
    """Return Kish's effective sample size of normalised weights."""
    return 1.0 / np.sum(weights**2)


@njit(nogil=True, cache=True)
def systematic(weights, n, phase):
    """Draw n of the particles in proportion to their weights, by one uniform number in [0, 1).

    On a circle each is as long as its weight; those under the points (phase + j)/n are drawn. The
    sum of the weights need not be 1.
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
def resample(weights, conditional, phase):
    """Draw the ancestors of all N particles, by one uniform number in [0, 1).

    If ``conditional``, particle 0 is its own ancestor, and the others are drawn given that.
    """
    n, own = weights.size, 0
    if conditional:
        # Given that particle 0 is chosen, one of its points is anywhere between its ends.
        point = n * (weights[0] / np.cumsum(weights)[-1]) * phase
        own = min(int(point), n - 1)
        phase = point - own
    ancestors = np.roll(systematic(weights, n, phase), -own)
    if conditional:
        ancestors[0] = 0  # also if its weight is too small for a point
    return ancestors
