"""Ising and Potts models: compiled samplers with exact answers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import gammaln

from pymc_bdmc.base.arguments import check_choice, check_counts
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, Purpose, RandomSeed, beside, entropy_of, stream
from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.call import systems
from pymc_bdmc.run.loop import anneal_block
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.testbeds import lattice_kernels as kernels

__all__ = [
    "Ising", "Lattice", "Potts", "anneal", "density_of_states", "kaufman_log_z",
    "perfect_samples", "transfer_matrix_log_z",
]  # fmt: skip

_MOST_STATES = 2_000_000  # that exact results list; chosen for seconds of work and 100 MB

MAX_SWEEPS = 2**14  # into the past; chosen for at most a minute on a large lattice

_STATUS = {"exact": "exact", "swendsen-wang": "burned-in", "ordered": "heuristic"}


class Lattice(ABC):
    """Lattice model of colours on an L × L periodic square, with attraction of equal neighbours.

    The path is f_β(θ) = exp(β ℓ(θ)) / q^(L²) with ℓ = −E. The prior is uniform over all q^(L²)
    states, so log Z stands for log(Z/Z_0). States are arrays of colours 0 … q − 1, of shape
    (…, L, L). On a 2 × 2 lattice, neighbours are joined by two bonds.

    `anneal` moves thousands of chains at one common β. For `temper` a model draws and moves states
    with an individual β each.
    """

    L: int
    coupling: float
    description: ClassVar[str] = "heat bath, row by row"

    def __post_init__(self):
        if isinstance(self.L, bool) or int(self.L) != self.L or self.L < 2:
            raise ValueError(f"L: the side must be a whole number of at least 2, got {self.L!r}.")
        if not 0 < self.coupling <= 100:  # beyond, only ground states have weight in floats
            raise ValueError(f"coupling: must be positive, at most 100.0, got {self.coupling!r}.")

    @property
    @abstractmethod
    def n_colours(self) -> int:
        """Return q, the number of states of a site."""

    @property
    @abstractmethod
    def bond_strength(self) -> float:
        """Return the increase of ℓ if the two sites of a bond become equal, nats."""

    @abstractmethod
    def log_likelihood_of_bonds(self, satisfied: ArrayLike) -> np.ndarray:
        """Return ℓ = −E of states with this number of satisfied bonds (equal neighbours), nats."""

    @abstractmethod
    def log_z(self, beta: float = 1.0) -> float:
        """Return the exact log(Z/Z_0) at β, nats."""

    @property
    def n_sites(self) -> int:
        """Return L²."""
        return self.L**2

    @property
    def n_bonds(self) -> int:
        """Return 2 L²."""
        return 2 * self.L**2

    @property
    def critical_beta(self) -> float:
        """Return β of the phase transition for L → ∞, ln(1 + √q) / `bond_strength`."""
        return float(np.log1p(np.sqrt(self.n_colours)) / self.bond_strength)

    def satisfied_bonds(self, states: ArrayLike) -> np.ndarray:
        """Count the bonds between equal neighbours.

        Parameters
        ----------
        states : array_like of shape (…, L, L)
            Colours.

        Returns
        -------
        ndarray of shape (…)

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_bdmc.lattice import Ising
        >>> int(Ising(3).satisfied_bonds(np.zeros((3, 3))))
        18
        """
        states = np.asarray(states)
        equal = sum((states == np.roll(states, 1, axis)).astype(np.int64) for axis in (-1, -2))
        return equal.sum(axis=(-1, -2))

    def log_likelihood(self, states: ArrayLike) -> np.ndarray:
        """Return ℓ = −E of states of shape (…, L, L), nats."""
        return self.log_likelihood_of_bonds(self.satisfied_bonds(states))

    def draw_prior(self, chains: int, rng: np.random.Generator) -> np.ndarray:
        """Draw uniform colours, uint8 of shape (chains, L, L)."""
        return rng.integers(self.n_colours, size=(chains, self.L, self.L), dtype=np.uint8)

    def step(self, states: np.ndarray, betas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Update all sites of every state at its own β, in place.

        Parameters
        ----------
        states : ndarray of uint8, shape (chains, L, L)
        betas : ndarray of shape (chains,)
        rng : Generator
        """
        strengths = np.asarray(betas, dtype=float) * self.bond_strength
        kernels.heat_bath_rows(states, strengths, self.n_colours, rng.random(states.shape))
        return states


@dataclass(frozen=True)
class Ising(Lattice):
    """Two-dimensional Ising model without field, E(s) = −J Σ s_i s_j over neighbours, s = ±1.

    Parameters
    ----------
    L : int
        Side of the lattice, at least 2.
    coupling : float
        0 < J ≤ 100, nats.

    Raises
    ------
    ValueError
        Names the argument.

    Examples
    --------
    >>> from pymc_bdmc.lattice import Ising
    >>> round(Ising(32).log_z(), 7)
    1339.2670768
    >>> round(Ising(32).critical_beta, 4)
    0.4407
    """

    L: int
    coupling: float = 1.0
    n_colours: ClassVar[int] = 2
    """Number of colours; colour 1 is spin up."""

    @property
    def bond_strength(self) -> float:
        """Return 2 J."""
        return 2 * self.coupling

    def log_likelihood_of_bonds(self, satisfied: ArrayLike) -> np.ndarray:
        """Return J (satisfied − unsatisfied bonds), nats."""
        return self.coupling * (2.0 * np.asarray(satisfied) - self.n_bonds)

    def log_z(self, beta: float = 1.0) -> float:
        """Return the exact log(Z/Z_0), nats, by `kaufman_log_z`."""
        return kaufman_log_z(self.L, beta * self.coupling) - self.n_sites * math.log(2)


@dataclass(frozen=True)
class Potts(Lattice):
    """Two-dimensional Potts model, E(s) = −J Σ δ(s_i, s_j) over neighbours, s = 0 … q − 1.

    Parameters
    ----------
    L : int
        Side of the lattice, at least 2.
    q : int
        Number of colours, 2 … 256.
    coupling : float
        0 < J ≤ 100, nats.

    Raises
    ------
    ValueError
        Names the argument.

    Examples
    --------
    >>> from pymc_bdmc.lattice import Potts
    >>> round(Potts(3, q=10, coupling=2.0).log_z(), 4)
    17.6092
    """

    L: int
    q: int
    coupling: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.q, bool) or self.q != int(self.q) or not 2 <= self.q <= 256:  # a byte
            raise ValueError(f"q: must be a whole number, 2 … 256, got {self.q!r}.")

    @property
    def n_colours(self) -> int:
        """Return q."""
        return self.q

    @property
    def bond_strength(self) -> float:
        """Return J."""
        return self.coupling

    def log_likelihood_of_bonds(self, satisfied: ArrayLike) -> np.ndarray:
        """Return J times the number of satisfied bonds, nats."""
        return self.coupling * np.asarray(satisfied)

    def log_z(self, beta: float = 1.0) -> float:
        """Return the exact log(Z/Z_0) of a small lattice, nats, by `transfer_matrix_log_z`."""
        log_z = transfer_matrix_log_z(self.L, self.q, beta * self.coupling)
        return log_z - self.n_sites * math.log(self.q)


def kaufman_log_z(side: int, interaction: float) -> float:
    """Compute the log partition function of the periodic Ising model (Kaufman 1949).

    Parameters
    ----------
    side : int
        Side of the lattice, at least 2.
    interaction : float
        K = β J ≥ 0.

    Returns
    -------
    float
        log Σ exp(K Σ s_i s_j), nats.

    Raises
    ------
    ValueError
        For a side below 2 or a negative interaction.

    Notes
    -----
    Let cosh γ_r = cosh²(2K)/sinh(2K) − cos(πr/n) for r ≥ 1, and γ_0 = 2K + ln tanh K, which is
    negative above the critical temperature. Then

        Z = ½ (2 sinh 2K)^(n²/2) [Π 2cosh(nγ_{2r+1}/2) + Π 2sinh(nγ_{2r+1}/2)
                                  + Π 2cosh(nγ_{2r}/2) + Π 2sinh(nγ_{2r}/2)].

    Products are taken as sums of logarithms, so neither a large n nor a large K overflows.

    Examples
    --------
    >>> from pymc_bdmc.lattice import kaufman_log_z
    >>> round(kaufman_log_z(4, 1.0) - 16 * 0.6931471805599453, 7)
    21.6083665
    """
    if side < 2:
        raise ValueError(f"side: must be at least 2, got {side!r}.")
    if not 0 <= interaction < np.inf:
        raise ValueError(f"interaction: must not be negative, got {interaction!r}.")
    if interaction == 0:
        return side**2 * np.log(2)
    double = 2 * interaction
    angles = np.arange(2 * side)
    if interaction > 100:  # the terms left out are of order exp(−4K), below rounding
        gamma = np.full(2 * side, double)
        log_prefactor = double
    else:
        sinh = np.sinh(double)
        gamma = np.arccosh(sinh + 1 / sinh - np.cos(np.pi * angles / side))
        log_prefactor = np.log(2 * sinh)
    gamma[0] = double + np.log(np.tanh(interaction))
    terms, signs = [], []
    for part in (gamma[1::2], gamma[0::2]):
        x = side * np.abs(part) / 2
        with np.errstate(divide="ignore"):  # at the critical point γ_0 may be zero
            terms += [np.sum(x + np.log1p(np.exp(-2 * x))), np.sum(x + np.log(-np.expm1(-2 * x)))]
        signs += [1.0, np.prod(np.sign(part))]
    largest = max(terms)
    bracket = largest + np.log(np.dot(signs, np.exp(np.subtract(terms, largest))))
    return float(side**2 / 2 * log_prefactor + bracket - np.log(2))


def transfer_matrix_log_z(side: int, n_colours: int, interaction: float) -> float:
    """Compute the log partition function of a small periodic Potts model.

    The result is the log of the trace of T^side. The transfer matrix T is applied to the q^side
    states of a row site by site and is never stored. The diagonal of T^side is computed from one
    start per partition of a row into colours, rather than one per state.

    Parameters
    ----------
    side, n_colours : int
        Side and number of colours q; q^side must not exceed two million.
    interaction : float
        K = β J ≥ 0.

    Returns
    -------
    float
        log Σ exp(K Σ δ(s_i, s_j)), nats.

    Raises
    ------
    ValueError
        If the lattice is too large.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.lattice import transfer_matrix_log_z
    >>> round(float(np.exp(transfer_matrix_log_z(2, n_colours=3, interaction=0.0))))
    81
    """
    if n_colours**side > _MOST_STATES:
        raise ValueError(
            f"L: the transfer matrix of L = {side}, q = {n_colours} acts on {n_colours}^{side} "
            f"states, more than {_MOST_STATES}. Use a smaller lattice, or `anneal`."
        )
    shape = (n_colours,) * side
    rows = np.indices(shape, dtype=np.int16)
    broken = sum((rows[i] != rows[i - 1]).astype(np.int64) for i in range(side))
    within = np.exp(-interaction * broken)  # relative to all bonds satisfied, so no overflow
    between = np.exp(-interaction)
    total = 0.0
    for row in product(range(min(side, n_colours)), repeat=side):
        if any(colour > max(row[:i], default=-1) + 1 for i, colour in enumerate(row)):
            continue  # only the row of a partition whose colours are numbered as they appear
        vector = np.zeros(shape)
        vector[row] = 1.0
        for _ in range(side):
            for axis in range(side):
                vector = (1 - between) * vector + between * vector.sum(axis, keepdims=True)
            vector *= within
        used = max(row) + 1
        renamings = np.exp(gammaln(n_colours + 1) - gammaln(n_colours - used + 1))
        total += renamings * vector[row]
    return float(2 * side**2 * interaction + np.log(total))


def density_of_states(side: int, n_colours: int) -> np.ndarray:
    """Count states by their number of satisfied bonds, by listing all states.

    Parameters
    ----------
    side, n_colours : int
        Side and number of colours q. There may be at most two million states, q^(side²).

    Returns
    -------
    ndarray of int, shape (2 side² + 1,)

    Raises
    ------
    ValueError
        If there are too many states.

    Examples
    --------
    >>> from pymc_bdmc.lattice import density_of_states
    >>> density_of_states(2, n_colours=2).tolist()  # ferro- and antiferromagnet at the ends
    [2, 0, 0, 0, 12, 0, 0, 0, 2]
    """
    n_sites = side**2
    if n_colours**n_sites > _MOST_STATES:
        raise ValueError(
            f"L: {n_colours}^{n_sites} states cannot be listed; at most {_MOST_STATES} can."
        )
    states = np.indices((n_colours,) * n_sites, dtype=np.int16).reshape(side, side, -1)
    satisfied = sum((states == np.roll(states, 1, axis)).sum(axis=(0, 1)) for axis in (0, 1))
    return np.bincount(satisfied, minlength=2 * n_sites + 1)


# --- Chains ---


def random_cluster(system: Lattice, beta: float = 1.0) -> tuple[np.ndarray, float, int]:
    """Return what the compiled loops need: neighbours, the probability p of a bond, and q."""
    kept = -np.expm1(-beta * system.bond_strength)
    return kernels.neighbours(system.L), float(kept), system.n_colours


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
    colours, found = kernels.couple_from_the_past(
        *random_cluster(system, beta), key, MAX_SWEEPS, stop
    )
    if not found and not stop[0]:
        raise RuntimeError(
            f"start: coupling from the past of {system} takes more than {MAX_SWEEPS} sweeps at "
            f'β = {beta:g}. Use start="swendsen-wang".'
        )
    return colours


class IsingChains:
    """Block of 1024 Ising chains: chain c is bit c % 64 of word c // 64.

    They start from colours of shape (lanes, n_sites), by default uniform.
    """

    lanes = 64 * kernels.WORDS

    def __init__(self, system: Lattice, seed: np.random.SeedSequence, heat_bath: bool, start=None):
        self._system, self._near, self._heat_bath = system, kernels.neighbours(system.L), heat_bath
        self.generators = kernels.seed_generators(seed, kernels.WORDS)
        if start is None:
            self.spins = kernels.random_words(self.generators, system.n_sites)
        else:
            bits = np.packbits(np.ascontiguousarray(start.T), axis=1, bitorder="little")
            self.spins = bits.view("<u8").astype(np.uint64)

    def move(self, beta: float, sites: np.ndarray) -> int:
        """Update the sites in this order, and return the number of flips."""
        planes = kernels.flip_planes(beta * self._system.bond_strength / 2, self._heat_bath)
        moves = sites, self._near, planes, self._heat_bath
        return kernels.flip_spins(self.spins, self.generators, *moves)

    def satisfied_bonds(self) -> np.ndarray:
        """Count the bonds between equal neighbours by chain, shape (lanes,)."""
        return self._system.n_bonds - kernels.unsatisfied_bonds(self.spins, self._near)


class PottsChains:
    """Block of 128 Potts chains, one per byte, with the parameters of `IsingChains`."""

    lanes = kernels.BYTES

    def __init__(self, system: Lattice, seed: np.random.SeedSequence, heat_bath: bool, start=None):
        self._system, self._near, self._heat_bath = system, kernels.neighbours(system.L), heat_bath
        self.generators = kernels.seed_generators(seed, kernels.BYTES)
        if start is None:
            words = kernels.random_words(self.generators, system.n_sites) >> np.uint64(32)
            start = ((words * np.uint64(system.n_colours)) >> np.uint64(32)).astype(np.uint8).T
        self.spins = start.T.copy()

    def move(self, beta: float, sites: np.ndarray) -> int:
        """Update the sites in this order; return the number of changes by Metropolis."""
        interaction, q = beta * self._system.bond_strength, self._system.n_colours
        moves = sites, self._near, interaction, q, self._heat_bath
        return kernels.move_colours(self.spins, self.generators, *moves)

    def satisfied_bonds(self) -> np.ndarray:
        """Count the bonds between equal neighbours by chain, shape (lanes,)."""
        return kernels.satisfied_bonds(self.spins, self._near)


def anneal(
    system: Lattice,
    *,
    chains: int = 1000,
    temperatures: int | ArrayLike = 1000,
    schedule: str | Schedule = "linear",
    kernel: Literal["metropolis", "heat bath"] = "metropolis",
    sites: Literal["checkerboard", "random"] = "checkerboard",
    updates: int | None = None,
    start: Literal["exact", "swendsen-wang", "ordered"] = "exact",
    burn_in: int = 100,
    **options: Any,
) -> xr.DataTree:
    """Sandwich log(Z/Z_0) of an Ising or Potts model between forward and reverse chains.

    Habeck studies these models in this way [1]_.

    Parameters
    ----------
    system : Ising or Potts
        The model at β = 1.
    chains : int, default 1000
        Number of chains per direction, at least 2. Ising chains are run 1024 at a time and Potts
        chains 128 at a time, so fewer chains take as long.
    temperatures : int or array_like of shape (T + 1,), default 1000
        T, the number of transitions of a chain, or the inverse temperatures themselves.
    schedule : {"linear", "sigmoid", "power", "cubic"} or Schedule, default "linear"
        Spacing of the inverse temperatures. A `Schedule` has its own temperatures.
    kernel : {"metropolis", "heat bath"}, default "metropolis"
        Update of a site. For Ising models Metropolis on a checkerboard gives the smaller gap,
        although near β = 0 it flips every spin in every sweep and so relaxes little there. For
        Potts models with many colours the heat bath gives the smaller gap.
    sites : {"checkerboard", "random"}, default "checkerboard"
        Order in which sites are updated. ``"checkerboard"`` updates the sites with an even sum of
        coordinates and then those with an odd sum, and needs an even L. ``"random"`` chooses sites
        independently.
    updates : int, optional
        Number of single-site updates at each temperature, by default L², which is one sweep. On a
        checkerboard it must be a multiple of L².
    start : {"exact", "swendsen-wang", "ordered"}, default "exact"
        States from which reverse chains start: exact samples by coupling from the past, the result
        of ``burn_in`` Swendsen-Wang sweeps from a state of one colour, or this state itself. The
        upper bound is exact, burned-in or heuristic, respectively.
    burn_in : int, default 100
        Number of sweeps with ``start="swendsen-wang"``.
    **options
        The further options of `pymc_bdmc.anneal`: ``target_gap``, ``max_temperatures`` and
        ``max_time`` for rounds; ``random_seed``, ``cores``, ``executor``, ``progressbar``,
        ``store`` and ``callback``.

    Returns
    -------
    DataTree
        Groups ``forward`` and ``reverse`` as from `sample_bdmc`, for `summary`, `evidence` and the
        plots. After Ctrl-C, blocks of chains that were not finished are NaN. The attribute
        ``critical_beta`` is the critical β of the infinite lattice.

    Raises
    ------
    ValueError
        Names the argument and the remedy.
    RuntimeError
        If an exact start takes too long, as it may near a first-order phase transition.
    KeyboardInterrupt
        If Ctrl-C comes before any block is finished, or is pressed a second time.

    Notes
    -----
    Random sites are drawn once. All chains of a run visit the same sites, and reverse chains visit
    them in the opposite order. So the sequence of sites is part of the kernels K_1 … K_T. Given the
    sequence, chains are independent, E_f[w] = Z, and Crooks' relation holds. Each single chain has
    the same distribution as a chain that draws its own sites.

    References
    ----------
    .. [1] Habeck (2017), Model evidence from nonequilibrium simulations, Section 5.
       https://papers.nips.cc/paper/2017/hash/4da04049a062f5adfe81b67dd755cecc-Abstract.html

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), temperatures=50, random_seed=1,
    ...                          progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - bdmc.lattice.Ising(4).log_z()) < 4 * error)
    True
    """
    runs = LatticeChains(system, kernel, sites, updates, start, burn_in)
    return systems.anneal(
        runs, chains=chains, temperatures=temperatures, schedule=schedule, **options
    )


@dataclass(frozen=True)
class LatticeChains:
    """Chains of a lattice model with their kernel, sites and starts, as given to `anneal`."""

    system: Lattice
    kernel: Literal["metropolis", "heat bath"] = "metropolis"
    sites: Literal["checkerboard", "random"] = "checkerboard"
    updates: int | None = None
    start: Literal["exact", "swendsen-wang", "ordered"] = "exact"
    burn_in: int = 100
    defaults: ClassVar[tuple[int, str]] = 1000, "linear"

    def __post_init__(self):
        system = self.system
        if not isinstance(system, Lattice):
            raise ValueError(f"system: an Ising or Potts model is needed, got {system!r}.")
        check_counts(updates=self.n_updates, burn_in=self.burn_in)
        check_choice("kernel", self.kernel, ("metropolis", "heat bath"))
        check_choice("sites", self.sites, ("checkerboard", "random"))
        check_choice("start", self.start, _STATUS)
        if self.sites == "checkerboard" and system.L % 2:
            raise ValueError(
                f'sites: a checkerboard needs an even L, not {system.L}; use "random".'
            )
        if self.sites == "checkerboard" and self.n_updates % system.n_sites:
            raise ValueError(
                f"updates: {self.n_updates} is no multiple of a checkerboard's {system.n_sites}; "
                'use sites="random".'
            )

    @property
    def n_updates(self) -> int:
        """Number of single-site updates at each temperature."""
        return self.system.n_sites if self.updates is None else self.updates

    @property
    def description(self) -> str:
        """Kernel, order of the sites and number of updates."""
        return f"{self.kernel}, {self.sites} sites, {self.n_updates} updates"

    @property
    def chain_type(self) -> type[IsingChains] | type[PottsChains]:
        """Type of the compiled chains of a block."""
        return IsingChains if isinstance(self.system, Ising) else PottsChains

    @property
    def block_size(self) -> int:
        """Number of chains that move side by side."""
        return self.chain_type.lanes

    @property
    def attributes(self) -> dict[str, object]:
        """Attributes that describe the lattice in a result."""
        return {
            "system": repr(self.system),
            "upper_bound": _STATUS[self.start],
            "independent_starts": 1,
            "burn_in": self.burn_in if self.start == "swendsen-wang" else 0,
            "critical_beta": self.system.critical_beta,
        }

    def site_order(self, task: AnnealTask) -> Callable[[int], np.ndarray]:
        """Return the sites of K_t in order, or those of K_t†, as a function of t."""
        way = 1 if task.direction is Direction.FORWARD else -1
        n, n_sites = self.n_updates, self.system.n_sites
        if self.sites == "checkerboard":
            parity = np.indices((self.system.L,) * 2).sum(axis=0).ravel() % 2
            order = np.resize(np.argsort(parity, kind="stable"), n)[::way].copy()
            return lambda t: order
        # One sequence for both directions and all blocks
        sites = stream(cast(Entropy, task.seed.entropy), Purpose.SITES, 0)
        (key,) = sites.generate_state(1, np.uint64)
        return lambda t: kernels.random_sites(key, t * n, n, n_sites)[::way].copy()

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a block; their log weights are NaN if ``stop`` is set."""
        seed, order = beside(task.seed, Purpose.ANNEAL), self.site_order(task)
        heat_bath = self.kernel == "heat bath"
        starts = None if task.direction is Direction.FORWARD else self._starts(task, stop)
        chains = self.chain_type(self.system, seed, heat_bath, starts)

        def move(t: int) -> float:
            changes = chains.move(task.betas[t], order(t))
            return np.nan if heat_bath else changes / (chains.lanes * self.n_updates)

        def log_likelihood() -> np.ndarray:
            ells = self.system.log_likelihood_of_bonds(chains.satisfied_bonds())
            return ells[: task.chains]

        return anneal_block(task.direction, task.betas, move, log_likelihood, stop)

    def _starts(self, task: AnnealTask, stop: np.ndarray) -> np.ndarray:
        """Return the colours of reverse chains at β = 1, shape (block_size, n_sites)."""
        system = self.system
        states = np.zeros((task.chains, system.n_sites), np.uint8)
        keys = beside(task.seed, Purpose.START).generate_state(task.chains, np.uint64)
        if self.start == "ordered":
            states[:] = np.arange(task.chains)[:, None] % system.n_colours
        for state, key in zip(states, keys, strict=True):
            if stop[0]:
                break
            if self.start == "exact":
                state[:] = perfect_state(system, 1.0, key, stop)
            elif self.start == "swendsen-wang":
                state[:] = kernels.swendsen_wang(*random_cluster(system), state, key, self.burn_in)
        return np.resize(states, (self.block_size, system.n_sites))  # idle lanes repeat chains
