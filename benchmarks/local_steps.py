"""HMC with local step sizes beside HMC, where scales differ by place: funnels and their kin.

Run as ``python benchmarks/local_steps.py [model ...]``; some ten minutes. Every data set is
simulated from the prior; pairs of numbers are forward / reverse, medians and means are over data
sets.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pymc as pm
from common import shown, table
from hierarchical import horseshoe, varying_intercepts
from models import eight_schools

from pymc_bdmc import FromPrior
from pymc_bdmc.base.schedules import adaptive
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask

RUNS, DATASETS, TEMPERATURES = 8, 8, 300
PARTICLES = [1, 16]


def funnel() -> pm.Model:
    """Neal (2003): the log variance of nine values, one of which is observed with noise."""
    with pm.Model() as model:
        log_variance = pm.Normal("log_variance", 0, 3)
        x = pm.Normal("x", 0, pm.math.exp(log_variance / 2), shape=9)
        pm.Normal("y", x[0], 1.0, observed=0.5)
    return model


def weibull(wrap: Callable) -> pm.Model:
    """Survival of 100 units by one covariate; truncated or censored from above."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=100)
    y = np.clip(np.exp(0.5 + 0.3 * x) * rng.weibull(1.5, size=100), None, 3.0)
    with pm.Model() as model:
        shape = pm.Gamma("shape", 4, 2)
        intercept, slope = pm.Normal("intercept", 0, 0.5), pm.Normal("slope", 0, 0.3)
        wrap("y", pm.Weibull.dist(shape, pm.math.exp(intercept + slope * x)), observed=y)
    return model


MODELS = {
    "eight schools, centred": lambda: eight_schools(centred=True),
    "varying intercepts, 85 groups": varying_intercepts,
    "Neal's funnel": funnel,
    "horseshoe": horseshoe,
    "truncated Weibull": lambda: weibull(partial(pm.Truncated, upper=4.0)),
    "censored Weibull": lambda: weibull(partial(pm.Censored, lower=None, upper=3.0)),
}


class Contest:
    """Both directions on the same simulated data, with one kernel after the other."""

    def __init__(self, name: str):
        self.name, self.density = name, TemperedDensity(MODELS[name]())
        self.simulated = FromPrior(DATASETS).simulate(self.density, 1)

    def enter(self, step: str) -> None:
        """Pilot every data set."""
        self.step, self.engine = step, CompiledEngine(self.density, step)
        seeds = np.random.SeedSequence(2).spawn(DATASETS)
        self.tunings = [
            PilotTask(each.data, seed).run(self.engine)
            for each, seed in zip(self.simulated, seeds, strict=True)
        ]
        self.tasks(10, 1)[0].run(self.engine)  # compiles the loop

    def tasks(self, n_temperatures: int, particles: int) -> list[AnnealTask]:
        """Forward and reverse runs by turns, one data set after the other."""
        seeds = iter(np.random.SeedSequence(3).spawn(2 * RUNS * DATASETS))
        tasks = []
        for each, tuning in zip(self.simulated, self.tunings, strict=True):
            betas = adaptive(tuning.path_betas, tuning.mean_log_likelihood, n_temperatures).betas
            tasks += [
                AnnealTask(
                    direction, each.data, betas, tuning, next(seeds), start, particles=particles
                )
                for _ in range(RUNS)
                for direction, start in ((Direction.FORWARD, None), (Direction.REVERSE, each.point))
            ]
        return tasks

    def run(self, n_temperatures: int, particles: int) -> tuple[float, list]:
        """Gradients a run, and a row of the table."""
        tasks = self.tasks(n_temperatures, particles)
        started = time.process_time()
        runs = [task.run(self.engine) for task in tasks]
        seconds = (time.process_time() - started) / len(runs)
        gradients = np.mean([run.gradient_evaluations for run in runs])
        divergent, accepted = (
            np.reshape([np.mean(values(run)[1:]) for run in runs], (-1, 2)).mean(axis=0)
            for values in (
                lambda run: run.divergences / particles,
                lambda run: run.acceptance[:, 1],
            )
        )
        weights = np.reshape([run.log_weight for run in runs], (DATASETS, RUNS, 2))
        gaps = (weights[..., 1] - weights[..., 0]).mean(axis=1)
        spreads = np.median(weights.std(axis=1), axis=0)
        return gradients, shown([
            self.name, particles, f"`{self.step}`", n_temperatures, f"{gradients:.0f}",
            f"{1e3 * seconds:.1f}", both(100 * divergent, 1), both(accepted, 2),
            f"{np.median(gaps):.2g}", f"{np.mean(gaps):.2g}", both(spreads, 2),
        ])  # fmt: skip


def both(values: np.ndarray, digits: int) -> str:
    """Of the two directions."""
    return " / ".join(f"{value:.{digits}f}" for value in values)


def contest(name: str) -> list[list]:
    """HMC, and local step sizes at the same T and at as many gradients, by number of particles."""
    match, rows = Contest(name), []
    for particles in PARTICLES:
        match.enter("hmc")
        budget, row = match.run(TEMPERATURES, particles)
        match.enter("autostep")
        gradients, second = match.run(TEMPERATURES, particles)
        _, third = match.run(round(TEMPERATURES * budget / gradients), particles)
        rows += [row, second, third]
    return rows


def main() -> None:
    rows = [row for name in sys.argv[1:] or MODELS for row in contest(name)]
    head = [
        "model", "particles", "kernel", "T", "gradients a run", "CPU ms a run", "divergent, %",
        "acceptance", "median gap, nats", "mean gap", "sd of log Ẑ",
    ]  # fmt: skip
    print(table(head, rows))


if __name__ == "__main__":
    main()
