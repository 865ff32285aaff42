"""Ising and Potts models: energy, geometry, a heat bath and exact partition functions."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from pymc_bdmc.base.compiling import njit

_MOST_STATES = 2_000_000  # that exact results list; chosen for seconds of work and 100 MB


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
        _heat_bath(states, strengths, self.n_colours, rng.random(states.shape))
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


@lru_cache(maxsize=16)
def neighbours(side: int) -> np.ndarray:
    """Return the sites right, below, left and above of every site, of shape (side², 4)."""
    sites = np.arange(side**2).reshape(side, side)
    shifts = [(-1, 1), (-1, 0), (1, 1), (1, 0)]
    table = np.stack([np.roll(sites, shift, axis).ravel() for shift, axis in shifts], axis=1)
    table.flags.writeable = False
    return table


@njit(nogil=True, cache=True)
def _heat_bath(states, strengths, n_colours, uniforms):
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
