"""Turn results into labelled panels and into the arrays that arviz-plots draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike

from pymc_bdmc.results.evidence import evidence_of
from pymc_bdmc.results.reading import Reading


def panels(dt: Any) -> dict[str, Any]:
    """Return results by panel title, which is empty for a single result."""
    return {"": dt} if isinstance(dt, xr.DataTree) or not isinstance(dt, Mapping) else dict(dt)


def readings(dt: Any) -> dict[str, Reading]:
    """Return the readings of results by panel title."""
    return {title: Reading.of(each) for title, each in panels(dt).items()}


def log_ml_runs(dt: xr.DataTree) -> list[dict[str, np.ndarray]]:
    """Return the log weights of every data set by direction, whose averages estimate ML, nats."""
    found = []
    for each in Reading.of(dt).data_sets:
        runs = {"real": each.forward}
        if each.data == "simulated":
            runs = {"forward": each.forward, "reverse": each.reverse}
        found.append({name: row + each.mass.estimate for name, row in runs.items()})
    if not found:
        raise ValueError("No chain was finished, so there is nothing to draw.")
    return found


def estimates(
    dt: xr.DataTree | Mapping[str, xr.DataTree], sizes: Sequence[int | None] = (None,)
) -> xr.Dataset:
    """Return the columns of `evidence` by all methods, for growing numbers of chains.

    The dimensions are ``model`` (a panel for every data set of each result), ``chains`` (the
    requested numbers of finished chains) and ``estimator``. If a method does not apply, its value
    is NaN.
    """
    found = {}
    reads = readings(dt)
    for size in sizes:
        for title, read in reads.items():
            finished = {
                each[:2]: max(each.forward.size, each.reverse.size) for each in read.data_sets
            }
            several = len(read.sets_of("simulated")) > 1
            table = evidence_of(read.first_finished(size))
            for (data, dataset), rows in table.groupby(level=["data", "dataset"], sort=False):
                if size is not None and size > finished[data, dataset]:
                    continue
                name = f"{data} {dataset}" if several and data == "simulated" else data
                key = f"{title}, {name}" if title else name
                columns = rows.droplevel(["data", "dataset"]).drop(columns="reason")
                found[key, -1 if size is None else size] = columns.astype(float)
    table = pd.concat(found, names=["model", "chains", "estimator"])
    order = {name: table.index.unique(name) for name in table.index.names}
    joined = table.to_xarray().reindex(order)
    return joined if joined.sizes["model"] > 1 else joined.assign_coords(model=[""])


def exact_values(exact: float | Mapping[str, float] | None, titles: list[str]) -> xr.DataArray:
    """Return known values by panel, with NaN for panels without one."""
    same = np.nan if exact is None else exact
    by_title = exact if isinstance(exact, Mapping) else dict.fromkeys(titles, same)
    if unknown := set(by_title) - set(titles):
        raise ValueError(f"exact: {sorted(unknown)} are not among the panels {titles}.")
    return xr.DataArray([by_title.get(title, np.nan) for title in titles], {"model": titles})


def joined(dim: str, arrays: Mapping[str, Any]) -> Any:
    """Join arrays or datasets by name along a new dimension; NaN where one has no value."""
    return xr.concat(list(arrays.values()), xr.Variable(dim, list(arrays)), join="outer")


def stacked(by_panel: Mapping[str, Mapping[str, xr.DataArray]]) -> xr.DataArray:
    """Join arrays along the new dimensions ``model`` (panels) and ``direction``."""
    return joined("model", {title: joined("direction", runs) for title, runs in by_panel.items()})


def sample(values: np.ndarray) -> xr.DataArray:
    """Return values as a sample, whose distribution can be drawn."""
    return xr.DataArray(values, {"sample": np.arange(values.size)}, dims="sample")


def along(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Join the coordinates of a visual along the dimension that arviz-plots reads."""
    return xr.concat(xr.broadcast(*parts.values()), xr.Variable(dim, np.array(list(parts))))


def segments(
    dim: str, low: xr.DataArray, high: xr.DataArray, at: xr.DataArray, *, level: bool = False
) -> xr.DataArray:
    """Join intervals at all places of a dimension to one line with gaps.

    Parameters
    ----------
    dim : str
    low, high : DataArray
        Ends of the intervals.
    at : DataArray
        The other coordinate.
    level : bool
        Whether intervals are horizontal.
    """
    ends = xr.concat([low, high, np.nan * high], "end")
    pair = along("plot_axis", x=ends, y=at) if level else along("plot_axis", x=at, y=ends)
    return pair.transpose(..., dim, "end").stack(piece=(dim, "end"), create_index=False)


def around(values: xr.DataArray, margin: float = 0.1, least: float = 0.0) -> xr.DataArray:
    """Return the limits of an axis by panel, around all finite values with a relative margin."""
    others = [dim for dim in values.dims if dim != "model"]
    values = values.where(np.isfinite(values))
    low, high = values.min(others), values.max(others)
    space = (margin * (high - low)).clip(min=least)
    return along("limit", low=low - space, high=high + space)


def around_intervals(
    value: xr.DataArray, reach: xr.DataArray, truth: xr.DataArray, *margins: float
) -> xr.DataArray:
    """Return the limits of an axis around the intervals value ± reach and the true value."""
    ends = [value - reach, value + reach, truth.broadcast_like(value)]
    return around(xr.concat(ends, "end"), *margins)


def log_ticks(values: ArrayLike) -> dict[str, list]:
    """Return labelled ticks on a logarithmic axis, at 1, 2, 5, 10, … or at powers of ten."""
    finite = np.asarray(values)
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    steps = (1, 2, 5) if high - low < 2 else (1,)
    decades = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
    ticks = np.multiply.outer(decades, steps).ravel()
    ticks = ticks[(ticks >= 0.99 * 10**low) & (ticks <= 1.01 * 10**high)]
    return {"values": np.log10(ticks).tolist(), "labels": [f"{tick:g}" for tick in ticks]}
