"""Very many short runs of a compiled loop, correct or broken, in one call."""

from functools import cache

import numba
import numpy as np

from pymc_bdmc.engines.compiled.loops import FINISHED, RunPlan, RunRecord


@cache
def driver(anneal_run):
    """A function that returns a log weight for each row of ``starts`` and of prior ``draws``."""

    @numba.njit
    def run(target, kernel, tuning, betas, starts, reverse, reversal, draws, in_turn, rng):
        n = len(betas)
        record = RunRecord(
            np.empty(n),
            np.empty(n),
            np.zeros(n),
            np.empty((n, 2)),
            np.zeros(n, dtype=np.int64),
            np.empty(n),
            np.zeros(n, dtype=np.bool_),
        )
        places = np.arange(n) > 0
        weights, stop = np.empty(len(starts)), np.zeros(1, np.uint8)
        for j in range(len(starts)):
            plan = RunPlan(betas, starts[j], reverse, 0, reversal, places, draws[j], 1, in_turn)
            status = anneal_run(target, kernel, tuning, plan, rng, stop, record)[4]
            weights[j] = np.sum(np.diff(betas) * record.highest[:-1]) + record.rests.sum()
            if status != FINISHED:
                weights[j] = np.nan
        return weights

    return run
