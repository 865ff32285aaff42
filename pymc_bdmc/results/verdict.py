"""Can this posterior be believed? The answer in a few sentences, with the numbers behind it."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import total_variation_bound
from pymc_bdmc.results.agreement import agreement
from pymc_bdmc.results.certified import certified
from pymc_bdmc.results.compare import is_system
from pymc_bdmc.results.consistency import (
    FEWEST_RUNS,
    FEWEST_SETS,
    MARGIN,
    consistency,
    half_interval,
)
from pymc_bdmc.results.diagnose import MAX_CHANCE, diagnose
from pymc_bdmc.results.evidence import evidence
from pymc_bdmc.results.groups import SIDES, check_annealed, data_sets
from pymc_bdmc.results.summary import summary

__all__ = ["Verdict", "verdict"]

CLOSE = 0.25
"""Nats: a gap that lies below, errors and all, is good. No probability is off by more than 0.25."""

WIDE = 1.0
"""Nats: a gap that lies above, errors and all, is bad. Probabilities may be off by half."""

GAP = "Jeffreys bound"

Status = Literal["good", "open", "bad"]

_HEADLINES = {
    "good": "This posterior can be believed, to within what follows.",
    "open": "This does not show that the posterior can be believed.",
    "bad": "Do not believe this posterior as it stands.",
}

_COLOURS = {"good": "#2e7d32", "open": "#b26a00", "bad": "#c62828"}


@dataclass(frozen=True)
class _Finding:
    """One thing that was looked at."""

    name: str
    status: Status | None
    """None where it has no say in the whole."""
    sentence: str
    remedy: str = ""
    value: float = np.nan
    error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """What `verdict` says; it prints as its text, and shows with its table in notebooks.

    Attributes
    ----------
    status : {"good", "open", "bad"}
    text : str
        A few sentences.
    table : DataFrame
        What they rest on: ``value``, ``error``, and the interval from ``lower`` to ``upper`` in
        nats, and ``status``. The ``value`` of ``model`` and ``both sides`` is a p-value.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), temperatures=400, random_seed=1,
    ...                          progressbar=False)
    >>> bdmc.verdict(dt).table.loc["Jeffreys bound", "status"]
    'good'
    """

    status: Status
    text: str
    table: pd.DataFrame

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        headline, *sentences = self.text.split("\n")
        style = f"color: {_COLOURS[self.status]}; font-weight: bold"
        paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
        table = self.table.to_html(float_format="{:.3g}".format, na_rep="")
        return f'<div><p style="{style}">{escape(headline)}</p>{paragraphs}{table}</div>'


def verdict(dt: xr.DataTree) -> Verdict:
    r"""Say whether the posterior of a run can be believed, on what grounds, and what to do next.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`, `lattice.anneal` or `RBM.anneal`.

    Returns
    -------
    Verdict
        Its ``status`` is ``"bad"`` if any check is, ``"good"`` if all are that have a say, and else
        ``"open"``: what could not have failed, for want of runs or of simulated data, is not good.

    Raises
    ------
    ValueError
        For a result of `temper`, or one that lacks a group or a variable.

    Notes
    -----
    The checks and their thresholds, every interval at 95 % by Student's t:

    =====================  ======================================  =====================
    check                  good                                    bad
    =====================  ======================================  =====================
    Jeffreys bound         interval below 0.25 nats                interval above 1 nat;
                                                                   below zero, p ≤ 0.001
    start of reverse runs  exact or burned-in                      (heuristic is open)
    shortfall              interval below 0.25 nats                interval above it
    model                  p > 0.05, or not tested                 (p ≤ 0.05 is open)
    both sides             p > 0.001, with 8 runs or more          p ≤ 0.001
    interruption           none                                    (one is open)
    =====================  ======================================  =====================

    *Jeffreys bound*: the mean gap on simulated data bounds KL(q‖p) + KL(p‖q) between the last
    particle of a forward run and the posterior (Grosse, Ancha and Roy 2016). What that means for
    probabilities is `pymc_bdmc.estimators.total_variation_bound`. *Shortfall* and *model*: see
    `consistency`. *Both sides*: reverse runs on the real data, from the draws of some sampler.

    A model can be wrong and its posterior well sampled: so data that it does not produce leave the
    question open. A wide gap proves nothing against a posterior, it only leaves nothing to believe
    it by; an insufficient number of temperatures and a bad kernel look alike. Nor can anything be
    seen that neither the runs nor the simulated data show: a mode that exists on the real data
    alone, and that no run found, is in no number here.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(simulate="prior", random_seed=1, cores=1, progressbar=False)
    >>> found = bdmc.verdict(dt)
    >>> found.status
    'good'
    >>> print(found.text.splitlines()[0])
    This posterior can be believed, to within what follows.
    """
    check_annealed(dt, "verdict")
    doubts = diagnose(dt)
    findings = list(_findings(dt, doubts))
    found = {finding.status for finding in findings}
    status: Status = "bad" if "bad" in found else "open" if "open" in found else "good"
    sentences = [_HEADLINES[status], *(finding.sentence for finding in findings)]
    sentences.append(f"Next: {_next_step(findings, doubts)}")
    columns = ["value", "error", "lower", "upper", "status"]
    rows = {
        each.name: [getattr(each, column) if column != "status" else each.status or ""
                    for column in columns]
        for each in findings
    }  # fmt: skip
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("check")
    return Verdict(status, "\n".join(sentences), table)


def _next_step(findings: list[_Finding], doubts: list[str]) -> str:
    """What a failed check asks for; else the gravest doubt; else what would make the rest good."""

    def remedies(status: Status | None) -> list[str]:
        return [each.remedy for each in findings if each.status == status and each.remedy]

    steps = [*remedies("bad"), *doubts, *remedies("open"), *remedies(None)]
    return steps[0] if steps else "nothing that this can tell."


def _findings(dt: xr.DataTree, doubts: list[str]) -> Iterator[_Finding]:
    bounds = summary(dt)
    if dt.attrs.get("interrupted"):
        sentence = "The run was interrupted; what is left need be no fair sample of it."
        yield _Finding("interruption", "open", sentence, "run it again.")
    if "forward" in dt.children:
        yield _gap(dt, bounds.loc[("simulated", "jeffreys bound")], doubts)
        yield _start(dt)
    else:
        sentence = "Without simulated data nothing bounds how far this posterior is from the true."
        yield _Finding(GAP, "open", sentence, "simulate data: leave out simulate=None.")
    if {"real", "forward"} <= set(dt.children):
        yield from _likeness(dt)
    elif "real" not in dt.children and not is_system(dt):
        sentence = "There are no runs on the real data, so nothing is said of them."
        yield _Finding("shortfall", "open", sentence, "leave out real_data=False.")
    yield from _both_sides(dt, bounds)
    yield from _evidence(dt)


def _gap(dt: xr.DataTree, row: pd.Series, doubts: list[str]) -> _Finding:
    pairs = [
        (forward.size, reverse.size)  # finished runs
        for data, _, forward, reverse, _ in data_sets(dt)
        if data == "simulated"
    ]
    # Data sets are independent; of a single one, its runs are.
    n = len(pairs) if len(pairs) > 1 else min(sum(pairs, ()), default=0)
    reach = half_interval(row["error"], n)
    lower, upper = row["value"] - reach, row["value"] + reach
    sets = "the one simulated data set" if len(pairs) == 1 else f"{len(pairs)} simulated data sets"
    where = "" if is_system(dt) else f" on {sets}"
    number = f"{row['value']:.2g} ± {row['error']:.2g} nats"
    told = f"{number}{where}"
    status: Status = "open"
    if row["value"] + half_interval(row["error"], n, 1 - 2 * MAX_CHANCE) < 0:
        status = "bad"
        sentence = (
            f"Reverse runs lie below forward ones, by {told}, which no correct sampler lets them: "
            "it leaves another distribution invariant than the posterior, or reverse runs do not "
            "start from the posterior."
        )
    elif lower > WIDE or row["value"] == np.inf:
        status = "bad"
        sentence = (
            f"The gap between forward and reverse runs is wide, {told}, so it gives no reason to "
            "believe the posterior: too few temperatures, or a sampler that does not mix."
        )
    elif not row["valid"]:
        sentence = f"The gap between forward and reverse runs, {told}, is no bound: {row['kind']}."
    elif not np.isfinite(upper):
        sentence = "There are too few runs to tell how wide the gap between the directions is."
    else:
        status = "good" if upper <= CLOSE else "open"
        subject = f"{where.strip().capitalize()} this" if where else "This"
        sentence = (
            f"{subject} sampler's posterior is at most {_plain(upper)} (Jeffreys bound {number})."
        )
    remedy = doubts[0] if doubts else "use more temperatures or particles, or another kernel."
    if status == "open" and reach > CLOSE / 2:
        remedy = "run more chains, or more simulated data sets, for a smaller error."
    return _Finding(GAP, status, sentence, remedy, row["value"], row["error"], lower, upper)


def _plain(jeffreys: float) -> str:
    """What a divergence means for what is read off a posterior."""
    off = total_variation_bound(jeffreys)
    return (
        f"{max(jeffreys, 0):.2g} nats from the true one, with 97.5 % confidence. So no probability "
        f"is off by more than {off:.2g}, and no mean of a bounded quantity by more than "
        f"{off:.0%} of its range; a normal posterior would be shifted by at most "
        f"{np.sqrt(max(jeffreys, 0)):.2g} of its standard deviations"
    )


def _start(dt: xr.DataTree) -> _Finding:
    start = dt.attrs.get("upper_bound", "unknown")
    told: dict[str, tuple[Status, str]] = {
        "exact": ("good", "Reverse runs start from exact posterior samples."),
        "burned-in": (
            "good",
            "Reverse runs start from samples that are burned in, not exact: good evidence, no "
            "proof.",
        ),
    }
    heuristic = f"What reverse runs start from is {start}, so the gap need be no bound."
    status, sentence = told.get(start, ("open", heuristic))
    return _Finding("start", status, sentence, 'pass simulate="prior" for an exact start.')


def _likeness(dt: xr.DataTree) -> Iterator[_Finding]:
    """Whether what simulated data show holds for the real ones."""
    try:
        table = consistency(dt)
    except ValueError as error:  # nothing was finished on one side
        reason = str(error).removeprefix("dt: ")
        sentence = f"Real and simulated data cannot be compared: {reason}"
        yield _Finding("shortfall", "open", sentence, "run it again.")
        return
    row = table.loc["shortfall"].iloc[-1]
    numbers = row[["value", "error", "lower", "upper"]].to_dict()
    told = f"their shortfalls from log ML differ by {row['value']:.2g} ± {row['error']:.2g} nats"
    if row["flagged"]:
        sentence = (
            f"Runs on your data do not behave as those on simulated data: {told}, so the sampler "
            "finds your data harder, and the bound is not about them."
        )
        remedy = "use more temperatures or particles until plot_consistency shows boxes alike."
        yield _Finding("shortfall", "bad", sentence, remedy, **numbers)
    elif row["valid"] and row["upper"] <= MARGIN:
        sentence = f"Runs on your data behave as those on simulated data: {told}."
        yield _Finding("shortfall", "good", sentence, **numbers)
    else:
        sentence = (
            f"Whether runs on your data behave as those on simulated data cannot be told: {told}."
        )
        yield _Finding("shortfall", "open", sentence, f"{row['kind']}.", **numbers)
    yield _model(table, dt.attrs.get("simulate"))


def _model(table: pd.DataFrame, simulate: str | None) -> _Finding:
    """Whether the real data stand out among simulated ones."""
    way = "FromPrior" if simulate == "prior" else "FromHyperparameters"
    remedy = (
        f"to test the model too, simulate {FEWEST_SETS} data sets, "
        f"bdmc.{way}(datasets={FEWEST_SETS})."
    )
    if "model" not in table.index:
        sentence = "Whether data from the model look like yours was not tested."
        return _Finding("model", None, sentence, remedy)
    row = table.loc["model"].iloc[0]
    if not row["valid"]:
        sentence = "There are too few simulated data sets to test if they look like yours."
        return _Finding("model", None, sentence, remedy)
    if row["flagged"]:
        sentence = (
            f"Data from the model do not look like yours (p = {row['p_value']:.2g}; {row['kind']})"
            ": the model is wrong in this, and the bound is about other data than yours."
        )
        change = "change the model where your data differ; consistency lists where."
        return _Finding("model", "open", sentence, change, row["p_value"])
    sentence = f"Your data do not stand out among simulated ones (p = {row['p_value']:.2g})."
    return _Finding("model", "good", sentence, value=row["p_value"])


def _both_sides(dt: xr.DataTree, bounds: pd.DataFrame) -> Iterator[_Finding]:
    """Whether draws of another sampler and forward runs agree on the real data."""
    found = agreement(dt)
    if found is None:
        return
    gap = bounds.loc[("real", "jeffreys bound")]
    told = f"their gap is {gap['value']:.2g} ± {gap['error']:.2g} nats, heuristic"
    if found.pvalue <= MAX_CHANCE:
        sentence = (
            f"On your data the draws that you gave and the forward runs disagree: {found.quantity} "
            f"is {found.reverse:.3g} by the draws and {found.forward:.3g} by the runs "
            f"(p = {found.pvalue:.1g}; {told}). One of them misses part of the posterior."
        )
        remedy = "compare the draws with the group posterior; run more chains of that sampler."
        yield _Finding("both sides", "bad", sentence, remedy, found.pvalue)
    elif min(int(dt[group]["log_weight"].count()) for group in SIDES["real"]) < FEWEST_RUNS:
        sentence = (
            f"Fewer than {FEWEST_RUNS} runs on your data are too few to tell whether the draws "
            f"that you gave and the forward runs agree ({told})."
        )
        yield _Finding("both sides", "open", sentence, "run more chains.", found.pvalue)
    else:
        sentence = (
            "On your data the draws that you gave and the forward runs agree as far as can be seen "
            f"(p = {found.pvalue:.2g}; {told})."
        )
        yield _Finding("both sides", "good", sentence, value=found.pvalue)


def _evidence(dt: xr.DataTree) -> Iterator[_Finding]:
    """Log ML with its interval, and what is certain of it."""
    data = "simulated" if is_system(dt) else "real"
    bounds = certified(dt)
    if (data, 0) not in bounds.index:
        return
    methods = evidence(dt).loc[data].loc[0]
    best = methods[methods["recommended"]]
    sure = bounds.loc[(data, 0)]
    ends = " and ".join(
        f"{word} {outwards(100 * sure[side]) / 100:.2f}"
        for side, word, outwards in (("lower", "at least", np.floor), ("upper", "at most", np.ceil))
        if np.isfinite(sure[side])
    )
    certain = f"; it is certified to be {ends}" if ends else ""
    if best.empty:
        sentence = f"No estimate of log ML can be trusted{certain}."
        yield _Finding("log ML", None, sentence, lower=sure["lower"], upper=sure["upper"])
        return
    row = best.iloc[0]
    lower, upper = row["value"] - 1.96 * row["error"], row["value"] + 1.96 * row["error"]
    decimals = max(0, 1 - int(np.floor(np.log10(max(row["error"], 1e-9)))))  # two of the error
    sentence = (
        f"Log ML is {row['value']:.{decimals}f} ± {row['error']:.2g}, between {lower:.{decimals}f} "
        f"and {upper:.{decimals}f} with 95 % ({row.name}){certain}."
    )
    yield _Finding("log ML", None, sentence, "", row["value"], row["error"], lower, upper)
