"""The sandwich in numbers: the mean log weights of both directions, and their gap."""

import numpy as np

from pymc_bdmc.estimators import TailCheck, clustered_mean, clustered_median, jeffreys_bound
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import RESOLVED, SIDES, Side

HEURISTIC = "heuristic start"
"""Start of reverse runs that do not give an upper bound."""

WIDE_GAP = 2.0
"""Gap that counts as wide, in nats, after subtracting two standard errors; chosen."""


def start_of(read: Reading, data: str) -> str:
    """Name the start of the reverse runs on one kind of data."""
    if data == "real":
        return HEURISTIC
    return f"{read.required('upper_bound')} start"


def bound_of(read: Reading, side: Side, data: str) -> dict:
    """Return the row of the mean log weight, or of the median if the mean does not exist."""
    tail, start = (RESOLVED, start_of(read, data)) if side.is_reverse else (side.tail, "")
    weights = side.bounding
    value, error = (clustered_mean if tail.resolved else clustered_median)(weights)
    if len(weights) == 1:  # the spread over several data sets contains it already
        forward = read.side(SIDES[data][0])
        error = float(np.hypot(error, np.mean(forward.prior_mass[2])))
    kind = f"mean log weight, {start}" if start else "mean log weight"
    if not tail.resolved:
        kind = f"median log weight, ≤ log ML + log 2; the mean is {tail.reason}"
    valid = tail.resolved and start != HEURISTIC
    return {"value": value, "error": error, **quartiles(weights), "valid": valid, "kind": kind}


@once
def gap_of(read: Reading, data: str) -> dict:
    """Return the row of the mean gap, or of the gap of medians if the mean does not exist."""
    sides, start = [read.side(name) for name in SIDES[data]], start_of(read, data)
    forward, reverse = (side.log_weight for side in sides)
    tail: TailCheck = sides[0].tail
    medians = [
        [clustered_median(row) for row in pair] for pair in zip(forward, reverse, strict=True)
    ]
    gaps = np.array([of_reverse[0] - of_forward[0] for of_forward, of_reverse in medians])
    kind = f"mean gap, {start}"
    if tail.resolved:
        value, error = jeffreys_bound(forward, reverse)
    else:
        value, error = clustered_mean(gaps[:, None])
        if len(gaps) == 1:
            of_forward, of_reverse = medians[0]
            error = float(np.hypot(of_forward[1], of_reverse[1]))
        kind = f"gap of the medians, {start}, no bound; the mean lower bound is {tail.reason}"
    spread = quartiles(gaps)
    if len(gaps) == 1:
        spread = {"median": spread.get("median", np.nan)}
    valid = tail.resolved and start != HEURISTIC
    return {"value": value, "error": error, **spread, "valid": valid, "kind": kind}


@once
def gap(read: Reading) -> tuple[float, float]:
    """Return the Jeffreys bound and its error; nats."""
    return jeffreys_bound(*(side.log_weight for side in read.pair))


def is_wide(read: Reading) -> bool:
    """Return whether the gap is wide beyond its error."""
    value, error = gap(read)
    return value - 2 * error > WIDE_GAP


@once
def slowness(read: Reading) -> float:
    """Return the ratio of the gap on simulated data to the ideal gap of the best schedule.

    NaN if it is unknown, or says nothing: of a single step, or of log weights without a mean.
    """
    forward = read.side("forward") if read.has(*SIDES["simulated"]) else None
    if not forward or not forward.lengths.size:
        return np.nan
    n = forward.n_temperatures
    if n == 1 or not forward.tail.resolved:
        return np.nan
    return gap(read)[0] * n * read.n_particles / float(np.mean(forward.lengths**2))


def independent_gaps(read: Reading) -> int:
    """Return the number of independent terms of a mean gap on simulated data.

    These are data sets with finished runs in both directions, or the runs on one.
    """
    finished = [~np.isnan(side.log_weight) for side in read.pair]
    n = int(np.sum(finished[0].any(axis=1) & finished[1].any(axis=1)))
    return n if n != 1 else min(int(each.sum()) for each in finished)


def quartiles(values: np.ndarray) -> dict:
    """Return observed values at the quartiles: nothing lies between −∞ and a finite value."""
    finished = values[~np.isnan(values)]
    if not finished.size:
        return {}
    low, middle, high = np.quantile(finished, [0.25, 0.5, 0.75], method="nearest")
    return {"q25": low, "median": middle, "q75": high}
