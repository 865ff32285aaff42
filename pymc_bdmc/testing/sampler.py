"""Check a sampler by sandwiches of simulated data sets."""

import numpy as np
import pymc as pm

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.schedules import make_schedule
from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.bets import tilted_bets, unit_bets
from pymc_bdmc.testing.features import SHAPES
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial

__all__ = ["check_sampler"]

BLIND_TO = ("slow mixing: a sampler that never moves passes",)


def check_sampler(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    temperatures: int = 8,
) -> Report:
    trial = Trial("check_sampler", model, alpha, budget, random_seed)
    check_counts(temperatures=temperatures)
    features = trial.features()

    def observe(subject: Subject) -> list[np.ndarray | float]:
        start = trial.draw()
        forward, end = subject.anneal(None, trial.rng)
        reverse, _ = subject.anneal(start, trial.rng)
        with np.errstate(over="ignore"):
            ratio = np.exp(forward - reverse)
        reached, exact = features([end, start]).reshape(2, -1)
        pays = [unit_bets(np.array([ratio])), tilted_bets(ratio, reached, exact)]
        return pays

    names = [f"{shape} of {name} at β = 1" for name in features.names for shape in SHAPES]
    betas = make_schedule("power", temperatures).betas
    blocks = [["mean of forward over reverse weights above 1"], names]
    return trial.hold(step, betas, blocks, observe, 2 * temperatures, BLIND_TO)
