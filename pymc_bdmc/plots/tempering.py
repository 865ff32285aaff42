"""Plot the inverse temperatures that chains of simulated tempering visit."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy

from pymc_bdmc.estimators import temperature_flow
from pymc_bdmc.plots.canvas import Canvas, Options, plot
from pymc_bdmc.plots.common import along, joined, readings

KNOT_CONDUCTANCE = 0.1
"""Conductance below which a knot is marked, since a chain then stays on one side for ten sweeps."""


@plot("path knot title xlabel ylabel")
def plot_tempering(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, chains: int = 6, options: Options
) -> PlotCollection:
    """Plot the inverse temperatures that chains visit by draw, and mark where few pass.

    A result can be trusted if every chain goes from end to end many times. A line marks a knot, the
    β that the fewest chains cross, if the flow is less than 0.1 of the draws on the side with fewer
    draws. See Carlson et al. (2016), Appendix F.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `temper`. A dict gives a panel for each of its entries.
    chains : int, default 6
        Number of chains to draw.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * path -> :func:`arviz_plots.visuals.line_xy`, β of each chain by draw
        * knot -> :func:`arviz_plots.visuals.hline`, where the least flow passes
        * title, xlabel, ylabel -> the labels
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> pc = bdmc.plot_tempering(dt)
    """
    runs = {title: read.tempering for title, read in readings(dt).items()}
    paths = joined("model", {title: _path(run, chains) for title, run in runs.items()})
    knots = joined("model", {title: _knot(run) for title, run in runs.items()})
    canvas = Canvas("beta", paths, options, ["path"], by="chain", legend=False, col_wrap=2)
    canvas.draw("path", line_xy, paths, width=0.8, alpha=0.8)
    canvas.draw("knot", hline, knots, color="black", linestyle="C1")
    return canvas.finish("draw", "inverse temperature β")


def _path(run: xr.Dataset, chains: int) -> xr.DataArray:
    """Return draw number and β of the first chains."""
    places = run["place"].isel(chain=slice(chains))
    beta = places.copy(data=run["beta"].values[places.values])
    return along("plot_axis", x=places["draw"], y=beta)


def _knot(run: xr.Dataset) -> xr.DataArray:
    """Return β at the cut with the smallest conductance, if that is low; else NaN."""
    names = ("log_likelihood", "place", "beta", "log_z_guess")
    arrays = [run[name].values for name in names]
    conductance = temperature_flow(*arrays).conductance
    cut = int(np.nanargmin(conductance))
    is_knot = conductance[cut] < KNOT_CONDUCTANCE
    return xr.DataArray(arrays[2][cut : cut + 2].mean() if is_knot else np.nan)
