"""Bring the draws of any sampler into one form: a DataTree with draws by chain and draw."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr


def as_idata(argument: str, idata: Any) -> xr.DataTree:
    """Return draws as a DataTree with the groups ``posterior`` and, if known, ``observed_data``.

    Parameters
    ----------
    argument : str
        Name of the argument, for errors.
    idata : DataTree, InferenceData or Dataset
        Draws by ``draw`` and, for several chains, ``chain``, or stacked as by `arviz.extract`. What
        that function chose of the draws becomes one chain, in the order in which they were made.

    Raises
    ------
    ValueError
        If there are no draws, or if their dimensions have other names; the message says how to
        rename them.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from pymc_bdmc.density.draws import as_idata
    >>> values = np.arange(6.0).reshape(2, 3)
    >>> draws = xr.Dataset(dict(x=(("chain", "draw"), values)), dict(chain=[0, 1], draw=[0, 1, 2]))
    >>> stacked = draws.stack(sample=("chain", "draw"))
    >>> bool((as_idata("idata", stacked)["posterior"]["x"] == values).all())
    True
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
        return idata
    groups = {"posterior": posterior}
    observed = getattr(idata, "observed_data", None) if is_whole else None
    if observed is not None:
        groups["observed_data"] = (
            observed.dataset if isinstance(observed, xr.DataTree) else observed
        )
    return xr.DataTree.from_dict(groups)


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


def lacking(argument: str, missing: Sequence[str], known: Sequence[str]) -> str:
    """Return the text of an error for missing variables, with the names that may be meant."""
    near = [each for name in missing for each in get_close_matches(name, known, 1)]
    hint = (
        f"Is it {', '.join(near)}? Rename: idata['posterior'].dataset.rename("
        f"{near[0]}={missing[0]!r})."
        if near
        else f"It has {list(known)}. Is it a fit of another model?"
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
