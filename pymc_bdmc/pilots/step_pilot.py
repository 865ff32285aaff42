"""Tune the step methods by pilot chains at a few temperatures, interpolated over β."""

import time
from collections.abc import Sequence

import numpy as np
from pymc.step_methods.compound import BlockedStep

from pymc_bdmc.base.schedules import mean_between
from pymc_bdmc.base.types import Point, Tuning
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.kernels.adaptations import StepParameters, adaptation
from pymc_bdmc.kernels.steps import summarize
from pymc_bdmc.pilots.pilot import MeanCurve

PILOT_STEPS = 150
"""Number of steps at each temperature of the pilot. Chosen."""


def pilot_betas(betas: np.ndarray, n: int = 8) -> np.ndarray:
    """Return ``n`` temperatures for the pilot, evenly spaced along the schedule, without 0."""
    last = len(betas) - 1
    return betas[np.unique(np.linspace(1, last, min(n, last)).round().astype(int))]


def pilot(
    density: TemperedDensity,
    steps: Sequence[BlockedStep],
    betas: np.ndarray,
    starts: Sequence[Point],
    rng: np.random.Generator,
) -> Tuning:
    """Run one pilot chain from the first of the prior draws ``starts``, adapting at each β.

    Between temperatures, β rises no further than the effective sample size of the last stage
    allows, so that E_β[ℓ] is known along the whole path. The ``steps`` are untuned; afterwards they
    are adapted to the last of the ``betas``.
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
            n_steps = 50  # at intermediate temperatures; chosen
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
    return Tuning(
        None, curve.mean_log_likelihood, prior_ells, cost, (cost - before) / n_steps,
        seconds / n_steps, curve.betas, StepParameters(betas, values),
    )  # fmt: skip


def combine(tunings: Sequence[Tuning], steps: Sequence[BlockedStep]) -> Tuning:
    """Combine the tunings of independent pilot chains."""
    values = [
        [adaptation(step).merge(chains) for step, *chains in zip(steps, *stage, strict=True)]
        for stage in zip(*(tuning.kernels.values for tuning in tunings), strict=True)
    ]
    path_betas = np.unique(np.concatenate([tuning.path_betas for tuning in tunings]))
    means = [
        mean_between(path_betas, each.path_betas, each.mean_log_likelihood) for each in tunings
    ]
    return Tuning(
        None,
        np.mean(means, axis=0),
        np.concatenate([tuning.prior_log_likelihood for tuning in tunings]),
        sum(tuning.gradient_evaluations for tuning in tunings),
        float(np.mean([tuning.gradients_a_move for tuning in tunings])),
        float(np.mean([tuning.seconds_a_move for tuning in tunings])),
        path_betas,
        StepParameters(tunings[0].kernels.betas, values),
        min(tuning.accepted_draws for tuning in tunings),
    )
