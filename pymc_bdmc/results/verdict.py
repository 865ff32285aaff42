"""Judge whether the posterior draws of a run can be trusted, by all checks, and what to do next."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import pandas as pd
import xarray as xr

from pymc_bdmc.base import logger
from pymc_bdmc.base.arguments import check_confidence, check_flags
from pymc_bdmc.results.checks.draws import disagreement, draws
from pymc_bdmc.results.checks.missed import real_weights, two_paths
from pymc_bdmc.results.checks.runs import (
    cut_short,
    dead,
    divergences,
    divergent,
    ends,
    interrupted,
    undefined,
)
from pymc_bdmc.results.checks.total_variation import (
    nothing_simulated,
    simulated_from,
    start,
    too_short,
    total_variation,
)
from pymc_bdmc.results.checks.weights import (
    averages,
    lost_weights,
    opening,
    order,
    passages,
)
from pymc_bdmc.results.consistency import likeness
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy, Status, for_paper, status_html
from pymc_bdmc.results.log_ml import log_ml_finding
from pymc_bdmc.results.reading import Reading, once

type Check = Callable[[Reading], Iterator[Finding]]

_log = logger(__name__)

DOUBTS: list[Check] = [
    cut_short, undefined, lost_weights, disagreement, too_short, averages, dead, divergent,
    opening,
]  # fmt: skip
"""Checks that `diagnose` lists, the gravest first."""

OF_REAL_DATA: list[Check] = [two_paths, divergences, ends, draws]
"""Checks of `verdict` on runs on the real data."""

HEADLINES = {
    "good": (
        "The posterior draws of this run can be trusted, within the limits below.",
        "Draws of this run: good.",
    ),
    "open": (
        "This run does not settle whether its posterior draws can be trusted.",
        "Draws of this run: open. This run does not settle whether you can trust them.",
    ),
    "bad": (
        "Do not rely on the posterior draws of this run: there is evidence of an error.",
        "Draws of this run: bad. There is evidence of an error.",
    ),
    "disagree": (
        "The draws that you gave and those of this run disagree. Do not rely on either until you "
        "know which is wrong.",
        "The draws that you gave and those of this run disagree. Trust neither until you know "
        "which is wrong.",
    ),
    "contradict": (
        "Do not rely on the draws that you gave: their chains contradict each other.",
        "Do not use the draws that you gave: their chains contradict each other.",
    ),
}
"""Answers, and their short forms."""


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
    return [doubt.with_remedy for doubt in doubts_of(dt)]


@once
def doubts_of(read: Reading) -> list[Finding]:
    """Return the doubts about a result, the gravest first."""
    if not read.is_tempering and Reading.annealed(read).is_null:
        return []
    checks = [cut_short, passages] if read.is_tempering else DOUBTS
    return [finding for check in checks for finding in check(read)]


@dataclass(frozen=True, eq=False, repr=False)
class Verdict:
    """Result of `verdict`; it prints as `brief`, and notebooks show its table too.

    Attributes
    ----------
    status : {"good", "open", "bad"}
    brief : str
        The answer in a few short lines: how far the draws can be trusted, log ML, how the model
        fits, and what to do next.
    text : str
        All that was found, in sentences.
    table : DataFrame
        The checks: ``value``, ``error``, the interval from ``lower`` to ``upper``, and ``status``.
        The row ``total variation`` is a probability: its ``value`` is the mean over data sets and
        its ``upper`` the certified upper end. The ``value`` of ``model`` and ``both sides`` is a
        p-value, that of ``divergences`` a share. All other rows are in nats.
    findings : tuple of Finding
        What each check found, with its numbers, for programs: nobody needs to read the text.
    headline : Finding, optional
        The answer.
    remedy : str
        The next thing to do; empty if there is nothing.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), temperatures=400, random_seed=1,
    ...                          progressbar=False)
    >>> bdmc.verdict(dt).table.loc["total variation", "status"]
    'good'
    """

    status: Status
    headline: Finding | None
    findings: tuple[Finding, ...]
    remedy: Remedy
    details: bool = False  # whether it prints as `text`

    @cached_property
    def brief(self) -> str:
        """Return the answer, a short line each."""
        answer = self.headline.brief if self.headline else ""
        found = [
            each.brief or (each.text if each.status in ("open", "bad") else "")
            for each in self.findings
        ]
        return "\n".join(filter(None, [answer, *found, self._next]))

    @property
    def _next(self) -> str:
        return f"Next: {self.remedy}" if self.remedy else ""

    @cached_property
    def text(self) -> str:
        """Return the verdict and what to do next, a finding a line."""
        return "\n".join(filter(None, [*self.sentences(), self._next]))

    @cached_property
    def table(self) -> pd.DataFrame:
        """Return the checks, a row each."""
        columns = ["value", "error", "lower", "upper", "status"]
        rows = {each.name: each._asdict() | {"status": each.status or ""} for each in self.findings}
        table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        return table.rename_axis("check")

    def sentences(self, impersonal: bool = False) -> list[str]:
        """Return the verdict without what to do next, to its reader or for a paper."""
        headline = [self.headline] if self.headline else []
        found = [each.text for each in (*headline, *self.findings) if each.text]
        return list(map(for_paper, found)) if impersonal else found

    def __repr__(self) -> str:
        return self.text if self.details else self.brief

    def _repr_html_(self) -> str:
        return status_html(self.status, repr(self), self.table)


def verdict(
    dt: xr.DataTree, *, confidence: float = 0.95, look: int | None = None, details: bool = False
) -> Verdict:
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
    details : bool, default False
        Whether to print all that was found, in place of the answer alone.

    Returns
    -------
    Verdict
        Its ``status`` is ``"bad"`` if there is evidence of an error, ``"good"`` if the posterior is
        certified to be close and nothing is open, and otherwise ``"open"``: missing proof is no
        evidence of an error.

    Raises
    ------
    ValueError
        For a result of `temper`, a result that lacks a group or a variable, or a confidence that
        does not lie between 0 and 1.

    Notes
    -----
    The checks and their thresholds:

    =====================  ======================================  =====================
    check                  good                                    bad
    =====================  ======================================  =====================
    total variation        certified to be at most 0.25            (else open)
    order of the sides     (no say)                                reverse runs below
                                                                   forward ones, p ≤ 0.001
    start of reverse runs  exact, posterior draw or burned-in      (heuristic is open)
    two paths              (no say)                                runs on another path
                                                                   have a higher log ML
    e-value                (no say)                                above 1000: data were
                                                                   simulated from draws that are
                                                                   not from the posterior
    draws                  `agreement` is good                     it is bad, or it shows a part
                                                                   that the run misses
                                                                   (else no say)
    both sides             (no say)                                p ≤ 0.001
    divergences            at most 20 % of the transitions         (more is open)
    ends of the runs       R̂ of every variable at most 1.7         (more is open)
    shortfall              interval below 0.25 nats                (above it is open)
    model                  p > 0.05, less than 3.5 deviations,     (else open, unless simulated
                           or not tested                           data contain the real ones)
    real weights           (no say)
    log ML                 (no say)                                (open if no estimate
                                                                   can be trusted)
    interruption           none                                    (one is open)
    =====================  ======================================  =====================

    *Total variation*: the largest error of a probability under the distribution of a posterior draw
    of such a run, on average over data sets like the simulated ones
    (`pymc_bdmc.estimators.total_variation`). It is proved for exact starts of the reverse runs. For
    burned-in starts, their distance from the posterior must be added: it is estimated and included
    if runs weight draws, and unknown if they anneal. For posterior draws, it presupposes that these
    are right. *Real weights* is the same of the runs on the real data alone, without a certificate.
    *Shortfall* and *model* say whether the real data are like the simulated ones; see
    `consistency`. The gap of [1]_ is reported without a confidence, since one θ\* in ten may cause
    all of it.

    *Two paths*: averages of runs on any path are unbiased for the same Z and seldom too high, so if
    two differ beyond chance the lower one misses part of the posterior
    (`pymc_bdmc.estimators.refutes`). *Draws*: all draws given by ``posterior=``, compared with the
    run's own (`agreement`). *Both sides*: the mean log weight of reverse runs that start from some
    of these draws, compared with the mean that forward runs predict.

    No number here can show a mode that exists on the real data only and that no run found.

    References
    ----------
    .. [1] Grosse, Ancha and Roy (2016), Measuring the reliability of MCMC inference with
       bidirectional Monte Carlo. https://doi.org/10.48550/arXiv.1606.02275

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
    >>> print(found.brief.splitlines()[0])
    Draws of this run: good.
    """
    check_confidence(confidence)
    check_flags(details=details)
    found = verdict_of(Reading.annealed(dt, "verdict"), confidence, look)
    return replace(found, details=details)


@once
def verdict_of(read: Reading, confidence: float = 0.95, look: int | None = None) -> Verdict:
    """Return the verdict; see `verdict`."""
    findings = tuple(_findings(read, confidence, look))
    errors = {each.name for each in findings if each.status == "bad"}
    is_open = any(each.status == "open" for each in findings)
    status: Status = "bad" if errors else "open" if is_open else "good"
    answer: str = status
    if errors and read.agreement and not read.too_low:
        # Reverse runs start from the draws that were given.
        if read.agreement["contradicts"] and errors <= {"draws", "both sides"}:
            answer = "contradict"
        elif errors == {"draws"}:
            answer = "disagree"
    headline = None
    if read.has("forward") or status == "bad":  # without simulated data only log ML was asked for
        text, brief = HEADLINES[answer]
        headline = Finding("verdict", status, text, brief=brief)
    remedies = {
        each: [found.remedy for found in findings if found.status == each and found.remedy]
        for each in ("bad", "open", None)
    }
    doubts = [  # chains that hardly moved do not change a certificate
        doubt.with_remedy
        for doubt in doubts_of(read)
        if (status, doubt.name) != ("good", "acceptance")
    ]
    remedy = [*remedies["bad"], *remedies["open"], *doubts, *remedies[None], NO_REMEDY][0]
    return Verdict(status, headline, findings, remedy)


def _findings(read: Reading, confidence: float, look: int | None) -> list[Finding]:
    doubts = doubts_of(read)
    log_ml: Check = partial(log_ml_finding, doubts=doubts)
    certified: Check = partial(total_variation, doubts=doubts, confidence=confidence, look=look)
    if read.is_null:
        checks = [log_ml]
    elif not read.has("forward"):
        checks = [log_ml, *OF_REAL_DATA, nothing_simulated]
    else:
        before, after = [start, certified, order, simulated_from], [likeness, real_weights, log_ml]
        checks = [*before, *OF_REAL_DATA, *after]
    return [finding for check in [interrupted, *checks] for finding in check(read)]


def warn(dt: xr.DataTree) -> None:
    """Log the gravest doubts about a result, at most three, and what to do next."""
    try:  # so that no finished run is lost
        read = Reading.of(dt)
        doubts = doubts_of(read)[:3]
        # Results of `temper` have no verdict, and a system may have very many runs to judge.
        step = next((doubt.remedy for doubt in doubts if doubt.remedy), NO_REMEDY)
        if doubts and not (read.is_tempering or read.is_system):
            step = verdict_of(read).remedy
            if [doubt.with_remedy for doubt in doubts] == [step]:  # whose first part is logged
                step = doubts[0].remedy
        lines = [doubt.text for doubt in doubts] + [f"Next: {step}"] * bool(step)
    except Exception:
        _log.exception("The result is complete, but diagnosing it failed.")
        return
    for line in lines:
        _log.warning(line)
