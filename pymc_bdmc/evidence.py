"""Labelled tables of evidence: every estimator on a result, and bounds that certify."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    Comparison,
    certified_bounds,
    certified_lower,
    certified_probability,
    compare_estimators,
    cumulant_forward,
    jarzynski_forward,
    log_prior_mass,
    round_confidence,
)

__all__ = ["certified", "check_result", "data_sets", "evidence"]


def evidence(dt: xr.DataTree, method: str = "all") -> pd.DataFrame:
    """Estimates of log ML by one method or by all, with errors and their validity; nats.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.
    method : str, default "all"
        ``"all"``, or one of ``"bar"``, ``"histogram"``, ``"forward average"``, ``"reverse
        average"``, ``"cumulant forward"``, ``"cumulant reverse"`` and ``"cumulant combined"``.
        On the real data there are no reverse chains, hence only the forward methods.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset, method). Columns: ``value``; ``error``, one standard error;
        ``valid``, whether the method's own check holds; ``recommended``, true for the method to
        use on that data set; ``reason``, what the checks found. Where part of the prior makes
        the data impossible, value and error include log P(ℓ > −∞).

    Raises
    ------
    ValueError
        For a method that is unknown or that needs chains that were not run.

    Notes
    -----
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
    rows = {}
    for data, dataset, forward, reverse, n_draws in data_sets(dt):
        found = _forward_only(forward) if reverse is None else compare_estimators(forward, reverse)
        mass = log_prior_mass(n_draws)
        for name, estimate in found.estimates.items():
            recommended = name == found.recommended
            rows[data, dataset, name] = {
                "value": estimate.value + mass.estimate,
                "error": float(np.hypot(estimate.error, mass.error)),
                "valid": estimate.valid,
                "recommended": recommended,
                "reason": found.reason if recommended else estimate.reason,
            }
    names = list(dict.fromkeys(name for *_, name in rows))
    if method != "all":
        rows = {key: row for key, row in rows.items() if key[2] == method}
        if not rows:
            raise ValueError(f"method: {method!r} is not among {[*names, 'all']} for this result.")
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "dataset", "method"])
    return table


def certified(dt: xr.DataTree, confidence: float = 0.95) -> pd.DataFrame:
    """Bounds on log ML that hold with a stated probability for any number of chains; nats.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.
    confidence : float, default 0.95
        Of each data set's interval; its failure probability is split over the sides, and over
        log P(ℓ > −∞) where part of the prior makes the data impossible.

    Returns
    -------
    DataFrame
        Indexed by (data, dataset). Columns ``lower``, ``upper``, ``confidence`` and ``kind``.
        Only where θ* comes from the joint distribution is there an upper side; on the real data
        never.

    Raises
    ------
    ValueError
        If the confidence does not lie between 0 and 1.

    Notes
    -----
    Chains that finish before an interruption are no random sample, so where some did not there are
    no bounds.

    Whether any draw from the prior makes the data impossible is seen in the run, so either case has
    one half of the failure probability. Without such a draw the K starts are K draws from the whole
    prior, and the bound from their weights is one on Z itself. With some, that half is split
    evenly over the bounds on Z/P(ℓ > −∞) and those on P(ℓ > −∞).

    A run with a ``target_gap`` stops by looking at its gap: round r has the share 2^−r of the
    failure probability, so that the bounds of whichever round is the last hold.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights, draws = ("chain", np.zeros(64)), ("chain", np.ones(64))
    >>> real = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> table = bdmc.certified(xr.DataTree.from_dict(dict(real=real)))
    >>> round(float(table.loc[("real", 0), "lower"]), 3)
    -0.079
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    exact = dt.attrs.get("upper_bound") == "exact"
    rounds = dt.attrs.get("rounds", 0)
    failure = 1 - (round_confidence(confidence, rounds) if rounds else confidence)
    rows = {}
    for data, dataset, forward, reverse, n_draws in data_sets(dt):
        if _is_cut_short(dt, data, dataset):
            bounds = {"lower": -np.inf, "upper": np.inf, "kind": "none: interrupted"}
            rows[data, dataset] = bounds | {"confidence": confidence}
            continue
        rejected = n_draws.sum() > n_draws.size
        level = 1 - failure / (4 if rejected else 2)
        if reverse is not None and exact:
            bounds = certified_bounds(forward, reverse, level)
        else:
            bounds = certified_lower(forward, level, kind="order statistics")
        lower, upper = bounds.lower, bounds.upper
        if rejected:
            mass = certified_probability(int(n_draws.sum()), n_draws.size, level)
            lower, upper = lower + mass.lower, upper + mass.upper
        rows[data, dataset] = {
            "lower": lower,
            "upper": upper,
            "confidence": confidence,
            "kind": bounds.kind,
        }
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["lower", "upper", "confidence", "kind"]
    )
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "dataset"])
    return table


def check_result(dt: xr.DataTree) -> None:
    """Refuse what does not hold annealed chains."""
    if not {"forward", "real"} & set(getattr(dt, "children", ())):
        raise ValueError(
            "dt: it has neither group 'forward' nor 'real'; a result of sample_bdmc or of "
            "lattice.anneal is needed."
        )


def data_sets(dt: xr.DataTree) -> Iterator[tuple]:
    """(data, dataset, forward, reverse or None, prior draws) of the chains that were finished."""
    check_result(dt)
    if "forward" in dt.children:
        rows = (dt[g]["log_weight"].values for g in ("forward", "reverse"))
        draws = dt["forward"]["prior_draws"].values
        for dataset, (forward, reverse, n_draws) in enumerate(zip(*rows, draws, strict=True)):
            found = [_finished(row) for row in (forward, reverse, n_draws)]
            if all(row.size for row in found):
                yield "simulated", dataset, *found
    if "real" in dt.children:
        forward, n_draws = (dt["real"][name].values for name in ("log_weight", "prior_draws"))
        if _finished(forward).size:
            yield "real", 0, _finished(forward), None, _finished(n_draws)


def _is_cut_short(dt: xr.DataTree, data: str, dataset: int) -> bool:
    groups = ("real",) if data == "real" else ("forward", "reverse")
    return bool(dt.attrs.get("interrupted")) and any(
        np.isnan(np.atleast_2d(dt[group]["log_weight"].values)[dataset]).any() for group in groups
    )


def _finished(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def _forward_only(forward: np.ndarray) -> Comparison:
    """Estimates that need no reverse chains; the average unless only the cumulants are valid."""
    estimates = {e.method: e for e in (jarzynski_forward(forward), cumulant_forward(forward))}
    valid = [e for e in estimates.values() if e.valid]
    if not valid:
        return Comparison(estimates, None, "no estimator's check holds")
    reason = f"its check holds: {valid[0].reason}; no reverse chains to confirm it"
    return Comparison(estimates, valid[0].method, reason)
