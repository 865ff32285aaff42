"""The sandwich in numbers: mean log weights of both directions, their gap, and certified bounds."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtr

from pymc_bdmc.base.arguments import check_confidence
from pymc_bdmc.estimators import (
    TotalVariation,
    certified_bounds,
    certified_lower,
    certified_probability,
    clustered_mean,
    clustered_median,
    jeffreys_bound,
    round_confidence,
    total_variation,
)
from pymc_bdmc.results.finding import Table, frame
from pymc_bdmc.results.reading import SIDES, DataSet, Reading, Side, once

CERTAIN = ("exact", "posterior draw", "burned-in")
"""Starts of reverse runs with which a total variation is certified, on what each presupposes."""


def start_of(read: Reading, data: str) -> str:
    """Name the start of the reverse runs on one kind of data."""
    if data == "simulated":
        read.required("upper_bound")
    return f"{read.start(data)} start"


def bound_of(read: Reading, side: Side, data: str) -> dict:
    """Return the row of the mean log weight, or of the median if the mean does not exist."""
    tail, weights, kind = side.tail, side.bounding, "mean log weight"
    if side.is_reverse:
        kind += f", {start_of(read, data)}"
    value, error = (clustered_mean if tail.resolved else clustered_median)(weights)
    if len(weights) == 1:  # the spread over several data sets contains it already
        forward = read.side(SIDES[data][0])
        error = float(np.hypot(error, np.mean(forward.prior_mass[2])))
    if not tail.resolved:
        kind = f"median log weight, ≤ log ML + log 2; the mean is {tail.reason}"
    valid = tail.resolved and not (side.is_reverse and read.start(data) == "heuristic")
    return {"value": value, "error": error, **quartiles(weights), "valid": valid, "kind": kind}


@once
def gap_of(read: Reading, data: str) -> dict:
    """Return the row of the mean gap, or of the gap of medians if the mean does not exist."""
    sides, start = [read.side(name) for name in SIDES[data]], start_of(read, data)
    forward, reverse = (side.log_weight for side in sides)
    tail = sides[0].tail
    lows, highs = ([clustered_median(row) for row in rows] for rows in (forward, reverse))
    gaps = np.array([high[0] - low[0] for low, high in zip(lows, highs, strict=True)])
    spread = quartiles(gaps)
    if len(gaps) == 1:
        spread = {"median": spread.get("median", np.nan)}
    if tail.resolved:
        kind = f"mean gap, {start}"
        value, error = jeffreys_bound(forward, reverse)
    else:
        kind = f"gap of the medians, {start}, no bound; the mean lower bound is {tail.reason}"
        value, error = clustered_mean(gaps[:, None])
        if len(gaps) == 1:
            error = float(np.hypot(lows[0][1], highs[0][1]))
    valid = tail.resolved and read.start(data) != "heuristic"
    return {"value": value, "error": error, **spread, "valid": valid, "kind": kind}


@once
def gap(read: Reading) -> tuple[float, float]:
    """Return the Jeffreys bound and its error; nats."""
    return jeffreys_bound(*(side.log_weight for side in read.pair))


def is_wide(read: Reading) -> bool:
    """Return whether the gap is wide beyond its error."""
    value, error = gap(read)
    return value - 2 * error > 2.0  # nats; chosen


@once
def slowness(read: Reading) -> float:
    """Return the ratio of the gap on simulated data to the ideal gap; NaN if it is unknown."""
    if not read.has(*SIDES["simulated"]):
        return np.nan
    forward = read.side("forward")
    n = forward.n_temperatures
    # The ratio says nothing for a single step, or for log weights without a mean.
    if not forward.lengths.size or n == 1 or not forward.tail.resolved:
        return np.nan
    return gap(read)[0] * n * read.n_particles / float(np.mean(forward.lengths**2))


def independent_gaps(read: Reading) -> int:
    """Return the number of data sets with finished runs in both directions, or of runs on one."""
    finished = [~np.isnan(side.log_weight) for side in read.pair]
    n = int(np.sum(finished[0].any(axis=1) & finished[1].any(axis=1)))
    return n if n != 1 else min(int(each.sum()) for each in finished)


def quartiles(values: np.ndarray) -> dict:
    """Return observed values at the quartiles: nothing lies between −∞ and a finite value."""
    finished = values[~np.isnan(values)]
    if not finished.size:
        return {}
    found = np.quantile(finished, [0.25, 0.5, 0.75], method="nearest")
    return dict(zip(("q25", "median", "q75"), found, strict=True))


def burn_in_effect(dt: xr.DataTree) -> pd.DataFrame:
    """Compare the upper bounds after several burn-ins S of the reverse runs; nats.

    With fitted hyperparameters θ* is no exact posterior sample, so reverse runs start after a
    burn-in [1]_. The burn-in is long enough if a longer one changes nothing. Regions that no
    burn-in reaches are not seen by this comparison.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc` with several burn-ins, such as
        ``simulate=FromHyperparameters(burn_in=[10, 100, 1000])``.

    Returns
    -------
    DataFrame
        Indexed by ``burn_in``. Columns: ``upper_bound``, the mean log weight of the reverse runs;
        ``difference``, how far it lies above the mean after the longest burn-in, and ``error``, the
        standard error of the difference; ``pvalue`` of the difference by Student's t. The p-value
        for all rows together is in ``attrs["pvalue"]`` (Bonferroni). Errors are clustered by data
        set. With a single data set they are conditional on θ*: a short burn-in stays near θ* even
        if θ* is an exact sample.

    Raises
    ------
    ValueError
        If there was only one burn-in.

    References
    ----------
    .. [1] Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
       bidirectional Monte Carlo, Section 4.2 and Fig. 6. https://doi.org/10.48550/arXiv.1606.02275

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights = np.random.default_rng(0).normal(size=(2, 3, 16)) + [[[0.0]], [[5.0]]]
    >>> variables = dict(log_weight=(("burn_in", "dataset", "chain"), weights))
    >>> group = xr.Dataset(variables, coords=dict(burn_in=[10, 1000]))
    >>> table = bdmc.burn_in_effect(xr.DataTree.from_dict(dict(burn_in=group)))
    >>> table.attrs["pvalue"] < 0.05
    True
    """
    return burn_in_of(Reading.of(dt))


@once
def burn_in_of(read: Reading) -> pd.DataFrame:
    """Return the table of `burn_in_effect`."""
    if not read.has("burn_in"):
        raise ValueError(
            "dt: it has reverse runs after one burn-in only; pass several to FromHyperparameters."
        )
    weights, rows = read.burn_ins, []
    for found in weights.values:
        difference, error = jeffreys_bound(weights.values[-1], found)
        sample = found.shape[0] if found.shape[0] > 1 else np.isfinite(found).sum()
        pvalue = 2 * stdtr(sample - 1, -abs(difference) / error) if error > 0 else np.nan
        rows.append((clustered_mean(found)[0], difference, error, float(pvalue)))
    columns = ["upper_bound", "difference", "error", "pvalue"]
    table = pd.DataFrame(rows, weights["burn_in"].to_index(), columns)
    table.iloc[-1, -2:] = np.nan  # the longest is the reference
    table.attrs["pvalue"] = min(1.0, (len(table) - 1) * float(table["pvalue"].min()))
    return table


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
    failure = 1 - (round_confidence(confidence, read.rounds + 1) if read.rounds else confidence)
    rows = {each[:2]: _bounds(read, each, failure) for each in read.data_sets}
    table = frame(rows, ["lower", "upper", "kind"], "data", "dataset")
    table.insert(2, "confidence", confidence)
    return table


def _bounds(read: Reading, found: DataSet, failure: float) -> tuple[float, float, str]:
    """Return certified bounds on log ML of a data set, and their kind."""
    forward, draws = found.forward, found.prior_draws
    sides = [read.sides[name] for name in SIDES[found.data] if name in read.sides]
    is_cut_short = any(np.isnan(side.log_weight[found.dataset]).any() for side in sides)
    if read.interrupted and is_cut_short:
        return -np.inf, np.inf, "none: interrupted"
    if read.is_null:
        return forward[0], forward[0], "log density"
    rejected = draws.sum() > draws.size
    level = 1 - failure / (4 if rejected else 2)
    if found.reverse.size and read.start(found.data) == "exact":
        bounds = certified_bounds(forward, found.reverse, level)
    else:
        bounds = certified_lower(forward, level, kind="order statistics")
    if not rejected:
        return bounds.lower, bounds.upper, bounds.kind
    mass = certified_probability(int(draws.sum()), draws.size, level)
    return bounds.lower + mass.lower, bounds.upper + mass.upper, bounds.kind


@once
def certified_total_variation(
    read: Reading, confidence: float = 0.95, look: int | None = None
) -> TotalVariation | None:
    """Bound the total variation between posterior draws and the posterior on simulated data.

    The k-th ``look`` at more and more data sets spends δ/2^k, a single one δ = 1 − ``confidence``.
    A lattice or a machine has no data, and its reverse runs start from independent samples, so
    disjoint groups of runs take the place of data sets. A round that met a ``target_gap`` was
    chosen by its gap: round r spends δ/2^(r+1), unless new data sets confirm it.
    """
    if not read.has("forward") or read.start("simulated") not in CERTAIN:
        return None
    if look is not None:
        confidence = round_confidence(confidence, look)
    if read.rounds and not (read.confirms and read.simulate != "given"):
        confidence = round_confidence(confidence, read.rounds + 1)
    forward, reverse = (side.log_weight for side in read.pair)
    if read.independent_starts:
        n = min(60, forward.size)  # groups; chosen
        pairs = [each.ravel()[: each.size // n * n].reshape(n, -1) for each in (forward, reverse)]
        return total_variation(pairs[0], pairs[1], confidence, islands=1)
    return total_variation(forward, reverse, confidence, start_distance=read.start_distance or 0.0)
