"""What a result says: the table of bounds and evidence, and what to doubt in it."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.estimators import (
    clustered_mean,
    jarzynski_forward,
    jarzynski_reverse,
    jeffreys_bound,
    log_prior_mass,
)
from pymc_bdmc.results.certified import certified
from pymc_bdmc.results.diagnose import diagnose
from pymc_bdmc.results.groups import check_result

__all__ = ["summary"]


def summary(dt: xr.DataTree) -> pd.DataFrame:
    """Bounds on log ML, the Jeffreys bound and the evidence, each with an error; nats.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.

    Returns
    -------
    DataFrame
        Indexed by (data, quantity). Columns: ``value``; ``error``, one standard error, for
        simulated data clustered by data set (with one data set: conditional on it); quartiles
        ``q25``, ``median``, ``q75`` over chains (over data sets for the gap); ``kind``, what the
        value is. What to doubt is in ``attrs["warnings"]``; see `diagnose`.

        For each of ``simulated`` and ``real``: ``lower bound`` ⟨log w⟩_f; ``evidence``, log of
        the averaged weights; ``certified lower``, a bound that holds with 95 % probability for
        any number of chains (`certified`). For ``simulated`` also ``upper bound`` ⟨log w⟩_r,
        ``jeffreys bound`` (their gap), ``ideal gap`` (what it would be with perfect mixing),
        ``evidence, reverse`` and ``certified upper``. The start
        of the reverse chains, on which the upper bound rests, is ``exact`` (θ* from the joint
        distribution), ``burned-in`` (from fitted hyperparameters) or ``heuristic`` (from some
        sampler on the real data).

    Notes
    -----
    The mean of the logs bounds, the log of the mean estimates. Where part of the prior makes the
    data impossible, bounds and evidence include log P(ℓ > −∞).

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> log_weight = ("chain", np.array([-1.0, -1.1, -0.9]))
    >>> real = xr.Dataset(dict(log_weight=log_weight, prior_draws=("chain", np.ones(3))))
    >>> table = bdmc.summary(xr.DataTree.from_dict(dict(real=real)))
    >>> round(float(table.loc[("real", "lower bound"), "error"]), 3)
    0.058
    """
    check_result(dt)
    rows: dict[tuple[str, str], dict] = {}
    if "forward" in dt.children:
        forward, reverse = (dt[group]["log_weight"].values for group in ("forward", "reverse"))
        masses = [log_prior_mass(draws) for draws in dt["forward"]["prior_draws"].values]
        lower, upper, error = (np.array(column)[:, None] for column in zip(*masses, strict=True))
        status = dt.attrs["upper_bound"]
        rows["simulated", "lower bound"] = _bound(forward + lower, error, "mean log weight")
        rows["simulated", "upper bound"] = _bound(
            reverse + upper, error, f"mean log weight, {status} start"
        )
        value, error = jeffreys_bound(forward, reverse)
        gaps = np.subtract(*([clustered_mean(row)[0] for row in run] for run in (reverse, forward)))
        rows["simulated", "jeffreys bound"] = {
            "value": value,
            "error": error,
            **(_quartiles(gaps) if len(gaps) > 1 else {}),
            "kind": f"mean gap, {status} start",
        }
        if "thermodynamic_length" in dt["forward"]:
            rows["simulated", "ideal gap"] = _ideal_gap(dt["forward"].dataset)
        rows["simulated", "evidence"] = _evidence(jarzynski_forward, forward, masses)
        reverse_row = _evidence(jarzynski_reverse, reverse, masses)
        reverse_row["kind"] += ", error given their start"
        rows["simulated", "evidence, reverse"] = reverse_row
    if "real" in dt.children:
        real = dt["real"]["log_weight"].values[None]
        mass = log_prior_mass(dt["real"]["prior_draws"].values)
        rows["real", "lower bound"] = _bound(real + mass.lower, mass.error, "mean log weight")
        rows["real", "evidence"] = _evidence(jarzynski_forward, real, [mass])
    rows |= _certified_rows(dt)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "quantity"])
    table = table[["value", "error", "q25", "median", "q75", "kind"]]
    table = table.sort_index(level="data", ascending=False, sort_remaining=False)
    table.attrs["warnings"] = diagnose(dt)
    return table


def _ideal_gap(run: xr.Dataset) -> dict:
    """What the gap would be if every transition forgot the last state, on the best schedule."""
    lengths, n = run["thermodynamic_length"].values, run.sizes["beta"] - 1
    return {
        "value": float(np.mean(lengths**2) / n),
        "kind": f"Λ²/T, perfect mixing; Λ = {np.mean(lengths):.3g} nats^½, from the pilot",
    }


def _certified_rows(dt: xr.DataTree) -> dict[tuple[str, str], dict]:
    """Certified bounds, of the simulated data only if they are a single set."""
    rows = {}
    for (data, _), row in certified(dt).iterrows():
        if data == "real" or dt["forward"].sizes["dataset"] == 1:
            for side in ("lower", "upper"):
                if np.isfinite(row[side]):
                    kind = f"holds with {row['confidence']:.0%}, any number of chains"
                    rows[data, f"certified {side}"] = {"value": row[side], "kind": kind}
    return rows


def _bound(log_weights: np.ndarray, mass_error, kind: str) -> dict:
    value, error = clustered_mean(log_weights)
    if len(log_weights) == 1:  # else the spread over data sets contains it already
        error = float(np.hypot(error, np.mean(mass_error)))
    return {"value": value, "error": error, **_quartiles(log_weights), "kind": kind}


def _quartiles(values: np.ndarray) -> dict:
    finished = values[~np.isnan(values)]
    if not finished.size:
        return {}
    # Only values that occurred: between −∞ and a finite one there is nothing to interpolate.
    low, middle, high = np.quantile(finished, [0.25, 0.5, 0.75], method="nearest")
    return {"q25": low, "median": middle, "q75": high}


def _evidence(estimator, log_weights: np.ndarray, masses) -> dict:
    """Mean over data sets of log P̂(S) + log Ẑ; its error is that of the estimates."""
    values, errors = [], []
    for row, mass in zip(log_weights, masses, strict=True):
        finished = row[~np.isnan(row)]
        if finished.size:
            estimate = estimator(finished)
            values.append(estimate.value + mass.estimate)
            errors.append(np.hypot(estimate.error, mass.error))
    n = len(values)
    return {
        "value": float(np.mean(values)) if n else np.nan,
        "error": float(np.linalg.norm(errors) / n) if n else np.nan,
        "kind": "averaged weights" + (f", mean of {n} data sets" if n > 1 else ""),
    }
