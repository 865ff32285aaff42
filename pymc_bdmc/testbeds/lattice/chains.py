"""Hold the spins of a block of chains, which move side by side."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from pymc_bdmc.testbeds.lattice.randomness import Spins, random_words, seed_generators
from pymc_bdmc.testbeds.lattice.systems import Lattice, neighbours


class ChainBlock(ABC):
    """Block of chains of a lattice model.

    Parameters
    ----------
    system : Lattice
    stream : SeedSequence
        Random stream of the block.
    heat_bath : bool
        Whether to use the heat bath; otherwise Metropolis.
    start : ndarray of uint8, shape (lanes, n_sites), optional
        Colours; otherwise uniform random colours.
    """

    lanes: ClassVar[int]
    """Number of chains."""
    n_generators: ClassVar[int]
    """Number of random generators."""

    def __init__(
        self,
        system: Lattice,
        stream: np.random.SeedSequence,
        heat_bath: bool,
        start: np.ndarray | None = None,
    ):
        self._system, self._heat_bath = system, heat_bath
        self._neighbours = neighbours(system.L)
        generators = seed_generators(stream, self.n_generators)
        if start is None:
            values = self._uniform(random_words(generators, system.n_sites))
        else:
            values = self._packed(start.T)
        self._spins = Spins(values, generators)

    @abstractmethod
    def move(self, beta: float, sites: np.ndarray) -> int:
        """Update the sites in this order; return the number of accepted changes."""

    @abstractmethod
    def satisfied_bonds(self) -> np.ndarray:
        """Count the bonds between equal neighbours by chain, shape (lanes,)."""

    @abstractmethod
    def _uniform(self, words: np.ndarray) -> np.ndarray:
        """Turn random words of shape (n_sites, n_generators) into spins."""

    @abstractmethod
    def _packed(self, colours: np.ndarray) -> np.ndarray:
        """Turn colours of shape (n_sites, lanes) into spins."""
