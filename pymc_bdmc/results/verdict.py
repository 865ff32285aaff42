"""Judge whether the posterior draws of a run can be trusted, in a few sentences with numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import (
    TotalVariation,
    clustered_mean,
    datasets_needed,
    round_confidence,
)
from pymc_bdmc.model.hard_variables import sum_out
from pymc_bdmc.model.matching import Matched
from pymc_bdmc.results.agreement import kept_agreement
from pymc_bdmc.results.certified import certified_total_variation
from pymc_bdmc.results.consistency import (
    ALPHA,
    FEWEST_SETS,
    MARGIN,
    SPREAD,
    consistency,
    half_interval,
    simulated_from_prior,
)
from pymc_bdmc.results.diagnose import (
    MAX_CHANCE,
    MOST_DIVERGENT,
    diagnose,
    divergent_share,
    reach_draws,
)
from pymc_bdmc.results.evidence import refuting_path
from pymc_bdmc.results.groups import (
    SIDES,
    by_data_set,
    check_annealed,
    data_sets,
    is_null,
    is_system,
    log_ml_too_low,
)
from pymc_bdmc.results.log_ml import log_ml
from pymc_bdmc.results.mixing import rhat_of_runs
from pymc_bdmc.results.notebook import Status, status_html
from pymc_bdmc.results.reverse import both_sides
from pymc_bdmc.results.summary import independent_gaps, summary

__all__ = ["NEXT", "Verdict", "verdict"]

CLOSE = 0.25
"""Largest certified total variation of a good verdict: no probability is off by more."""

MOST_MORE, MOST_DATASETS = 10, 60
"""Largest factor by which more data sets or runs are proposed; up to 60 data sets always are."""

STANDS_OUT = 3.5
"""Deviation (in standard deviations) from which the most extreme data leave a verdict open. Among
21 data sets none can deviate by more than 4.5. Under a right model the real data deviate by 3.5 in
at most 1.4 % of cases, for normal or log-normal features, and are the most extreme in 5 %."""

MISSED = 0.5
"""Total variation of a data set above which its forward runs miss most of the posterior."""

NEXT = "Next: "
"""Beginning of the sentence that says what to do next."""

_HEADLINES = {
    "good": "The posterior draws of this run can be believed, within the limits below.",
    "open": "This run does not settle whether its posterior draws can be believed.",
    "bad": "Do not rely on the posterior draws of this run: there is evidence of an error.",
    "disagree": (
        "The draws that you gave and those of this run disagree. Do not rely on either until you "
        "know which is wrong."
    ),
}

_DATA = {
    "prior": "data sets simulated from the prior of your model",
    "matched": "data sets from your model that are most like yours",
    "hyperparameters": "data sets simulated with hyperparameters from your fit",
    "given": "the data that you gave",
}
"""Data that the bound applies to, by kind of simulation."""


@dataclass(frozen=True)
class _Finding:
    """Result of one check."""

    name: str
    status: Status | None
    """None if the check does not affect the verdict."""
    sentence: str
    remedy: str = ""
    value: float = np.nan
    error: float = np.nan
    lower: float = np.nan
    upper: float = np.nan


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """Result of `verdict`; it prints as its text, and notebooks show its table too.

    Attributes
    ----------
    status : {"good", "open", "bad"}
    text : str
        A few sentences.
    table : DataFrame
        The checks: ``value``, ``error``, the interval from ``lower`` to ``upper``, and ``status``.
        The row ``total variation`` is a probability: its ``value`` is the mean over data sets and
        its ``upper`` the certified upper end. The ``value`` of ``model`` and ``both sides`` is a
        p-value, that of ``divergences`` a share. All other rows are in nats.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), temperatures=400, random_seed=1,
    ...                          progressbar=False)
    >>> bdmc.verdict(dt).table.loc["total variation", "status"]
    'good'
    """

    status: Status
    text: str
    table: pd.DataFrame

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return status_html(self.status, self.text, self.table)


def verdict(dt: xr.DataTree, *, confidence: float = 0.95, look: int | None = None) -> Verdict:
    r"""Say whether the posterior draws of a run can be trusted, why, and what to do next.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `RBM.anneal`.
    confidence : float, default 0.95
        1 − δ of the bound on the total variation.
    look : int, optional
        Number of this look, from 1, if more data sets were simulated because an earlier verdict was
        open. Look k spends δ/2^k, so all numbered looks together spend at most δ. A look without a
        number spends δ.

    Returns
    -------
    Verdict
        Its ``status`` is ``"bad"`` if there is evidence of an error, ``"good"`` if the posterior is
        certified to be close and nothing is open, and otherwise ``"open"``: missing proof is no
        evidence of an error.

    Raises
    ------
    ValueError
        For a result of `temper`, or a result that lacks a group or a variable.

    Notes
    -----
    The checks and their thresholds:

    =====================  ======================================  =====================
    check                  good                                    bad
    =====================  ======================================  =====================
    total variation        certified to be at most 0.25            (else open)
    order of the sides     (no say)                                reverse runs below
                                                                   forward ones, p ≤ 0.001
    start of reverse runs  exact or burned-in                      (heuristic is open)
    two paths              (no say)                                runs on another path
                                                                   have a higher log ML
    draws                  `agreement` is good                     it is bad, or it shows a part
                                                                   that the run misses
                                                                   (else no say)
    both sides             (no say)                                p ≤ 0.001
    divergences            at most 20 % of the transitions         (more is open)
    ends of the runs       R̂ of every variable at most 1.7         (more is open)
    shortfall              interval below 0.25 nats                (above it is open)
    model                  p > 0.05, less than 3.5 deviations,     (else open)
                           or not tested
    log ML                 (no say)                                (open if no estimate
                                                                   can be trusted)
    interruption           none                                    (one is open)
    =====================  ======================================  =====================

    *Total variation*: the largest error of a probability under the distribution of a posterior draw
    of such a run, on average over data sets like the simulated ones
    (`pymc_bdmc.estimators.total_variation`). It is proved for exact starts of the reverse runs. For
    burned-in starts, their unknown distance from the posterior must be added. *Shortfall* and
    *model* say whether the real data are like the simulated ones; see `consistency`. The gap of
    Grosse, Ancha and Roy (2016) is reported without a confidence, since one θ\* in ten may cause
    all of it.

    *Two paths*: averages of runs on any path are unbiased for the same Z and seldom too high, so if
    two differ beyond chance the lower one misses part of the posterior
    (`pymc_bdmc.estimators.refutes`). *Draws*: all draws given by ``posterior=``, compared with the
    run's own (`agreement`). *Both sides*: the mean log weight of reverse runs that start from some
    of these draws, compared with the mean that forward runs predict.

    No number here can show a mode that exists on the real data only and that no run found.

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
    The posterior draws of this run can be believed, within the limits below.
    """
    check_annealed(dt, "verdict")
    doubts = diagnose(dt)
    findings = list(_findings(dt, doubts, confidence, look))
    found = {finding.status for finding in findings}
    status: Status = "bad" if "bad" in found else "open" if "open" in found else "good"
    told = [finding.sentence for finding in findings if finding.sentence]
    # Without simulated data only log ML was asked for.
    errors = {finding.name for finding in findings if finding.status == "bad"}
    disagree = errors == {"draws"} and not log_ml_too_low(dt)
    headline = [_HEADLINES["disagree" if disagree else status]]
    if "forward" not in dt.children and status != "bad":
        headline = []
    steps = [f"{NEXT}{step}" for step in _next_steps(findings, doubts)[:1]]
    sentences = [*headline, *told, *steps]
    columns = ["value", "error", "lower", "upper", "status"]
    rows = {
        each.name: [getattr(each, column) if column != "status" else each.status or ""
                    for column in columns]
        for each in findings
    }  # fmt: skip
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("check")
    return Verdict(status, "\n".join(sentences), table)


def _next_steps(findings: list[_Finding], doubts: list[str]) -> list[str]:
    """Return the remedies of bad and open checks, then the doubts, then other remedies."""

    def remedies(status: Status | None) -> list[str]:
        return [each.remedy for each in findings if each.status == status and each.remedy]

    return [*remedies("bad"), *remedies("open"), *doubts, *remedies(None)]


def _findings(
    dt: xr.DataTree, doubts: list[str], confidence: float, look: int | None
) -> Iterator[_Finding]:
    if dt.attrs.get("interrupted"):
        sentence = "The run was interrupted, so the finished part may not be a random sample."
        yield _Finding("interruption", "open", sentence, "run it again.")
    if is_null(dt):
        yield from _evidence(dt, doubts)
        return
    if "forward" not in dt.children:
        yield from _evidence(dt, doubts)
        yield from _contradictions(dt)
        sentence = (
            "Nothing was simulated, so the distance of the posterior draws from the true "
            "posterior is not known."
        )
        remedy = (
            "to judge the draws too, data must be simulated: leave out simulate=None, write a "
            "Potential as an observed pm.CustomDist with random=..., or pass a pair from your own "
            "simulator, simulate=bdmc.Given(point, data)."
        )
        yield _Finding("total variation", "open", sentence, remedy)
        return
    yield from _start(dt)
    found = certified_total_variation(dt, confidence, look)
    if found:
        yield _total_variation(dt, found, doubts, confidence, look)
    yield from _order(dt)
    yield from _contradictions(dt)
    if {"real", "forward"} <= set(dt.children):
        yield from _likeness(dt)
    elif not is_system(dt):
        sentence = "There are no runs on the real data, so nothing is known about them."
        yield _Finding("real data", "open", sentence, "leave out real_data=False.")
    yield from _evidence(dt, doubts)


def _total_variation(
    dt: xr.DataTree,
    found: TotalVariation,
    doubts: list[str],
    confidence: float,
    look: int | None,
) -> _Finding:
    status: Status = "good" if found.upper <= CLOSE else "open"
    level = f"{100 * found.confidence:.5g} % confidence" + (f" at look {look}" if look else "")
    bound = _outwards(found.upper)
    sentence = (
        f"{_about(dt, found.datasets)}, a posterior draw of such runs is on average at most "
        f"{bound} from the true posterior in total variation ({level}; estimate "
        f"{found.value:.2g}). So on average no probability is off by more than {bound}"
    )
    if dt.attrs.get("upper_bound") == "burned-in":
        sentence += (
            ", if reverse runs start from exact posterior samples. They start from burned-in "
            "samples, so the unknown distance of these from the posterior must be added"
        )
    sentence += f".{_monte_carlo(dt)}"
    unfinished = _unfinished(dt)
    missed = _missed(dt, found)
    if missed > 0 and not dt.attrs.get("independent_starts"):  # a single pair is mostly noise
        sentence += (
            f" On {missed} of the {found.datasets} data sets the forward runs miss most of the "
            "posterior."
        )
    if unfinished:
        sentence += f" On {unfinished} data sets some runs were not finished; each counts as 1."
    remedy = "" if status == "good" else _to_settle(dt, found, doubts, confidence, look)
    error = clustered_mean(found.terms[:, None])[1]
    return _Finding(
        "total variation", status, sentence, remedy, found.value, error, 0.0, found.upper
    )


def _unfinished(dt: xr.DataTree) -> int:
    """Return the number of simulated data sets with runs that were not finished."""
    sides = (by_data_set(dt, group, "log_weight") for group in SIDES["simulated"])
    return int(np.sum(np.any([np.isnan(each).any(axis=1) for each in sides], axis=0)))


def _missed(dt: xr.DataTree, found: TotalVariation) -> int:
    """Return the number of data sets whose forward runs miss most of the posterior."""
    return int(np.sum(found.terms > MISSED)) - _unfinished(dt)


def _outwards(bound: float) -> str:
    """Round a bound up to two decimals."""
    return f"{np.ceil(100 * bound - 1e-9) / 100:.2f}"


def _about(dt: xr.DataTree, datasets: int) -> str:
    """Say which data the bound applies to."""
    if dt.attrs.get("independent_starts"):
        return f"By {datasets} independent pairs of runs"
    simulate = str(dt.attrs.get("simulate"))
    if simulated_from_prior(dt):
        simulate = "prior"  # also if the model has no hyperparameters to hold
    data = _DATA.get(simulate, "simulated data sets")
    if simulate == "given":
        return f"On {data}"
    return f"On {datasets} {data}" if datasets > 1 else f"On one of the {data}"


def _monte_carlo(dt: xr.DataTree) -> str:
    """State the standard error of a probability computed from the draws."""
    if "posterior" not in dt.children:
        return ""
    sizes = dt["posterior"].sizes
    n = sizes.get("chain", 1) * sizes.get("draw", 1)
    return (
        f" In addition, a probability computed from the {n} draws in the group posterior has a "
        f"standard error of at most about {_outwards(0.5 / np.sqrt(n))}."
    )


def _to_settle(
    dt: xr.DataTree,
    found: TotalVariation,
    doubts: list[str],
    confidence: float,
    look: int | None,
) -> str:
    """Say what would certify the total variation, if it is as small as estimated."""
    datasets, runs = found.datasets, int(dt["forward"].sizes["chain"])
    if is_system(dt):
        return "take more chains." if datasets < FEWEST_SETS else _longer(dt, doubts)
    if str(dt.attrs.get("simulate")) == "given":
        return 'one pair certifies almost nothing: simulate data sets, simulate="prior".'
    if dt.attrs.get("path") == "fitted" and _missed(dt, found) > 0:
        if centred := dt.attrs.get("centred_effects"):
            return f"write {centred} non-centred, since a fit can miss where their scale is small."
        return 'try path="prior", since a fit to data like these can miss part of the posterior.'
    following = (look or 1) + 1
    needed = datasets_needed(CLOSE, round_confidence(confidence, following), found.terms)
    # Terms fall as 1/√(number of pooled runs).
    more = int(np.ceil(runs * (found.value / (CLOSE / 3)) ** 2))
    pools = runs < more <= MOST_MORE * runs and not (found.terms > MISSED).any()
    cheaper = needed and (not pools or needed / datasets <= more / runs)
    if needed and cheaper and needed <= max(MOST_MORE * datasets, MOST_DATASETS):
        seconds = dt.attrs.get("sampling_time", np.nan) * needed / datasets
        way = {"prior": "FromPrior", "matched": "Matched"}.get(
            str(dt.attrs.get("simulate")), "FromHyperparameters"
        )
        return (
            f"{needed} data sets would be enough if they are like these {datasets}, in about "
            f"{seconds:.2g} s: simulate=bdmc.{way}(datasets={needed}) with another random_seed and "
            f"your other options, and then verdict(dt, look={following})."
        )
    if pools:
        return (
            f"use more runs on each data set: chains={more} with another random_seed, and then "
            f"verdict(dt, look={following})."
        )
    return _longer(dt, doubts)


def _longer(dt: xr.DataTree, doubts: list[str]) -> str:
    if doubts:
        return doubts[0]
    if dt["forward"].sizes.get("beta") == 2:  # no kernel moved
        return 'anneal instead of importance sampling: path="prior".'
    return "use more temperatures or particles, or another kernel."


def _order(dt: xr.DataTree) -> Iterator[_Finding]:
    """Report the mean gap (as in BREAD, without a confidence), and whether it is below zero."""
    row = summary(dt).loc[("simulated", "jeffreys bound")]
    value, error = row["value"], row["error"]
    forward, reverse = (by_data_set(dt, group, "log_weight") for group in SIDES["simulated"])
    n = independent_gaps(forward, reverse)
    if not n:
        yield _Finding("Jeffreys bound", "open", "No run was finished in one of the directions.")
        return
    if value + half_interval(error, n, 1 - 2 * MAX_CHANCE) < 0:
        sentence = (
            f"Reverse runs lie below forward ones, by {value:.2g} ± {error:.2g} nats, which cannot "
            "happen with a correct sampler. Either the kernel does not leave the posterior "
            "invariant, or reverse runs do not start from the posterior."
        )
        remedy = "test the step method with bdmc.testing.check_invariance" + (
            ", or use a longer burn_in." if dt.attrs.get("upper_bound") == "burned-in" else "."
        )
        yield _Finding("Jeffreys bound", "bad", sentence, remedy, value, error)
        return
    if value == np.inf:
        sentence = "A run on simulated data reached a state of probability zero."
        yield _Finding("Jeffreys bound", "open", sentence, value=value)
        return
    sentence = ""
    if row["valid"]:
        spread = f", with quartiles {row['q25']:.2g} and {row['q75']:.2g}" * (n > 1)
        sentence = (
            f"The gap between forward and reverse runs (BREAD) is {value:.2g} ± {error:.2g} nats"
            f"{spread if np.isfinite(row['q25']) else ''}."
        )
    yield _Finding("Jeffreys bound", None, sentence, "", value, error)


def _contradictions(dt: xr.DataTree) -> Iterator[_Finding]:
    """Look for evidence of an error on the real data."""
    if "real" in dt.children:
        if path := refuting_path(dt):
            sentence = (
                f"A few runs on path {path!r} give a higher log ML than these, by more than chance "
                "explains, so these miss part of the posterior."
            )
            yield _Finding("two paths", "bad", sentence, f"pass path={path!r}.")
        yield from _mixing(dt)
    yield from _given_draws(dt)


def _mixing(dt: xr.DataTree) -> Iterator[_Finding]:
    """Check whether the kernel moved, and whether the runs on the real data end alike."""
    share = divergent_share(dt)
    if share > MOST_DIVERGENT:
        sentence = (
            f"{share:.0%} of the transitions diverged, so the kernel hardly moves where the "
            "posterior is narrow."
        )
        yield _Finding("divergences", "open", sentence, value=share, upper=MOST_DIVERGENT)
    name, rhat = rhat_of_runs(dt)
    if rhat > MAX_RHAT:
        sentence = (
            f"The runs on your data end in different places: R̂ of {name} between them is "
            f"{rhat:.2g}."
        )
        remedy = "use more particles, so that every run reaches all of these places."
        yield _Finding("ends", "open", sentence, remedy, rhat, upper=MAX_RHAT)


def _start(dt: xr.DataTree) -> Iterator[_Finding]:
    start = dt.attrs.get("upper_bound", "unknown")
    if start == "exact":
        yield _Finding("start", "good", "")
    elif start == "burned-in":
        yield _Finding("start", "good", "", 'pass simulate="prior" for an exact start.')
    else:
        sentence = (
            f"The start of the reverse runs is {start}, so the distance of the posterior draws "
            "from the true posterior is not certified."
        )
        yield _Finding("start", "open", sentence, 'pass simulate="prior" for an exact start.')


def _likeness(dt: xr.DataTree) -> Iterator[_Finding]:
    """Check whether the results on simulated data apply to the real data."""
    try:
        table = consistency(dt)
    except ValueError as error:  # one kind of data has no finished runs
        reason = str(error).removeprefix("dt: ")
        sentence = f"Real and simulated data cannot be compared: {reason}"
        yield _Finding("shortfall", "open", sentence, "run it again.")
        return
    row = table.loc["shortfall"].iloc[-1]
    numbers = row[["value", "error", "lower", "upper"]].to_dict()
    told = f"the mean log weight falls short of log ML by {row['value']:.2g}"
    if row["flagged"]:
        sentence = (
            f"Runs on your data do not behave as those on simulated data: {told} ± "
            f"{row['error']:.2g} nats more. So your data are harder for the sampler, and the bound "
            "does not apply to them."
        )
        remedy = "use more temperatures or particles until the boxes of plot_consistency agree."
        yield _Finding("shortfall", "open", sentence, remedy, **numbers)
    else:
        good = row["valid"] and row["upper"] <= MARGIN
        yield _Finding("shortfall", "good" if good else None, "", **numbers)
    if "model" in table.index:
        yield _model(table.loc["model"].iloc[0], str(dt.attrs.get("simulate")))
        if simulated_from_prior(dt):
            yield from _wide_prior(table)


def _model(row: pd.Series, simulate: str) -> _Finding:
    """Check whether the real data stand out among simulated ones."""
    if not row["valid"]:
        remedy = f"to test the model too, simulate {FEWEST_SETS} data sets or more."
        if simulate == Matched.name:  # they were chosen to be alike
            remedy = ""
        return _Finding("model", None, "", remedy)
    if row["flagged"] and abs(row["value"]) < STANDS_OUT:
        sentence = (
            f"Your data are the most extreme of all, by {abs(row['value']):.2g} standard "
            f"deviations (p = {row['p_value']:.2g}; {row['kind']}). This happens with one right "
            "model in twenty."
        )
        return _Finding("model", None, sentence, value=row["p_value"])
    if row["flagged"]:
        sentence = (
            f"Data from the model do not look like yours (p = {row['p_value']:.2g}; {row['kind']})"
            ". The model is wrong in this respect, and the bound does not apply to your data."
        )
        change = "change the model where your data differ; bdmc.consistency(dt) lists where."
        return _Finding("model", "open", sentence, change, row["p_value"])
    sentence = f"Your data do not stand out among simulated ones (p = {row['p_value']:.2g})."
    return _Finding("model", "good", sentence, value=row["p_value"])


def _wide_prior(table: pd.DataFrame) -> Iterator[_Finding]:
    """Say of which observed variables the prior expects far more spread than there is."""
    last = table.xs(table.index.get_level_values("temperatures")[-1], level="temperatures")
    rows = last[last.index.str.startswith(SPREAD)]
    narrow = rows[(rows["value"] <= -STANDS_OUT) & (rows["p_value"] <= ALPHA)]
    for name, row in narrow.iterrows():
        sentence = (
            f"Your prior expects data far more spread than yours: {name} is "
            f"{-row['value']:.2g} standard deviations below that of data from the model."
        )
        yield _Finding("wide prior", None, sentence, value=row["p_value"])


def _given_draws(dt: xr.DataTree) -> Iterator[_Finding]:
    """Check the draws of ``posterior=``, and the reverse runs that start from some of them."""
    found = kept_agreement(dt)
    if found:
        # An open agreement does not leave the verdict open.
        status = None if found.status == "open" else found.status
        lines, remedy = found.text.split("\n"), ""
        if found.too_low:
            status, remedy = "bad", reach_draws(dt)
        elif found.status == "bad":
            remedy = "see where they differ: bdmc.plot_agreement(dt, idata)."
        sentence = " ".join(lines[:1] if found.status == "good" else lines[:-1])
        yield _Finding("draws", status, sentence, remedy, found.too_low)
    sides = both_sides(dt)
    if sides and sides.pvalue <= MAX_CHANCE:
        sentence = (
            "Forward runs and the reverse runs from the draws that you gave disagree: the mean log "
            f"weight is {sides.reverse:.3g}, and forward runs predict {sides.forward:.3g} "
            f"(p = {sides.pvalue:.1g}). One side misses part of the posterior."
        )
        remedy = "use more temperatures or particles; run more chains of that sampler."
        yield _Finding("both sides", "bad", sentence, remedy, sides.pvalue)


def _evidence(dt: xr.DataTree, doubts: list[str]) -> Iterator[_Finding]:
    """Report log ML with its interval and its certified bounds."""
    data = "simulated" if is_system(dt) else "real"
    if data not in [each[0] for each in data_sets(dt)]:
        return
    found = log_ml(dt)
    if not found.valid:
        lower, upper = found.certified_lower, found.certified_upper
        finite = str(dt.attrs.get("finite_variables", ""))
        remedy = doubts[0] if doubts else (f"{sum_out(finite)}." if finite else "")
        yield _Finding("log ML", "open", found.sentence, remedy, lower=lower, upper=upper)
        return
    yield _Finding("log ML", None, found.sentence, "", found.value, found.error, *found.interval)
