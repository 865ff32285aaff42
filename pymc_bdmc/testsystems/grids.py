"""Grids of 7 × 7 states: easy, hard, and with barriers (Grosse et al. 2016, App. B)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.testsystems.finite import ExactSandwich, exact_sandwich, metropolis_transitions

SIDE = 7
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


@dataclass(frozen=True)
class Grid:
    """Square grid of states with a uniform prior, and Metropolis steps to neighbours.

    A step proposes one of the four neighbours with equal probability. Proposals outside the grid
    are rejected.

    Parameters
    ----------
    log_likelihood : ndarray of shape (side, side)
        ℓ of each state, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.testsystems import Grid
    >>> run = Grid.barrier().sandwich(np.linspace(0, 1, 100))
    >>> round(run.jeffreys, 4), round(run.bound, 4)
    (1.6479, 1.8104)
    """

    log_likelihood: np.ndarray

    @classmethod
    def random(cls, std: float, rng: np.random.Generator) -> "Grid":
        """Draw independent ℓ ~ N(0, std²): EASY RANDOM has std 2, HARD RANDOM std 10."""
        return cls(rng.normal(0, std, size=(SIDE, SIDE)))

    @classmethod
    def barrier(cls) -> "Grid":
        """Make four rooms with walls. ℓ is −10 on the walls, 3 in one room and 0 in the others."""
        log_likelihood = np.zeros((SIDE, SIDE))
        middle = SIDE // 2
        log_likelihood[:middle, :middle] = 3.0
        log_likelihood[middle, :] = log_likelihood[:, middle] = -10.0
        return cls(log_likelihood)

    @property
    def log_prior(self) -> np.ndarray:
        """Return the uniform log prior, shape (side²,), nats."""
        return np.full(self.log_likelihood.size, -np.log(self.log_likelihood.size))

    def transitions(self, betas: np.ndarray) -> np.ndarray:
        """Return transition matrices at m values of β, shape (m, side², side²)."""
        proposal = _proposal(*self.log_likelihood.shape)
        return metropolis_transitions(self.log_prior, self.log_likelihood.ravel(), proposal)(betas)

    def sandwich(self, schedule: ArrayLike) -> ExactSandwich:
        """Compute J and B exactly for a schedule of shape (T + 1,); see `exact_sandwich`."""
        flat = self.log_likelihood.ravel()
        return exact_sandwich(self.log_prior, flat, schedule, self.transitions)


def _proposal(rows, columns):
    matrix = np.zeros((rows, columns, rows, columns))
    for i, j in np.ndindex(rows, columns):
        for di, dj in MOVES:
            inside = 0 <= i + di < rows and 0 <= j + dj < columns
            k, l = (i + di, j + dj) if inside else (i, j)
            matrix[i, j, k, l] += 1 / len(MOVES)
    return matrix.reshape(rows * columns, rows * columns)
