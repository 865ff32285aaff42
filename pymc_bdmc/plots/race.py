"""Plot the errors of estimators of log ML against CPU time."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy

from pymc_bdmc.plots.canvas import Canvas, Options, limit_y, plot
from pymc_bdmc.plots.common import along, log_ticks
from pymc_bdmc.results.log_ml import Z95
from pymc_bdmc.testbeds.factors.race import standings

LOWEST = 0.05
"""Smallest error shown, nats."""


@plot("line point truth title xlabel ylabel xticks yticks ylim")
def plot_race(
    results: xr.Dataset | Mapping[str, xr.Dataset], *, options: Options
) -> PlotCollection:
    """Plot the root mean square error of each estimator against the CPU time of one estimate.

    Both axes are logarithmic. The shaded area is the uncertainty of the true value, which is the
    width of its sandwich or 1.96 standard errors, whichever is larger. Errors within the area
    cannot be judged.

    Parameters
    ----------
    results : Dataset or mapping of {str : Dataset}
        Result of `testbed.race`, or results on several problems, each of which has a panel.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * truth -> :func:`arviz_plots.visuals.fill_between_y`
        * title, xlabel, ylabel -> the labels
        * xticks, yticks, ylim -> numbers on the axes, and the range of the errors
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> problem = bdmc.testbed.Clustering(2, n=6, size=2).simulate(random_seed=1)
    >>> chosen = {name: bdmc.testbed.ESTIMATORS[name] for name in ("AIS", "SMC")}
    >>> options = dict(budgets=[10, 100], trials=3, random_seed=1)
    >>> pc = bdmc.plot_race(bdmc.testbed.race(problem, chosen, **options))
    """
    races = {"": results} if isinstance(results, xr.Dataset) else dict(results)
    panels = xr.Variable("model", list(races))
    tables = xr.concat(
        [standings(each).to_xarray() for each in races.values()], panels, join="outer"
    ).reindex(estimator=next(iter(races.values()))["estimator"])
    seconds, error = tables["seconds"], tables["rmse"].clip(min=LOWEST)
    seconds, error = xr.ufuncs.log10(seconds), xr.ufuncs.log10(error)
    told = [each.attrs for each in races.values()]
    width = [max(each["upper"] - each["lower"], Z95 * each["error"]) for each in told]
    top = xr.ufuncs.log10(xr.DataArray(width, {"model": panels}).clip(min=LOWEST))
    canvas = Canvas("rmse", seconds, options, ["point"], ["line"], by="estimator")
    ends = xr.concat([seconds.min(), seconds.max()], "budget")
    floor = xr.full_like(top, np.log10(LOWEST))
    canvas.fill("truth", ends, floor, top, color="gray", alpha=0.3)
    canvas.trace("line", line_xy, seconds, error)
    canvas.trace("point", scatter_xy, seconds, error)
    limits = along("limit", low=floor, high=xr.full_like(top, error.max() + 0.1))
    canvas.draw("ylim", limit_y, limits)
    canvas.ticks("xticks", **log_ticks(seconds.values))
    canvas.ticks("yticks", **log_ticks(limits.values))
    return canvas.finish("CPU seconds", "RMSE (nats)")
