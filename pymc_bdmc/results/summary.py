"""Summarise a result: the table of bounds and evidence, and the doubts about it."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.estimators import (
    TailCheck,
    TotalVariation,
    clustered_mean,
    clustered_median,
    jeffreys_bound,
    log_prior_mass,
)
from pymc_bdmc.results.certified import certified, certified_total_variation
from pymc_bdmc.results.consistency import half_interval
from pymc_bdmc.results.diagnose import MAX_CHANCE, diagnose
from pymc_bdmc.results.evidence import annealed_estimates, evidence
from pymc_bdmc.results.groups import (
    SIDES,
    attribute,
    by_data_set,
    check_result,
    is_simulated_tempering,
    mean_of_logs,
)

__all__ = ["independent_gaps", "summary"]

COLUMNS = ["value", "error", "q25", "median", "q75", "valid", "kind"]

RESOLVED = TailCheck(np.nan, True, True, "")

HEURISTIC = "heuristic start"
"""Start of reverse chains that do not give an upper bound."""


def summary(dt: xr.DataTree) -> pd.DataFrame:
    """Summarise the bounds on log ML, the Jeffreys bound and the evidence, with errors; nats.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`, `lattice.anneal` or `temper`.

    Returns
    -------
    DataFrame
        Indexed by (data, quantity). Columns: ``value``; ``error``, one standard error, for
        simulated data clustered by data set (with one data set: conditional on it); quartiles
        ``q25``, ``median``, ``q75`` over chains; ``valid``, false if the value is not what its name
        says or if its error cannot be trusted; ``kind``, how the value was found, and why it is not
        valid. The doubts are in ``attrs["warnings"]``; see `diagnose`.

        For each of ``simulated`` and ``real``: ``lower bound`` ⟨log w⟩_f; ``evidence``, log of the
        averaged weights; ``certified lower``, a bound that holds with 95 % probability for any
        number of chains (`certified`). For ``simulated`` also ``upper bound`` ⟨log w⟩_r, ``jeffreys
        bound`` (their gap), ``total variation`` (the largest error of a probability, with its
        certified upper end in ``kind``), ``ideal gap`` (the gap under perfect mixing, by the
        pilot; not valid if that of the runs is significantly smaller, p ≤ 0.001) and, with one
        data set, ``evidence, reverse`` and ``certified upper``; for ``real`` with ``posterior``
        draws also ``upper bound``, ``jeffreys bound``, ``evidence, reverse`` and ``evidence, both``
        (by BAR). The start of the reverse chains, on which the upper bound rests, is ``exact`` (θ*
        from the joint distribution), ``burned-in`` (from fitted hyperparameters) or ``heuristic``
        (from some sampler on the real data). For ``tempering``: ``evidence`` by RTS.

    Raises
    ------
    ValueError
        If the result lacks a group, a variable or an attribute; the message names it.

    Notes
    -----
    The mean of the log weights gives a bound; the log of the mean weight gives an estimate. If part
    of the prior makes the data impossible, bounds and evidence include log P(ℓ > −∞).

    If ℓ of draws from the start of the path has no mean, the log weights of runs have none either:
    their expectation is −∞ and the expected gap ∞, whatever the sample mean is. If ℓ has no
    variance, the sample mean has no error. In both cases certified bounds come first in the table,
    the lower bound is the median, which is below log ML + log 2 by Markov's inequality, and the gap
    is that of the medians.

    In the row of the gap, ``median`` is the gap of the medians of the two directions; with several
    data sets, the median of these gaps, between their quartiles. The error of an evidence is left
    out if its check fails.

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
    rows = _simulated_tempering_rows(dt) if is_simulated_tempering(dt) else _annealed_rows(dt)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)
    table.index = pd.MultiIndex.from_tuples(table.index, names=["data", "quantity"])
    table = table.sort_index(level="data", sort_remaining=False)
    table.attrs["warnings"] = diagnose(dt)
    return table


def _simulated_tempering_rows(dt: xr.DataTree) -> dict[tuple[str, str], dict]:
    row = evidence(dt, "RTS").iloc[0]
    return {("tempering", "evidence"): _withheld(row["value"], row["error"], row, "RTS")}


def _annealed_rows(dt: xr.DataTree) -> dict[tuple[str, str], dict]:
    check_result(dt)
    rows: dict[tuple[str, str], dict] = {}
    tails = {}
    for data, groups in SIDES.items():
        if groups[0] in dt.children:
            tails[data] = mean_of_logs(dt, groups[0])
            rows |= _sandwich(dt, data, tails[data])
    certain = _certified_rows(dt)
    lead = {key: row for key, row in certain.items() if not tails[key[0]].resolved}
    return lead | rows | certain


def _sandwich(dt: xr.DataTree, data: str, tail: TailCheck) -> dict[tuple[str, str], dict]:
    """Return the rows of one kind of data; the real data may have no reverse runs."""
    forward_group, reverse_group = SIDES[data]
    forward = by_data_set(dt, forward_group, "log_weight")
    masses = [log_prior_mass(row) for row in by_data_set(dt, forward_group, "prior_draws")]
    lower, upper, error = (np.array(column)[:, None] for column in zip(*masses, strict=True))
    rows = {"lower bound": _bound(forward + lower, error, tail)}
    both = data == "simulated" or reverse_group in dt.children
    if both:
        reverse = by_data_set(dt, reverse_group, "log_weight")
        start = HEURISTIC if data == "real" else f"{attribute(dt, 'upper_bound')} start"
        rows["upper bound"] = _bound(reverse + upper, error, RESOLVED, start)
        rows["jeffreys bound"] = _gap(forward, reverse, tail, start)
    if data == "simulated" and (found := certified_total_variation(dt)):
        rows["total variation"] = _total_variation(found, start)
    if data == "simulated" and "thermodynamic_length" in dt[forward_group]:
        most = _largest_gap(forward, reverse, rows["jeffreys bound"], tail)
        particles = dt.attrs.get("particles", 1)
        ideal = _ideal_gap(dt[forward_group].dataset, particles, most)
        # At T = 1 nothing mixes, and draws far out in the tails of a fit make Λ very large.
        if ideal["valid"] or dt[forward_group].sizes["beta"] > 2:
            rows["ideal gap"] = ideal
    if len(forward) > 1:  # for several data sets only the bounds on log ML are of use
        return {(data, quantity): row for quantity, row in rows.items()}
    rows["evidence"] = _evidence(dt, data, "forward average")
    if both:
        more = f", {start}, error given it"
        rows["evidence, reverse"] = _evidence(dt, data, "reverse average", more)
        if data == "real":  # of no use on simulated data
            rows["evidence, both"] = _evidence(dt, data, "bar", f", {start}")
    return {(data, quantity): row for quantity, row in rows.items()}


def _total_variation(found: TotalVariation, start: str) -> dict:
    """Return the row of the total variation, with its certified upper end in ``kind``."""
    datasets = f"{found.datasets} data set" + ("s" if found.datasets > 1 else "")
    return {
        "value": found.value,
        "error": clustered_mean(found.terms[:, None])[1],
        **_quartiles(found.terms),
        "valid": True,
        "kind": f"a probability, at most {np.ceil(100 * found.upper - 1e-9) / 100:.2f} with "
        f"{100 * found.confidence:.4g}%, {datasets}, {start}",
    }


def independent_gaps(forward: np.ndarray, reverse: np.ndarray) -> int:
    """Return the number of independent terms of a mean gap: finished data sets, or runs on one.

    Parameters
    ----------
    forward, reverse : ndarray of shape (D, K)
        Log weights; NaN marks a run that was not finished.
    """
    finished = [~np.isnan(each) for each in (forward, reverse)]
    n = int(np.sum(finished[0].any(axis=1) & finished[1].any(axis=1)))
    return n if n != 1 else min(int(each.sum()) for each in finished)


def _largest_gap(forward: np.ndarray, reverse: np.ndarray, row: Mapping, tail: TailCheck) -> float:
    """Return the upper 99.9 % limit of the mean gap; infinite if the gap has no mean."""
    if not tail.resolved:
        return np.inf
    reach = half_interval(row["error"], independent_gaps(forward, reverse), 1 - 2 * MAX_CHANCE)
    limit = row["value"] + reach
    return float(limit) if np.isfinite(limit) else np.inf


def _ideal_gap(run: xr.Dataset, particles: int, most: float) -> dict:
    """Return the row of the gap under perfect mixing, not valid if the gap of the runs is less."""
    lengths, n = run["thermodynamic_length"].values, run.sizes["beta"] - 1
    value = float(np.mean(lengths**2) / (n * particles))
    rhat = float(run["pilot_rhat"].max()) if "pilot_rhat" in run else np.nan
    unsure = f", which may have missed a part: R̂ {rhat:.2g}" if rhat > MAX_RHAT else ""
    if value > most:
        unsure += f"; not valid: the gap of the runs is smaller, at most {most:.2g}"
    return {
        "value": value,
        "valid": not unsure,
        "kind": f"Λ²/{'T' if particles == 1 else 'TN'}, perfect mixing; "
        f"Λ = {np.mean(lengths):.3g} nats^½, from the pilot{unsure}",
    }


def _certified_rows(dt: xr.DataTree) -> dict[tuple[str, str], dict]:
    """Return the rows of certified bounds, for simulated data only with a single data set."""
    rows = {}
    for (data, _), row in certified(dt).iterrows():
        if data == "real" or dt["forward"].sizes["dataset"] == 1:
            for side in ("lower", "upper"):
                if np.isfinite(row[side]):
                    kind = f"holds with {row['confidence']:.0%}, any number of chains"
                    rows[data, f"certified {side}"] = {
                        "value": row[side],
                        "valid": True,
                        "kind": kind,
                    }
    return rows


def _bound(log_weights: np.ndarray, mass_error, tail: TailCheck, start: str = "") -> dict:
    if tail.resolved:
        value, error = clustered_mean(log_weights)
        kind = ", ".join(filter(None, ["mean log weight", start]))
    else:
        value, error = clustered_median(log_weights)
        kind = f"median log weight, ≤ log ML + log 2; the mean is {tail.reason}"
    if len(log_weights) == 1:  # the spread over several data sets contains it already
        error = float(np.hypot(error, np.mean(mass_error)))
    columns = {"value": value, "error": error, **_quartiles(log_weights)}
    return columns | {"valid": tail.resolved and start != HEURISTIC, "kind": kind}


def _gap(forward: np.ndarray, reverse: np.ndarray, tail: TailCheck, start: str) -> dict:
    """Return the row of the mean gap, or of the gap of medians if the mean does not exist."""
    medians = [
        [clustered_median(row) for row in pair] for pair in zip(forward, reverse, strict=True)
    ]
    gaps = np.array([of_reverse[0] - of_forward[0] for of_forward, of_reverse in medians])
    if tail.resolved:
        value, error = jeffreys_bound(forward, reverse)
        kind = f"mean gap, {start}"
    else:
        value, error = clustered_mean(gaps[:, None])
        if len(gaps) == 1:
            of_forward, of_reverse = medians[0]
            error = float(np.hypot(of_forward[1], of_reverse[1]))
        kind = f"gap of the medians, {start}, no bound; the mean lower bound is {tail.reason}"
    quartiles = _quartiles(gaps)
    if len(gaps) == 1:
        quartiles = {"median": quartiles.get("median", np.nan)}
    valid = tail.resolved and start != HEURISTIC
    return {"value": value, "error": error, **quartiles, "valid": valid, "kind": kind}


def _quartiles(values: np.ndarray) -> dict:
    finished = values[~np.isnan(values)]
    if not finished.size:
        return {}
    # Take observed values: nothing can be interpolated between −∞ and a finite value.
    low, middle, high = np.quantile(finished, [0.25, 0.5, 0.75], method="nearest")
    return {"q25": low, "median": middle, "q75": high}


def _evidence(dt: xr.DataTree, data: str, method: str, more: str = "") -> dict:
    """Return the mean over data sets of one method's rows of `evidence`, with their error."""
    rows = [
        row
        for (row_data, _, name), row in annealed_estimates(dt).items()
        if (row_data, name) == (data, method)
    ]
    n = len(rows)
    if not n:
        kind = "no chain was finished in one of the directions"
        return {"value": np.nan, "error": np.nan, "valid": False, "kind": kind}
    value = float(np.mean([row["value"] for row in rows]))
    error = float(np.linalg.norm([row["error"] for row in rows]) / n)
    kind = "BAR" if method == "bar" else "averaged weights"
    kind += (f", mean of {n} data sets" if n > 1 else "") + more
    return _withheld(value, error, min(rows, key=lambda row: row["valid"]), kind)


def _withheld(value: float, error: float, row: Mapping, kind: str) -> dict:
    """Return the row of an estimate, without its error if its check in `evidence` fails."""
    valid = bool(row["valid"])
    if not valid:
        kind += f"; not valid: {row['reason']}"
    return {"value": value, "error": error if valid else np.nan, "valid": valid, "kind": kind}
