"""Check a sampler together with the simulator of the data, which take turns."""

import numpy as np
import pymc as pm

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.bets import fair_bets
from pymc_bdmc.testing.features import SHAPES
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial

__all__ = ["check_geweke"]

BLIND_TO = ("slow mixing: a sampler that never moves passes",)


def check_geweke(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    rounds: int = 10,
) -> Report:
    trial = Trial("check_geweke", model, alpha, budget, random_seed)
    check_counts(rounds=rounds)
    features = trial.features(data=True)

    def observe(subject: Subject) -> list[np.ndarray]:
        point = trial.draw()
        first = features([point])[0]
        total = np.zeros_like(first)
        for _ in range(rounds):
            point = next(subject.chain(point, trial.rng))
            trial.renew_data(point)
            total += features([point])[0]
        return [fair_bets((total / rounds - first).reshape(-1, 1) / 2)]

    names = [f"over {rounds} rounds: {s} of {name}" for name in features.names for s in SHAPES]
    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, rounds, BLIND_TO)
