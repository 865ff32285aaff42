"""Plot the mean log likelihood along the path, in both directions."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, vline

from pymc_bdmc.plots.canvas import Canvas, Options, limit_y, plot
from pymc_bdmc.plots.common import along, around, readings, stacked
from pymc_bdmc.results.reading import Side


@plot("path loop critical title xlabel ylabel ylim")
def plot_hysteresis(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, options: Options
) -> PlotCollection:
    """Plot the mean ℓ of the chains along β, forward and reverse.

    On a path from a reference r, log p(θ) + ℓ(θ) − log r(θ) replaces ℓ.

    If the directions disagree, the kernels do not equilibrate along the path. The area between the
    curves is the gap of the sandwich, up to discretisation.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. A dict gives a panel for each of its entries. Several data sets
        are averaged.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * path -> :func:`arviz_plots.visuals.line_xy`, mean ℓ along β
        * loop -> :func:`arviz_plots.visuals.fill_between_y`, the area between the directions
        * critical -> :func:`arviz_plots.visuals.vline`, at the critical β of a lattice model
        * title, xlabel, ylabel -> the labels
        * ylim -> :func:`arviz_plots.visuals.set_ylim`, by default without the lowest 5 % of each
          path, which is next to the prior
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(chains=4, temperatures=20, simulate="prior", random_seed=1,
    ...                         cores=1, progressbar=False)
    >>> pc = bdmc.plot_hysteresis(dt)
    """
    reads = readings(dt)
    paths = stacked(
        {
            title: {name: _mean_path(read.side(name)) for name in read.directions}
            for title, read in reads.items()
        }
    )
    beta, paths = paths.sel(plot_axis="x"), paths.sel(plot_axis="y")
    canvas = Canvas("log_likelihood", paths, options, ["path"])
    if paths.sizes["direction"] == 2:
        low, high = paths.min("direction"), paths.max("direction")
        canvas.fill("loop", beta.isel(direction=0, drop=True), low, high, color="gray", alpha=0.2)
    canvas.trace("path", line_xy, beta, paths)
    critical = [read.critical_beta for read in reads.values()]
    if not np.isnan(critical).all():
        lines = xr.DataArray(critical, {"model": paths["model"]})
        canvas.draw("critical", vline, lines, color="gray", linestyle="C1")
    late = paths.quantile([0.05, 1.0], ["place", "direction"])  # ℓ is extremely low at the start
    canvas.draw("ylim", limit_y, around(late))
    taken = {read.path or "prior" for read in reads.values()}
    return canvas.finish("inverse temperature β", f"mean {_meaning(taken)} (nats)")


def _meaning(taken: set[str]) -> str:
    """Name the quantity that is averaged along these paths."""
    if taken == {"prior"}:
        return "log likelihood"
    return "slope of log f" if "data" in taken else "log posterior over reference"


def _mean_path(side: Side) -> xr.DataArray:
    """Return β and mean ℓ by the index along the path, since schedules may differ."""
    path = side.variable("log_likelihood_path")
    path = path.mean("dataset") if "dataset" in path.dims else path
    pair = along("plot_axis", x=path["beta"], y=path).rename(beta="place")
    return pair.assign_coords(place=range(pair.sizes["place"]))
