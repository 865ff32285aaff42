"""Very many short runs of a compiled loop, correct or broken, in one call."""

from functools import cache
from types import FunctionType

import numba
import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.run.chain import FINISHED, RunPlan, RunRecord, anneal_run


@njit(cache=True)
def run(target, kernel, plan, starts, draws, rng):
    """A log weight for each row of ``starts`` and of prior ``draws``, which replace the plan's."""
    betas, tuning, _, reverse, burn_in, reversal, places, _, stride, in_turn = plan
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
    weights, stop = np.empty(len(starts)), np.zeros(1, np.uint8)
    for j in range(len(starts)):
        one = RunPlan(
            betas, tuning, starts[j], reverse, burn_in, reversal, places, draws[j], stride, in_turn
        )
        status = anneal_run(target, kernel, one, rng, stop, record)[4]
        weights[j] = np.sum(np.diff(betas) * record.highest[:-1]) + record.rests.sum()
        if status != FINISHED:
            weights[j] = np.nan
    return weights


@cache
def driver(loop):
    """`run`, with another loop in the place of `anneal_run`."""
    if loop is anneal_run:
        return run
    return numba.njit(FunctionType(run.py_func.__code__, globals() | {"anneal_run": loop}))
