"""Very many short runs, correct or broken: chains in one compiled call, populations one by one."""

from functools import cache
from types import FunctionType

import numba
import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.engines import runs
from pymc_bdmc.run.chain import FINISHED, Plan, anneal_chain
from pymc_bdmc.run.loop import Record


@njit(cache=True)
def run(target, kernel, plan, starts, draws, rng):
    """A log weight for each row of ``starts`` and of prior ``draws``, which replace the plan's."""
    betas, table, rows, fractions, reverse, burn_in, reversal, places, _, stride, in_turn = plan
    n = len(betas)
    ells = np.empty(n)
    records = ells, np.empty((n, 2)), np.zeros(n, dtype=np.int64), np.empty((0, 0))
    weights, stop = np.empty(len(starts)), np.zeros(1, np.uint8)
    for j in range(len(starts)):
        one = Plan(
            betas, table, rows, fractions, reverse, burn_in, reversal, places, draws[j], stride,
            in_turn,
        )  # fmt: skip
        _, status, _ = anneal_chain(target, kernel, one, starts[j].copy(), rng, stop, records)
        weights[j] = np.sum(np.diff(betas) * ells[:-1]) if status == FINISHED else np.nan
    return weights


@cache
def chains(loop=anneal_chain):
    """`run`, with another loop in the place of `anneal_chain`."""
    if loop is anneal_chain:
        return run
    return numba.njit(FunctionType(run.py_func.__code__, globals() | {"anneal_chain": loop}))


def populations(problem, kernel, plan, starts, rng, **broken):
    """A log weight for each population of ``starts``, with ``broken`` functions in its run."""
    run_plan = FunctionType(runs.run_plan.__code__, vars(runs) | broken)
    increments, weights = np.diff(plan.betas), np.empty(len(starts))
    for j, one in enumerate(starts):
        record = Record(len(increments), len(one), 2)
        run_plan(problem, kernel, plan, one, rng, record)
        weights[j] = increments @ record.highest[:-1] + record.rests.sum()
    return weights
