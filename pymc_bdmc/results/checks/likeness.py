"""Check whether the results on simulated data apply to the real data."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from pymc_bdmc.results.checks.integrity import AGAIN
from pymc_bdmc.results.consistency import (
    ALPHA,
    FEWEST_SETS,
    MARGIN,
    SPREAD,
    consistency_of,
    simulated_from_prior,
)
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.simulations import Matched

STANDS_OUT = 3.5
"""Deviation (in standard deviations) from which the most extreme data leave a verdict open. Among
21 data sets none can deviate by more than 4.5. Under a right model the real data deviate by 3.5 in
at most 1.4 % of cases, for normal or log-normal features, and are the most extreme in 5 %."""


def likeness(read: Reading) -> Iterator[Finding]:
    """Check whether the sampler finds both alike, and whether the data are alike."""
    if not read.has("real"):
        if not read.is_system:
            told = "There are no runs on the real data, so nothing is known about them."
            yield Finding("real data", "open", (told,), Remedy("leave out real_data=False."))
        return
    try:
        table = consistency_of(read)
    except ValueError as error:  # one kind of data has no finished runs
        reason = str(error).removeprefix("dt: ")
        told = f"Real and simulated data cannot be compared: {reason}"
        yield Finding("shortfall", "open", (told,), AGAIN)
        return
    yield shortfall(table.loc["shortfall"].iloc[-1])
    if "model" in table.index:
        yield model(table.loc["model"].iloc[0], read, _worst(table))
        if simulated_from_prior(read):
            yield from wide_prior(table)


def shortfall(row: pd.Series) -> Finding:
    """Check whether runs on the real data fall short by no more than those on simulated data."""
    numbers = row[["value", "error", "lower", "upper"]].to_dict()
    if row["flagged"]:
        told = (
            "Runs on your data do not behave as those on simulated data: the mean log weight falls "
            f"short of log ML by {row['value']:.2g} ± {row['error']:.2g} nats more. So your data "
            "are harder for the sampler, and the bound does not apply to them."
        )
        remedy = Remedy(
            "use more temperatures or particles until the boxes of plot_consistency agree."
        )
        return Finding("shortfall", "open", (told,), remedy, **numbers)
    good = row["valid"] and row["upper"] <= MARGIN
    return Finding("shortfall", "good" if good else None, **numbers)


def _worst(table: pd.DataFrame) -> str:
    """Return the feature in which the real data deviate most from simulated ones."""
    deviations = table["value"].droplevel("temperatures").abs()
    features = deviations.drop(["log weights", "shortfall", "model"])
    is_worst = np.isclose(features, deviations["model"])
    return str(features.index[is_worst][0]) if is_worst.any() else "log weights"


def model(row: pd.Series, read: Reading, feature: str) -> Finding:
    """Check whether the real data stand out among simulated ones.

    If they do, the model does not fit. The draws may still be right, which runs on data that
    contain the real ones show; only other data leave the verdict open.
    """
    if not row["valid"]:
        # Data sets of Matched were chosen to be alike.
        more = Remedy(f"to test the model too, simulate {FEWEST_SETS} data sets or more.")
        return Finding("model", None, (), NO_REMEDY if read.simulate == Matched.name else more)
    p, kind, value = row["p_value"], row["kind"], f"{abs(row['value']):.2g}"
    if not row["flagged"]:
        told = f"Your data do not stand out among simulated ones (p = {p:.2g})."
        brief = f"Model: your data do not stand out among simulated ones (p = {p:.2g})."
        return Finding("model", "good", (told,), value=p, brief=brief)
    if abs(row["value"]) < STANDS_OUT:
        told = (
            f"Your data are the most extreme of all, by {value} standard deviations (p = {p:.2g}; "
            f"{kind}). This happens with one right model in twenty."
        )
        brief = (
            f"Model: your data have the most extreme {feature} of all, as with one right model in "
            "twenty."
        )
        return Finding("model", None, (told,), value=p, brief=brief)
    told = f"Your model does not fit: its data do not look like yours (p = {p:.2g}; {kind})."
    brief = f"Model: it does not fit your data, whose {feature} is {value} deviations off"
    if read.contains_real:
        remedy = Remedy(
            "change the model where your data differ; bdmc.consistency(dt) lists where."
        )
        return Finding("model", None, (told,), remedy, p, brief=f"{brief}.")
    not_yours = "The bound is for data from the model, so it does not apply to your data."
    brief += ", so the bound does not apply to them."
    remedy = Remedy(
        'to judge the draws although the model does not fit, pass simulate="posterior"; to mend '
        "the model, see bdmc.consistency(dt)."
    )
    return Finding("model", "open", (told, not_yours), remedy, p, brief=brief)


def wide_prior(table: pd.DataFrame) -> Iterator[Finding]:
    """Report observed variables of which the prior expects far more spread than there is."""
    last = table.xs(table.index.get_level_values("temperatures")[-1], level="temperatures")
    rows = last[last.index.str.startswith(SPREAD)]
    narrow = rows[(rows["value"] <= -STANDS_OUT) & (rows["p_value"] <= ALPHA)]
    for name, row in narrow.iterrows():
        told = (
            f"Your prior expects data far more spread than yours: {name} is {-row['value']:.2g} "
            "standard deviations below that of data from the model."
        )
        yield Finding("wide prior", None, (told,), value=row["p_value"])
