"""Convert the draws of any sampler to states of a model."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from pymc_bdmc.base import logger
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone, as_sampled
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.prior import edges
from pymc_bdmc.density.refuse import shown
from pymc_bdmc.density.tempered import TemperedDensity


def as_idata(argument: str, idata: Any, model: Any = None) -> xr.DataTree:
    """Return draws as a DataTree with the groups ``posterior`` and, if known, ``observed_data``.

    ``idata`` is a DataTree, InferenceData or Dataset with draws by ``draw`` and, for several
    chains, ``chain``, or stacked as by `arviz.extract`. Draws that this chose from others become
    one chain, in the order in which they were made. A fit of Bambi, which leaves out and moves
    variables, becomes draws of the variables of its ``model``.
    """
    found = getattr(idata, "posterior", None)
    is_whole = found is not None and not isinstance(idata, xr.Dataset)
    found = found if is_whole else idata
    if isinstance(found, xr.DataTree):
        found = found.dataset
    if not isinstance(found, xr.Dataset) or not found.data_vars:
        raise ValueError(
            f"{argument}: expected a DataTree or InferenceData with a group 'posterior', or a "
            f"Dataset, got {type(idata).__name__}."
        )
    posterior = _by_draw(argument, found, is_whole)
    if posterior is found and isinstance(idata, xr.DataTree) and is_whole:
        return _of_model(argument, idata, model)
    groups = {"posterior": posterior}
    observed = getattr(idata, "observed_data", None) if is_whole else None
    if observed is not None:
        groups["observed_data"] = (
            observed.dataset if isinstance(observed, xr.DataTree) else observed
        )
    return _of_model(argument, xr.DataTree.from_dict(groups), model)


def _of_model(argument: str, idata: xr.DataTree, model: Any) -> xr.DataTree:
    """Return the fit of a Bambi model as draws of its PyMC model, and other draws as they are."""
    posterior: Any = idata["posterior"]
    if posterior.attrs.get("modeling_interface") != "bambi":
        return idata
    if (found := as_sampled(model, idata)) is None:
        raise ValueError(
            f"{argument}: Bambi moves the intercept of its draws, and leaves offsets out. Pass its "
            "own Model with them, as in bdmc.log_ml(idata, model), bdmc.agreement(dt, idata, "
            "model=model) or pm.sample_bdmc(model, posterior=idata)."
        )
    draws = found["posterior"].dataset.drop_attrs()  # so that nothing moves them again
    return found.assign({"posterior": xr.DataTree(draws)})


def _by_draw(argument: str, posterior: xr.Dataset, is_whole: bool) -> xr.Dataset:
    """Return draws with the dimensions chain and draw."""
    for dim in map(str, posterior.dims):
        index = posterior.indexes.get(dim)
        if isinstance(index, pd.MultiIndex) and {"chain", "draw"} <= set(index.names):
            return _unstacked(posterior, dim, index)
    shared = [
        str(dim)
        for dim in posterior.dims
        if dim not in ("chain", "draw") and all(dim in v.dims for v in posterior.values())
    ]
    shared.sort(key=lambda dim: "chain" not in dim)
    chains = [] if "chain" in posterior.dims else [dim for dim in shared if "chain" in dim][:1]
    draws = [] if "draw" in posterior.dims else [dim for dim in shared if dim not in chains][:1]
    if chains or "draw" not in posterior.dims:
        names = [f"{dim}='chain'" for dim in chains] + [f"{dim}='draw'" for dim in draws]
        dataset = "idata['posterior'].dataset" if is_whole else "idata"
        raise ValueError(
            f"{argument}: its posterior has the dimensions {sorted(map(str, posterior.dims))}, "
            "where 'draw' and, for several chains, 'chain' are expected. Rename them"
            + (f": {dataset}.rename({', '.join(names)})." if names else ".")
        )
    return posterior if "chain" in posterior.dims else posterior.expand_dims("chain")


def _unstacked(posterior: xr.Dataset, dim: str, index: pd.MultiIndex) -> xr.Dataset:
    """Return stacked draws by chain and draw, or as one chain if some of them were left out."""
    sizes = [index.get_level_values(level).nunique() for level in ("chain", "draw")]
    if index.is_unique and len(index) == np.prod(sizes):
        return posterior.unstack(dim)
    order = np.lexsort([index.get_level_values(level) for level in ("draw", "chain")])
    alone = posterior.isel({dim: order}).drop_vars([dim, *index.names])
    return alone.rename({dim: "draw"}).expand_dims("chain")


def lacking(
    argument: str, missing: Mapping[str, tuple[int, ...]], posterior: xr.Dataset, known: Collection
) -> str:
    """Return the error for missing variables, by shape, with unknown names that may be meant."""
    unknown = {str(name): each.shape[2:] for name, each in posterior.items() if name not in known}
    renamed: dict[str, str] = {}
    for name, shape in missing.items():
        alike = [each for each in unknown if unknown[each] == shape]
        renamed |= {each: name for each in get_close_matches(name, alike, 1)}
    hint = (
        f"Is it {', '.join(renamed)}? Rename: idata['posterior'].dataset.rename({renamed})."
        if renamed
        else f"It has {list(map(str, posterior))}. Is it a fit of another model?"
    )
    return f"{argument}: its posterior lacks the variables {list(missing)}. {hint}"


def check_finite(argument: str, name: str, values: np.ndarray) -> None:
    """Raise an error that names the variable and counts its values that are not finite."""
    lost = int(np.sum(~np.isfinite(values)))
    if lost:
        raise ValueError(
            f"{argument}: {lost} of {values.size} values of its {name} are NaN or infinite; leave "
            "out the chains or draws that failed."
        )


_log = logger(__name__)


def all_draws(
    argument: str, idata: xr.DataTree, names: Sequence[str], model: pm.Model
) -> list[np.ndarray]:
    """Return the draws of the variables, one a row, chain after chain."""
    posterior: Any = idata["posterior"]
    missing = {name: shape_of(model[name]) for name in names if name not in posterior}
    if missing:
        raise ValueError(lacking(argument, missing, posterior.dataset, model.named_vars))
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
    """Return `all_draws` without those rounded to the edge of a support, which have no density."""
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
    """Return the positions of the model's labels of a dimension among those of the draws."""
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
    """Return unconstrained states of n draws, or of up to ``most``, evenly spaced among all."""
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
    """Raise an error if ``idata`` contains other observed data."""
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
