"""Plot which observations speak for which model."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy, scatter_xy

from pymc_bdmc.plots.canvas import ROOM, Canvas, Options, plot
from pymc_bdmc.plots.common import panels, segments
from pymc_bdmc.results.compare import pointwise
from pymc_bdmc.results.log_ml import Z95

PANELS = {"value": "each observation", "cumulative": "sum so far"}


@plot("zero interval point line title xlabel ylabel xticks")
def plot_pointwise(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, options: Options
) -> PlotCollection:
    """Plot log predictive densities of observations, or the log Bayes factors that they add.

    The first panel shows every observation and the second the sum so far, both with 95 % intervals.
    If the error of a sum is not known, only its value is shown. With several results, the first is
    compared with each of the others, and a value above 0 speaks for the first.

    Parameters
    ----------
    dt : DataTree or mapping of {str : DataTree}
        Results as for `pointwise`: one, or several models of the same data by name.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * zero -> :func:`arviz_plots.visuals.hline`, for differences only
        * interval, line -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel, xticks -> the labels, and the coordinates of the observations
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        As `pointwise` does, or if a mapping has no results.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> options = dict(path="data", simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> results = {}
    >>> for name, scale in [("narrow", 1.0), ("wide", 10.0)]:
    ...     with pm.Model():
    ...         y = pm.Normal("y", pm.Normal("x", 0, scale), observed=[0.5, 1.0, 4.0])
    ...         results[name] = pm.sample_bdmc(**options)
    >>> pc = bdmc.plot_pointwise(results)
    """
    tables, compared = _tables(dt)
    first = next(iter(tables.values()))
    places, dims = np.arange(len(first)), ("model", "pair", "observation")
    coords = {"model": list(PANELS.values()), "pair": list(tables)}

    def columns(*names: str) -> xr.DataArray:
        rows = [[table[name] for table in tables.values()] for name in names]
        return xr.DataArray(np.array(rows, dtype=float), coords, dims)

    y, error = columns("value", "cumulative"), columns("error", "cumulative_error")
    x = xr.zeros_like(y) + places + _offsets(len(tables))[None, :, None]
    canvas = Canvas(
        "log_density", y, options, ["interval", "point", "line"], by="pair",
        legend=compared, col_wrap=2,
    )  # fmt: skip
    if compared:
        canvas.draw("zero", hline, canvas.panel, color="gray")
    canvas.draw("interval", line_xy, segments("observation", y - Z95 * error, y + Z95 * error, x))
    canvas.trace("point", scatter_xy, x, y)
    canvas.trace("line", line_xy, x, y.where(y["model"] == PANELS["cumulative"]))
    canvas.ticks("xticks", **_ticks(first.index))
    told = ["log Bayes factor (nats)"] * 2 if compared else ["log p(y_i | y_<i) (nats)", "nats"]
    return canvas.finish(str(first.index.name), told)


def _tables(dt: xr.DataTree | Mapping[str, xr.DataTree]) -> tuple[dict[str, pd.DataFrame], bool]:
    """Return tables of `pointwise` by title, and whether they are differences."""
    if not (results := panels(dt)):
        raise ValueError('dt: a result, or a mapping such as {"a": dt, "b": other_dt}, is needed.')
    (first, result), *others = results.items()
    if not others:
        return {first: pointwise(result)}, False
    return {f"{first} against {name}": pointwise(result, other) for name, other in others}, True


def _ticks(index: pd.Index) -> dict[str, list]:
    """Return ticks at evenly spaced observations, few enough that their labels fit."""
    step = 1
    while True:
        labels = [str(label) for label in index[::step]]
        if len("".join(labels)) <= ROOM or len(labels) == 1:
            return {"values": list(range(0, len(index), step)), "labels": labels}
        step += 1


def _offsets(n: int) -> np.ndarray:
    """Return the horizontal distances of the points of n pairs from their observation."""
    return 0.15 * (np.arange(n) - (n - 1) / 2)
