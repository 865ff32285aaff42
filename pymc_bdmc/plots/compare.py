"""Plot the gap of samplers or parametrisations against its cost."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import labelled_x, labelled_y, line_xy, scatter_xy, set_xticks

from pymc_bdmc.plots.common import (
    Backend,
    Canvas,
    along,
    checked_options,
    limit_y,
    log_ticks,
    set_yticks,
)
from pymc_bdmc.results.compare import check_comparable, cost

__all__ = ["plot_compare"]

PANELS = {
    "temperatures": "number of temperatures",
    "gradient_evaluations": "gradient evaluations",
    "seconds": "seconds",
}

Visual = Literal[
    "line", "point", "interval", "title", "xlabel", "ylabel", "xticks", "yticks", "ylim"
]


def plot_compare(
    results: Mapping[str, xr.DataTree],
    *,
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    aes_by_visuals: Mapping[Visual, Sequence[str]] = None,
    visuals: Mapping[Literal[Visual, "legend"], Mapping[str, Any] | bool] = None,
    **pc_kwargs,
) -> PlotCollection:
    """Plot the Jeffreys bound against temperatures, gradient evaluations and seconds.

    Every round of a result is a point, with one standard error on either side. Both axes are
    logarithmic, so a gap that is negative by noise has no point, only the upper end of its error.

    Parameters
    ----------
    results : mapping of {str : DataTree}
        Results of one model and data, by sampler or parametrisation, as for `compare`. Several
        ``temperatures``, or a ``target_gap``, give a line.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line, interval -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel -> the labels
        * xticks, yticks, ylim -> numbers on the axes, and the range of the gap
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If the results cannot be compared, or none of them has a gap.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> options = dict(temperatures=50, random_seed=1, progressbar=False)
    >>> results = {
    ...     kernel: bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, **options)
    ...     for kernel in ("metropolis", "heat bath")
    ... }
    >>> pc = bdmc.plot_compare(results)
    """
    check_comparable(results)
    options = checked_options(
        plot_compare, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs
    )
    table = pd.concat({name: cost(dt) for name, dt in results.items()}, names=["name", "round"])
    found = table[table["jeffreys_bound"].notna()].to_xarray()
    if not found.sizes["round"]:
        raise ValueError("results: none has a gap, which needs simulated data.")
    known = [column for column in PANELS if (found[column] > 0).any()]
    place = xr.ufuncs.log10(xr.concat([found[c] for c in known], xr.Variable("model", known)))
    place = place.assign_coords(model=[PANELS[column] for column in known])
    gap, error = found["jeffreys_bound"], found["error"].fillna(0)
    floor = _floor(gap, error)
    low, value, high = (
        xr.ufuncs.log10(each.where(each > 0)).broadcast_like(place)
        for each in (np.maximum(gap - error, floor), gap, gap + error)
    )
    canvas = Canvas("gap", place, options, ["line", "point", "interval"], by="name", col_wrap=3)
    ends = xr.concat([low, high, np.nan * high], "end")
    pieces = along("plot_axis", x=place.broadcast_like(ends), y=ends)
    canvas.draw("interval", line_xy, _flat(pieces))
    canvas.draw("line", line_xy, along("plot_axis", x=place, y=value))
    canvas.draw("point", scatter_xy, along("plot_axis", x=place, y=value))
    top = high.max(["name", "round"]) + 0.1
    shown = along("limit", low=xr.full_like(top, np.log10(floor)), high=top)
    canvas.draw("ylim", limit_y, shown)
    canvas.draw("xticks", _log_xticks, place.stack(tick=("name", "round")))
    canvas.draw("yticks", set_yticks, canvas.panel, **log_ticks(shown.values))
    canvas.draw("xlabel", labelled_x, canvas.panel, text="(log scale)")
    canvas.draw("ylabel", labelled_y, canvas.panel, text="Jeffreys bound (nats)")
    return canvas.finish()


def _floor(gap: xr.DataArray, error: xr.DataArray) -> float:
    """Return the smallest gap shown: a tenth of the smallest that may be above zero."""
    ends = np.concatenate([gap.values.ravel(), (gap + error).values.ravel()])
    return float(ends[ends > 0].min(initial=1.0)) / 10


def _flat(pieces: xr.DataArray) -> xr.DataArray:
    """Join the ends of all rounds along one dimension, as one line with a piece for each."""
    return pieces.transpose(..., "round", "end").stack(piece=("round", "end"), create_index=False)


def _log_xticks(da, target, **kwargs):
    set_xticks(da, target, **{**log_ticks(da.values), **kwargs})
