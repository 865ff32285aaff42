"""Parameters of PyMC's step methods as functions of β."""

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from pymc_bdmc.kernels.adaptations import Values

__all__ = ["StepTuning"]


@dataclass(frozen=True, eq=False)
class StepTuning:
    """Parameters of every step method as piecewise linear functions of β.

    Attributes
    ----------
    betas : ndarray of shape (G,)
        Temperatures of the pilot, increasing.
    values : list of list of dict
        ``values[g][i]`` maps parameter names of step method i to values, as `Adaptation` reads.
    path_betas, mean_log_likelihood : ndarray of shape (F,)
        β from 0 to 1 and E_β[ℓ] there, nats.
    prior_log_likelihood : ndarray of shape (N,)
        ℓ of the pilot's draws from the prior, nats.
    accepted_draws : int
        Prior draws with ℓ > −∞ that a forward run waits for, and at least one for each particle;
        the first are their starts.
    rhat : float
        NaN: there are too few pilots to tell whether they mix.
    seconds_a_move : float
        Of a processor, for one step of all methods at β = 1.
    """

    betas: np.ndarray
    values: list[list[Values]]
    path_betas: np.ndarray
    mean_log_likelihood: np.ndarray
    prior_log_likelihood: np.ndarray
    accepted_draws: int = 1
    rhat: float = np.nan
    seconds_a_move: float = field(default=np.nan, compare=False)
    fit: ClassVar[None] = None
    peaks: ClassVar[int] = 0

    @cached_property
    def _knots(self) -> list[float]:
        return self.betas.tolist()  # plain floats compare faster than NumPy's

    @cached_property
    def _pieces(self) -> list[list[list[tuple]]]:
        """(name, value, slope) of every parameter, by interval of β and step method."""
        return [
            [
                [(name, low[name], (high[name] - low[name]) / span) for name in low]
                for low, high in zip(*pair, strict=True)
            ]
            for span, *pair in zip(np.diff(self.betas), self.values, self.values[1:], strict=False)
        ]

    def at(self, beta: float) -> list[Values]:
        """Return the parameters of every step method at β."""
        knots = self._knots
        above = bisect_left(knots, beta)
        if above == 0 or above == len(knots):
            return self.values[min(above, len(knots) - 1)]
        ahead = beta - knots[above - 1]
        return [
            {name: value + ahead * slope for name, value, slope in piece}
            for piece in self._pieces[above - 1]
        ]

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Step size of the Hamiltonian steps by temperature; NaN at β = 0 and without any."""
        sizes = np.full(len(betas), np.nan)
        for t in range(1, len(betas)):
            for values in self.at(betas[t]):
                if "step_size" in values:
                    sizes[t] = np.exp(values["step_size"])
        return sizes
