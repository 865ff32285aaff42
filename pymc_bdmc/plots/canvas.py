"""Draw labelled arrays in panels, and give a plot the options that all plots take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from inspect import signature
from typing import Any, Literal

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_base.validate import validate_dict_argument
from arviz_plots.plot_collection import PlotCollection, backend_from_object
from arviz_plots.plots.dist_plot import plot_dist
from arviz_plots.plots.utils import get_visual_kwargs
from arviz_plots.visuals import (
    annotate_xy,
    fill_between_y,
    labelled_title,
    labelled_x,
    labelled_y,
    line_xy,
    scatter_xy,
    set_xlim,
    set_xticks,
    set_ylim,
)
from numpy.typing import ArrayLike

from pymc_bdmc.results.reading import Reading

ROOM = 30
"""Number of characters that fit into the tick labels of an axis."""

type Results = xr.DataTree | Mapping[str, xr.DataTree]
"""One result, or several by the title of their panel."""


class Options:
    """Common options of all plots, for a plot with these visuals; see `pymc_bdmc.plots`."""

    def __init__(
        self,
        names: Sequence[str],
        *,
        plot_collection: PlotCollection | None = None,
        backend: Literal["matplotlib", "bokeh", "plotly"] | None = None,
        aes_by_visuals: Mapping[str, Sequence[str]] | None = None,
        visuals: Mapping[str, Mapping[str, Any] | bool] | None = None,
        **pc_kwargs,
    ):
        self.plot_collection, self.backend, self.pc_kwargs = plot_collection, backend, pc_kwargs
        self.aes_by_visuals = validate_dict_argument(aes_by_visuals, valid_keys=names)
        self.visuals = validate_dict_argument(visuals, valid_keys=[*names, "legend"])


def plot(names: str) -> Callable[[Callable[..., PlotCollection]], Callable[..., PlotCollection]]:
    """Give a plot with these visuals the common options, and pass them on as ``options``."""

    def decorate(draw: Callable[..., PlotCollection]) -> Callable[..., PlotCollection]:
        *own, _ = signature(draw).parameters.values()
        _, *shared = signature(Options).parameters.values()

        def front(*args, **kwargs) -> PlotCollection:
            given = {each.name: kwargs.pop(each.name) for each in own if each.name in kwargs}
            return draw(*args, options=Options(names.split(), **kwargs), **given)

        update_wrapper(front, draw)
        vars(front)["__signature__"] = signature(draw).replace(parameters=[*own, *shared])
        return front

    return decorate


class Canvas:
    """Figure with a panel per model, and colours and a legend along the dimension ``by``.

    Artists are stored as ``name``; the caller's options replace ``defaults`` of
    `PlotCollection.wrap`.
    """

    def __init__(
        self,
        name: str,
        data: xr.DataArray,
        options: Options,
        by: str = "direction",
        *,
        legend: bool = True,
        **defaults,
    ):
        self.by = by
        self.visuals = {"legend": legend} | options.visuals
        self.aes_by_visuals = options.aes_by_visuals
        self._name = name
        self.panel = xr.zeros_like(data["model"], dtype=float)
        """A zero for each panel, for visuals that depend on the panel only."""
        pc_kwargs = {"cols": ["model"], "col_wrap": 3, **defaults, **options.pc_kwargs}
        backend = options.backend or rcParams["plot.backend"]
        # Without this layout, matplotlib cuts off the labels.
        figure: dict[str, Any] = {"layout": "constrained"} if backend == "matplotlib" else {}
        if "figsize" not in pc_kwargs.get("figure_kwargs", {}):
            columns = min(self.panel.size, pc_kwargs["col_wrap"])
            rows = -(-self.panel.size // columns)
            figure |= {"figsize": (600 * columns, 360 * rows), "figsize_units": "dots"}
        pc_kwargs["figure_kwargs"] = figure | pc_kwargs.get("figure_kwargs", {})
        shown = ["color", "linestyle"] if "linestyle" in defaults else ["color"]
        pc_kwargs["aes"] = {each: [by] for each in shown} | pc_kwargs.get("aes", {})
        self.collection = options.plot_collection or PlotCollection.wrap(
            self.named(data), backend=backend, **pc_kwargs
        )

    def named(self, data: xr.DataArray) -> xr.Dataset:
        """Return the data in the form of arviz-plots."""
        return data.to_dataset(name=self._name)

    def draw(self, name: str, visual, data: xr.DataArray, computed=lambda da: {}, **defaults):
        """Draw a visual in every panel and colour for which there are data.

        The caller's options replace ``defaults`` and what is ``computed`` from the data there.
        """
        kwargs = get_visual_kwargs(self.visuals, name)
        if kwargs is False:
            return
        if "model" in data.dims:
            data = data.reindex(model=self.panel["model"])
        own = ["color", "linestyle"] if visual is line_xy else ["color"]
        used = self.aes_by_visuals.get(name, own if self.by in data.dims else [])
        self.collection.map(
            lambda da, target, **given: visual(da, target, **computed(da) | given),
            name,
            data=self.named(data),
            ignore_aes=self.collection.aes_set - set(used),
            # The collection cannot store the several artists of ticks.
            store_artist=name not in ("xticks", "yticks"),
            **defaults | kwargs,
        )

    def line(self, name: str, x: xr.DataArray, y: xr.DataArray, **defaults) -> None:
        """Draw a line."""
        self.draw(name, line_xy, along("plot_axis", x=x, y=y), **defaults)

    def points(self, name: str, x: xr.DataArray, y: xr.DataArray, **defaults) -> None:
        """Draw points."""
        self.draw(name, scatter_xy, along("plot_axis", x=x, y=y), **defaults)

    def fill(self, name: str, x: xr.DataArray, low: xr.DataArray, high: xr.DataArray, **defaults):
        """Fill the area between two curves."""
        self.draw(name, fill_between_y, along("kwarg", x=x, y_bottom=low, y_top=high), **defaults)

    def intervals(self, dim: str, low, high, at: xr.DataArray, level: bool = False) -> None:
        """Draw the intervals at all places of a dimension, as one line with gaps."""
        ends = xr.concat([low, high, np.nan * high], "end")
        x, y = (ends, at) if level else (at, ends)
        pair = along("plot_axis", x=x, y=y).transpose(..., dim, "end")
        self.draw("interval", line_xy, pair.stack(piece=(dim, "end"), create_index=False))

    def notes(self, name: str, text, x, y, align, **defaults) -> None:
        """Write the texts that are not empty at places, each aligned with its place."""

        def write(da, target, **kwargs):
            artist = None
            for text, x, y, align in da.transpose("part", ...).values.reshape(4, -1).T:
                if text:
                    at = {"text": text, "x": x, "y": y, "horizontal_align": align}
                    artist = annotate_xy(da, target, **at | kwargs)
            return artist

        parts = along("part", text=text, x=x, y=y, align=xr.DataArray(align))
        self.draw(name, write, parts.astype(object), **defaults)

    def limits(self, name: str, low: Any, high: Any) -> None:
        """Set the range of an axis, by panel or for all: ``name`` is ``"xlim"`` or ``"ylim"``."""
        visual = set_xlim if name == "xlim" else set_ylim
        ends = along("limit", low=low + self.panel, high=high + self.panel)
        self.draw(name, visual, ends, lambda da: {"limits": da.values.tolist()})

    def ticks(self, name: str, values, labels: Iterable, panels: Any = slice(None)) -> None:
        """Put labelled ticks on an axis: ``name`` is ``"xticks"`` or ``"yticks"``."""
        visual = set_xticks if name == "xticks" else _set_yticks
        texts, places = list(map(str, labels)), np.asarray(values).tolist()
        self.draw(name, visual, self.panel.sel(model=panels), values=places, labels=texts)

    def rows(self, names: Iterable, *, above: float = 0.5) -> None:
        """Name rows at the heights 0, −1, …, and show all of them."""
        labels = list(names)
        self.limits("ylim", 0.5 - len(labels), above)
        self.ticks("yticks", -np.arange(len(labels)), labels)

    def forest(self, low, middle: xr.DataArray, high) -> xr.DataArray:
        """Draw points and intervals in rows along the dimension ``name``; return their heights."""
        height = xr.zeros_like(middle) - np.arange(middle.sizes["name"])
        ends = xr.concat([low, high], "end")
        self.line("interval", ends, height.broadcast_like(ends))
        self.points("point", middle, height)
        self.draw("xticks", set_xticks, ends.stack(tick=("name", "end")), round_ticks)
        self.rows(middle["name"].values)
        return height

    def distributions(self, data: xr.DataArray, kind: str) -> None:
        """Draw the visuals ``dist`` and ``face`` along the dimension ``sample``."""
        names = ("dist", "face")
        others = ("credible_interval", "point_estimate", "point_estimate_text", "title")
        visuals: dict = dict.fromkeys(others, False)
        # Areas below dots or distribution functions would hide one another.
        visuals["face"] = {"alpha": 0.2} if kind in ("kde", "hist") else False
        chosen = {name: self.visuals[name] for name in names if name in self.visuals}
        # Log weights have no bounds at which a density could end.
        tails = {"bound_correction": False, "extend": True, "extend_fct": 1.0}
        plot_dist(
            self.named(data),
            sample_dims=["sample"],
            kind=kind,
            plot_collection=self.collection,
            aes_by_visuals={name: self.aes_by_visuals.get(name, ["color"]) for name in names},
            visuals=visuals | chosen,
            stats={"dist": tails} if kind == "kde" else {},
        )

    def finish(self, x: Any = None, y: Any = None) -> PlotCollection:
        """Add titles, the legend, and labels of the axes: a text for all panels, or a list."""
        models = self.panel["model"].values.tolist()
        for name, visual, text in (
            ("xlabel", labelled_x, x),
            ("ylabel", labelled_y, y),
            ("title", labelled_title, models if models != [""] else None),
        ):
            if text is not None:
                texts = self.panel.copy(data=np.resize(text, self.panel.size))
                self.draw(name, visual, texts, lambda da: {"text": str(da.item())})
        options = get_visual_kwargs(self.visuals, "legend")
        if options is not False:
            if self.collection.backend == "matplotlib":
                options = {"loc": "outside right upper"} | options
            self.collection.add_legend(**{"dim": [self.by]} | options)
        return self.collection


def _set_yticks(da, target, values, labels, **kwargs):
    """Label values on the vertical axis, as `arviz_plots.visuals.set_xticks` does below."""
    return backend_from_object(target).yticks(values, labels, target, **kwargs)


def panels(dt: Any) -> dict[str, Any]:
    """Return results by panel title, which is empty for a single result."""
    return {"": dt} if isinstance(dt, xr.DataTree) or not isinstance(dt, Mapping) else dict(dt)


def readings(dt: Results) -> dict[str, Reading]:
    """Return the readings of results by panel title."""
    return {title: Reading.of(each) for title, each in panels(dt).items()}


def joined(dim: str, arrays: Mapping[str, Any]) -> Any:
    """Join arrays or datasets by name along a new dimension; NaN if one has no value."""
    return xr.concat(list(arrays.values()), xr.Variable(dim, list(arrays)), join="outer")


def stacked(by_panel: Mapping[str, Mapping[str, xr.DataArray]]) -> xr.DataArray:
    """Join arrays along the new dimensions ``model`` (panels) and ``direction``."""
    return joined("model", {title: joined("direction", runs) for title, runs in by_panel.items()})


def sample(values: np.ndarray) -> xr.DataArray:
    """Return values as a sample, whose distribution can be drawn."""
    return xr.DataArray(values, {"sample": np.arange(values.size)}, dims="sample")


def along(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Join the coordinates of a visual along the dimension that arviz-plots reads."""
    return xr.concat(xr.broadcast(*parts.values()), xr.Variable(dim, np.array(list(parts))))


def around(values: xr.DataArray, margin: float = 0.1, least: float = 0.0) -> list[xr.DataArray]:
    """Return the ends of an axis by panel, around all finite values with a relative margin."""
    others = [dim for dim in values.dims if dim != "model"]
    values = values.where(np.isfinite(values))
    low, high = values.min(others), values.max(others)
    space = (margin * (high - low)).clip(min=least)
    return [low - space, high + space]


def round_ticks(da: xr.DataArray) -> dict[str, list]:
    """Return ticks at round values within the range of the data, few enough to avoid overlap."""
    finite = da.values[np.isfinite(da.values)]
    low, high = finite.min(), finite.max()
    if low == high:
        return {"values": [low], "labels": [f"{low:g}"]}
    power = int(np.floor(np.log10((high - low) / ROOM)))
    while True:
        for step in (10.0**power, 2 * 10.0**power, 5 * 10.0**power):
            values = step * np.arange(np.ceil(low / step), np.floor(high / step) + 1)
            labels = [f"{value:.{max(-power, 0)}f}".replace("-", "−") for value in values]
            if len("".join(labels)) <= ROOM:
                return {"values": values.tolist(), "labels": labels}
        power += 1


def log_ticks(values: ArrayLike) -> dict[str, list]:
    """Return labelled ticks on a logarithmic axis, at 1, 2, 5, 10, … or at powers of ten."""
    finite = np.asarray(values)
    finite = finite[np.isfinite(finite)]
    low, high = finite.min(), finite.max()
    steps = (1, 2, 5) if high - low < 2 else (1,)
    decades = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
    ticks = np.multiply.outer(decades, steps).ravel()
    ticks = ticks[(ticks >= 0.99 * 10**low) & (ticks <= 1.01 * 10**high)]
    return {"values": np.log10(ticks).tolist(), "labels": [f"{tick:g}" for tick in ticks]}
