"""Ising and Potts models for simulated tempering: heat bath with one β a chain."""

import numpy as np
from numba import njit

from pymc_bdmc.lattice.systems import Lattice

__all__ = ["TemperedLattice"]


class TemperedLattice:
    """A lattice model as `temper` asks for it; states are colours of shape (chains, L, L).

    A transition updates every site once, row by row, by heat bath.

    Parameters
    ----------
    system : Ising or Potts

    Raises
    ------
    ValueError
        For another system.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> ising = bdmc.lattice.Ising(4)
    >>> dt = bdmc.temper(bdmc.lattice.TemperedLattice(ising), temperatures=20, random_seed=1,
    ...                  progressbar=False)
    >>> value, error = bdmc.evidence(dt, "RTS")[["value", "error"]].iloc[0]
    >>> bool(abs(value - ising.log_z()) < 4 * error)
    True
    """

    description = "heat bath, row by row"

    def __init__(self, system: Lattice):
        if not isinstance(system, Lattice):
            raise ValueError(f"system: an Ising or Potts model is needed, got {system!r}.")
        self.system = system

    def draw_prior(self, chains: int, rng: np.random.Generator) -> np.ndarray:
        """Independent uniform colours."""
        shape = (chains, self.system.L, self.system.L)
        return rng.integers(self.system.n_colours, size=shape, dtype=np.uint8)

    def step(self, state: np.ndarray, betas: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Sweep every chain at its own β, in place."""
        strengths = np.asarray(betas, dtype=float) * self.system.bond_strength
        _sweep(state, strengths, self.system.n_colours, rng.random(state.shape))
        return state

    def log_likelihood(self, state: np.ndarray) -> np.ndarray:
        """ℓ of every chain, nats."""
        return self.system.log_likelihood(self.system.satisfied_bonds(state))


@njit(cache=True, nogil=True)
def _sweep(states, strengths, n_colours, uniforms):
    """Draw every site given its neighbours: a colour's weight is exp(strength · equal ones)."""
    chains, side, _ = states.shape
    chances = np.empty(n_colours)
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
                    chances[c] = total
                drawn, target = 0, uniforms[i, x, y] * total
                while chances[drawn] < target:
                    drawn += 1
                colours[x, y] = drawn
