"""Tune the step methods by pilot chains at a few temperatures, interpolated over β."""

import time
from collections.abc import Sequence

import numpy as np
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.base.schedules import mean_between
from pymc_bdmc.base.types import Point
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.mean_curve import MeanCurve
from pymc_bdmc.kernels.adaptations import adaptation
from pymc_bdmc.kernels.steps import summarize
from pymc_bdmc.kernels.tuning import StepTuning

PILOT_CHAINS = 2
PILOT_TEMPERATURES = 8
PILOT_STEPS = 150
"""Number of steps at each temperature of the pilot."""
STRIDE_STEPS = 50
"""Number of steps at each intermediate temperature that E_β[ℓ] needs."""


def pilot_betas(betas: np.ndarray, n: int = PILOT_TEMPERATURES) -> np.ndarray:
    """Return ``n`` temperatures for the pilot, evenly spaced along the schedule, without 0."""
    last = len(betas) - 1
    return betas[np.unique(np.linspace(1, last, min(n, last)).round().astype(int))]


def pilot(
    density: TemperedDensity,
    steps: Sequence[BlockedStep],
    betas: np.ndarray,
    starts: Sequence[Point],
    rng: np.random.Generator,
) -> StepTuning:
    """Run one pilot chain from a prior draw through the temperatures, adapting at each.

    Between temperatures, β rises no further than the effective sample size of the last stage
    allows, so that E_β[ℓ] is known along the whole path.

    Parameters
    ----------
    density : TemperedDensity
        The target.
    steps : sequence of BlockedStep
        Step methods, untuned; afterwards they are adapted to the last temperature.
    betas : ndarray of shape (G,)
        Temperatures at which to adapt, increasing.
    starts : sequence of Point
        Prior draws; the chain starts at the first.
    rng : numpy.random.Generator
        The pilot's own stream.
    """
    accesses = [adaptation(step) for step in steps]
    for step, stream in zip(steps, rng.spawn(len(steps)), strict=True):
        step.setup_chain(stream, tune=PILOT_STEPS * len(betas), draws=0)
        step.tune = True
    prior_ells = np.array([density(start)[1] for start in starts])
    curve, point, values, beta, cost = MeanCurve(prior_ells), starts[0], [], 0.0, 0
    for destination in betas:
        while beta < destination:
            beta = min(curve.next_beta(), destination)
            density.set_beta(beta)
            n_steps = STRIDE_STEPS
            if beta == destination:
                n_steps = PILOT_STEPS
                for access, step in zip(accesses, steps, strict=True):
                    access.restart(step)
            started, ells, before = time.thread_time(), [], cost
            for _ in range(n_steps):
                for step in steps:
                    point, stats = step.step(point)
                    cost += summarize(stats).gradient_evaluations
                ells.append(density(point)[1])
            seconds = time.thread_time() - started
            curve.add(beta, np.array(ells[n_steps // 2 :]))
        values.append([access.read(step) for access, step in zip(accesses, steps, strict=True)])
    return StepTuning(
        betas, values, curve.betas, curve.mean_log_likelihood, prior_ells,
        seconds_a_move=seconds / n_steps, gradients_a_move=(cost - before) / n_steps,
        gradient_evaluations=cost,
    )  # fmt: skip


def combine(tunings: Sequence[StepTuning], steps: Sequence[BlockedStep]) -> StepTuning:
    """Combine the tunings of independent pilot chains."""
    accesses = [adaptation(step) for step in steps]
    values = [
        [access.merge(chains) for access, *chains in zip(accesses, *stage, strict=True)]
        for stage in zip(*(tuning.values for tuning in tunings), strict=True)
    ]
    path_betas = np.unique(np.concatenate([tuning.path_betas for tuning in tunings]))
    means = [
        mean_between(path_betas, tuning.path_betas, tuning.mean_log_likelihood)
        for tuning in tunings
    ]
    prior_ells = np.concatenate([tuning.prior_log_likelihood for tuning in tunings])
    accepted_draws = min(tuning.accepted_draws for tuning in tunings)
    costs = [(each.seconds_a_move, each.gradients_a_move) for each in tunings]
    seconds, gradients = np.mean(costs, axis=0)
    return StepTuning(
        tunings[0].betas, values, path_betas, np.mean(means, axis=0), prior_ells, accepted_draws,
        seconds_a_move=float(seconds), gradients_a_move=float(gradients),
        gradient_evaluations=sum(each.gradient_evaluations for each in tunings),
    )  # fmt: skip
