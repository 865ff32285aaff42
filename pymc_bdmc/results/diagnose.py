"""List all checks of a result, in the order of `diagnose` and in that of `verdict`."""

from collections.abc import Callable, Iterator
from functools import partial

import xarray as xr

from pymc_bdmc.results.checks.draws import disagreement, draws
from pymc_bdmc.results.checks.gap import even_gap, far_start, knot, order
from pymc_bdmc.results.checks.integrity import cut_short, interrupted, undefined
from pymc_bdmc.results.checks.likeness import likeness
from pymc_bdmc.results.checks.missed import real_weights, two_paths
from pymc_bdmc.results.checks.moves import (
    dead,
    divergences,
    divergent,
    ends,
    few_passages,
    uneven_visits,
)
from pymc_bdmc.results.checks.total_variation import (
    nothing_simulated,
    simulated_from,
    start,
    too_short,
    total_variation,
)
from pymc_bdmc.results.checks.weights import bad_average, few_runs, infinite, no_mean, unfinished
from pymc_bdmc.results.finding import Finding
from pymc_bdmc.results.log_ml import log_ml_finding
from pymc_bdmc.results.reading import Reading, once

type Check = Callable[[Reading], Iterator[Finding]]

DOUBTS: list[Check] = [
    cut_short, undefined, unfinished, infinite, disagreement, too_short, no_mean, bad_average,
    few_runs, dead, divergent, knot, far_start, even_gap,
]  # fmt: skip
"""Checks that `diagnose` lists, the gravest first."""

OF_TEMPERING: list[Check] = [cut_short, few_passages, uneven_visits]
"""Checks that `diagnose` lists for a result of `temper`."""


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
    return [doubt.told for doubt in doubts_of(dt)]


@once
def doubts_of(read: Reading) -> list[Finding]:
    """Return the doubts about a result, the gravest first."""
    if not read.is_tempering and Reading.annealed(read).is_null:
        return []
    checks = OF_TEMPERING if read.is_tempering else DOUBTS
    return [finding for check in checks for finding in check(read)]


def findings_of(read: Reading, confidence: float, look: int | None) -> list[Finding]:
    """Return what the checks of `verdict` find."""
    doubts = doubts_of(read)
    log_ml: Check = partial(log_ml_finding, doubts=doubts)
    certified: Check = partial(total_variation, doubts=doubts, confidence=confidence, look=look)
    on_real_data: list[Check] = [two_paths, divergences, ends, draws]
    if read.is_null:
        checks = [interrupted, log_ml]
    elif not read.has("forward"):
        checks = [interrupted, log_ml, *on_real_data, nothing_simulated]
    else:
        checks = [
            interrupted, start, certified, order, simulated_from, *on_real_data, likeness,
            real_weights, log_ml,
        ]  # fmt: skip
    return [finding for check in checks for finding in check(read)]
