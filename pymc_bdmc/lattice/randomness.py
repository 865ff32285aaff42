"""Random words inside compiled loops: a vectorisable generator, and numbers by their place."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit

__all__ = [
    "GENERATOR_WORDS",
    "Spins",
    "next_word",
    "random_sites",
    "random_words",
    "seed_generators",
    "uniform",
]

GENERATOR_WORDS = 4

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Spins(NamedTuple):
    """The spins of a block of chains, and the generators that move them; changed in place."""

    values: np.ndarray
    """Shape (n_sites, W): a chain a bit of uint64, or a chain a byte of uint8."""
    generators: np.ndarray
    """Shape (GENERATOR_WORDS, W), uint64; `seed_generators`."""


def seed_generators(stream: np.random.SeedSequence, n: int) -> np.ndarray:
    """States of n independent SFC64 generators, uint64 of shape (4, n): three words, a counter."""
    states = stream.generate_state(GENERATOR_WORDS * n, np.uint64).reshape(GENERATOR_WORDS, n)
    states[3] = 1
    return states


@njit(nogil=True, cache=True)
def next_word(states, i):
    """64 random bits of generator i: SFC64 (Doty-Humphrey), whose few operations vectorise."""
    a, b, c = states[0, i], states[1, i], states[2, i]
    word = a + b + states[3, i]
    states[3, i] += np.uint64(1)
    states[0, i] = b ^ (b >> np.uint64(11))
    states[1, i] = c + (c << np.uint64(3))
    states[2, i] = ((c << np.uint64(24)) | (c >> np.uint64(40))) + word
    return word


@njit(nogil=True, cache=True)
def random_words(states, n):
    """So many words of every generator, uint64 of shape (n, number of generators)."""
    words = np.empty((n, states.shape[1]), np.uint64)
    for row in range(n):
        for i in range(states.shape[1]):
            words[row, i] = next_word(states, i)
    return words


@njit(nogil=True, cache=True)
def uniform(key, place):
    """Number in [0, 1) that depends on a key and a place alone: splitmix64 of the place.

    Coupling from the past reads the same numbers again and again, and needs none stored.
    """
    z = key + np.uint64(place) * _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def random_sites(key, first, n, n_sites):
    """Sites at the places first … first + n − 1 of an endless uniform sequence."""
    sites = np.empty(n, np.int64)
    for i in range(n):
        sites[i] = np.int64(uniform(key, first + i) * n_sites)
    return sites
