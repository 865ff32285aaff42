"""What the plots share: results as labelled panels, their layout, and drawing one visual."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.plots.utils import filter_aes, get_visual_kwargs
from arviz_plots.visuals import labelled_title, set_xticks

__all__ = ["Canvas", "along", "panels", "stacked"]


def panels(dt: xr.DataTree | Mapping[str, object]) -> dict[str, object]:
    """Results by panel title; a single result has one panel without a title."""
    return {"": dt} if isinstance(dt, xr.DataTree) or not isinstance(dt, Mapping) else dict(dt)


def stacked(by_panel: Mapping[str, Mapping[str, xr.DataArray]]) -> xr.DataArray:
    """Join arrays along the new dimensions ``model`` (panels) and ``direction``."""
    models = [
        xr.concat(list(runs.values()), xr.Variable("direction", list(runs)), join="outer")
        for runs in by_panel.values()
    ]
    return xr.concat(models, xr.Variable("model", list(by_panel)), join="outer")


def along(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Join the coordinates of a visual along the dimension from which arviz-plots reads them."""
    return xr.concat(xr.broadcast(*parts.values()), xr.Variable(dim, np.array(list(parts))))


class Canvas:
    """A plot a model, colours by direction, and the user's options for each visual.

    Parameters
    ----------
    data : Dataset
        Has the dimensions ``model`` and ``direction``.
    plot_collection, backend, aes_by_visuals, visuals, pc_kwargs
        As given to the plot.
    """

    def __init__(
        self,
        data: xr.Dataset,
        plot_collection: PlotCollection | None,
        backend: str | None,
        aes_by_visuals: dict,
        visuals: dict,
        pc_kwargs: dict,
    ):
        self.visuals = visuals
        self.aes_by_visuals = aes_by_visuals
        # One element of each panel, for the visuals that depend on the panel alone.
        others = [dim for dim in data.dims if dim != "model"]
        self.panel = data.isel(dict.fromkeys(others, 0), drop=True)
        self.collection = plot_collection or _wrap(data, backend, pc_kwargs)

    def draw(self, name: str, visual: Callable, data: xr.Dataset, **defaults) -> None:
        """Draw one visual wherever the data and the aesthetics say."""
        kwargs = get_visual_kwargs(self.visuals, name)
        if kwargs is not False:
            dims = [dim for dim in data.dims if dim not in ("model", "direction")]
            *_, ignore = filter_aes(self.collection, self.aes_by_visuals, name, dims)
            options = {**defaults, **kwargs}
            keep = visual is not set_xticks  # its several artists do not fit the collection's store
            self.collection.map(
                visual, name, data=data, ignore_aes=ignore, store_artist=keep, **options
            )

    def finish(self) -> PlotCollection:
        """Add the panels' titles and the legend."""
        title = get_visual_kwargs(self.visuals, "title")
        if title is not False and self.panel["model"].values.tolist() != [""]:
            self.collection.map(
                _model_title,
                "title",
                data=self.panel,
                ignore_aes="all",
                subset_info=True,
                **title,
            )
        options = get_visual_kwargs(self.visuals, "legend")
        if options is not False:
            beside = (
                {"loc": "outside right upper"} if self.collection.backend == "matplotlib" else {}
            )
            self.collection.add_legend(**{"dim": ["direction"], **beside, **options})
        return self.collection


def _wrap(data: xr.Dataset, backend: str | None, pc_kwargs: dict) -> PlotCollection:
    backend = rcParams["plot.backend"] if backend is None else backend
    columns = min(data.sizes["model"], 3)
    rows = -(-data.sizes["model"] // columns)
    figure = {"figsize": (600 * columns, 360 * rows), "figsize_units": "dots"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"  # else the labels are cut off
    pc_kwargs = {"cols": ["model"], "col_wrap": columns, **pc_kwargs}
    given = pc_kwargs.get("figure_kwargs", {})
    if "figsize" in given:
        del figure["figsize"], figure["figsize_units"]
    pc_kwargs["figure_kwargs"] = figure | given
    pc_kwargs["aes"] = {"color": ["direction"], **pc_kwargs.get("aes", {})}
    return PlotCollection.wrap(data, backend=backend, **pc_kwargs)


def _model_title(da, target, *, sel, var_name, isel, **kwargs):
    return labelled_title(da, target, text=str(sel["model"]), **kwargs)
