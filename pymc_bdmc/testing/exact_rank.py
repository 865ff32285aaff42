"""Check the rank of an exact draw in a chain that runs through it both ways."""

from itertools import islice

import numpy as np
import pymc as pm

from pymc_bdmc.arguments import check_counts
from pymc_bdmc.streams import RandomSeed
from pymc_bdmc.testing.bets import fair_bets
from pymc_bdmc.testing.features import SHAPES, waves
from pymc_bdmc.testing.report import Report
from pymc_bdmc.testing.subjects import ALPHA, Sampler, Subject
from pymc_bdmc.testing.trial import Trial

__all__ = ["check_exact_rank"]

BLIND_TO = ("slow mixing: a sampler that never moves passes",)


def check_exact_rank(
    step: Sampler,
    model: pm.Model,
    *,
    alpha: float = ALPHA,
    budget: int = 20_000,
    random_seed: RandomSeed = None,
    steps: int = 9,
) -> Report:
    trial = Trial("check_exact_rank", model, alpha, budget, random_seed)
    check_counts(steps=steps)
    features = trial.features()

    def observe(subject: Subject) -> list[np.ndarray]:
        if not subject.says_reversal:
            raise ValueError(
                f"step: the reversal of {subject.title} is not known, and this check needs it. "
                "Give it an attribute `reversal` (of a step method, a method that returns one), "
                "which is itself if detailed balance holds; or use check_invariance."
            )
        start = trial.draw()
        place = trial.rng.integers(steps + 1)
        after = islice(subject.chain(start, trial.rng), steps - place)
        before = islice(subject.chain(start, trial.rng, reverse=True), place)
        values = features.values([start, *before, *after])
        less, equal = np.sum(values < values[0], axis=0), np.sum(values == values[0], axis=0)
        ranks = (less + equal * trial.rng.random(less.shape)) / len(values)
        return [fair_bets(waves(ranks).reshape(-1, 1))]

    names = [f"{shape} of the rank of {name}" for name in features.names for shape in SHAPES]
    return trial.hold(step, np.array([0.0, 1.0]), [names], observe, steps, BLIND_TO)
