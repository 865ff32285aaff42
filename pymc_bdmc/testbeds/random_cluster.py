"""Draw exact samples by coupling from the past, and run Swendsen-Wang sweeps.

If each bond between equal neighbours is kept with probability p = 1 − exp(−K), the kept bonds form
the random-cluster model of Fortuin and Kasteleyn, P(ω) ∝ p^(open) (1 − p)^(closed) q^(clusters).
Its heat bath is monotone for q ≥ 1 and mixes fast on both sides of the phase transition, even if
single spins hardly flip. A random colour for each cluster turns its state into a Potts state.
Bond 2 i goes right from site i, and bond 2 i + 1 goes down.
"""

import numpy as np

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.testbeds.lattice import Lattice, neighbours
from pymc_bdmc.testbeds.lattice_kernels import uniform

MAX_SWEEPS = 2**14  # into the past; chosen for at most a minute on a large lattice


def random_cluster(system: Lattice, beta: float = 1.0) -> tuple[np.ndarray, float, int]:
    """Return what the compiled loops need: neighbours, the probability p of a bond, and q."""
    kept = -np.expm1(-beta * system.bond_strength)
    return neighbours(system.L), float(kept), system.n_colours


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
    """Draw an exact sample, uint8 of shape (n_sites,), which ``stop`` makes meaningless."""
    colours, found = _couple_from_the_past(*random_cluster(system, beta), key, MAX_SWEEPS, stop)
    if not found and not stop[0]:
        raise RuntimeError(
            f"start: coupling from the past of {system} takes more than {MAX_SWEEPS} sweeps at "
            f'β = {beta:g}. Use start="swendsen-wang".'
        )
    return colours


@njit(nogil=True, cache=True)
def _couple_from_the_past(neighbours, kept, n_colours, key, max_sweeps, stop):
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
