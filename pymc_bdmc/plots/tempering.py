"""Chains of simulated tempering on their way up and down the ladder."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_base.validate import validate_dict_argument
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.plots.utils import filter_aes, get_visual_kwargs
from arviz_plots.visuals import hline, labelled_title, labelled_x, labelled_y, line_xy

from pymc_bdmc.estimators import temperature_flow
from pymc_bdmc.plots.common import along, panels

__all__ = ["plot_tempering"]


def plot_tempering(
    dt: xr.DataTree | Mapping[str, xr.DataTree],
    *,
    chains: int = 6,
    plot_collection: PlotCollection | None = None,
    backend: Literal["matplotlib", "bokeh", "plotly"] | None = None,
    aes_by_visuals: Mapping[
        Literal["path", "knot", "title", "xlabel", "ylabel"], Sequence[str]
    ] = None,
    visuals: Mapping[
        Literal["path", "knot", "title", "xlabel", "ylabel"], Mapping[str, Any] | bool
    ] = None,
    **pc_kwargs,
) -> PlotCollection:
    """Inverse temperatures that chains visit, draw by draw, and where they get stuck.

    A run can be trusted where every chain goes from end to end many times. At a knot few pass:
    the line marks the place on the ladder with the least flow across, compared with the share of
    draws on the smaller side. After Carlson et al. (2016), Appendix F.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `temper`; a dict gives a panel for each of its entries.
    chains : int, default 6
        Chains to draw.
    plot_collection : PlotCollection, optional
        Where to draw.
    backend : {"matplotlib", "bokeh", "plotly"}, optional
        Plotting library.
    aes_by_visuals : mapping of {str : sequence of str}, optional
        Aesthetics that each visual uses.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * path -> :func:`arviz_plots.visuals.line_xy`, β of each chain by draw
        * knot -> :func:`arviz_plots.visuals.hline`, where the least flow passes
        * title, xlabel, ylabel -> the labels
    **pc_kwargs
        Passed to :meth:`arviz_plots.PlotCollection.wrap`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.lattice.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> pc = bdmc.plot_tempering(dt)
    """
    visuals = validate_dict_argument(visuals, (plot_tempering, "visuals"))
    aes_by_visuals = validate_dict_argument(aes_by_visuals, (plot_tempering, "aes_by_visuals"))
    aes_by_visuals.setdefault("path", ["color"])
    runs = {title: each["tempering"].dataset for title, each in panels(dt).items()}
    titles = xr.Variable("model", list(runs))
    paths = xr.concat([_path(run, chains) for run in runs.values()], titles, join="outer")
    knots = xr.concat([_knot(run) for run in runs.values()], titles)
    if plot_collection is None:
        plot_collection = _wrap(paths, backend, pc_kwargs)

    def draw(name, visual, data, dims=(), **defaults):
        options = get_visual_kwargs(visuals, name)
        if options is not False:
            *_, ignore = filter_aes(plot_collection, aes_by_visuals, name, dims)
            plot_collection.map(
                visual, name, data=data.to_dataset(name="beta"), ignore_aes=ignore,
                **{**defaults, **options},
            )  # fmt: skip

    draw("path", line_xy, paths, ("plot_axis", "draw"), width=0.8, alpha=0.8)
    draw("knot", hline, knots, color="black", linestyle="C1")
    draw("xlabel", labelled_x, knots, text="draw")
    draw("ylabel", labelled_y, knots, text="inverse temperature β")
    if titles.values.tolist() != [""]:
        draw("title", _title, knots, subset_info=True)
    return plot_collection


def _path(run: xr.Dataset, chains: int) -> xr.DataArray:
    """Draw number and β of the first chains."""
    places = run["place"].isel(chain=slice(chains))
    beta = places.copy(data=run["beta"].values[places.values])
    return along("plot_axis", x=places["draw"], y=beta)


def _knot(run: xr.Dataset) -> xr.DataArray:
    """β in the middle of the cut with the least conductance."""
    names = ("log_likelihood", "place", "beta", "log_z_guess")
    arrays = [run[name].values for name in names]
    cut = int(np.nanargmin(temperature_flow(*arrays).conductance))
    return xr.DataArray(arrays[2][cut : cut + 2].mean())


def _wrap(paths: xr.DataArray, backend: str | None, pc_kwargs: dict) -> PlotCollection:
    backend = rcParams["plot.backend"] if backend is None else backend
    columns = min(paths.sizes["model"], 2)
    rows = -(-paths.sizes["model"] // columns)
    figure = {"figsize": (700 * columns, 300 * rows), "figsize_units": "dots"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"
    given = pc_kwargs.pop("figure_kwargs", {})
    if "figsize" in given:
        del figure["figsize"], figure["figsize_units"]
    pc_kwargs = {"cols": ["model"], "col_wrap": columns, **pc_kwargs}
    pc_kwargs["aes"] = {"color": ["chain"], **pc_kwargs.get("aes", {})}
    data = paths.to_dataset(name="beta")
    return PlotCollection.wrap(data, backend=backend, figure_kwargs=figure | given, **pc_kwargs)


def _title(da, target, *, sel, var_name, isel, **kwargs):
    return labelled_title(da, target, **{"text": str(sel["model"]), **kwargs})
