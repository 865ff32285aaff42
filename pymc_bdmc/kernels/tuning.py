"""Interpolate the parameters of PyMC's step methods in β."""

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from pymc_bdmc.kernels.adaptations import Values


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
        ℓ of the pilot's prior draws, nats.
    accepted_draws : int
        Prior draws with ℓ > −∞ for which a forward run waits, at least one per particle; the first
        are the starts.
    rhat : float
        Always NaN, since the pilots are too few for an R̂.
    seconds_a_move : float
        CPU seconds of one step of all methods at β = 1.
    gradients_a_move : float
        Gradient evaluations of such a step.
    gradient_evaluations : int
        Cost of the pilot.
    """

    betas: np.ndarray
    values: list[list[Values]]
    path_betas: np.ndarray
    mean_log_likelihood: np.ndarray
    prior_log_likelihood: np.ndarray
    accepted_draws: int = 1
    rhat: float = np.nan
    seconds_a_move: float = field(default=np.nan, compare=False)
    gradients_a_move: float = np.nan
    gradient_evaluations: int = 0
    last_log_likelihood: ClassVar[np.ndarray] = np.empty(0)
    fit: ClassVar[None] = None
    peaks: ClassVar[int] = 0

    @cached_property
    def _knots(self) -> list[float]:
        return self.betas.tolist()  # plain floats compare faster than NumPy's

    @cached_property
    def _pieces(self) -> list[list[list[tuple]]]:
        """Return (name, value, slope) of every parameter, by interval of β and step method."""
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
        """Return the Hamiltonian step size by temperature; NaN at β = 0 or without such steps."""
        sizes = np.full(len(betas), np.nan)
        for t in range(1, len(betas)):
            for values in self.at(betas[t]):
                if "step_size" in values:
                    sizes[t] = np.exp(values["step_size"])
        return sizes
