"""Estimate the evidence of a result by every estimator, in a labelled table."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    ESTIMATORS,
    Comparison,
    Estimate,
    compare_estimators,
    log_prior_mass,
    refutes,
)
from pymc_bdmc.results.groups import (
    data_sets,
    is_null,
    is_simulated_tempering,
    log_ml_too_low,
    real_log_weights,
    start_of_reverse,
)
from pymc_bdmc.results.missed import short_on_simulated, sign_of_a_miss, simulated_pairs
from pymc_bdmc.results.simulated_tempering import simulated_tempering_estimates

__all__ = ["annealed_estimates", "evidence", "refuting_path"]

MAX_SHORTFALL = 1.0
"""Largest shortfall of valid forward averages on simulated data (root mean square), in nats."""


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
        Columns: ``value``; ``error``, one standard error (for forward methods on the real data, the
        shortfall of such averages on simulated data is added in quadrature); ``valid``, whether the
        method's own check holds and nothing contradicts it (on the real data: runs on another path,
        simulated data or, without these, signs that all runs miss the same part of the posterior);
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
    if is_simulated_tempering(dt):
        rows, names = _simulated_tempering(dt, method)
    else:
        rows = annealed_estimates(dt)
        if not rows:
            raise ValueError("dt: no data set has a finished chain in each of its directions.")
        names = list(dict.fromkeys(name for *_, name in rows))
    if method != "all":
        rows = {key: row for key, row in rows.items() if key[2] == method}
        if not rows:
            raise ValueError(f"method: {method!r} is not among {[*names, 'all']} for this result.")
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "dataset", "method"])
    return table


def _simulated_tempering(dt: xr.DataTree, method: str) -> tuple[dict, list[str]]:
    """Return the rows of the requested methods of `temper`, and the names of all methods."""
    found, names = simulated_tempering_estimates(dt, method)
    rows = {
        ("tempering", 0, name): {
            "value": estimate.value,
            "error": estimate.error,
            "valid": estimate.valid,
            "recommended": estimate.valid and name == "RTS",
            "reason": estimate.reason,
        }
        for name, estimate in found.items()
    }
    return rows, names


def annealed_estimates(dt: xr.DataTree, of: str = "") -> dict[tuple[str, int, str], dict]:
    """Return the rows of `evidence` by (data, dataset, method), where chains are finished.

    Parameters
    ----------
    dt : DataTree
    of : {"", "real", "simulated"}
        Kind of data; empty for both.
    """
    rows, short = {}, short_on_simulated(dt)
    sign = "" if simulated_pairs(dt) else sign_of_a_miss(dt)
    for data, dataset, forward, reverse, n_draws in data_sets(dt):
        if of not in ("", data):
            continue
        if is_null(dt):
            found = _log_density(forward[0])
        elif reverse is None:
            found = _forward_only(forward)
        else:
            found = compare_estimators(forward, reverse)
        mass, status = log_prior_mass(n_draws), start_of_reverse(dt, data)
        other = refuting_path(dt) if data == "real" else ""
        bar_is_valid = reverse is not None and found.estimates["bar"].valid
        for name, estimate in found.estimates.items():
            needs = ESTIMATORS[name].needs
            alone = data == "real" and "reverse" not in needs
            doubt = sign if alone else ""
            if other:
                doubt = f"runs on path {other!r} give a higher log ML, beyond chance"
            if data == "real" and (lost := log_ml_too_low(dt)):
                doubt = f"the draws that you gave show it to be too low by {lost:.2g} nats or more"
            missed = short if alone else 0.0
            if status == "heuristic" and needs == ("reverse",) and not bar_is_valid:
                doubt = "reverse runs start from draws that forward runs do not confirm"
            if missed > MAX_SHORTFALL:
                doubt = f"on simulated data such averages are too low by about {missed:.2g} nats"
            recommended = name == found.recommended and not doubt
            reason = found.reason if recommended else estimate.reason
            if doubt:
                reason = f"{doubt}; {reason}"
            if status != "exact" and "reverse" in needs:
                reason += f"; reverse chains from a {status} start"
            rows[data, dataset, name] = {
                "value": estimate.value + mass.estimate,
                "error": float(np.linalg.norm([estimate.error, mass.error, missed])),
                "valid": estimate.valid and not doubt,
                "recommended": recommended,
                "reason": reason,
            }
    return rows


def refuting_path(dt: xr.DataTree, confidence: float = 0.998) -> str:
    """Return the name of the path whose scouts refute the runs on the real data, if any.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`. If the call chose the path, the group ``scouts`` has the log
        weights of a few runs on each path.
    confidence : float
        Confidence of `pymc_bdmc.estimators.refutes`.
    """
    runs = real_log_weights(dt)
    if not runs.size or "scouts" not in dt.children:
        return ""
    scouts = dt["scouts"].dataset["log_weight"]
    others = [str(path) for path in scouts["path"].values if path != dt.attrs["path"]]
    found = [path for path in others if refutes(scouts.sel(path=path).values, runs, confidence)]
    return found[0] if found else ""


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
