"""Check whether the results on simulated data apply to the real data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from pymc_bdmc.model.simulations import Matched
from pymc_bdmc.results.consistency import (
    ALPHA,
    FEWEST_SETS,
    MARGIN,
    SPREAD,
    consistency_of,
    simulated_from_prior,
)
from pymc_bdmc.results.finding import Finding, Message, message
from pymc_bdmc.results.reading import Reading

STANDS_OUT = 3.5
"""Deviation (in standard deviations) from which the most extreme data leave a verdict open. Among
21 data sets none can deviate by more than 4.5. Under a right model the real data deviate by 3.5 in
at most 1.4 % of cases, for normal or log-normal features, and are the most extreme in 5 %."""


def likeness(read: Reading) -> Iterator[Finding]:
    """Check whether the sampler finds both alike, and whether the data are alike."""
    try:
        table = consistency_of(read)
    except ValueError as error:  # one kind of data has no finished runs
        told = message("not compared", reason=str(error).removeprefix("dt: "))
        yield Finding("shortfall", "open", (told,), message("again"))
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
        told = message("harder data", value=row["value"], error=row["error"])
        return Finding("shortfall", "open", (told,), message("until alike"), **numbers)
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
        remedy = message("simulate more", n=FEWEST_SETS) if read.simulate != Matched.name else None
        return Finding("model", None, (), remedy)
    numbers = {"p": row["p_value"], "kind": row["kind"], "value": abs(row["value"])}

    def told(kind: str, *more: Message) -> dict[str, Any]:
        brief = message(f"brief {(more[0].kind if more else kind)}", feature=feature, **numbers)
        messages = (message(kind, **numbers), *more)
        return {"messages": messages, "value": row["p_value"], "brief": brief}

    if not row["flagged"]:
        return Finding("model", "good", **told("like others"))
    if abs(row["value"]) < STANDS_OUT:
        return Finding("model", None, **told("most extreme"))
    if read.contains_real:
        return Finding("model", None, remedy=message("change model"), **told("wrong model"))
    remedy, more = message("contain the data"), message("does not apply")
    return Finding("model", "open", remedy=remedy, **told("wrong model", more))


def wide_prior(table: pd.DataFrame) -> Iterator[Finding]:
    """Report observed variables of which the prior expects far more spread than there is."""
    last = table.xs(table.index.get_level_values("temperatures")[-1], level="temperatures")
    rows = last[last.index.str.startswith(SPREAD)]
    narrow = rows[(rows["value"] <= -STANDS_OUT) & (rows["p_value"] <= ALPHA)]
    for name, row in narrow.iterrows():
        told = message("wide prior", name=name, value=-row["value"])
        yield Finding("wide prior", None, (told,), value=row["p_value"])
