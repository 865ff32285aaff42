"""List what to doubt in a result, each doubt with a remedy."""

from collections.abc import Callable

import xarray as xr

from pymc_bdmc.results.checks.averages import bad_average, few_runs
from pymc_bdmc.results.checks.draws import disagreement, reconcile
from pymc_bdmc.results.checks.gap import even_gap, far_start, knot
from pymc_bdmc.results.checks.interruption import interruption
from pymc_bdmc.results.checks.moves import dead, divergent
from pymc_bdmc.results.checks.remedies import (
    another_kernel,
    closing,
    easier,
    finer_start,
    lighter_tails,
    livelier,
    local_steps,
    more_effort,
    more_runs,
)
from pymc_bdmc.results.checks.start import too_short
from pymc_bdmc.results.checks.undefined import no_density
from pymc_bdmc.results.checks.visits import few_passages, uneven_visits
from pymc_bdmc.results.checks.weights import infinite, no_mean, unfinished
from pymc_bdmc.results.finding import Doubt, Message, message
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import Side
from pymc_bdmc.results.say import say


def diagnose(dt: xr.DataTree) -> list[str]:
    """List the doubts about a result, the gravest first, each with a remedy.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.

    Returns
    -------
    list of str
        Log densities that are NaN next to the posterior, unfinished chains, infinite weights,
        forward runs on the real data that disagree with the posterior draws they were given, a
        burn-in that is too short, a mean of log weights that does not exist, averages of weights
        whose check fails (`evidence`), dead chains, divergences, transitions that cause most of a
        wide gap, outlying weights, and any other wide gap. For `temper`: an interruption, few
        passages from end to end, uneven visits.

    Raises
    ------
    ValueError
        If the result has no chains, or lacks a variable; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> real = xr.Dataset(dict(log_weight=("chain", np.array([-1.0, -np.inf]))))
    >>> print(bdmc.diagnose(xr.DataTree.from_dict(dict(real=real)))[0])  # doctest: +ELLIPSIS
    real: 1 of 2 log weights are infinite; the kernel accepted states where ...
    """
    return [say(doubt) for doubt in doubts_of(dt)]


@once
def doubts_of(read: Reading) -> list[Doubt]:
    """Return the doubts about a result, the gravest first."""
    left = interruption(read)
    doubts = [Doubt({"": left}, None)] if left else []
    if read.is_tempering:
        found = (few_passages(read), uneven_visits(read))
        return doubts + [doubt for doubt in found if doubt]
    if Reading.annealed(read).is_null:
        return []
    if near := no_density(read, near=True):
        doubts.append(Doubt({"": near}, message("stable form", names=read.undefined)))
    for find, remedy in _DOUBTS:
        told = {name: each for name, side in read.sides.items() if (each := find(read, side))}
        if told:
            doubts.append(Doubt(told, remedy(read)))
    return doubts


type Find = Callable[[Reading, Side], Message | None]
type Remedy = Callable[[Reading], Message]

_DOUBTS: list[tuple[Find, Remedy]] = [
    (unfinished, lambda read: message("again")),
    (infinite, lambda read: message("test the kernel")),
    (disagreement, reconcile),
    (too_short, lambda read: message("longer burn-in")),
    (no_mean, lighter_tails),
    (bad_average, lambda read: message("distrust", what=more_effort(read))),
    (few_runs, more_runs),
    (dead, lambda read: message("widened", what=easier(read, livelier(read)))),
    (divergent, lambda read: message("stop", what=easier(read, local_steps(read)))),
    (knot, lambda read: message("temperatures there", kernel=another_kernel(read))),
    (far_start, finer_start),
    (even_gap, closing),
]
"""Checks of each group with their remedies, the gravest first."""
