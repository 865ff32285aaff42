"""Convert a sampler's draws from the posterior on the real data to states of the model."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.checks import shown
from pymc_bdmc.density.draws import check_finite, lacking
from pymc_bdmc.density.forward_graph import INTERPRETED
from pymc_bdmc.density.forward_sampling import edges
from pymc_bdmc.density.tempered import TemperedDensity

_log = logging.getLogger("pymc.bdmc")


def all_draws(
    argument: str, idata: xr.DataTree, names: Sequence[str], model: pm.Model
) -> list[np.ndarray]:
    """Return the draws of the variables, one a row, chain after chain.

    Raises
    ------
    ValueError
        If a variable is missing, has no draws, another shape, or a value that is not finite; the
        message names it and the argument.
    """
    posterior: Any = idata["posterior"]
    missing = [name for name in names if name not in posterior]
    if missing:
        raise ValueError(lacking(argument, missing, list(map(str, posterior.data_vars))))
    draws = []
    for name in names:
        drawn, shape = _aligned(argument, posterior[name], model), shape_of(model[name])
        if not {"chain", "draw"}.issubset(drawn.dims) or not drawn.size:
            raise ValueError(f"{argument}: its {name} has no draws by chain and draw.")
        values = drawn.transpose("chain", "draw", ...).values
        if values.shape[2:] != shape:
            raise ValueError(
                f"{argument}: its {name} has the shape {values.shape[2:]}, the model's {shape}. "
                "Is it a fit of another model?"
            )
        check_finite(argument, name, values)
        draws.append(values.reshape(-1, *shape).astype(model[name].dtype))
    return draws


def posterior_draws(
    argument: str, idata: xr.DataTree, names: Sequence[str], model: pm.Model
) -> list[np.ndarray]:
    """Return `all_draws` but those that are rounded to the edge of the support of a variable.

    The model has no density there.

    Raises
    ------
    ValueError
        As for `all_draws`, or if no draw is left.
    """
    draws = all_draws(argument, idata, names, model)
    lost, at_fault = np.zeros(len(draws[0]), dtype=bool), []
    for name, values in zip(names, draws, strict=True):
        at_edge = np.isin(values, edges(model.rvs_to_transforms.get(model[name])))
        rows = at_edge.reshape(len(values), -1).any(axis=1)
        if rows.any():
            at_fault.append(name)
            _log.warning(
                f"{argument}: {rows.sum()} of {len(rows)} draws are left out, since {name} is "
                "rounded to the edge of its support."
            )
        lost |= rows
    if lost.all():
        raise ValueError(
            f"{argument}: every draw of {', '.join(at_fault)} is at the edge of the support. Pass "
            "draws of this model."
        )
    return [values[~lost] for values in draws]


def _aligned(argument: str, drawn: xr.DataArray, model: pm.Model) -> xr.DataArray:
    """Return the draws of a variable with dimensions and labels in the model's order."""
    dims = [dim for dim in model.named_vars_to_dims.get(drawn.name, ()) if dim is not None]
    if set(drawn.dims) == {"chain", "draw", *dims}:
        drawn = drawn.transpose("chain", "draw", *dims)
    for dim in dims:
        labels = model.coords.get(dim)
        if labels is not None and dim in drawn.coords:
            order = order_of_labels(
                argument, str(drawn.name), drawn.get_index(dim), pd.Index(labels, name=dim)
            )
            drawn = drawn.isel({dim: order})
    return drawn


def order_of_labels(argument: str, name: str, theirs: pd.Index, ours: pd.Index) -> np.ndarray:
    """Return the positions of the model's labels of a dimension among those of the draws.

    Raises
    ------
    ValueError
        If the labels differ.
    """
    if len(theirs) != len(ours) or not (theirs.is_unique and ours.is_unique):
        return np.arange(len(theirs))  # in the given order
    order = theirs.get_indexer(ours)
    if (order < 0).any():
        raise ValueError(
            f"{argument}: the labels of dimension {ours.name!r} of its {name} are {list(theirs)}, "
            f"where {list(ours)} are expected. Is it a fit to other data? If not, rename them."
        )
    return order


def posterior_states(
    argument: str, idata: xr.DataTree, n: int, density: TemperedDensity, most: int = 0
) -> list[Point]:
    """Return unconstrained states of n draws, or of up to ``most``, evenly spaced among all.

    Raises
    ------
    ValueError
        As for `posterior_draws`; if the draws are of a fit to other data, or fewer than n; and if a
        chosen state is impossible, or lies outside the support of a variable or at its edge.
    """
    model = density.model
    names = [rv.name for rv in model.free_RVs]
    check_observed(argument, idata, density.data)
    known = {each.name for each in model.unobserved_RVs + model.value_vars}
    if unknown := sorted(set(idata["posterior"].data_vars) - known):
        _log.warning(f"{argument}: the model lacks its variables {unknown}. Is it of another?")
    draws = posterior_draws(argument, idata, names, model)
    size = len(draws[0])
    if size < n:
        purpose = (
            f"in half of the draws, and {n} are needed to fit a reference. Pass {2 * n} or more"
            if most
            else f"for {n} chains, each of which starts from a different draw. Pass more draws, or "
            "use fewer chains"
        )
        raise ValueError(f"{argument}: {size} draws {purpose}.")
    n = max(n, min(size, most))
    chosen = ((np.arange(n) + 0.5) * size / n).astype(int)
    return [
        _state(argument, {k: v[i] for k, v in zip(names, draws, strict=True)}, density)
        for i in chosen
    ]


def check_observed(argument: str, idata: xr.DataTree, data: Mapping[str, np.ndarray]) -> None:
    """Raise an error if ``idata`` contains other observed data; the message names the argument."""
    fitted = idata["observed_data"].data_vars if "observed_data" in idata.children else {}
    if fitted and data and not data.keys() & fitted.keys():
        raise ValueError(
            f"{argument}: its observed_data are {sorted(fitted)}, and the model observes "
            f"{sorted(data)}. Pass a fit of this model; if it is one, leave that group out."
        )
    for name in data.keys() & fitted.keys():
        values = fitted[name].values
        if values.shape != data[name].shape or not np.allclose(
            values, data[name], rtol=1e-6, atol=0, equal_nan=True
        ):
            raise ValueError(
                f"{argument}: it is a fit to other data: its {name} in observed_data differs from "
                "the model's. Pass a fit to the data of the model."
            )


def _state(argument: str, values: dict[str, np.ndarray], density: TemperedDensity) -> Point:
    point = density.unconstrain(values)
    for name, unconstrained in zip(values, point.values(), strict=True):
        if not np.isfinite(unconstrained).all():
            raise ValueError(
                f"{argument}: {shown({name: values[name]})} lies outside its support, or at its "
                "edge, which is infinite on the unconstrained scale."
            )
    if density.log_joint(point) == -np.inf:
        raise ValueError(
            f"{argument}: with {shown(values)} the model and its data are impossible. Is it a fit "
            "of another model, or to other data?"
        )
    return point


@alone
def shape_of(rv) -> tuple[int, ...]:
    """Return the shape of a random variable, which must be fixed."""
    return tuple(rv.shape.eval(mode=INTERPRETED))
