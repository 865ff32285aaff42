"""Check the draws that were given, and the reverse runs that start from some of them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import stdtr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import DrawsComparison, refutes
from pymc_bdmc.estimators.agreement import (
    FEWEST_RUNS,
    LEAST_ESS,
    MARGINS,
    MOST_RHAT,
    effective_runs,
)
from pymc_bdmc.results.checks.missed import refuting_path
from pymc_bdmc.results.checks.runs import non_centred, rhat_of_runs
from pymc_bdmc.results.finding import MAX_CHANCE, NO_REMEDY, Finding, Remedy, Status
from pymc_bdmc.results.log_ml import estimates_of
from pymc_bdmc.results.particles import Elements
from pymc_bdmc.results.reading import Reading, once

MOST_COPIES = 1.5
"""Largest mean number of copies of a draw that is not reported."""

DIRECTIONS = ["wider direction", "narrower direction", "shifted direction"]
"""Names of the rows that combine several elements."""

MEASURES = ("shift", "ratio", "distance")
"""Columns that are compared in every row."""


@once
def both_sides(read: Reading) -> tuple[float, float, float]:
    """Return mean log weights that forward runs predict and reverse ones have, and the p-value.

    By Crooks' relation the latter is E_f[w log w]/E_f[w]; for normal log weights it is ⟨log w⟩_f +
    Var_f(log w). If forward runs miss part of the posterior, rare large weights are missing. The
    test is Student's t. All is NaN without ``posterior`` draws, or if a log weight is infinite.
    """
    runs = [(each.forward, each.reverse) for each in read.sets_of("real") if each.reverse.size]
    if not runs or not np.isfinite(np.concatenate(runs[0])).all():
        return np.nan, np.nan, np.nan
    forward, reverse = runs[0]
    variance = forward.var(ddof=1)
    predicted = forward.mean() + variance
    squared_error = variance / len(forward) + 2 * variance**2 / (len(forward) - 1)
    squared_error += reverse.var(ddof=1) / len(reverse)
    least = 1e-9 * max(abs(predicted), abs(reverse.mean())) + 1e-300  # rounding
    score = abs(reverse.mean() - predicted) / max(np.sqrt(squared_error), least)
    pvalue = 2 * float(stdtr(min(len(forward), len(reverse)) - 1, -score))
    return float(predicted), float(reverse.mean()), pvalue


def disagreement(read: Reading) -> Iterator[Finding]:
    """Doubt draws, or reverse runs from them, that contradict the forward runs."""
    if not read.has("real_reverse"):
        return
    kept, (predicted, found, pvalue) = read.agreement, both_sides(read)
    if kept and (kept["status"] == "bad" or read.too_low):
        text = kept["text"].split("\n")[0].rstrip(".")
    elif pvalue <= MAX_CHANCE:
        text = (
            f"real_reverse: the mean log weight is {found:.3g}, and the forward runs predict "
            f"{predicted:.3g} (p = {pvalue:.1g})"
        )
    else:
        return
    remedy = Remedy(
        "the posterior draws or the forward runs miss part of the posterior. Compare the draws "
        "with the group posterior, run more chains of that sampler, or use more temperatures."
    )
    yield Finding("disagreement", None, text, _of_draws(read) or remedy)


def draws(read: Reading) -> Iterator[Finding]:
    """Check the draws against the run's own, and forward against reverse runs."""
    if kept := read.agreement:
        # The last sentence is about the run's own draws, as the verdict is.
        first, *more, _ = kept["text"].split("\n")
        text, brief = " ".join([first, *more]), first
        # An open agreement does not leave the verdict open.
        status: Status | None = None if kept["status"] == "open" else kept["status"]
        remedy = _of_draws(read)
        if status == "good":
            text, brief = first, "The draws that you gave agree with these."
        elif read.too_low:
            status = "bad"
        elif status == "bad" and not remedy:
            remedy = Remedy("see where they differ: bdmc.plot_agreement(dt, idata).")
        yield Finding("draws", status, text, remedy, read.too_low, brief=brief)
    predicted, found, pvalue = both_sides(read)
    if pvalue <= MAX_CHANCE:
        differ = (
            "Forward runs and the reverse runs from the draws that you gave disagree: the mean log "
            f"weight is {found:.3g}, and forward runs predict {predicted:.3g} (p = {pvalue:.1g}). "
            "One side misses part of the posterior."
        )
        remedy = Remedy("use more temperatures or particles; run more chains of that sampler.")
        yield Finding("both sides", "bad", differ, remedy, pvalue)


def _of_draws(read: Reading) -> Remedy:
    """Return the remedy if draws show a part that the runs miss, or if their chains differ."""
    if not read.too_low:
        each_chain = Remedy(
            "see which of your chains agrees with the run: bdmc.agreement(dt, "
            "idata.sel(chain=[0])), and so on."
        )
        return each_chain if read.agreement.get("contradicts") else NO_REMEDY
    if read.centred_effects:
        return Remedy(f"{non_centred(read.centred_effects)}.")
    n = max(100, 2 * read.side("real").n_temperatures)  # chosen
    return Remedy(
        f"anneal from a fit to these draws: path=bdmc.FittedPath(idata), temperatures={n}."
    )


def agreeing(
    status: Status, table: pd.DataFrame, n: int, repeated: float, missed: tuple[float, float]
) -> Iterator[str]:
    """Say whether n draws, each ``repeated`` times on average, agree with those of the run."""
    difference, given = _difference(table), f"The {n} draws that you gave"
    too_low, by_draws = missed
    apart = table[table["lowest"].notna() & (repeated <= MOST_COPIES)]
    if len(apart):
        row = apart.loc[apart["rhat"].idxmax()]
        yield (
            f"Your chains contradict each other: the mean of {row.name!r} is {row['lowest']:.4g} "
            f"in one and {row['highest']:.4g} in another, far beyond chance. They have settled in "
            "different places, so together they are no sample of the posterior."
        )
    if repeated > MOST_COPIES:
        yield (
            f"{given} are copies: each occurs {repeated:.2g} times on average, so every effective "
            "sample size and error computed from them is wrong."
        )
    elif too_low:
        yield (
            f"{given} differ from those of this run, and it is the run that is wrong: it misses "
            "part of the posterior, where some of your draws lie, and its log ML is too low by at "
            f"least {too_low:.2g} nats. Do not use its draws or its log ML. {difference}."
        )
    elif status == "bad" and apart.empty:
        bad = int(np.sum(table["status"] == "bad"))
        yield (
            f"{given} are not from the posterior that this run finds. {difference}; {bad} of "
            f"{len(table)} quantities differ."
        )
        if by_draws:
            yield (
                f"They have nothing where at least {by_draws:.1%} of the posterior lies that this "
                "run finds."
            )
    elif status == "good":
        shift, ratio, distance = MARGINS[0], np.exp(MARGINS[1]), MARGINS[2]
        of = int(np.sum(~table.index.isin(DIRECTIONS)))
        yield (
            f"{given} agree with those of this run: of {of} quantities, no mean is off by more "
            f"than {shift:g} posterior standard deviations, no standard deviation by more than a "
            f"factor of {ratio:g}, and no probability P(x ≤ c) by more than {distance:g} (95 % "
            "confidence)."
        )
        yield f"{difference}."
    elif status == "open":
        yield (
            f"It is open whether the {n} draws that you gave agree with those of this run. "
            f"{difference}."
        )


def _difference(table: pd.DataFrame) -> str:
    """Return the largest difference in the worst row, with its simultaneous limits."""
    # A bad row comes before an open one, an element before a direction.
    bad = table["status"] == "bad"
    rows = table[bad] if bad.any() else table
    elements = rows[~rows.index.isin(DIRECTIONS)]
    row = (elements if len(elements) else rows).iloc[0]
    largest = f"The largest difference is in {row.name!r}:"
    if row["away"] > row["reach"]:
        return (
            f"{largest} nine tenths of the draws of a chain are more than {row['away']:.2g} "
            "posterior standard deviations from the median of the run"
        )
    size = np.abs([row["shift"], np.log(row["ratio"]), row["distance"]]) / MARGINS
    kind = MEASURES[int(np.nanargmax(size))]
    value, lower, upper = (row[f"{kind}{end}"] for end in ("", "_lower", "_upper"))
    if kind == "shift":
        side = "higher" if value > 0 else "lower"
        lower, upper = sorted(np.array([lower, upper]) * np.sign(value))
        text = f"the mean is {side} by {abs(value):.2g} posterior standard deviations"
    elif kind == "ratio":
        text = f"the standard deviation is {value:.2g} times that of the run"
    else:
        text = f"a probability P(x ≤ c) is off by {value:.2g}"
    limits = "" if row["status"] == "good" else f" ({lower:.2g} to {upper:.2g})"
    return f"{largest} {text}{limits}"


def enough_draws(
    table: pd.DataFrame, found: DrawsComparison, labels: list[str], elements: Elements
) -> str:
    """Say how many draws or runs would be enough for the row with the widest limits."""
    rows = table[~table.index.isin(DIRECTIONS)]
    mixing = rows[(rows["rhat"] > MOST_RHAT) | (rows["ess"] < LEAST_ESS)]
    if len(mixing):
        row = mixing.loc[mixing["ess"].idxmin()]
        rhat = f", with an R̂ of {row['rhat']:.3g}" if row["rhat"] > MOST_RHAT else ""
        return (
            f"The effective sample size of {row.name} is only {row['ess']:.0f}{rhat}. Run that "
            f"sampler longer, until every R̂ is below {MOST_RHAT:g} and every effective sample "
            f"size is at least {LEAST_ESS}."
        )
    # If the draws are right, the largest of all estimates is noise, seldom beyond the half width of
    # an interval that holds for all rows in half of the cases. The limits of its own row add to it.
    own, of_all = found.limits(0.90, 1)[1], found.limits(0.5, found.estimate.size)[1]
    needed = (own + of_all - 2 * found.estimate) / MARGINS
    needed[np.isin(labels, DIRECTIONS)] = 0
    place, j = np.unravel_index(np.nanargmax(needed), needed.shape)
    factor, of_draws = max(needed[place, j] ** 2, 1.2), found.share[place, j]
    more_draws = f"{int(np.ceil(elements.n_draws * factor))} draws"
    more_runs = f"chains={int(np.ceil(len(elements.weights) * factor))} in sample_bdmc"
    ways = {more_draws: of_draws > 0.2, more_runs: of_draws < 0.8}
    wanted = " and ".join(way for way, helps in ways.items() if helps)
    return (
        f"{labels[place]} is the least certain row; {wanted} would be enough if its error falls "
        "with the square root of the number."
    )


def own_doubts(read: Reading, weights: np.ndarray) -> Iterator[str]:
    """Yield the reasons why the run's own draws cannot judge others."""
    runs = effective_runs(weights.sum(axis=1))
    if runs < FEWEST_RUNS:
        yield (
            f"The weights of the {len(weights)} runs on the real data are so uneven that they "
            f"count as {runs:.1f}, too few to judge anything. Use more particles."
        )
    name, rhat = rhat_of_runs(read)
    if rhat > MAX_RHAT:
        yield (
            f"The runs on the real data end in different places (R̂ of {name} is {rhat:.2g}), so "
            "this run's own draws cannot judge others. Use more particles."
        )
    if path := refuting_path(read):
        yield (
            f"A few runs on path {path!r} reach a higher log ML than these, so this run misses "
            "part of the posterior and cannot judge."
        )


def which_is_wrong(read: Reading, other: Reading, status: Status) -> Iterator[str]:
    """Say which draws are wrong, or more likely so, by log ML of the runs that they come from."""
    own, given = read.real_log_weights, other.real_log_weights
    if status == "bad" and own.size:
        if not any(row.valid for row in estimates_of(read, "real").values()):
            yield (
                "No estimate of log ML of this run can be trusted, so it may be this run that is "
                "wrong. Sample again with more particles."
            )
        higher = (
            "has a higher log ML, by more than chance explains, so the other misses part of the "
            "posterior."
        )
        if given.size and refutes(own, given):
            yield f"This run {higher}"
        if given.size and refutes(given, own):
            yield f"The run that you gave {higher}"
    yield (
        "The draws of the run are an estimate too: bdmc.verdict(dt) says how far they can be "
        "trusted."
    )
