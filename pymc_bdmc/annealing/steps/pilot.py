"""A pilot at a few temperatures tunes the step methods; its findings are interpolated over β."""

from collections.abc import Sequence

import numpy as np
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.kernels.adaptations import adaptation
from pymc_bdmc.kernels.tuning import Tuning
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.types import Point

__all__ = [
    "PILOT_CHAINS",
    "PILOT_STEPS",
    "PILOT_TEMPERATURES",
    "combine",
    "pilot_betas",
    "pilot_run",
]

PILOT_CHAINS = 2
PILOT_TEMPERATURES = 8
PILOT_STEPS = 150


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
    starts = min(tuning.starts for tuning in tunings)
    return Tuning(tunings[0].betas, values, means, starts)
