"""Draw exact samples by coupling from the past, and run Swendsen-Wang sweeps.

If each bond between equal neighbours is kept with probability p = 1 − exp(−K), the kept bonds form
the random-cluster model of Fortuin and Kasteleyn, P(ω) ∝ p^(open) (1 − p)^(closed) q^(clusters).
Its heat bath is monotone for q ≥ 1 and mixes fast on both sides of the phase transition, even if
single spins hardly flip. A random colour for each cluster turns its state into a Potts state.
"""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.testbeds.lattice.randomness import uniform
from pymc_bdmc.testbeds.lattice.systems import Lattice, neighbours

MAX_SWEEPS = 2**14


class RandomCluster(NamedTuple):
    """Random-cluster model of a lattice at one β, for the compiled loops."""

    neighbours: np.ndarray
    """Neighbours of every site, shape (n_sites, 4), int64."""
    kept: float
    """Probability p = 1 − exp(−K) of keeping a bond."""
    n_colours: int
    """Number q of colours."""


class _Search(NamedTuple):
    """Working memory of searches along open bonds, reused without clearing."""

    marks: np.ndarray
    """Mark of the last search that reached each site and its end, shape (n_sites,), int64."""
    queues: np.ndarray
    """Sites reached from each end, shape (2, n_sites), int64."""
    n_searches: np.ndarray
    """Number of searches so far, shape (1,), int64."""


def random_cluster(system: Lattice, beta: float = 1.0) -> RandomCluster:
    """Return the random-cluster model of a lattice at β."""
    kept = -np.expm1(-beta * system.bond_strength)
    return RandomCluster(neighbours(system.L), float(kept), system.n_colours)


def perfect_samples(
    system: Lattice, n: int, beta: float = 1.0, random_seed: RandomSeed = None
) -> np.ndarray:
    """Draw independent exact samples from f_β, by coupling from the past (Propp and Wilson 1996).

    Parameters
    ----------
    system : Lattice
        `Ising` or `Potts`.
    n : int
        Number of samples.
    beta : float
        Inverse temperature, at least 0.
    random_seed : int, sequence of int, SeedSequence or Generator, optional

    Returns
    -------
    ndarray of uint8, shape (n, L, L)
        Colours 0 … q − 1.

    Raises
    ------
    ValueError
        If n is not positive or β is negative.
    RuntimeError
        If a sample takes more than 16384 sweeps, as it may near a first-order phase transition
        (large q and L).

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
    keys = np.random.SeedSequence(entropy_of(random_seed)).generate_state(n, np.uint64)
    never = np.zeros(1, np.uint8)  # Ctrl-C raises between samples
    states = np.stack([perfect_state(system, beta, key, never) for key in keys])
    return states.reshape(n, system.L, system.L)


def perfect_state(system: Lattice, beta: float, key: np.uint64, stop: np.ndarray) -> np.ndarray:
    """Draw one exact sample, uint8 of shape (n_sites,), that depends on the key alone.

    If ``stop`` (shape (1,)) is set, the function ends early and returns a meaningless state.
    """
    colours, sweeps = _couple_from_the_past(random_cluster(system, beta), key, MAX_SWEEPS, stop)
    if sweeps < 0:
        raise RuntimeError(
            f"start: coupling from the past of {system} takes more than {MAX_SWEEPS} sweeps at "
            f'β = {beta:g}. Use start="swendsen-wang".'
        )
    return colours


@njit(nogil=True, cache=True)
def _couple_from_the_past(model, key, max_sweeps, stop):
    """Return the colours of one exact sample, and how far in the past it starts or −1."""
    n_sites, kept = model.neighbours.shape[0], model.kept
    n_bonds = 2 * n_sites
    low = kept / (kept + model.n_colours * (1 - kept))  # for a bond that joins two clusters
    search = _Search(
        np.zeros(n_sites, np.int64), np.empty((2, n_sites), np.int64), np.zeros(1, np.int64)
    )
    top, bottom = np.empty(n_bonds, np.bool_), np.empty(n_bonds, np.bool_)
    past = 4
    while past <= max_sweeps:
        top[:], bottom[:] = True, False
        differing = n_bonds
        for sweep in range(past, 0, -1):
            if stop[0]:
                return np.zeros(n_sites, np.uint8), past
            for bond in range(n_bonds):
                u = uniform(key, np.int64(sweep) * n_bonds + bond)
                if u < low or u >= kept:
                    in_bottom = in_top = u < low
                else:
                    in_bottom = _joined(model.neighbours, bottom, bond, search)
                    in_top = in_bottom  # sites joined in the bottom state are joined in the top one
                    if not in_bottom and differing:
                        in_top = _joined(model.neighbours, top, bond, search)
                differing += np.int64(in_top != in_bottom) - np.int64(top[bond] != bottom[bond])
                bottom[bond], top[bond] = in_bottom, in_top
        if differing == 0:
            return _colour_clusters(model, bottom, key, 0), past
        past *= 2
    return np.zeros(n_sites, np.uint8), -1


@njit(nogil=True, cache=True)
def _bond(site, near, direction):
    """Return the number of a bond. Bond 2 i goes right from site i, and bond 2 i + 1 goes down."""
    return 2 * site + direction if direction < 2 else 2 * near + direction - 2


@njit(nogil=True, cache=True)
def _joined(neighbours, is_open, bond, search):
    """Return whether the ends of a bond are connected by other bonds, by breadth-first search."""
    search.n_searches[0] += 1
    marks, queues = search.marks, search.queues
    first_mark = 2 * search.n_searches[0]  # from the goal: plus one
    start = bond // 2
    goal = neighbours[start, bond % 2]
    queues[0, 0], queues[1, 0] = start, goal
    marks[start], marks[goal] = first_mark, first_mark + 1
    read, written = [0, 0], [1, 1]
    side = 0
    while read[side] < written[side]:
        site = queues[side, read[side]]
        read[side] += 1
        for direction in range(4):
            near = neighbours[site, direction]
            link = _bond(site, near, direction)
            if is_open[link] and link != bond and marks[near] != first_mark + side:
                if marks[near] == first_mark + 1 - side:
                    return True
                marks[near] = first_mark + side
                queues[side, written[side]] = near
                written[side] += 1
        side = 1 - side
    return False


@njit(nogil=True, cache=True)
def _colour_clusters(model, is_open, key, place):
    """Give every cluster of open bonds one of q colours, from n_sites random numbers."""
    neighbours = model.neighbours
    n_sites = neighbours.shape[0]
    colours = np.empty(n_sites, np.uint8)
    seen = np.zeros(n_sites, np.bool_)
    queue = np.empty(n_sites, np.int64)
    for first in range(n_sites):
        if seen[first]:
            continue
        colour = np.uint8(uniform(key, place + first) * model.n_colours)
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
def swendsen_wang(model, colours, key, n_sweeps):
    """Apply sweeps of Swendsen and Wang (1987) to colours, and return the last state.

    Parameters
    ----------
    model : RandomCluster
    colours : ndarray of uint8, shape (n_sites,)
        Colours, not changed.
    key : uint64
        Key that determines all random numbers of the sweeps.
    n_sweeps : int
    """
    neighbours = model.neighbours
    n_sites = neighbours.shape[0]
    is_open = np.empty(2 * n_sites, np.bool_)
    for sweep in range(n_sweeps):
        place = 3 * n_sites * sweep
        for bond in range(2 * n_sites):
            site, near = bond // 2, neighbours[bond // 2, bond % 2]
            equal = colours[site] == colours[near]
            is_open[bond] = equal and uniform(key, place + bond) < model.kept
        colours = _colour_clusters(model, is_open, key, place + 2 * n_sites)
    return colours
