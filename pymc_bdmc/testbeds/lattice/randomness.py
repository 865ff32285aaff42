"""Generate random words inside compiled loops, by vectorised generators or by position."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit

GENERATOR_WORDS = 4

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Spins(NamedTuple):
    """Spins of a block of chains and their generators, which are changed in place."""

    values: np.ndarray
    """Spins, shape (n_sites, W): one chain per bit of uint64, or per byte of uint8."""
    generators: np.ndarray
    """States of the generators from `seed_generators`, shape (GENERATOR_WORDS, W), uint64."""


def seed_generators(stream: np.random.SeedSequence, n: int) -> np.ndarray:
    """Return states of n independent SFC64 generators, shape (4, n), with the counter last."""
    states = stream.generate_state(GENERATOR_WORDS * n, np.uint64).reshape(GENERATOR_WORDS, n)
    states[3] = 1
    return states


@njit(nogil=True, cache=True)
def next_word(states, i):
    """Return 64 random bits of generator i by SFC64 (Doty-Humphrey), which vectorises well."""
    a, b, c = states[0, i], states[1, i], states[2, i]
    word = a + b + states[3, i]
    states[3, i] += np.uint64(1)
    states[0, i] = b ^ (b >> np.uint64(11))
    states[1, i] = c + (c << np.uint64(3))
    states[2, i] = ((c << np.uint64(24)) | (c >> np.uint64(40))) + word
    return word


@njit(nogil=True, cache=True)
def random_words(states, n):
    """Return n words of every generator, uint64 of shape (n, number of generators)."""
    words = np.empty((n, states.shape[1]), np.uint64)
    for row in range(n):
        for i in range(states.shape[1]):
            words[row, i] = next_word(states, i)
    return words


@njit(nogil=True, cache=True)
def uniform(key, place):
    """Return a number in [0, 1) that depends on key and position only, by splitmix64.

    Coupling from the past needs the same numbers repeatedly. With this function it need not store
    them.
    """
    z = key + np.uint64(place) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def random_sites(key, first, n, n_sites):
    """Return the sites at positions first … first + n − 1 of an infinite uniform sequence."""
    sites = np.empty(n, np.int64)
    for i in range(n):
        sites[i] = np.int64(uniform(key, first + i) * n_sites)
    return sites
