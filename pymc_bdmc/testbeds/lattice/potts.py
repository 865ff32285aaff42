"""Run blocks of Potts chains site by site, with all chains at once in vector registers."""

from typing import override

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.testbeds.lattice.chains import ChainBlock
from pymc_bdmc.testbeds.lattice.randomness import GENERATOR_WORDS, next_word

# Enough that LLVM vectorises the loops over chains, few enough that spins stay in the cache.
LANES = 128


class PottsChains(ChainBlock):
    """Block of `LANES` chains, one per byte."""

    lanes = n_generators = LANES

    @override
    def move(self, beta, sites):
        interaction, q = beta * self._system.bond_strength, self._system.n_colours
        moves = heat_bath_moves if self._heat_bath else metropolis_moves
        return moves(self._spins, sites, self._neighbours, interaction, q)

    @override
    def satisfied_bonds(self):
        return satisfied_bonds(self._spins.values, self._neighbours)

    def _uniform(self, words):
        high = (words >> np.uint64(32)) * np.uint64(self._system.n_colours)
        return (high >> np.uint64(32)).astype(np.uint8)

    def _packed(self, colours):
        return colours.copy()


@njit(nogil=True, cache=True)
def metropolis_moves(chains, sites, neighbours, interaction, q):
    """Propose another colour at one site after another, and return the number of changes.

    The lower 32 bits of a random word choose the colour, and the upper 32 bits decide acceptance.

    Parameters
    ----------
    chains : Spins
    sites : ndarray of int64, shape (n,)
        Chains share the order of the sites and nothing else.
    neighbours : ndarray of int64, shape (n_sites, 4)
    interaction : float
        K = β J.
    q : int
    """
    spins = chains.values
    # Local arrays of fixed shape: the compiler knows that their rows do not overlap.
    states = np.empty((GENERATOR_WORDS, LANES), np.uint64)
    states[:] = chains.generators
    one, two, three, four = np.exp(-interaction * np.arange(1, 5)) * 2.0**32
    others = np.uint64(q - 1)
    changes = np.int64(0)
    for site in sites:
        right, below, left, above = neighbours[site]
        for c in range(LANES):
            word = next_word(states, c)
            old = np.int64(spins[site, c])
            new = old + 1 + np.int64(((word & np.uint64(0xFFFFFFFF)) * others) >> np.uint64(32))
            new = new - q if new >= q else new
            s1, s2 = np.int64(spins[right, c]), np.int64(spins[below, c])
            s3, s4 = np.int64(spins[left, c]), np.int64(spins[above, c])
            lost = np.int64(s1 == old) + np.int64(s2 == old) + np.int64(s3 == old)
            lost += np.int64(s4 == old) - np.int64(s1 == new) - np.int64(s2 == new)
            lost -= np.int64(s3 == new) + np.int64(s4 == new)
            limit = four if lost == 4 else three if lost == 3 else two if lost == 2 else one
            accept = (lost <= 0) | (np.float64(word >> np.uint64(32)) < limit)
            changes += np.int64(accept)
            spins[site, c] = np.uint8(new if accept else old)
    chains.generators[:] = states
    return changes


@njit(nogil=True, cache=True)
def heat_bath_moves(chains, sites, neighbours, interaction, q):
    """Draw one site after another from its conditional distribution, and return zero.

    If n neighbours have a colour, its weight is exp(K n) = 1 + (e^K − 1) + …, with one increment
    for each of these neighbours. So the site takes a uniform colour with weight q, or copies the
    colour of a neighbour with the increment of this neighbour as weight. The parameters are those
    of `metropolis_moves`.
    """
    spins = chains.values
    states = np.empty((GENERATOR_WORDS, LANES), np.uint64)
    states[:] = chains.generators
    one, two, three, four = np.exp(interaction * np.arange(1, 5)) - np.exp(
        interaction * np.arange(4)
    )
    for site in sites:
        right, below, left, above = neighbours[site]
        for c in range(LANES):
            word = next_word(states, c)
            s1, s2 = np.int64(spins[right, c]), np.int64(spins[below, c])
            s3, s4 = np.int64(spins[left, c]), np.int64(spins[above, c])
            n2 = np.int64(s2 == s1)
            n3 = np.int64(s3 == s1) + np.int64(s3 == s2)
            n4 = np.int64(s4 == s1) + np.int64(s4 == s2) + np.int64(s4 == s3)
            top1 = q + one
            top2 = top1 + (two if n2 == 1 else one)
            top3 = top2 + (three if n3 == 2 else two if n3 == 1 else one)
            top4 = top3 + (four if n4 == 3 else three if n4 == 2 else two if n4 == 1 else one)
            u = np.float64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0) * top4
            new = np.int64(u)
            new = s1 if u >= q else new
            new = s2 if u >= top1 else new
            new = s3 if u >= top2 else new
            new = s4 if u >= top3 else new
            spins[site, c] = np.uint8(new)
    chains.generators[:] = states
    return 0


@njit(nogil=True, cache=True)
def satisfied_bonds(spins, neighbours):
    """Count the bonds between equal neighbours in every chain, shape (LANES,)."""
    counts = np.zeros(LANES, np.int64)
    for site in range(spins.shape[0]):
        for near in neighbours[site, :2]:
            for c in range(LANES):
                counts[c] += np.int64(spins[site, c] == spins[near, c])
    return counts
