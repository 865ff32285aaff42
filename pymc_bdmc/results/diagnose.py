"""What to doubt in a result, with what to do about it."""

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import effective_sample_size
from pymc_bdmc.results.convert import pareto_k
from pymc_bdmc.results.groups import check_result

__all__ = ["diagnose"]

MIN_EFFECTIVE_SAMPLE_SIZE = 10


MAX_PARETO_K = 0.7


MAX_DIVERGENT_SHARE = 0.01


MIN_ACCEPTANCE = 0.01


KNOT_PARTS = 10
"""A knot is where half of the gap opens within one part in ten of the temperatures."""


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
        last = dt["rounds"].isel(round=-1) if "rounds" in dt.children else {}
        if last.get("meets_target", False) and not last["confirms"]:
            return (
                "interrupted: the result is the round that met the target, not confirmed by a new "
                "one. It may owe that to noise: its lower bound is too high, its gap too small. "
                "Certified bounds allow for it."
            )
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
