"""Very many short runs of the compiled loops in one call."""

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.run.chain import Plan, anneal_chain, anneal_population


@njit(cache=True)
def run(target, kernel, plan, starts, draws, rng):
    """A log weight for each row of ``starts`` and of prior ``draws``, which replace the plan's."""
    betas, table, rows, fractions, reverse, burn_in, reversal, places, _, stride, in_turn = plan
    n_betas, n = len(betas), starts.shape[1]
    weights, stop = np.empty(len(starts)), np.zeros(1, np.uint8)
    trail = np.empty((np.sum(places) if reverse and n > 1 else 0, starts.shape[2]))
    for j in range(len(starts)):
        one = Plan(
            betas, table, rows, fractions, reverse, burn_in, reversal, places, draws[j], stride,
            in_turn,
        )  # fmt: skip
        means, highest, rests = np.empty(n_betas), np.empty(n_betas), np.zeros(n_betas)
        acceptance, divergences = np.zeros((n_betas, 2)), np.zeros(n_betas, dtype=np.int64)
        ends = starts[j].copy()
        if reverse or n == 1:
            records = means, acceptance, divergences, trail
            anneal_chain(target, kernel, one, ends[0], rng, stop, records)
            highest[:] = means
        if n > 1:
            sizes, resampled = np.empty(n_betas), np.zeros(n_betas, dtype=np.bool_)
            every = means, highest, rests, acceptance, divergences, sizes, resampled
            anneal_population(target, kernel, one, ends, rng, stop, every, trail)
        weights[j] = np.sum(np.diff(betas) * highest[:-1]) + rests.sum()
    return weights
