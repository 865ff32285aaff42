"""Plot all estimates of log ML, with their errors and checks."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, vline

from pymc_bdmc.plots.canvas import Canvas, Options, limit_x, notes, plot
from pymc_bdmc.plots.common import (
    along,
    around_intervals,
    estimates,
    exact_values,
    joined,
    segments,
)
from pymc_bdmc.results.log_ml import Z95

STATUSES = ["recommended", "valid", "invalid"]
COLORS = ["#bd1f01", "#3f90da", "#a0a0a0"]
LINESTYLES = ["C0", "C0", "C2"]


@plot("point interval far exact title xlabel yticks xlim ylim")
def plot_estimators(
    dt: xr.DataTree | Mapping[str, xr.DataTree],
    *,
    exact: float | Mapping[str, float] | None = None,
    options: Options,
) -> PlotCollection:
    """Plot estimates of log ML by every method, with 95 % intervals.

    The recommended method and the other valid methods have different colours. Methods whose check
    fails have grey dotted intervals. The axis covers the valid intervals, and an estimate beyond
    the axis is written at its edge.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. There is a panel for every data set of each.
    exact : float or dict of {str : float}, optional
        The true log ML, marked by a line. A number applies to all panels, and a dict gives the
        value by the title of the panel.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * interval -> :func:`arviz_plots.visuals.line_xy`
        * far -> :func:`arviz_plots.visuals.annotate_xy`, estimates beyond the axis
        * exact -> :func:`arviz_plots.visuals.vline`
        * title, xlabel -> the labels
        * yticks, xlim, ylim -> the names of the methods, the ranges of the axes
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If ``exact`` names an unknown panel.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> groups = {}
    >>> for name, mean in [("forward", -0.5), ("reverse", 0.5)]:
    ...     weights = ("dataset", "chain"), rng.normal(mean, 1, (1, 100))
    ...     draws = ("dataset", "chain"), np.ones((1, 100))
    ...     groups[name] = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> pc = bdmc.plot_estimators(xr.DataTree.from_dict(groups), exact=0.0)
    """
    table = estimates(dt).isel(chains=0, drop=True)
    truth = exact_values(exact, table["model"].values.tolist())
    methods = table["estimator"].values.tolist()
    value, reach = (_by_status(table, table[part]) for part in ("value", "error"))
    reach = Z95 * reach
    limits = _shown_range(value, reach, truth)
    place = xr.DataArray(-np.arange(len(methods)), {"estimator": methods})

    canvas = Canvas(
        "log_ml", value, options, ["point", "far"], ["interval"], by="status", col_wrap=2,
        color=COLORS, linestyle=LINESTYLES,
    )  # fmt: skip
    low, high = (limits.sel(limit=end, drop=True) for end in ("low", "high"))
    seen = value.where((value >= low) & (value <= high))
    canvas.draw(
        "interval", line_xy, segments("estimator", value - reach, value + reach, place, level=True)
    )
    canvas.trace("point", scatter_xy, seen, place)
    parts = along("part", value=value, low=low, high=high, y=place)
    canvas.draw("far", notes, parts, note=_far, vertical_align="bottom")
    canvas.draw("exact", vline, truth, color="gray", linestyle="C1")
    canvas.draw("xlim", limit_x, limits)
    canvas.rows(methods, above=0.6)
    return canvas.finish("log ML (nats)")


def _by_status(table: xr.Dataset, column: xr.DataArray) -> xr.DataArray:
    """Spread a column along a new dimension ``status``, with NaN for other statuses."""
    recommended, valid = table["recommended"] == 1, table["valid"] == 1
    masks = [recommended, valid & ~recommended, ~valid]
    return joined("status", dict(zip(STATUSES, map(column.where, masks), strict=True)))


def _shown_range(value, reach, truth) -> xr.DataArray:
    """Return limits of each panel around the valid intervals, if any, and the true value."""
    trusted = value.sel(status=STATUSES[:2]).notnull().any(["status", "estimator"])
    count = value["status"].isin(STATUSES[:2]) | ~trusted
    return around_intervals(value.where(count), reach, truth, 0.8, 0.01)


def _far(value: float, low: float, high: float, y: float) -> dict[str, Any]:
    """Return the note of an estimate beyond the axis, at its nearer end."""
    if value < low:
        return {"text": f"◂ {value:.4g}", "x": low, "y": y, "horizontal_align": "left"}
    if value > high:
        return {"text": f"{value:.4g} ▸", "x": high, "y": y, "horizontal_align": "right"}
    return {}
