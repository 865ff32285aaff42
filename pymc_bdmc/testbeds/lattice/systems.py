"""Define the lattice models: energy, geometry and exact results."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.testbeds.lattice.exact import kaufman_log_z, transfer_matrix_log_z
from pymc_bdmc.testbeds.lattice.heat_bath import sweep

_MAX_COLOURS = 256  # a colour is kept in a byte
_MAX_COUPLING = 100.0  # beyond, floating point knows ground states only


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
        if not 0 < self.coupling <= _MAX_COUPLING:
            raise ValueError(
                f"coupling: must be positive, at most {_MAX_COUPLING}, got {self.coupling!r}."
            )

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
        sweep(states, strengths, self.n_colours, rng.random(states.shape))
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

    @property
    def n_colours(self) -> int:
        """Return 2; colour 1 is spin up."""
        return 2

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
        if isinstance(self.q, bool) or self.q != int(self.q) or not 2 <= self.q <= _MAX_COLOURS:
            raise ValueError(f"q: must be a whole number, 2 … {_MAX_COLOURS}, got {self.q!r}.")

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
