"""Draw visuals in every panel, and give a plot the options that all plots take."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from inspect import signature
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from arviz_base import rcParams
from arviz_base.validate import validate_dict_argument
from arviz_plots.plot_collection import PlotCollection, backend_from_object
from arviz_plots.plots.dist_plot import plot_dist
from arviz_plots.plots.utils import filter_aes, get_visual_kwargs
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

from pymc_bdmc.plots.common import along

ROOM = 30
"""Number of characters that fit into the tick labels of an axis."""

Backend = Literal["matplotlib", "bokeh", "plotly"]
"""Names of the plotting libraries."""


class Options(NamedTuple):
    """Common options of all plots; see `pymc_bdmc.plots`."""

    plot_collection: PlotCollection | None
    backend: Backend | None
    aes_by_visuals: dict
    visuals: dict
    pc_kwargs: dict


def plot(names: str) -> Callable[[Callable[..., PlotCollection]], Callable[..., PlotCollection]]:
    """Give a plot the options that all plots take, and pass them on as one argument ``options``.

    Parameters
    ----------
    names : str
        The visuals of the plot, separated by spaces. Other names in ``visuals`` or
        ``aes_by_visuals`` raise an error.
    """

    def decorate(draw: Callable[..., PlotCollection]) -> Callable[..., PlotCollection]:
        whole = signature(draw)
        own = {name: each for name, each in whole.parameters.items() if name != "options"}

        def front(
            *args,
            plot_collection: PlotCollection | None = None,
            backend: Backend | None = None,
            aes_by_visuals: Mapping[str, Sequence[str]] | None = None,
            visuals: Mapping[str, Mapping[str, Any] | bool] | None = None,
            **pc_kwargs,
        ) -> PlotCollection:
            given = {name: pc_kwargs.pop(name) for name in own if name in pc_kwargs}
            chosen = validate_dict_argument(visuals, valid_keys=[*names.split(), "legend"])
            aes = validate_dict_argument(aes_by_visuals, valid_keys=names.split())
            options = Options(plot_collection, backend, aes, chosen, pc_kwargs)
            return draw(*args, options=options, **given)

        shared = list(signature(front).parameters.values())[1:]
        update_wrapper(front, draw)
        vars(front)["__signature__"] = whole.replace(parameters=[*own.values(), *shared])
        return front

    return decorate


def limit_x(da, target, **kwargs):
    """Set the limits of the horizontal axis, from data along the dimension ``limit``."""
    return set_xlim(da, target, **{"limits": da.values.tolist(), **kwargs})


def limit_y(da, target, **kwargs):
    """Set the limits of the vertical axis, from data along the dimension ``limit``."""
    return set_ylim(da, target, **{"limits": da.values.tolist(), **kwargs})


def round_ticks(da: xr.DataArray) -> dict[str, list]:
    """Return ticks at round values within the range of the data, few enough to avoid overlap."""
    finite = da.values[np.isfinite(da.values)]
    if not finite.size:
        return {"values": [], "labels": []}
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


def set_yticks(da, target, values, labels, **kwargs):
    """Label values on the vertical axis, as `arviz_plots.visuals.set_xticks` does below."""
    return backend_from_object(target).yticks(values, labels, target, **kwargs)


def notes(da, target, *, note: Callable[..., dict[str, Any]], **kwargs):
    """Write a note at each of several places, from the parts of its data; none if it is empty."""
    artist = None
    for parts in da.transpose("part", ...).values.T:
        if text := note(*parts):
            artist = annotate_xy(da, target, **text | kwargs)
    return artist


def _none(da: xr.DataArray) -> dict[str, Any]:
    return {}


class Canvas:
    """Figure with a panel per model, colours along a second dimension, and options per visual.

    Parameters
    ----------
    name : str
        Name of the variable under which the plot stores its artists.
    data : DataArray
        Data with the dimensions ``model`` and ``by``.
    options : Options
    colored, dashed : sequence of str
        Visuals that differ in colour along ``by``, and those that also differ in line style.
    by : str
        Dimension that colours, line styles and the legend show.
    legend : bool
        Whether to draw a legend if the caller gives no option for it.
    **defaults
        Arguments of `PlotCollection.wrap`, which the caller's options replace.
    """

    def __init__(
        self,
        name: str,
        data: xr.DataArray,
        options: Options,
        colored: Sequence[str],
        dashed: Sequence[str] = (),
        by: str = "direction",
        legend: bool = True,
        **defaults,
    ):
        self.by = by
        self.visuals = ({} if legend else {"legend": False}) | options.visuals
        aes = {each: ["color"] for each in colored}
        aes |= {each: ["color", "linestyle"] for each in dashed}
        self.aes_by_visuals = aes | options.aes_by_visuals
        self._name = name
        # One element per panel, for visuals that depend on the panel only.
        others = [dim for dim in data.dims if dim != "model"]
        self.panel = xr.zeros_like(data.isel(dict.fromkeys(others, 0), drop=True))
        shown = {"color": [by]} | ({"linestyle": [by]} if dashed else {})
        self.collection = options.plot_collection or _wrap(
            self.named(data), options.backend, defaults | options.pc_kwargs, shown
        )

    def named(self, data: xr.DataArray) -> xr.Dataset:
        """Return the data in the form of arviz-plots."""
        return data.to_dataset(name=self._name)

    def draw(
        self,
        name: str,
        visual: Callable,
        data: xr.DataArray,
        computed: Callable = _none,
        **defaults,
    ) -> None:
        """Draw one visual for every combination of panel and aesthetics.

        Parameters
        ----------
        name : str
        visual : callable
            Visual of arviz-plots.
        data : DataArray
            Nothing is drawn in panels without data.
        computed : callable
            Returns arguments of the visual from the data of one combination.
        **defaults
            Other arguments. The caller's options replace all of them.
        """
        kwargs = get_visual_kwargs(self.visuals, name)
        if kwargs is False:
            return
        if "model" in data.dims:
            data = data.reindex(model=self.panel["model"])
        dims = [dim for dim in data.dims if dim not in ("model", self.by)]
        *_, ignore = filter_aes(self.collection, self.aes_by_visuals, name, dims)
        self.collection.map(
            lambda da, target, **given: visual(da, target, **computed(da) | given),
            name,
            data=self.named(data),
            ignore_aes=ignore,
            # The collection cannot store the several artists of ticks.
            store_artist=name not in ("xticks", "yticks"),
            **defaults | kwargs,
        )

    def trace(
        self, name: str, visual: Callable, x: xr.DataArray, y: xr.DataArray, **defaults
    ) -> None:
        """Draw a line or points through these coordinates."""
        self.draw(name, visual, along("plot_axis", x=x, y=y), **defaults)

    def fill(
        self, name: str, x: xr.DataArray, low: xr.DataArray, high: xr.DataArray, **defaults
    ) -> None:
        """Fill the area between two curves."""
        self.draw(name, fill_between_y, along("kwarg", x=x, y_bottom=low, y_top=high), **defaults)

    def ticks(
        self, name: str, values: ArrayLike, labels: Iterable, panels: Sequence | None = None
    ) -> None:
        """Put labelled ticks on an axis: ``name`` is ``"xticks"`` or ``"yticks"``."""
        visual = set_xticks if name == "xticks" else set_yticks
        panel = self.panel if panels is None else self.panel.sel(model=panels)
        places = np.asarray(values).tolist()
        self.draw(name, visual, panel, values=places, labels=[str(each) for each in labels])

    def rows(self, names: Iterable, *, above: float = 0.5) -> None:
        """Name rows at the heights 0, −1, …, and show all of them."""
        labels = list(names)
        self.draw("ylim", set_ylim, self.panel, limits=(0.5 - len(labels), above))
        self.ticks("yticks", -np.arange(len(labels)), labels)

    def finish(
        self, x: str | Sequence[str] | None = None, y: str | Sequence[str] | None = None
    ) -> PlotCollection:
        """Add titles, the legend, and the labels of the axes, for all panels or by panel."""
        models = self.panel["model"].values.tolist()
        title = models if models != [""] else None
        for name, visual, text in (
            ("xlabel", labelled_x, x), ("ylabel", labelled_y, y), ("title", labelled_title, title)
        ):  # fmt: skip
            if text is not None:
                texts = [text] * len(models) if isinstance(text, str) else list(text)
                panels = xr.DataArray(texts, {"model": models})
                self.draw(name, visual, panels, lambda da: {"text": str(da.item())})
        options = get_visual_kwargs(self.visuals, "legend")
        if options is not False:
            is_mpl = self.collection.backend == "matplotlib"
            beside = {"loc": "outside right upper"} if is_mpl else {}
            self.collection.add_legend(**{"dim": [self.by], **beside, **options})
        return self.collection


def forest(
    canvas: Canvas, low: xr.DataArray, middle: xr.DataArray, high: xr.DataArray
) -> xr.DataArray:
    """Draw points and intervals in rows along the dimension ``name``; return their heights."""
    height = xr.zeros_like(middle) - np.arange(middle.sizes["name"])
    ends = xr.concat([low, high], "end")
    canvas.trace("interval", line_xy, ends, height.broadcast_like(ends))
    canvas.trace("point", scatter_xy, middle, height)
    canvas.draw("xticks", set_xticks, ends.stack(tick=("name", "end")), round_ticks)
    canvas.rows(middle["name"].values)
    return height


def draw_distributions(canvas: Canvas, data: xr.DataArray, kind: str) -> None:
    """Draw the visuals ``dist`` and ``face`` along the dimension ``sample``."""
    names = ("dist", "face")
    others = ("credible_interval", "point_estimate", "point_estimate_text", "title")
    # Log weights have no bounds at which a density could end.
    tails = {"bound_correction": False, "extend": True, "extend_fct": 1.0}
    plot_dist(
        canvas.named(data),
        sample_dims=["sample"],
        kind=kind,
        plot_collection=canvas.collection,
        aes_by_visuals={name: canvas.aes_by_visuals[name] for name in names},
        visuals={
            # Areas below dots or distribution functions would hide one another.
            "face": {"alpha": 0.2} if kind in ("kde", "hist") else False,
            **dict.fromkeys(others, False),
            **{name: canvas.visuals[name] for name in names if name in canvas.visuals},
        },
        stats={"dist": tails} if kind == "kde" else {},
    )


def _wrap(data: xr.Dataset, backend: str | None, pc_kwargs: dict, aes: dict) -> PlotCollection:
    backend = rcParams["plot.backend"] if backend is None else backend
    columns = min(data.sizes["model"], pc_kwargs.get("col_wrap", 3))
    rows = -(-data.sizes["model"] // columns)
    figure = {"figsize": (600 * columns, 360 * rows), "figsize_units": "dots"}
    if backend == "matplotlib":
        figure["layout"] = "constrained"  # else the labels are cut off
    pc_kwargs = {"cols": ["model"], "col_wrap": columns, **pc_kwargs}
    given = pc_kwargs.get("figure_kwargs", {})
    if "figsize" in given:
        del figure["figsize"], figure["figsize_units"]
    pc_kwargs["figure_kwargs"] = figure | given
    pc_kwargs["aes"] = aes | pc_kwargs.get("aes", {})
    return PlotCollection.wrap(data, backend=backend, **pc_kwargs)
