"""Plot how much experiments tell: their expected information gain, with bounds and interval."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy

from pymc_bdmc.plots.canvas import Canvas, Options, forest, plot
from pymc_bdmc.results.log_ml import Z95

GAIN, BEHIND = "expected information gain", "behind the first"
"""Panels: the gain, and its distance from that of the first design."""
BAR = 0.07
"""Half of the height of a bar that marks a bound, in rows."""


@plot("interval bound point title xlabel xticks yticks ylim")
def plot_information(gains: Any, *, options: Options) -> PlotCollection:
    """Plot the expected information gain of one or several experiments.

    A row is an experiment: the point is its gain, the bars are the means of its lower and upper
    bound, and the line is the 95 % interval. For several, a second panel shows their distance from
    the first, with 95 % intervals; these are shorter, since designs share the parameters.

    Parameters
    ----------
    gains : InformationGain or DataFrame
        Result of `information_gain` or `compare_designs`.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * interval, bound -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel -> the labels
        * xticks, yticks, ylim -> numbers, names and the vertical range
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If it is neither result.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc_bdmc as bdmc
    >>> gain = dict(gain=[3.1, 2.7], lower=[2.9, 2.5], upper=[3.3, 3.0])
    >>> bounds = dict(lower_bound=[3.05, 2.6], upper_bound=[3.15, 2.8])
    >>> behind = dict(behind=[0.0, 0.4], behind_error=[0.0, 0.06])
    >>> table = pd.DataFrame(gain | bounds | behind, index=["two doses", "spread"])
    >>> pc = bdmc.plot_information(table)
    """
    table = getattr(gains, "summary", gains)
    if not isinstance(table, pd.DataFrame) or not {"gain", "lower_bound"} <= set(table):
        raise ValueError("gains: the result of information_gain or compare_designs is needed.")
    several = "behind" in table
    names = [str(name) if several else "" for name in table.index]
    unknown = np.full(len(table), np.nan)

    def rows(gain: str, behind: Any) -> xr.DataArray:
        values = [table[gain], behind] if several else [table[gain]]
        coords = {"model": [GAIN, BEHIND][: len(values)], "name": names}
        return xr.DataArray(np.array(values, dtype=float), coords, ("model", "name"))

    behind, reach = (table["behind"], Z95 * table["behind_error"]) if several else (0, 0)
    point = rows("gain", behind)
    low, high = rows("lower", behind - reach), rows("upper", behind + reach)
    colored = ["interval", "bound", "point"]
    canvas = Canvas("information", point, options, colored, by="name", legend=False, col_wrap=2)
    height = forest(canvas, low, point, high)
    bar = xr.concat([height - BAR, height + BAR], "end")
    for bound in ("lower_bound", "upper_bound"):
        canvas.trace("bound", line_xy, rows(bound, unknown).broadcast_like(bar), bar)
    return canvas.finish("nats", "")
