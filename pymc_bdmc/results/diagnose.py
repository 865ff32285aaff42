"""List all checks of a result, in the order of `diagnose` and in that of `verdict`."""

from collections.abc import Callable, Iterator

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
    simulated_from,
    start,
    too_short,
    total_variation,
)
from pymc_bdmc.results.checks.weights import bad_average, few_runs, infinite, no_mean, unfinished
from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.log_ml import log_ml_finding
from pymc_bdmc.results.reading import Reading, once

type Check = Callable[[Reading], Iterator[Finding]]

DOUBTS: list[Check] = [
    cut_short, undefined, unfinished, infinite, disagreement, too_short, no_mean, bad_average,
    few_runs, dead, divergent, knot, far_start, even_gap,
]  # fmt: skip
"""Checks that `diagnose` lists, the gravest first."""

OF_TEMPERING: list[Check] = [cut_short, few_passages, uneven_visits]
"""The same for a result of `temper`."""


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
        return list(cut_short(read))
    checks = OF_TEMPERING if read.is_tempering else DOUBTS
    return [finding for check in checks for finding in check(read)]


def findings_of(read: Reading, confidence: float, look: int | None) -> Iterator[Finding]:
    """Yield what the checks of `verdict` find."""
    doubts = doubts_of(read)
    yield from interrupted(read)
    if read.is_null:
        yield from log_ml_finding(read, doubts)
        return
    if not read.has("forward"):
        yield from log_ml_finding(read, doubts)
        yield from _contradictions(read)
        yield _nothing_simulated()
        return
    yield from start(read)
    yield from total_variation(read, doubts, confidence, look)
    yield from order(read)
    yield from simulated_from(read)
    yield from _contradictions(read)
    if read.has("real"):
        yield from likeness(read)
        yield from real_weights(read)
    elif not read.is_system:
        told = "There are no runs on the real data, so nothing is known about them."
        yield Finding("real data", "open", (told,), Remedy("leave out real_data=False."))
    yield from log_ml_finding(read, doubts)


def _contradictions(read: Reading) -> Iterator[Finding]:
    """Look for evidence of an error on the real data."""
    if read.has("real"):
        for check in (two_paths, divergences, ends):
            yield from check(read)
    yield from draws(read)


def _nothing_simulated() -> Finding:
    told = (
        "Nothing was simulated, so the distance of the posterior draws from the true posterior is "
        "not known."
    )
    remedy = Remedy(
        "to judge the draws too, data must be simulated: leave out simulate=None, write a "
        "Potential as an observed pm.CustomDist with random=..., or pass a pair from your own "
        "simulator, simulate=bdmc.Given(point, data)."
    )
    return Finding("total variation", "open", (told,), remedy)
