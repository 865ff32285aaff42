"""Certify bounds on log ML, and the total variation, with a stated probability."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.arguments import check_confidence
from pymc_bdmc.estimators import (
    TotalVariation,
    certified_bounds,
    certified_lower,
    certified_probability,
    round_confidence,
    total_variation,
)
from pymc_bdmc.results.attributes import CERTAIN
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, DataSet
from pymc_bdmc.results.table import Table

MOST_PAIRS = 60
"""Largest number of groups into which runs with independent starts are divided."""


def certified(dt: xr.DataTree, confidence: float = 0.95) -> pd.DataFrame:
    """Bound log ML with a stated probability, for any number of chains; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`.
    confidence : float, default 0.95
        Confidence of each data set's interval. Its failure probability is split over the two sides,
        and over log P(ℓ > −∞) if part of the prior makes the data impossible.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset). Columns ``lower``, ``upper``, ``confidence`` and ``kind``. There
        is an upper bound only if θ* comes from the joint distribution, so never on the real data.

    Raises
    ------
    ValueError
        If the confidence does not lie between 0 and 1.

    Notes
    -----
    There are no bounds after an interruption, since the chains that finished first are no random
    sample.

    Only the run shows whether some prior draws make the data impossible, so each of the two cases
    has one half of the failure probability. If no draw does, the K starts are K draws from the
    whole prior, and their weights bound Z itself. If some do, that half is split evenly over the
    bounds on Z/P(ℓ > −∞) and on P(ℓ > −∞).

    A call with a ``target_gap`` stops when its gap is small. Round r, and the round that would
    confirm it, each spend 2^−(r+1) of the failure probability, so the bounds hold whichever of them
    is the result. The confirming round needs a share for every r, since r was chosen by the gap,
    and since with `Given` the y* and θ* are the same as before.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights, draws = ("chain", np.zeros(64)), ("chain", np.ones(64))
    >>> real = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> table = bdmc.certified(xr.DataTree.from_dict(dict(real=real)))
    >>> round(float(table.loc[("real", 0), "lower"]), 3)
    -0.079
    """
    check_confidence(confidence)
    return Table.of(certified_of(Reading.annealed(dt), confidence))


@once
def certified_of(read: Reading, confidence: float = 0.95) -> pd.DataFrame:
    """Return the table of `certified`."""
    rounds = read.rounds
    failure = 1 - (round_confidence(confidence, rounds + 1) if rounds else confidence)
    rows = {}
    for each in read.data_sets:
        forward, n_draws = each.forward, each.prior_draws
        if read.interrupted and _is_cut_short(read, each):
            rows[each[:2]] = (-np.inf, np.inf, confidence, "none: interrupted")
            continue
        if read.is_null:
            rows[each[:2]] = (forward[0], forward[0], confidence, "log density")
            continue
        rejected = n_draws.sum() > n_draws.size
        level = 1 - failure / (4 if rejected else 2)
        if each.reverse.size and read.start(each.data) == "exact":
            bounds = certified_bounds(forward, each.reverse, level)
        else:
            bounds = certified_lower(forward, level, kind="order statistics")
        lower, upper = bounds.lower, bounds.upper
        if rejected:
            mass = certified_probability(int(n_draws.sum()), n_draws.size, level)
            lower, upper = lower + mass.lower, upper + mass.upper
        rows[each[:2]] = (lower, upper, confidence, bounds.kind)
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["lower", "upper", "confidence", "kind"]
    )
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "dataset"])
    return table


@once
def certified_total_variation(
    read: Reading, confidence: float = 0.95, look: int | None = None
) -> TotalVariation | None:
    """Bound the total variation between posterior draws and the posterior on simulated data.

    Parameters
    ----------
    read : DataTree or Reading
        Of a result of `sample_bdmc`, `lattice.anneal` or `RBM.anneal`.
    confidence : float, default 0.95
        1 − δ of the upper end.
    look : int, optional
        Number of this look, from 1, if each look had more data sets than the one before. It spends
        δ/2^look. Default: a single look, which spends δ.

    Returns
    -------
    TotalVariation or None
        None without simulated data, and if reverse runs have a heuristic start.
        `pymc_bdmc.estimators.total_variation` states what is proved.

    Raises
    ------
    ValueError
        If the confidence does not lie between 0 and 1, or the look is less than 1.

    Notes
    -----
    A lattice or a machine has no data, and its reverse runs start from independent samples. So
    disjoint groups of runs take the place of data sets.

    A round that met a ``target_gap`` was chosen by its gap. The confirming round has new data sets,
    so it spends δ. If there is none (after Ctrl-C), or if the data are the same (`Given`), round r
    spends δ/2^(r+1).

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.results.certified import certified_total_variation
    >>> runs = xr.Dataset(dict(log_weight=(("dataset", "chain"), np.zeros((20, 2)))))
    >>> dt = xr.DataTree.from_dict(dict(forward=runs, reverse=runs))
    >>> dt.attrs["upper_bound"] = "exact"
    >>> certified_total_variation(dt).upper
    0.1395
    """
    if not read.has("forward") or read.start("simulated") not in CERTAIN:
        return None
    if look is not None:
        confidence = round_confidence(confidence, look)
    if read.rounds and not (read.confirms and read.simulate != "given"):
        confidence = round_confidence(confidence, read.rounds + 1)
    forward, reverse = (side.log_weight for side in read.pair)
    if read.independent_starts:
        n = min(MOST_PAIRS, forward.size)
        pairs = [each.ravel()[: each.size // n * n].reshape(n, -1) for each in (forward, reverse)]
        return total_variation(pairs[0], pairs[1], confidence, islands=1)
    return total_variation(forward, reverse, confidence, start_distance=read.start_distance or 0.0)


def _is_cut_short(read: Reading, found: DataSet) -> bool:
    sides = [read.sides[name] for name in SIDES[found.data] if name in read.sides]
    return any(np.isnan(side.log_weight[found.dataset]).any() for side in sides)
