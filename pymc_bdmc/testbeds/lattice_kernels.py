"""Compiled loops of lattice models: a block of chains side by side, and exact samples.

Chains of a block visit sites in the same order and share nothing else. Their spins have shape
(n_sites, W), with 64 chains in each of W words (Ising) or one chain per byte (Potts). Generators
have shape (4, W), one for each column.

Exact samples come by coupling from the past. If each bond between equal neighbours is kept with
probability p = 1 − exp(−K), the kept bonds form the random-cluster model of Fortuin and Kasteleyn,
P(ω) ∝ p^(open) (1 − p)^(closed) q^(clusters). Its heat bath is monotone for q ≥ 1 and mixes fast on
both sides of the phase transition, even if single spins hardly flip. A random colour for each
cluster turns its state into a Potts state. Bond 2 i goes right from site i, and bond 2 i + 1 goes
down.
"""

from functools import lru_cache

import numpy as np
from scipy.special import expit

from pymc_bdmc.base.compiling import njit

# Sixteen words, not fewer: LLVM unrolls shorter loops before it tries to vectorise them.
WORDS = 16
# Potts chains: enough that LLVM vectorises over them, few enough that spins stay in the cache.
BYTES = 128


@lru_cache(maxsize=16)
def neighbours(side: int) -> np.ndarray:
    """Return the sites right, below, left and above of every site, of shape (side², 4)."""
    sites = np.arange(side**2).reshape(side, side)
    shifts = [(-1, 1), (-1, 0), (1, 1), (1, 0)]
    table = np.stack([np.roll(sites, shift, axis).ravel() for shift, axis in shifts], axis=1)
    table.flags.writeable = False
    return table


@njit(nogil=True, cache=True)
def heat_bath_rows(states, strengths, n_colours, uniforms):
    """Draw each site of states (chains, L, L) with weights exp(strength · equal neighbours)."""
    chains, side, _ = states.shape
    cumulative = np.empty(n_colours)
    for i in range(chains):
        powers = np.exp(strengths[i] * np.arange(5))
        colours = states[i]
        for x in range(side):
            for y in range(side):
                right, left = colours[x, (y + 1) % side], colours[x, y - 1]
                below, above = colours[(x + 1) % side, y], colours[x - 1, y]
                total = 0.0
                for c in range(n_colours):
                    same = (right == c) + (left == c) + (below == c) + (above == c)
                    total += powers[int(same)]
                    cumulative[c] = total
                colours[x, y] = np.searchsorted(cumulative, uniforms[i, x, y] * total)


# --- Random numbers ---


def seed_generators(stream: np.random.SeedSequence, n: int) -> np.ndarray:
    """Return states of n independent SFC64 generators, shape (4, n), with the counter last."""
    states = stream.generate_state(4 * n, np.uint64).reshape(4, n)
    states[3] = 1
    return states


@njit(nogil=True, cache=True)
def _next_word(states, i):
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
            words[row, i] = _next_word(states, i)
    return words


@njit(nogil=True, cache=True)
def uniform(key, place):
    """Return a number in [0, 1) that depends on key and position only, by splitmix64."""
    z = key + np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)
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


# --- Ising: multispin coding ---


def flip_planes(interaction: float, heat_bath: bool) -> np.ndarray:
    """Return the 64 binary digits of three probabilities, 0 or all ones, uint64 of shape (64, 3).

    Metropolis accepts ΔE = 8J or 4J with them. The heat bath ends opposite to four equal
    neighbours, to a majority of three, and to one of a tie.
    """
    gain = interaction * np.array([8.0, 4.0])
    p = [*expit(-gain), 0.5] if heat_bath else [*np.exp(-gain), 0.0]
    numbers = (np.minimum(p, 1 - 2.0**-53) * 2.0**64).astype(np.uint64)
    digits = (numbers >> np.arange(63, -1, -1, dtype=np.uint64)[:, None]) & np.uint64(1)
    return -digits  # turns 1 into all ones


@njit(nogil=True, cache=True)
def flip_spins(spins, generators, sites, neighbours, planes, heat_bath):
    """Update the sites one after another in all lanes, and return the number of flips.

    A lane flips if a 64-bit uniform number U is below its probability p. A random word gives each
    lane one digit of U, from the highest on, until U and p differ in all lanes.
    """
    # Local arrays of fixed shape: the compiler knows that their rows do not overlap.
    states = np.empty((4, WORDS), np.uint64)
    states[:] = generators
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
        for k in range(64):
            left_over = np.uint64(0)
            for w in range(WORDS):
                word = _next_word(states, w)
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
    generators[:] = states
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
    """Count the bonds between unlike spins in every lane, eight lanes of a word at a time."""
    n_sites, low_bits = spins.shape[0], np.uint64(0x0101010101010101)
    counts = np.zeros(64 * WORDS, np.int64)
    for first in range(0, n_sites, 127):  # a byte holds the two bonds of at most 127 sites
        sums = np.zeros((8, WORDS), np.uint64)  # lane 8 j + k of word w is byte j of sums[k, w]
        for site in range(first, min(first + 127, n_sites)):
            right, below = neighbours[site, 0], neighbours[site, 1]
            for w in range(WORDS):
                a, b = spins[site, w] ^ spins[right, w], spins[site, w] ^ spins[below, w]
                for k in range(8):
                    sums[k, w] += (a >> np.uint64(k)) & low_bits
                    sums[k, w] += (b >> np.uint64(k)) & low_bits
        for lane in range(64 * WORDS):
            word = sums[lane % 8, lane // 64] >> np.uint64(lane % 64 // 8 * 8)
            counts[lane] += np.int64(word & np.uint64(255))
    return counts


# --- Potts ---


@njit(nogil=True, cache=True)
def move_colours(spins, generators, sites, neighbours, interaction, q, heat_bath):
    """Update the sites one after another in all chains; count changes by Metropolis.

    Metropolis proposes by the lower 32 bits of a word and accepts by the upper ones. In the heat
    bath a colour with n equal neighbours has the weight exp(K n) = 1 + (e^K − 1) + …: the site
    takes a uniform colour with weight q, or copies a neighbour with its increment as weight.
    """
    # Local arrays of fixed shape: the compiler knows that their rows do not overlap.
    states = np.empty((4, BYTES), np.uint64)
    states[:] = generators
    powers = np.exp((interaction if heat_bath else -interaction) * np.arange(5))
    weights = powers[1:] - powers[:-1] if heat_bath else powers[1:] * 2.0**32
    one, two, three, four = weights
    others = np.uint64(q - 1)
    changes = np.int64(0)
    for site in sites:
        right, below, left, above = neighbours[site]
        for c in range(BYTES):
            word = _next_word(states, c)
            s1, s2 = np.int64(spins[right, c]), np.int64(spins[below, c])
            s3, s4 = np.int64(spins[left, c]), np.int64(spins[above, c])
            if heat_bath:
                n2 = np.int64(s2 == s1)
                n3 = np.int64(s3 == s1) + np.int64(s3 == s2)
                n4 = np.int64(s4 == s1) + np.int64(s4 == s2) + np.int64(s4 == s3)
                end1 = q + one
                end2 = end1 + (two if n2 == 1 else one)
                end3 = end2 + (three if n3 == 2 else two if n3 == 1 else one)
                end4 = end3 + (four if n4 == 3 else three if n4 == 2 else two if n4 == 1 else one)
                u = np.float64(word >> np.uint64(11)) * (1.0 / 9007199254740992.0) * end4
                new = np.int64(u)
                new = s1 if u >= q else new
                new = s2 if u >= end1 else new
                new = s3 if u >= end2 else new
                new = s4 if u >= end3 else new
                spins[site, c] = np.uint8(new)
            else:
                old = np.int64(spins[site, c])
                new = old + 1 + np.int64(((word & np.uint64(0xFFFFFFFF)) * others) >> np.uint64(32))
                new = new - q if new >= q else new
                lost = np.int64(s1 == old) + np.int64(s2 == old) + np.int64(s3 == old)
                lost += np.int64(s4 == old) - np.int64(s1 == new) - np.int64(s2 == new)
                lost -= np.int64(s3 == new) + np.int64(s4 == new)
                limit = four if lost == 4 else three if lost == 3 else two if lost == 2 else one
                accept = (lost <= 0) | (np.float64(word >> np.uint64(32)) < limit)
                changes += np.int64(accept)
                spins[site, c] = np.uint8(new if accept else old)
    generators[:] = states
    return changes


@njit(nogil=True, cache=True)
def satisfied_bonds(spins, neighbours):
    """Count the bonds between equal colours in every chain."""
    counts = np.zeros(BYTES, np.int64)
    for site in range(spins.shape[0]):
        for near in neighbours[site, :2]:
            for c in range(BYTES):
                counts[c] += np.int64(spins[site, c] == spins[near, c])
    return counts


# --- The random-cluster model ---


@njit(nogil=True, cache=True)
def couple_from_the_past(neighbours, kept, n_colours, key, max_sweeps, stop):
    """Return the colours of an exact sample, and whether the states from all starts have met."""
    n_sites = neighbours.shape[0]
    n_bonds = 2 * n_sites
    low = kept / (kept + n_colours * (1 - kept))  # for a bond that joins two clusters
    work = np.empty(n_sites, np.uint8), np.empty((2, n_sites), np.int64)  # for searches
    past = 4
    while past <= max_sweeps:
        upper, lower = np.ones(n_bonds, np.bool_), np.zeros(n_bonds, np.bool_)
        differing = n_bonds
        for sweep in range(past, 0, -1):
            if stop[0]:
                return np.zeros(n_sites, np.uint8), False
            for bond in range(n_bonds):
                u = uniform(key, np.int64(sweep) * n_bonds + bond)
                if u < low or u >= kept:
                    in_lower = in_upper = u < low
                else:
                    in_lower = _joined(neighbours, lower, bond, work)
                    in_upper = in_lower  # sites joined in the lower state are joined in the upper
                    if not in_lower and differing:
                        in_upper = _joined(neighbours, upper, bond, work)
                differing += np.int64(in_upper != in_lower) - np.int64(upper[bond] != lower[bond])
                lower[bond], upper[bond] = in_lower, in_upper
        if differing == 0:
            return _colour_clusters(neighbours, lower, n_colours, key, 0), True
        past *= 2
    return np.zeros(n_sites, np.uint8), False


@njit(nogil=True, cache=True)
def _joined(neighbours, is_open, bond, work):
    """Return whether other bonds connect the ends of a bond, by breadth-first search from both."""
    reached, queues = work
    reached[:] = 0
    start = bond // 2
    goal = neighbours[start, bond % 2]
    queues[0, 0], queues[1, 0] = start, goal
    reached[start], reached[goal] = 1, 2
    read, written = [0, 0], [1, 1]
    side = 0
    while read[side] < written[side]:
        site = queues[side, read[side]]
        read[side] += 1
        for direction in range(4):
            near = neighbours[site, direction]
            link = 2 * site + direction if direction < 2 else 2 * near + direction - 2
            if is_open[link] and link != bond and reached[near] != 1 + side:
                if reached[near]:
                    return True
                reached[near] = 1 + side
                queues[side, written[side]] = near
                written[side] += 1
        side = 1 - side
    return False


@njit(nogil=True, cache=True)
def _colour_clusters(neighbours, is_open, n_colours, key, place):
    """Give each cluster of open bonds the colour of its first site, of n_sites random ones."""
    n_sites = neighbours.shape[0]
    parents = np.arange(n_sites)  # trees of joined sites, each with its first site as the root
    for bond in range(2 * n_sites):
        if is_open[bond]:
            one = _root(parents, bond // 2)
            other = _root(parents, neighbours[bond // 2, bond % 2])
            parents[max(one, other)] = min(one, other)
    colours = np.empty(n_sites, np.uint8)
    for site in range(n_sites):
        colours[site] = np.uint8(uniform(key, place + _root(parents, site)) * n_colours)
    return colours


@njit(nogil=True, cache=True)
def _root(parents, site):
    """Return the root of a site, and shorten the way there."""
    while parents[site] != site:
        parents[site] = parents[parents[site]]
        site = parents[site]
    return site


@njit(nogil=True, cache=True)
def swendsen_wang(neighbours, kept, n_colours, colours, key, n_sweeps):
    """Return colours (n_sites,) after sweeps of Swendsen and Wang (1987), random by the key."""
    n_sites = neighbours.shape[0]
    is_open = np.empty(2 * n_sites, np.bool_)
    for sweep in range(n_sweeps):
        place = 3 * n_sites * sweep
        for bond in range(2 * n_sites):
            equal = colours[bond // 2] == colours[neighbours[bond // 2, bond % 2]]
            is_open[bond] = equal and uniform(key, place + bond) < kept
        colours = _colour_clusters(neighbours, is_open, n_colours, key, place + 2 * n_sites)
    return colours
