"""What a result says: the table of bounds and evidence, and what to doubt in it."""

import numpy as np
import pandas as pd
import xarray as xr

from pymc_bdmc.convert import pareto_k
from pymc_bdmc.estimators import (
    PriorMass,
    clustered_mean,
    effective_sample_size,
    jarzynski_forward,
    jarzynski_reverse,
    jeffreys_bound,
    log_prior_mass,
    weighted_average,
)
from pymc_bdmc.evidence import certified, check_result

__all__ = ["diagnose", "directions", "expectation", "log_ml_weights", "summary"]

MIN_EFFECTIVE_SAMPLE_SIZE = 10
MAX_PARETO_K = 0.7
MAX_DIVERGENT_SHARE = 0.01
MIN_ACCEPTANCE = 0.01
KNOT_PARTS = 10
"""A knot is where half of the gap opens within one part in ten of the temperatures."""


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


def expectation(dt: xr.DataTree, name: str) -> xr.Dataset:
    """Posterior mean of a variable of the model, by the weights of the chains on the real data.

    The last states of the forward chains are near the posterior only; weighted by w they average
    to its mean whatever the schedule, by Crooks' relation (Favaro et al. 2015, Eq. 11).

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`, with the chains on the real data.
    name : str
        A variable of the group ``posterior``.

    Returns
    -------
    Dataset
        ``mean`` and ``error``, one standard error, with the dimensions and coordinates of the
        variable and in its units; attributes ``effective_sample_size`` and ``valid``, whether
        that is at least 10. NaN if every weight is zero.

    Raises
    ------
    ValueError
        If there are no chains on the real data, or no such variable.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> draws = ("chain", "draw", "day"), np.array([[[0.0, 2.0], [1.0, 4.0]]])
    >>> weights = ("chain", "draw"), np.array([[0.25, 0.75]])
    >>> posterior = xr.Dataset(dict(x=draws), coords=dict(bdmc_weight=weights))
    >>> dt = xr.DataTree.from_dict(dict(posterior=posterior))
    >>> bdmc.expectation(dt, "x")["mean"].values
    array([0.75, 3.5 ])
    """
    if "posterior" not in dt.children:
        raise ValueError("There is no posterior: run sample_bdmc with real_data=True.")
    posterior = dt["posterior"].dataset.stack(sample=("chain", "draw"), create_index=False)
    if name not in posterior.data_vars:
        known = sorted(map(str, posterior.data_vars))
        raise ValueError(f"{name!r} is not among the variables of the posterior: {known}.")
    variable = posterior[name].transpose("sample", ...)
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.nan_to_num(posterior["bdmc_weight"].values))
    average = weighted_average(log_weights, variable.values)
    like = variable.isel(sample=0, drop=True)
    like = like.drop_vars([c for c in ("chain", "draw", "bdmc_weight") if c in like.coords])
    return xr.Dataset(
        {"mean": like.copy(data=average.value), "error": like.copy(data=average.error)},
        attrs={"effective_sample_size": average.effective_sample_size, "valid": average.valid},
    )


def directions(dt: xr.DataTree) -> tuple[str, ...]:
    """Groups that sandwich one data set: both directions on simulated data, else the real one."""
    check_result(dt)
    return ("forward", "reverse") if "forward" in dt.children else ("real",)


def log_ml_weights(dt: xr.DataTree) -> dict[str, xr.DataArray]:
    """Log weights whose means bound log ML: log w + log P(ℓ > −∞), nats, by direction."""
    draws = dt[directions(dt)[0]]["prior_draws"]
    masses = xr.apply_ufunc(
        lambda row: tuple(log_prior_mass(row)),
        draws,
        input_core_dims=[["chain"]],
        output_core_dims=[[], [], []],
        vectorize=True,
    )
    mass = PriorMass(*masses)
    return {
        name: dt[name]["log_weight"] + (mass.upper if name == "reverse" else mass.lower)
        for name in directions(dt)
    }


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


def diagnose(dt: xr.DataTree) -> list[str]:
    """What to doubt in a result, each with a remedy; an empty list if nothing.

    Parameters
    ----------
    dt : DataTree
        From `sample_bdmc`.

    Returns
    -------
    list of str
        Unfinished chains, infinite weights, divergences, dead chains, low effective sample sizes,
        straggling weights and heavy tails of the weights, by group; and transitions that hold most
        of a wide gap.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> real = xr.Dataset(dict(log_weight=("chain", np.array([-1.0, -np.inf]))))
    >>> print(bdmc.diagnose(xr.DataTree.from_dict(dict(real=real)))[0])
    real: 1 of 2 log weights are infinite; the kernel left the support of the likelihood.
    """
    check_result(dt)
    messages = [_interruption(dt)] if dt.attrs.get("interrupted") else []
    for group in ("forward", "reverse", "real"):
        if group in dt.children:
            messages += [f"{group}: {message}" for message in _doubts(dt[group].dataset, group)]
    if {"forward", "reverse"} <= set(dt.children) and "log_likelihood_path" in dt["forward"]:
        messages += _knots(dt["forward"].dataset, dt["reverse"].dataset)
    return messages


def _interruption(dt: xr.DataTree) -> str:
    """What Ctrl-C left."""
    weights = {g: dt[g]["log_weight"] for g in ("forward", "reverse", "real") if g in dt.children}
    if all(each.notnull().all() for each in weights.values()):
        return "interrupted: the result is that of the last round that was finished."
    done = [f"{int(each.count())} of {each.size} {group}" for group, each in weights.items()]
    return (
        f"interrupted: {', '.join(done)} chains were finished. They need be no random sample of "
        "all, so nothing is certified."
    )


def _knots(forward: xr.Dataset, reverse: xr.Dataset) -> list[str]:
    """Where most of a wide gap opens within a small part of the path."""
    apart = (reverse - forward)["log_likelihood_path"].mean("dataset").values[:-1]
    betas = forward["beta"].values
    opened = np.concatenate([[0.0], np.cumsum(np.diff(betas) * apart)])
    width = max(1, len(apart) // KNOT_PARTS)
    inside = opened[width:] - opened[:-width]
    if not opened[-1] > 1 or not inside.max() > opened[-1] / 2 or len(apart) < KNOT_PARTS:
        return []
    first = int(np.argmax(inside))
    return [
        f"forward and reverse: {inside[first]:.2g} of the {opened[-1]:.2g} nats between them open "
        f"at beta = {betas[first]:.3g} to {betas[first + width]:.3g}, a transition that the kernel "
        "hardly crosses. Put temperatures there, or use another kernel; see plot_hysteresis."
    ]


def _doubts(run: xr.Dataset, group: str) -> list[str]:
    messages = []
    rows = np.atleast_2d(run["log_weight"].values)
    finished = rows[~np.isnan(rows)]
    if not finished.size:
        return ["no chain was finished."]
    if np.isinf(finished).any():
        messages.append(
            f"{np.isinf(finished).sum()} of {finished.size} log weights are infinite; the kernel "
            "left the support of the likelihood."
        )
    if "divergences" in run:
        share = float(run["divergences"].sum()) / (finished.size * (run.sizes["beta"] - 1))
        if share > MAX_DIVERGENT_SHARE:
            messages.append(
                f"{share:.1%} of the transitions diverged; reparametrise, or try PyMC's NUTS with "
                "step=functools.partial(pm.NUTS, target_accept=0.95), which is slower."
            )
    if "lowest_acceptance" in run:
        dead = int((run["lowest_acceptance"] < MIN_ACCEPTANCE).sum())
        if dead:
            messages.append(
                f"{dead} of {finished.size} chains hardly moved along part of the path; "
                "their log weights widen the gap. Use another step method or reparametrise."
            )
    signed = -rows if group == "reverse" else rows
    rows = [row[~np.isnan(row)] for row in signed]
    sizes = [effective_sample_size(row) for row in rows]
    if any(
        s < min(MIN_EFFECTIVE_SAMPLE_SIZE, r.size / 2) for s, r in zip(sizes, rows, strict=True)
    ):
        messages.append(
            f"the averaged weights have an effective sample size of {min(sizes):.1f}; "
            "use more temperatures."
        )
    straggling = sum(_straggles(row) for row in rows)
    if straggling:
        messages.append(
            f"{straggling} of {finished.size} log weights lie so far out that they decide the "
            "mean: chains that the prior started in the far tail. Take smaller first steps, "
            'schedule="adaptive", or a prior with lighter tails.'
        )
    k = np.fmax.reduce([pareto_k(row) for row in rows], initial=-np.inf)
    if k > MAX_PARETO_K:
        messages.append(
            f"the tail of the weights is heavy (Pareto k = {k:.2f} > {MAX_PARETO_K}); the error "
            "of the evidence is not reliable. Use more temperatures."
        )
    return messages


def _straggles(signed: np.ndarray) -> int:
    """Number of log weights so far below the median that alone they shift the mean by an IQR."""
    finite = signed[np.isfinite(signed)]
    if len(finite) < 4:
        return 0
    low, middle, high = np.quantile(finite, [0.25, 0.5, 0.75])
    return int(np.sum((middle - finite) / len(finite) > max(high - low, 0.1)))
