"""Plot the chances of strong and of misleading evidence by the size of an experiment."""

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, set_ylim

from pymc_bdmc.plots.canvas import Canvas, Options, plot
from pymc_bdmc.plots.common import joined, segments

MARGIN = 0.03
"""Room beyond chances of 0 and 1."""

CURVES = {"strong": "strong for the truth", "misleading": "strong for the other"}


@plot("line interval point title xlabel ylabel xticks ylim")
def plot_plan(table: pd.DataFrame, *, options: Options) -> PlotCollection:
    """Plot how often an experiment gives strong evidence, for each model that may be true.

    Lines join the chances at each size, with 95 % intervals: of strong evidence for the model that
    is true, and of strong evidence for the other one.

    Parameters
    ----------
    table : DataFrame
        ``table`` of the result of `plan`.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line, interval -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel -> the labels
        * xticks, ylim -> the sizes, and the range from 0 to 1
        * legend -> :meth:`arviz_plots.PlotCollection.add_legend`
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If it is not the table of a plan.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc_bdmc as bdmc
    >>> index = pd.MultiIndex.from_product([[10, 40], ["H0", "H1"]], names=["size", "truth"])
    >>> rows = dict(strong=[0.1, 0.3, 0.6, 0.8], strong_low=0.05, strong_high=0.9)
    >>> more = dict(misleading=0.02, misleading_low=0.0, misleading_high=0.1)
    >>> pc = bdmc.plot_plan(pd.DataFrame(rows | more, index))
    """
    if not isinstance(table, pd.DataFrame) or not {"strong", "misleading"} <= set(table):
        raise ValueError("table: the table of a plan is needed, as in plan(...).table.")
    found = table.astype(float).to_xarray()
    sizes = found["size"].values

    def columns(end: str = "") -> xr.DataArray:
        rows = joined("curve", {told: found[f"{name}{end}"] for name, told in CURVES.items()})
        rows = rows.drop_vars("size").rename(truth="model").transpose("model", "curve", "size")
        return rows.assign_coords(model=[f"{name} is true" for name in rows["model"].values])

    y = columns()
    place = np.log(sizes) + np.array([[-0.5], [0.5]]) * 0.02 * np.ptp(np.log(sizes))
    x = xr.zeros_like(y) + xr.DataArray(place, dims=("curve", "size"))
    colored = ["line", "interval", "point"]
    canvas = Canvas("chance", y, options, colored, by="curve", legend=True, col_wrap=2)
    canvas.draw("interval", line_xy, segments("size", columns("_low"), columns("_high"), x))
    canvas.trace("line", line_xy, x, y)
    canvas.trace("point", scatter_xy, x, y)
    canvas.draw("ylim", set_ylim, canvas.panel, limits=(-MARGIN, 1 + MARGIN))
    canvas.ticks("xticks", np.log(sizes), [f"{size:g}" for size in sizes])
    return canvas.finish("size (log scale)", "chance")
