"""Run thousands of Ising chains as bits of words (multispin coding)."""

from typing import override

import numpy as np
from scipy.special import expit

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.testbeds.lattice.chains import ChainBlock
from pymc_bdmc.testbeds.lattice.randomness import GENERATOR_WORDS, next_word

# Sixteen words, not fewer: LLVM unrolls shorter loops before it tries to vectorise them.
WORDS = 16
LANES = 64 * WORDS
_BITS = 64
_LEVELS = 48  # counts of up to 2^47 bonds

_SHIFTS = np.arange(_BITS - 1, -1, -1, dtype=np.uint64)[:, None]
_BELOW_ONE = 1 - 2.0**-53


class IsingChains(ChainBlock):
    """Block of `LANES` chains of a lattice with two colours, one per bit."""

    lanes, n_generators = LANES, WORDS

    @override
    def move(self, beta, sites):
        planes = flip_planes(beta * self._system.bond_strength / 2, self._heat_bath)
        return flip_spins(self._spins, sites, self._neighbours, planes, self._heat_bath)

    @override
    def satisfied_bonds(self):
        return self._system.n_bonds - unsatisfied_bonds(self._spins.values, self._neighbours)

    def _uniform(self, words):
        return words

    def _packed(self, colours):
        return pack(colours)


def flip_planes(interaction: float, heat_bath: bool) -> np.ndarray:
    """Return the binary digits of the three probabilities of a move, as masks of all lanes.

    Parameters
    ----------
    interaction : float
        K = β J.
    heat_bath : bool
        Whether to use the heat bath; otherwise Metropolis.

    Returns
    -------
    ndarray of uint64, shape (64, 3)
        All ones or all zeros for each digit. For Metropolis, they are the probabilities of
        accepting ΔE = 8J and ΔE = 4J. For the heat bath, they are the probabilities of ending
        opposite to four equal neighbours and opposite to a majority of three, and 1/2 for a tie.
    """
    gain = interaction * np.array([8.0, 4.0])
    p = [*expit(-gain), 0.5] if heat_bath else [*np.exp(-gain), 0.0]
    numbers = (np.minimum(p, _BELOW_ONE) * 2.0**_BITS).astype(np.uint64)
    digits = (numbers >> _SHIFTS) & np.uint64(1)
    return -digits  # turns 1 into all ones


@njit(nogil=True, cache=True)
def flip_spins(chains, sites, neighbours, planes, heat_bath):
    """Update the sites one after another in all lanes, and return the number of flips.

    A lane flips if a 64-bit uniform number U is below its probability p. Every random word gives
    one digit of U to each lane, starting with the highest. A lane is decided at the first digit in
    which U and p differ, and the loop ends when all lanes are decided. Lanes share the order of the
    sites and nothing else.

    Parameters
    ----------
    chains : Spins
        Lane c is bit c % 64 of word c // 64.
    sites : ndarray of int64, shape (n,)
    neighbours : ndarray of int64, shape (n_sites, 4)
    planes : ndarray of uint64, shape (64, 3)
        `flip_planes`.
    heat_bath : bool
    """
    spins = chains.values
    # Local arrays of fixed shape: the compiler knows that their rows do not overlap.
    states = np.empty((GENERATOR_WORDS, WORDS), np.uint64)
    states[:] = chains.generators
    strong, weak, tie, flip, undecided = 0, 1, 2, 3, 4
    lanes = np.empty((5, WORDS), np.uint64)
    flips = 0
    for site in sites:
        right, below, left, above = neighbours[site]
        for w in range(WORDS):
            s = spins[site, w]
            a, b = s ^ spins[right, w], s ^ spins[below, w]  # ones if neighbours differ
            c, d = s ^ spins[left, w], s ^ spins[above, w]
            odd = a ^ b ^ c ^ d
            pair = (a & b) | (c & d)
            none = ~(a | b | c | d)
            if heat_bath:
                four = a & b & c & d
                lanes[strong, w] = none | four
                lanes[weak, w] = odd
                lanes[tie, w] = ~(none | four | odd)
                lanes[flip, w] = four | (odd & pair)  # majority; digits may reverse it
            else:
                lanes[strong, w] = none
                lanes[weak, w] = odd & ~pair
                lanes[tie, w] = 0
                lanes[flip, w] = ~(none | (odd & ~pair))
            lanes[undecided, w] = lanes[strong, w] | lanes[weak, w] | lanes[tie, w]
        for k in range(_BITS):
            left_over = np.uint64(0)
            for w in range(WORDS):
                word = next_word(states, w)
                digit = (
                    (lanes[strong, w] & planes[k, strong])
                    | (lanes[weak, w] & planes[k, weak])
                    | (lanes[tie, w] & planes[k, tie])
                )
                lanes[flip, w] ^= lanes[undecided, w] & digit & ~word
                lanes[undecided, w] &= ~(digit ^ word)
                left_over |= lanes[undecided, w]
            if left_over == 0:
                break
        for w in range(WORDS):
            spins[site, w] ^= lanes[flip, w]
            flips += _count_ones(lanes[flip, w])
    chains.generators[:] = states
    return flips


@njit(nogil=True, cache=True)
def _count_ones(x):
    """Count the set bits of a word, in a form that compilers recognise."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def unsatisfied_bonds(spins, neighbours):
    """Count the bonds between unlike spins in every lane, without unpacking the spins.

    For each digit, a full adder adds the two bonds of a site to the sum so far. A carry is kept
    until there are two carries for the next digit.

    Returns
    -------
    ndarray of int64, shape (LANES,)
    """
    total = np.zeros((_LEVELS, WORDS), np.uint64)
    waiting = np.zeros((_LEVELS, WORDS), np.uint64)
    carry = np.empty(WORDS, np.uint64)
    n_sites = spins.shape[0]
    for i in range(n_sites):
        right, below = neighbours[i, 0], neighbours[i, 1]
        for w in range(WORDS):
            a, b = spins[i, w] ^ spins[right, w], spins[i, w] ^ spins[below, w]
            carry[w] = (a & b) | (total[0, w] & (a ^ b))
            total[0, w] ^= a ^ b
        level, sites_so_far = 1, i
        while sites_so_far & 1:  # there is already a carry of this weight
            for w in range(WORDS):
                a, b = waiting[level, w], carry[w]
                carry[w] = (a & b) | (total[level, w] & (a ^ b))
                total[level, w] ^= a ^ b
            level, sites_so_far = level + 1, sites_so_far >> 1
        waiting[level] = carry
    counts = np.zeros(LANES, np.int64)
    for level in range(_LEVELS):
        if 1 << level > 2 * n_sites:
            break
        still_waiting = level > 0 and (n_sites >> (level - 1)) & 1
        for w in range(WORDS):
            first, second = total[level, w], waiting[level, w] if still_waiting else np.uint64(0)
            for bit in range(64):
                ones = ((first >> np.uint64(bit)) & np.uint64(1)) + (
                    (second >> np.uint64(bit)) & np.uint64(1)
                )
                counts[64 * w + bit] += np.int64(ones << np.uint64(level))
    return counts


def pack(colours: np.ndarray) -> np.ndarray:
    """Pack colours 0 and 1 of shape (n_sites, LANES) into words of shape (n_sites, WORDS)."""
    bits = np.packbits(np.ascontiguousarray(colours), axis=1, bitorder="little")
    return bits.view("<u8").astype(np.uint64)
