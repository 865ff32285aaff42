"""Exact samples by coupling from the past, and Swendsen-Wang, on the random-cluster model.

The bonds between equal neighbours, each kept with probability p = 1 − exp(−K), form the random-
cluster model of Fortuin and Kasteleyn: P(ω) ∝ p^(open) (1 − p)^(closed) q^(clusters). Its heat
bath is monotone for q ≥ 1 and mixes fast on both sides of the phase transition, also where single
spins hardly flip. A colour at random for each cluster turns it into a Potts state.
"""

import numpy as np

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.compiling import njit
from pymc_bdmc.lattice.randomness import uniform
from pymc_bdmc.lattice.systems import Lattice, neighbours

__all__ = ["perfect_samples", "perfect_state", "swendsen_wang"]

MAX_SWEEPS = 2**14


def perfect_samples(
    system: Lattice,
    n: int,
    beta: float = 1.0,
    random_seed: int | np.random.SeedSequence | None = None,
) -> np.ndarray:
    """Independent exact samples from f_β, by coupling from the past (Propp and Wilson 1996).

    Parameters
    ----------
    system : Lattice
        `Ising` or `Potts`.
    n : int
        Number of samples.
    beta : float
        Inverse temperature, at least 0.
    random_seed : int or SeedSequence, optional

    Returns
    -------
    ndarray of uint8, shape (n, L, L)
        Colours 0 … q − 1.

    Raises
    ------
    ValueError
        If n is not positive or β is negative.
    RuntimeError
        If a sample takes more than 16384 sweeps, as near a phase transition of first order (large
        q and L).

    Examples
    --------
    >>> from pymc_bdmc.lattice import Ising, perfect_samples
    >>> samples = perfect_samples(Ising(8), n=2, random_seed=1)
    >>> samples.shape
    (2, 8, 8)
    """
    check_counts(n=n)
    if not beta >= 0:
        raise ValueError(f"beta: must not be negative, got {beta!r}.")
    stream = random_seed
    if not isinstance(stream, np.random.SeedSequence):
        stream = np.random.SeedSequence(random_seed)
    keys = stream.generate_state(n, np.uint64)
    states = np.stack([perfect_state(system, beta, key) for key in keys])
    return states.reshape(n, system.L, system.L)


def perfect_state(system: Lattice, beta: float, key: np.uint64) -> np.ndarray:
    """One exact sample, uint8 of shape (n_sites,), that depends on the key alone."""
    kept = -np.expm1(-beta * system.bond_strength)
    colours, sweeps = _couple_from_the_past(
        neighbours(system.L), kept, system.n_colours, key, MAX_SWEEPS
    )
    if sweeps < 0:
        raise RuntimeError(
            f"start: coupling from the past of {system} takes more than {MAX_SWEEPS} sweeps at "
            f'β = {beta:g}. Use start="swendsen-wang".'
        )
    return colours


@njit(nogil=True, cache=True)
def _couple_from_the_past(neighbours, kept, q, key, max_sweeps):
    """Colours of one exact sample, and how far in the past it starts (−1: too far)."""
    n_sites = neighbours.shape[0]
    n_bonds = 2 * n_sites
    low = kept / (kept + q * (1 - kept))  # to open a bond that joins two clusters
    marks = np.zeros(n_sites, np.int64)
    queues = np.empty((2, n_sites), np.int64)
    top, bottom = np.empty(n_bonds, np.bool_), np.empty(n_bonds, np.bool_)
    searches = 0
    past = 4
    while past <= max_sweeps:
        top[:], bottom[:] = True, False
        differing = n_bonds
        for sweep in range(past, 0, -1):
            for bond in range(n_bonds):
                u = uniform(key, np.int64(sweep) * n_bonds + bond)
                if u < low or u >= kept:
                    in_bottom = in_top = u < low
                else:
                    searches += 1
                    in_bottom = _joined(bond, bottom, neighbours, marks, queues, searches)
                    in_top = in_bottom  # what is joined in the bottom state is so in the top one
                    if not in_bottom and differing:
                        searches += 1
                        in_top = _joined(bond, top, neighbours, marks, queues, searches)
                differing += np.int64(in_top != in_bottom) - np.int64(top[bond] != bottom[bond])
                bottom[bond], top[bond] = in_bottom, in_top
        if differing == 0:
            return _colour_clusters(bottom, neighbours, q, key, 0), past
        past *= 2
    return np.empty(0, np.uint8), -1


@njit(nogil=True, cache=True)
def _bond(site, near, direction):
    """Number of a bond: 2 i goes right from site i and 2 i + 1 down."""
    return 2 * site + direction if direction < 2 else 2 * near + direction - 2


@njit(nogil=True, cache=True)
def _joined(bond, is_open, neighbours, marks, queues, search):
    """Whether the ends of a bond are connected by others: breadth first from both ends in turn."""
    start = bond // 2
    goal = neighbours[start, bond % 2]
    queues[0, 0], queues[1, 0] = start, goal
    marks[start], marks[goal] = 2 * search, 2 * search + 1
    read, written = [0, 0], [1, 1]
    side = 0
    while read[side] < written[side]:
        site = queues[side, read[side]]
        read[side] += 1
        for direction in range(4):
            near = neighbours[site, direction]
            link = _bond(site, near, direction)
            if is_open[link] and link != bond and marks[near] != 2 * search + side:
                if marks[near] == 2 * search + 1 - side:
                    return True
                marks[near] = 2 * search + side
                queues[side, written[side]] = near
                written[side] += 1
        side = 1 - side
    return False


@njit(nogil=True, cache=True)
def _colour_clusters(is_open, neighbours, q, key, place):
    """Give every cluster of open bonds one of q colours; uses n_sites numbers from a place."""
    n_sites = neighbours.shape[0]
    colours = np.empty(n_sites, np.uint8)
    seen = np.zeros(n_sites, np.bool_)
    queue = np.empty(n_sites, np.int64)
    for first in range(n_sites):
        if seen[first]:
            continue
        colour = np.uint8(uniform(key, place + first) * q)
        seen[first], queue[0] = True, first
        read, written = 0, 1
        while read < written:
            site = queue[read]
            read += 1
            colours[site] = colour
            for direction in range(4):
                near = neighbours[site, direction]
                link = _bond(site, near, direction)
                if is_open[link] and not seen[near]:
                    seen[near], queue[written] = True, near
                    written += 1
    return colours


@njit(nogil=True, cache=True)
def swendsen_wang(colours, neighbours, kept, q, key, n_sweeps):
    """Apply sweeps of Swendsen and Wang (1987) to colours; return the last state.

    Parameters
    ----------
    colours : ndarray of uint8, shape (n_sites,)
        Left as it is.
    neighbours : ndarray of int64, shape (n_sites, 4)
    kept : float
        p = 1 − exp(−K).
    q : int
    key : uint64
        The sweeps depend on it alone.
    n_sweeps : int
    """
    n_sites = neighbours.shape[0]
    is_open = np.empty(2 * n_sites, np.bool_)
    for sweep in range(n_sweeps):
        place = 3 * n_sites * sweep
        for bond in range(2 * n_sites):
            site, near = bond // 2, neighbours[bond // 2, bond % 2]
            equal = colours[site] == colours[near]
            is_open[bond] = equal and uniform(key, place + bond) < kept
        colours = _colour_clusters(is_open, neighbours, q, key, place + 2 * n_sites)
    return colours
