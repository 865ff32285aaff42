"""Estimate the evidence of a result by every estimator, in a labelled table."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import ESTIMATORS, Comparison, Estimate, compare_estimators
from pymc_bdmc.results.checks.integrity import undefined_near
from pymc_bdmc.results.checks.missed import refuting_path, short_on_simulated, sign_of_a_miss
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, DataSet
from pymc_bdmc.results.simulated_tempering import METHODS, simulated_tempering_estimates
from pymc_bdmc.results.table import Table

COLUMNS = ["value", "error", "valid", "recommended", "reason"]

MAX_SHORTFALL = 1.0
"""Nats that runs on data like the simulated ones may miss at most (root mean square)."""


def evidence(dt: xr.DataTree, method: str = "all") -> pd.DataFrame:
    """Estimate log ML by one method or by all, with errors and checks; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.
    method : str, default "all"
        ``"all"``, or a name in `pymc_bdmc.estimators.ESTIMATORS`: ``"bar"``, ``"histogram"``,
        ``"forward average"``, ``"reverse average"``, ``"cumulant forward"``, ``"cumulant reverse"``
        or ``"cumulant combined"``. The real data have the forward methods only, unless reverse
        chains started from ``posterior`` draws; methods that use these are heuristic. For `temper`:
        ``"RTS"``, ``"sequential likelihood"`` (which uses the initial iterations too), ``"TI
        riemann"``, ``"TI trapezoid"``, ``"TI corrected"``, the same three as ``"TI-RB …"``, or
        ``"MBAR"``; without pymbar, ``"all"`` leaves the last one out.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset, method), with the data ``simulated``, ``real`` or ``tempering``.
        Columns: ``value``; ``error``, one standard error (for forward methods on the real data,
        what all runs may miss if these are like the simulated data is added in quadrature);
        ``valid``, whether the method's own check holds and nothing contradicts it (on the real
        data: runs on another path, simulated data or, without these, signs that all runs miss the
        same part of the posterior);
        ``recommended``, true for the method to use on that data set;
        ``reason``, what the checks found, and the kind of start of reverse chains that is not
        exact. If part of the prior makes the data impossible, value and error include log P(ℓ >
        −∞).

    Raises
    ------
    ValueError
        For a method that is unknown or that needs chains that were not run, or a result that lacks
        a group or a variable.
    ImportError
        For MBAR without pymbar.

    Notes
    -----
    No method of `temper` is valid if all chains together went from one end of the ladder to the
    other less than 10 times. RTS is recommended where it is valid.

    Reverse chains of one data set share their start θ*, but errors treat the chains as independent.
    These errors are right if the chains forget θ*, and conditional on θ* if the kernels mix too
    slowly for that. No check on a single data set can detect this; several data sets can, since
    their rows are independent and `summary` clusters its errors by data set.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> groups = {}
    >>> for name, mean in [("forward", -0.5), ("reverse", 0.5)]:
    ...     weights = ("dataset", "chain"), rng.normal(mean, 1, (1, 100))
    ...     draws = ("dataset", "chain"), np.ones((1, 100))
    ...     groups[name] = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> table = bdmc.evidence(xr.DataTree.from_dict(groups), "bar")
    >>> table["valid"].tolist()
    [True]
    """
    return Table.of(evidence_of(Reading.of(dt), method))


@once
def evidence_of(read: Reading, method: str = "all") -> pd.DataFrame:
    """Return the table of `evidence`."""
    if read.is_tempering:
        rows, names = tempering_rows(read, method), list(METHODS)
    else:
        rows = {key: row for data in SIDES for key, row in estimates_of(read, data).items()}
        if not rows:
            raise ValueError("dt: no data set has a finished chain in each of its directions.")
        names = list(dict.fromkeys(name for *_, name in rows))
    if method != "all":
        rows = {key: row for key, row in rows.items() if key[2] == method}
        if not rows:
            raise ValueError(f"method: {method!r} is not among {[*names, 'all']} for this result.")
    table = pd.DataFrame(list(rows.values()), list(rows))[COLUMNS]
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "dataset", "method"])
    return table


@dataclass(frozen=True)
class Listed(Estimate):
    """A row of `evidence`."""

    recommended: bool


type Rows = dict[tuple[str, int, str], Listed]


@once
def tempering_rows(read: Reading, method: str) -> Rows:
    """Return the rows of `evidence` of a result of `temper`."""
    return {
        ("tempering", 0, name): Listed(**vars(each), recommended=each.valid and name == "RTS")
        for name, each in simulated_tempering_estimates(read, method).items()
    }


@once
def estimates_of(read: Reading, data: str) -> Rows:
    """Return the rows of `evidence` on one kind of data by (data, dataset, method)."""
    return {key: row for each in read.sets_of(data) for key, row in _rows(read, each).items()}


def _rows(read: Reading, each: DataSet) -> Rows:
    """Return the rows of one data set."""
    if read.is_null:
        found = _log_density(each.forward[0])
    elif not each.reverse.size:
        found = _forward_only(each.forward)
    else:
        found = compare_estimators(each.forward, each.reverse)
    mass, status = each.mass, read.start(each.data)
    bar_is_valid = each.reverse.size > 0 and found.estimates["bar"].valid
    rows = {}
    for name, estimate in found.estimates.items():
        needs = ESTIMATORS[name].needs
        missed = short_on_simulated(read) if _is_alone(each, name) else 0.0
        doubt = _doubt(read, each, name)
        if status == "heuristic" and needs == ("reverse",) and not bar_is_valid:
            doubt = "reverse runs start from draws that forward runs do not confirm"
        if missed > MAX_SHORTFALL:
            doubt = (
                "if the data are like the simulated ones, such averages are too low by about "
                f"{missed:.2g} nats"
            )
        recommended = name == found.recommended and not doubt
        reason = found.reason if recommended else estimate.reason
        if doubt:
            reason = f"{doubt}; {reason}"
        if status != "exact" and "reverse" in needs:
            reason += f"; reverse chains from a {status} start"
        error = float(np.linalg.norm([estimate.error, mass.error, missed]))
        rows[each.data, each.dataset, name] = Listed(
            estimate.value + mass.estimate, error, name, estimate.valid and not doubt, reason,
            recommended,
        )  # fmt: skip
    return rows


def _is_alone(each: DataSet, name: str) -> bool:
    """Return whether an estimate uses forward runs on the real data only."""
    return each.data == "real" and "reverse" not in ESTIMATORS[name].needs


def _doubt(read: Reading, each: DataSet, name: str) -> str:
    """Return what contradicts an estimate of log ML of the real data."""
    if each.data != "real":
        return ""
    if near := undefined_near(read):
        return near
    if read.too_low:
        return f"given draws show it to be too low by {read.too_low:.2g} nats or more"
    if path := refuting_path(read):
        return f"runs on path {path!r} give a higher log ML, beyond chance"
    if read.doubt:
        return f"runs start at a fit, and {read.doubt}"
    return sign_of_a_miss(read) if _is_alone(each, name) else ""


@once
def recommended_log_ml(read: Reading, data: str = "real") -> Estimate:
    """Return the estimate of log ML that `evidence` recommends on the first data set, nats.

    If no method can be trusted, it is the forward average, and not valid. Its ``method`` tells.

    Raises
    ------
    ValueError
        If no run was finished.
    """
    rows = [row for key, row in estimates_of(read, data).items() if key[1] == 0]
    if not rows:
        raise ValueError("dt: it has no finished runs on the real data, whose log ML this is.")
    best = next((row for row in rows if row.recommended), None)
    average = next(row for row in rows if row.method == "forward average")
    return best or replace(average, valid=False)


def _log_density(value: float) -> Comparison:
    """Return log ML of a model without free variables."""
    reason = "the log density of a model without free variables"
    exact = Estimate(float(value), 0.0, "forward average", True, reason)
    return Comparison({exact.method: exact}, exact.method, reason)


def _forward_only(forward: np.ndarray) -> Comparison:
    """Compare estimates without reverse chains; recommend the average if it is valid."""
    estimates = {
        name: each.estimate(forward=forward)
        for name, each in ESTIMATORS.items()
        if each.needs == ("forward",)
    }
    valid = [e for e in estimates.values() if e.valid]
    if not valid:
        return Comparison(estimates, None, "no estimator's check holds")
    reason = f"its check holds: {valid[0].reason}; no reverse chains to confirm it"
    return Comparison(estimates, valid[0].method, reason)
