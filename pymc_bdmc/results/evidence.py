"""Labelled tables of evidence: every estimator on a result."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    ESTIMATORS,
    Comparison,
    compare_estimators,
    log_mean_exp,
    log_prior_mass,
    refutes,
    total_variation,
)
from pymc_bdmc.results.groups import (
    by_data_set,
    data_sets,
    is_simulated_tempering,
    start_of_reverse,
)
from pymc_bdmc.results.simulated_tempering import simulated_tempering_estimates

__all__ = ["annealed_estimates", "evidence", "refuting_path"]

FEWEST_TO_JUDGE = 5
"""Simulated data sets, whose mean tells what share of a posterior forward runs miss."""
MOST_SHORT = 30.0
"""Nats of shortfall that count of one data set: it can be infinite by rounding."""
MAX_SHORTFALL = 1.0
"""Nats that forward averages may miss on simulated data (root mean square) and be valid."""


def evidence(dt: xr.DataTree, method: str = "all") -> pd.DataFrame:
    """Estimates of log ML by one method or by all, with errors and their validity; nats.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`, `lattice.anneal` or `temper`.
    method : str, default "all"
        ``"all"``, or a name in `pymc_bdmc.estimators.ESTIMATORS`: ``"bar"``, ``"histogram"``,
        ``"forward average"``, ``"reverse average"``, ``"cumulant forward"``, ``"cumulant reverse"``
        or ``"cumulant combined"``.
        On the real data only the forward methods, unless reverse chains started from ``posterior``
        draws; what rests on these is heuristic. Of `temper`:
        ``"RTS"``, ``"sequential likelihood"`` (which uses the initial iterations too), ``"TI
        riemann"``, ``"TI trapezoid"``, ``"TI corrected"``, the same three as ``"TI-RB …"``, or
        ``"MBAR"``, which needs pymbar and is left out of ``"all"`` without it.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset, method), with the data ``simulated``, ``real`` or ``tempering``.
        Columns: ``value``; ``error``, one standard error, which for forward methods on the real
        data contains in quadrature what such averages miss on simulated data; ``valid``, whether
        the method's own check holds; ``recommended``, true for the method to use on that data
        set; ``reason``, what the checks found, and where reverse chains start that are no exact
        posterior samples. Where part of the prior makes the data impossible, value and error
        include log P(ℓ > −∞).

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

    Reverse chains of one data set share their start θ*. Errors that use them count the chains as
    independent, so they are right where the chains forget θ*, and conditional on it where the
    kernels mix too slowly for that; no check on a single data set can see this. Several data sets
    do: their rows are independent of one another, and the errors in `summary` are clustered.

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
    """Rows of the methods asked for, and the names of all."""
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


def annealed_estimates(dt: xr.DataTree) -> dict[tuple[str, int, str], dict]:
    """Rows of `evidence` by (data, dataset, method), of data sets with chains that finished."""
    rows, short = {}, short_on_simulated(dt)
    for data, dataset, forward, reverse, n_draws in data_sets(dt):
        found = _forward_only(forward) if reverse is None else compare_estimators(forward, reverse)
        mass, status = log_prior_mass(n_draws), start_of_reverse(dt, data)
        other = refuting_path(dt) if data == "real" else ""
        bar_is_valid = reverse is not None and found.estimates["bar"].valid
        for name, estimate in found.estimates.items():
            doubt = f"runs on path {other!r} come to more, beyond chance" if other else ""
            needs = ESTIMATORS[name].needs
            missed = short if data == "real" and "reverse" not in needs else 0.0
            if status == "heuristic" and needs == ("reverse",) and not bar_is_valid:
                doubt = "reverse runs start from draws that forward runs do not confirm"
            if missed > MAX_SHORTFALL:
                doubt = f"on simulated data such averages miss some {missed:.2g} nats"
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


def short_on_simulated(dt: xr.DataTree) -> float:
    """Return the root mean square by which forward averages may miss log Z on simulated data; nats.

    Reverse runs show what forward ones miss, however well the weights of these agree. On one data
    set the mean of (1 − Ẑ/w)₊ over reverse runs, less that of (1 − w/Ẑ)₊ over forward runs with Ẑ
    from the others, estimates the share s of the posterior that forward runs do not come to. With
    the true Z in place of Ẑ, both means are the same where they come to all of it, by Crooks'
    relation. So Ẑ is too low by −log(1 − s). The real data are one more such set, as far as they
    are like the simulated ones, and this shortfall adds its mean square to the variance of their
    log ML. Squares keep the sign of s, so that part of the noise cancels. What is left of it widens
    the error: with three runs a direction and nothing missed, by about 0.17 nats where log weights
    have a standard deviation of 0.5, and by 0.4 where it is 1.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.

    Returns
    -------
    float
        Nats, at least 0; also 0 with fewer than `FEWEST_TO_JUDGE` simulated data sets.
    """
    pairs = [(each[2], each[3]) for each in data_sets(dt) if each[0] == "simulated"]
    if len(pairs) < FEWEST_TO_JUDGE or min(pair[0].size for pair in pairs) < 2:
        return 0.0
    missed = np.array(
        [total_variation(f[None], r[None], islands=1).value - _spread_alone(f) for f, r in pairs]
    )
    with np.errstate(divide="ignore"):
        shortfall = np.minimum(-np.log1p(-np.minimum(missed, 1.0)), MOST_SHORT)
    return float(np.sqrt(max(0.0, np.mean(np.sign(missed) * shortfall**2))))


def _spread_alone(forward: np.ndarray) -> float:
    """Mean of (1 − w/Ẑ)₊ over forward runs, each with Ẑ from the others."""
    others = [log_mean_exp(np.delete(forward, k)) for k in range(len(forward))]
    with np.errstate(invalid="ignore"):  # where every weight is zero, nothing is known
        return float(np.mean(np.nan_to_num(-np.expm1(np.minimum(forward - others, 0.0)))))


def refuting_path(dt: xr.DataTree, confidence: float = 0.998) -> str:
    """Return the name of the path whose scouts refute the runs on the real data, if any.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`. Where it chose the path itself, the group ``scouts`` has the log weights
        of a few runs on either path.
    confidence : float
        Of `pymc_bdmc.estimators.refutes`.
    """
    if not {"scouts", "real"} <= set(dt.children):
        return ""
    runs = by_data_set(dt, "real", "log_weight")[0]
    draws = by_data_set(dt, "real", "prior_draws")[0]
    runs, draws = runs[~np.isnan(runs)], draws[~np.isnan(draws)]
    if not runs.size:
        return ""
    runs = runs + log_prior_mass(draws).estimate
    scouts = dt["scouts"].dataset["log_weight"]
    others = [str(path) for path in scouts["path"].values if path != dt.attrs["path"]]
    found = [path for path in others if refutes(scouts.sel(path=path).values, runs, confidence)]
    return found[0] if found else ""


def _forward_only(forward: np.ndarray) -> Comparison:
    """Estimates that need no reverse chains; the average unless only the cumulants are valid."""
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
