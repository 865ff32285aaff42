"""Read the groups of a result: which runs they hold, by data and direction."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from pymc_bdmc.estimators import PriorMass, TailCheck, check_mean_of_logs, log_prior_mass

__all__ = [
    "GROUPS",
    "SIDES",
    "attribute",
    "by_data_set",
    "check_annealed",
    "check_result",
    "data_sets",
    "directions",
    "interruption",
    "is_null",
    "is_simulated_tempering",
    "is_system",
    "ladder",
    "log_ml_too_low",
    "log_ml_weights",
    "mean_of_logs",
    "real_log_weights",
    "start_of_reverse",
    "variable",
]

SIDES = {"simulated": ("forward", "reverse"), "real": ("real", "real_reverse")}
"""Groups of forward and of reverse runs, by kind of data."""

GROUPS = ("forward", "reverse", "real", "real_reverse")
"""All groups of runs."""

_LOST = "which sample_bdmc and lattice.anneal write. Was the result cut, or saved in parts?"


def is_simulated_tempering(dt: xr.DataTree) -> bool:
    """Return whether this is a result of `temper`."""
    return "tempering" in getattr(dt, "children", ())


def is_system(dt: xr.DataTree) -> bool:
    """Return whether this is a result of a system without data, such as a lattice."""
    return "observed_data" not in dt.children and "system" in dt.attrs


def is_null(dt: xr.DataTree) -> bool:
    """Return whether this is the result for a model without free variables, which is exact."""
    return dt.attrs.get("path") == "none"


def check_result(dt: xr.DataTree) -> None:
    """Raise an error unless the result has annealed runs."""
    if not {"forward", "real"} & set(getattr(dt, "children", ())):
        raise ValueError(
            "dt: it has neither group 'forward' nor 'real'; a result of sample_bdmc or of "
            "lattice.anneal is needed."
        )


def check_annealed(dt: xr.DataTree, reader: str) -> None:
    """Raise an error unless the result has annealed runs; say so of a result of `temper`."""
    if is_simulated_tempering(dt):
        raise ValueError(
            f"dt: {reader} reads annealed runs, and a result of temper has none; use evidence."
        )
    check_result(dt)


def variable(dt: xr.DataTree, group: str, name: str) -> xr.DataArray:
    """Return a variable of a group; the error names the group or variable that is missing."""
    if group not in dt.children:
        raise ValueError(f"dt: it has no group {group!r}, {_LOST}")
    if name not in dt[group]:
        raise ValueError(f"dt: its group {group!r} has no variable {name!r}, {_LOST}")
    return dt[group].dataset[name]


def attribute(dt: xr.DataTree, name: str) -> Any:
    """Return an attribute of the result; the error names the attribute that is missing."""
    if name not in dt.attrs:
        raise ValueError(f"dt: it has no attribute {name!r}, {_LOST}")
    return dt.attrs[name]


def mean_of_logs(dt: xr.DataTree, group: str) -> TailCheck:
    """Check whether the mean of forward log weights exists; return the worst case over data sets.

    Results without ℓ of prior draws pass the check.
    """
    if "prior_log_likelihood" not in dt[group]:
        return TailCheck(np.nan, True, True, "")
    rows = np.atleast_2d(dt[group].dataset["prior_log_likelihood"].values)
    checks = [check_mean_of_logs(row, dt.attrs.get("particles", 1)) for row in rows]
    return min(checks, key=lambda check: (check.exists, check.resolved))


def data_sets(dt: xr.DataTree) -> Iterator[tuple]:
    """Yield (data, dataset, forward, reverse or None, prior draws) of the finished chains."""
    check_result(dt)
    for data, (forward, reverse) in SIDES.items():
        if forward not in dt.children:
            continue
        groups = [forward, reverse][: 2 if data == "simulated" or reverse in dt.children else 1]
        rows = [by_data_set(dt, group, "log_weight") for group in groups]
        draws = by_data_set(dt, forward, "prior_draws")
        for dataset, found in enumerate(zip(draws, *rows, strict=True)):
            n_draws, *weights = map(_finished, found)
            if all(row.size for row in weights):
                yield data, dataset, weights[0], [*weights, None][1], n_draws


def by_data_set(dt: xr.DataTree, group: str, name: str) -> np.ndarray:
    """Return the values of a variable with a row for each data set; the real data have one row."""
    found = variable(dt, group, name)
    return found.values if "dataset" in found.dims else found.values[None]


def start_of_reverse(dt: xr.DataTree, data: str) -> str:
    """Return the kind of start of the reverse runs: exact, burned-in or heuristic."""
    return "heuristic" if data == "real" else dt.attrs.get("upper_bound", "unknown")


def _finished(values: np.ndarray) -> np.ndarray:
    return values[~np.isnan(values)]


def directions(dt: xr.DataTree) -> tuple[str, ...]:
    """Return the groups that bound log ML: both directions on simulated data, else ``real``."""
    check_result(dt)
    if "forward" not in dt.children:
        return ("real",)
    return tuple(group for group in ("forward", "reverse") if group in dt.children)


def real_log_weights(dt: Any) -> np.ndarray:
    """Return log Ẑ of the finished runs on the real data, log P(ℓ > −∞) included; nats."""
    if not isinstance(dt, xr.DataTree) or "real" not in dt.children:
        return np.zeros(0)
    weights, draws = (
        _finished(by_data_set(dt, "real", name)[0]) for name in ("log_weight", "prior_draws")
    )
    return weights + log_prior_mass(draws).estimate if weights.size else weights


def interruption(dt: xr.DataTree) -> str:
    """Describe what is left after Ctrl-C or a callback stopped the run; empty if nothing did."""
    if not dt.attrs.get("interrupted"):
        return ""
    if is_simulated_tempering(dt):
        return f"Interrupted: {dt['tempering'].sizes['draw']} draws of each chain are kept."
    weights = {group: dt[group]["log_weight"] for group in GROUPS if group in dt.children}
    if all(each.notnull().all() for each in weights.values()):
        last = dt["rounds"].dataset.isel(round=-1) if "rounds" in dt.children else {}
        if last.get("meets_target", False) and not last["confirms"]:
            return (
                "Interrupted: the result is the round that met the target, and no new round has "
                "confirmed it. It may have met the target by noise: its lower bound may be too "
                "high and its gap too small. Certified bounds allow for this."
            )
        return "Interrupted: the result is the last finished round."
    done = [f"{int(each.count())} of {each.size} {group}" for group, each in weights.items()]
    return (
        f"Interrupted: {', '.join(done)} chains were finished. They may not be a random sample of "
        "all, so nothing is certified."
    )


def log_ml_too_low(dt: xr.DataTree) -> float:
    """Return the nats by which log ML of the runs on the real data is shown to be too low.

    The draws of ``posterior=`` show it (`agreement`); 0 without them, or if nothing is shown.
    """
    if "agreement" not in dt.children:
        return 0.0
    return float(dt["agreement"].attrs.get("too_low", 0.0))


def log_ml_weights(dt: xr.DataTree) -> dict[str, xr.DataArray]:
    """Return log weights whose means bound log ML, log w + log P(ℓ > −∞), by direction; nats."""
    draws = variable(dt, directions(dt)[0], "prior_draws")
    masses = xr.apply_ufunc(
        lambda row: tuple(log_prior_mass(row)),
        draws,
        input_core_dims=[[dim for dim in draws.dims if dim != "dataset"]],
        output_core_dims=[[], [], []],
        vectorize=True,
    )
    mass = PriorMass(*masses)
    return {
        name: variable(dt, name, "log_weight") + (mass.upper if name == "reverse" else mass.lower)
        for name in directions(dt)
    }


def ladder(dt: xr.DataTree, group: str) -> xr.DataArray:
    """Return log weights of a group by (round, …, chain), with T as coordinate, the largest T last.

    A result without rounds has one. Of rounds with the same T the last one is kept. If the last
    round confirms a target on new data, only that round is kept.
    """
    name = f"{group}_log_weight"
    if "rounds" in dt.children and name in dt["rounds"]:
        rounds = dt["rounds"].dataset
        weights = rounds[name].assign_coords(temperatures=rounds["temperatures"])
        if "real_chain" in weights.dims:
            weights = weights.rename(real_chain="chain")
        last = ~rounds["temperatures"].to_series().duplicated(keep="last").values
        if (
            "confirms" in rounds and rounds["confirms"].values[-1]
        ):  # on data that the rounds before did not have
            last[:-1] = False
        return weights.isel(round=last)
    weights = variable(dt, group, "log_weight")
    n = dt[group].sizes["beta"] - 1
    return weights.expand_dims("round").assign_coords(temperatures=("round", [n]))
