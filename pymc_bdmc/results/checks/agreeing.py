"""Choose what is to be said of draws that were compared with those of a run."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import DrawsComparison, refutes
from pymc_bdmc.estimators.agreement import (
    FEWEST_RUNS,
    LEAST_ESS,
    MARGINS,
    MOST_RHAT,
    effective_runs,
)
from pymc_bdmc.results.checks.ends import rhat_of_runs
from pymc_bdmc.results.checks.paths import refuting_path
from pymc_bdmc.results.checks.which_side import Missed
from pymc_bdmc.results.elements import Elements
from pymc_bdmc.results.evidence import estimates_of
from pymc_bdmc.results.finding import NOTHING, Message, Status, message
from pymc_bdmc.results.reading import Reading

DIRECTIONS = ["wider direction", "narrower direction", "shifted direction"]
"""Names of the rows that combine several elements."""

MOST_COPIES = 1.5
"""Largest mean number of copies of a draw that is not reported."""

MEASURES = ("shift", "ratio", "distance")
"""Columns that are compared in every row."""


def agreeing(
    status: Status, table: pd.DataFrame, elements: Elements, repeated: float, missed: Missed
) -> Iterator[Message]:
    """Yield what is to be said about the draws."""
    numbers = {
        "n": elements.draws.shape[0] * elements.draws.shape[1],
        "difference": _difference(_worst(table)),
    }
    apart = table[table["lowest"].notna() & (repeated <= MOST_COPIES)]
    if len(apart):
        row = apart.loc[apart["rhat"].idxmax()]
        yield message("contradicting", name=row.name, low=row["lowest"], high=row["highest"])
    if repeated > MOST_COPIES:
        yield message("copies", copies=repeated, **numbers)
    elif missed.too_low:
        yield message("wrong run", too_low=missed.too_low, **numbers)
    elif status == "bad" and apart.empty:
        bad = int(np.sum(table["status"] == "bad"))
        yield message("wrong draws", bad=bad, of=len(table), **numbers)
        if missed.by_draws:
            yield message("nothing there", share=missed.by_draws)
    elif status == "good":
        margins = {"shift": MARGINS[0], "ratio": np.exp(MARGINS[1]), "distance": MARGINS[2]}
        of = int(np.sum(~table.index.isin(DIRECTIONS)))
        yield message("agreeing draws", n=numbers["n"], of=of, **margins)
        yield message("largest", difference=numbers["difference"])
    elif status == "open":
        yield message("open draws", **numbers)


def _worst(table: pd.DataFrame) -> pd.Series:
    """Return the worst row: a bad one before an open one, an element before a direction."""
    bad = table["status"] == "bad"
    rows = table[bad] if bad.any() else table
    elements = rows[~rows.index.isin(DIRECTIONS)]
    return (elements if len(elements) else rows).iloc[0]


def _difference(row: pd.Series) -> Message:
    """Return the largest difference of a row, with its simultaneous limits."""
    if row["away"] > row["reach"]:
        return message("far chain", name=row.name, away=row["away"])
    size = np.abs([row["shift"], np.log(row["ratio"]), row["distance"]]) / MARGINS
    kind = MEASURES[int(np.nanargmax(size))]
    value, lower, upper = (row[f"{kind}{end}"] for end in ("", "_lower", "_upper"))
    if kind == "shift":
        kind = "higher mean" if value > 0 else "lower mean"
        lower, upper = sorted(np.array([lower, upper]) * np.sign(value))
        value = abs(value)
    limits = NOTHING if row["status"] == "good" else message("limits", lower=lower, upper=upper)
    return message(kind, name=row.name, value=value, limits=limits)


def to_settle(
    table: pd.DataFrame, found: DrawsComparison, labels: list[str], elements: Elements
) -> Message:
    """Say how many draws or runs would settle the row with the widest limits."""
    chains, draws = elements.draws.shape[:2]
    elements_only = table[~table.index.isin(DIRECTIONS)]
    few = (elements_only["rhat"] > MOST_RHAT) | (elements_only["ess"] < LEAST_ESS)
    mixing = elements_only[few]
    if len(mixing):
        row = mixing.loc[mixing["ess"].idxmin()]
        rhat = message("with R̂", rhat=row["rhat"]) if row["rhat"] > MOST_RHAT else NOTHING
        limits = {"most_rhat": MOST_RHAT, "least_ess": LEAST_ESS}
        return message("few effective", name=row.name, ess=row["ess"], rhat=rhat, **limits)
    # If the draws are right, the largest of all estimates is noise, seldom beyond the half width of
    # an interval that holds for all rows in half of the cases. The limits of its own row add to it.
    own, of_all = found.limits(0.90, 1)[1], found.limits(0.5, found.estimate.size)[1]
    needed = (own + of_all - 2 * found.estimate) / MARGINS
    needed[[label in DIRECTIONS for label in labels]] = 0
    place, j = np.unravel_index(np.nanargmax(needed), needed.shape)
    factor, of_draws = max(needed[place, j] ** 2, 1.2), found.share[place, j]
    n = int(np.ceil(chains * draws * factor))
    runs = int(np.ceil(len(elements.weights) * factor))
    kind = "draws" if of_draws >= 0.8 else "draws and runs" if of_draws > 0.2 else "runs"
    wanted = message(kind, n=runs if kind == "runs" else n, draws=n, runs=runs)
    return message("least certain", name=labels[place], wanted=wanted)


def own_doubts(read: Reading, weights: np.ndarray) -> Iterator[Message]:
    """Yield the reasons why the run's own draws cannot judge others."""
    runs = effective_runs(weights.sum(axis=1))
    if runs < FEWEST_RUNS:
        yield message("uneven runs", n=len(weights), worth=runs)
    name, rhat = rhat_of_runs(read)
    if rhat > MAX_RHAT:
        yield message("apart runs", name=name, rhat=rhat)
    if path := refuting_path(read):
        yield message("refuted run", path=path)


def whose_fault(read: Reading, other: Reading, status: Status) -> Iterator[Message]:
    """Say which draws are wrong, or more likely so, by log ML of the runs that they come from."""
    own, given = read.real_log_weights, other.real_log_weights
    if status == "bad" and own.size:
        if not any(row.valid for row in estimates_of(read, "real").values()):
            yield message("untrusted run")
        if given.size and refutes(own, given):
            yield message("this is higher")
        if given.size and refutes(given, own):
            yield message("that is higher")
    yield message("own draws")
