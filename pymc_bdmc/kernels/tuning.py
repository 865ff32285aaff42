"""A pilot at a few temperatures tunes the step methods; its findings are interpolated over β."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.kernels.adaptations import Values, adaptation
from pymc_bdmc.tempering import TemperedDensity
from pymc_bdmc.types import Point

__all__ = [
    "PILOT_CHAINS",
    "PILOT_STEPS",
    "PILOT_TEMPERATURES",
    "Tuning",
    "combine",
    "pilot_betas",
    "pilot_run",
]

PILOT_CHAINS = 2
PILOT_TEMPERATURES = 8
PILOT_STEPS = 150


@dataclass(frozen=True, eq=False)
class Tuning:
    """Parameters of every step method as piecewise linear functions of β.

    Attributes
    ----------
    betas : ndarray of shape (G,)
        Temperatures of the pilot, increasing.
    values : list of list of dict
        ``values[g][i]`` maps parameter names of step method i to values, as `Adaptation` reads.
    mean_log_likelihood : ndarray of shape (G + 1,)
        Mean of ℓ along the pilot, nats, at β = 0 (its start) and at ``betas``.
    """

    betas: np.ndarray
    values: list[list[Values]]
    mean_log_likelihood: np.ndarray

    @property
    def path_betas(self) -> np.ndarray:
        """Where ``mean_log_likelihood`` was taken, from 0 to 1."""
        return np.concatenate([[0.0], self.betas])

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


def pilot_betas(betas: np.ndarray, n: int = PILOT_TEMPERATURES) -> np.ndarray:
    """Temperatures of the pilot: ``n`` of the schedule's own, evenly spaced along it, without 0."""
    last = len(betas) - 1
    return betas[np.unique(np.linspace(1, last, min(n, last)).round().astype(int))]


def pilot_run(
    density: TemperedDensity,
    steps: Sequence[BlockedStep],
    betas: np.ndarray,
    start: Point,
    rng: np.random.Generator,
) -> Tuning:
    """One pilot chain: from a prior draw through the temperatures, adapting at each.

    Parameters
    ----------
    density : TemperedDensity
        The target.
    steps : sequence of BlockedStep
        Untuned; they are left adapted to the last temperature.
    betas : ndarray of shape (G,)
        Temperatures at which to adapt, increasing.
    start : Point
        A draw from the prior.
    rng : numpy.random.Generator
        The pilot's own stream.
    """
    accesses = [adaptation(step) for step in steps]
    for step, stream in zip(steps, rng.spawn(len(steps)), strict=True):
        step.setup_chain(stream, tune=PILOT_STEPS * len(betas), draws=0)
        step.tune = True
    point, values, means = start, [], [density(start)[1]]
    for beta in betas:
        density.set_beta(beta)
        for access, step in zip(accesses, steps, strict=True):
            access.restart(step)
        ells = []
        for _ in range(PILOT_STEPS):
            for step in steps:
                point, _ = step.step(point)
            ells.append(density(point)[1])
        means.append(np.mean(ells[PILOT_STEPS // 2 :]))
        values.append([access.read(step) for access, step in zip(accesses, steps, strict=True)])
    return Tuning(betas, values, np.array(means))


def combine(tunings: Sequence[Tuning], steps: Sequence[BlockedStep]) -> Tuning:
    """Join the findings of independent pilot chains."""
    accesses = [adaptation(step) for step in steps]
    values = [
        [access.merge(found) for access, *found in zip(accesses, *stage, strict=True)]
        for stage in zip(*(tuning.values for tuning in tunings), strict=True)
    ]
    means = np.mean([tuning.mean_log_likelihood for tuning in tunings], axis=0)
    return Tuning(tunings[0].betas, values, means)
