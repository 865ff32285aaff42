"""Check that a sampler leaves the joint distribution of parameters and data as it is."""

from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.bets import Bets, fair_bets
from pymc_bdmc.testing.features import SHAPES
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial

__all__ = ["check_invariance"]


BLIND_TO = ("slow mixing: a sampler that never moves passes",)


def check_invariance(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    steps: int = 5,
) -> Report:
    trial = Trial("check_invariance", model, alpha, budget, random_seed)
    check_counts(steps=steps)
    features = trial.features()
    names = [
        f"{when}: {shape} of {name}"
        for when in ("after 1 step", f"over {steps} steps")
        for name in features.names
        for shape in SHAPES
    ]

    def observe(subject: Subject) -> list[np.ndarray]:
        start = trial.draw()
        before, *after = features([start, *islice(subject.chain(start, trial.rng), steps)])
        changes = after[0] - before, np.mean(after, axis=0) - before
        return [fair_bets(np.reshape(changes, (-1, 1)) / 2)]

    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, steps, BLIND_TO)
