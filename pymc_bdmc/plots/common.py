"""Shared parts of the plots: results as labelled panels, layout, and drawing one visual."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import rcParams
from arviz_base.validate import validate_dict_argument
from arviz_plots.plot_collection import PlotCollection, backend_from_object
from arviz_plots.plots.dist_plot import plot_dist
from arviz_plots.plots.utils import filter_aes, get_visual_kwargs
from arviz_plots.visuals import labelled_title, set_xlim, set_xticks, set_ylim

from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.results.evidence import evidence
from pymc_bdmc.results.groups import data_sets, variable
from pymc_bdmc.results.log_ml import Z95

ROOM = 30
"""Number of characters that fit into the tick labels of an axis."""

CHAIN_VARIABLES = ("log_weight", "prior_draws")

Backend = Literal["matplotlib", "bokeh", "plotly"]
"""Names of the plotting libraries."""

__all__ = [
    "ROOM",
    "Z95",
    "Backend",
    "Canvas",
    "Options",
    "along",
    "checked_options",
    "draw_distributions",
    "estimates",
    "exact_values",
    "few_xticks",
    "finished_first",
    "limit_x",
    "limit_y",
    "log_ml_runs",
    "log_ticks",
    "panels",
    "set_yticks",
    "stacked",
    "with_text",
]


class Options(NamedTuple):
    """Common options of all plots; see `pymc_bdmc.plots`."""

    plot_collection: PlotCollection | None
    backend: Backend | None
    aes_by_visuals: dict
    visuals: dict
    pc_kwargs: dict


def checked_options(
    plot: Callable,
    plot_collection: PlotCollection | None,
    backend: Backend | None,
    aes_by_visuals: Mapping | None,
    visuals: Mapping | None,
    pc_kwargs: dict,
) -> Options:
    """Return the options of a plot; raise an error for unknown names of visuals.

    Parameters
    ----------
    plot : callable
        Whose annotations have the names.
    plot_collection, backend, aes_by_visuals, visuals, pc_kwargs
        As given to the plot.
    """
    chosen = validate_dict_argument(visuals, (plot, "visuals"))
    aes = validate_dict_argument(aes_by_visuals, (plot, "aes_by_visuals"))
    return Options(plot_collection, backend, aes, chosen, pc_kwargs)


def panels(dt: Any) -> dict[str, Any]:
    """Return results by panel title; a single result has one panel without a title."""
    return {"": dt} if isinstance(dt, xr.DataTree) or not isinstance(dt, Mapping) else dict(dt)


def log_ml_runs(dt: xr.DataTree) -> list[dict[str, np.ndarray]]:
    """Return log weights of every data set by direction, whose averages estimate log ML; nats."""
    found = [
        {"real": forward + mass}
        if data == "real"
        else {"forward": forward + mass, "reverse": reverse + mass}
        for data, _, forward, reverse, n_draws in data_sets(dt)
        for mass in [log_prior_mass(n_draws).estimate]
    ]
    if not found:
        raise ValueError("No chain was finished, so there is nothing to draw.")
    return found


def finished_first(dt: xr.DataTree) -> xr.DataTree:
    """Sort the chains of each direction so that unfinished ones come last."""
    groups = {}
    for group in ("forward", "reverse", "real"):
        if group in dt.children:
            run = xr.Dataset({name: variable(dt, group, name) for name in CHAIN_VARIABLES})
            run = run.drop_vars(run.coords)
            order = np.argsort(np.isnan(run["log_weight"].values), axis=-1, kind="stable")
            groups[group] = run.isel(chain=xr.DataArray(order, dims=run["log_weight"].dims))
    packed = xr.DataTree.from_dict(groups)
    packed.attrs = dt.attrs
    return packed


def estimates(
    dt: xr.DataTree | Mapping[str, xr.DataTree], sizes: Sequence[int | None] = (None,)
) -> xr.Dataset:
    """Return the columns of `evidence` by all methods, for growing numbers of chains.

    The dimensions are ``model`` (a panel for every data set of each result), ``chains`` (the
    requested numbers of finished chains) and ``estimator``. NaN if a method does not apply.
    """
    found = {}
    packed = {title: finished_first(each) for title, each in panels(dt).items()}
    for size in sizes:
        for title, each in packed.items():
            finished = {
                (data, dataset): max(map(np.size, rows))
                for data, dataset, *rows, _ in data_sets(each)
            }
            table = evidence(each.isel(chain=slice(size)), "all")
            for (data, dataset), rows in table.groupby(level=["data", "dataset"], sort=False):
                if size is not None and size > finished[data, dataset]:
                    continue
                several = data == "simulated" and each["forward"].sizes["dataset"] > 1
                name = f"{data} {dataset}" if several else data
                key = f"{title}, {name}" if title else name
                columns = rows.droplevel(["data", "dataset"]).drop(columns="reason")
                found[key, -1 if size is None else size] = columns.astype(float)
    table = pd.concat(found, names=["model", "chains", "estimator"])
    order = {name: table.index.unique(name) for name in table.index.names}
    joined = table.to_xarray().reindex(order)
    return joined if joined.sizes["model"] > 1 else joined.assign_coords(model=[""])


def exact_values(
    exact: float | Mapping[str, float] | None, titles: list[str]
) -> xr.DataArray | None:
    """Return known values by panel, NaN if there is none."""
    if exact is None:
        return None
    by_title = exact if isinstance(exact, Mapping) else dict.fromkeys(titles, exact)
    unknown = set(by_title) - set(titles)
    if unknown:
        raise ValueError(f"exact: {sorted(unknown)} are not among the panels {titles}.")
    return xr.DataArray([by_title.get(title, np.nan) for title in titles], {"model": titles})


def stacked(by_panel: Mapping[str, Mapping[str, xr.DataArray]]) -> xr.DataArray:
    """Join arrays along the new dimensions ``model`` (panels) and ``direction``."""
    models = [
        xr.concat(list(runs.values()), xr.Variable("direction", list(runs)), join="outer")
        for runs in by_panel.values()
    ]
    return xr.concat(models, xr.Variable("model", list(by_panel)), join="outer")


def along(dim: str, **parts: xr.DataArray) -> xr.DataArray:
    """Join the coordinates of a visual along the dimension that arviz-plots reads."""
    return xr.concat(xr.broadcast(*parts.values()), xr.Variable(dim, np.array(list(parts))))


def log_ticks(values: np.ndarray) -> dict[str, list]:
    """Return labelled ticks on a logarithmic axis: 1, 2, 5, 10, … or powers of ten."""
    finite = np.asarray(values)[np.isfinite(values)]
    low, high = finite.min(), finite.max()
    steps = (1, 2, 5) if high - low < 2 else (1,)
    decades = 10.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
    ticks = np.multiply.outer(decades, steps).ravel()
    ticks = ticks[(ticks >= 0.99 * 10**low) & (ticks <= 1.01 * 10**high)]
    return {"values": np.log10(ticks).tolist(), "labels": [f"{tick:g}" for tick in ticks]}


def limit_x(da, target, **kwargs):
    """Set the limits of the horizontal axis, from data along the dimension ``limit``."""
    return set_xlim(da, target, **{"limits": da.values.tolist(), **kwargs})


def limit_y(da, target, **kwargs):
    """Set the limits of the vertical axis, from data along the dimension ``limit``."""
    return set_ylim(da, target, **{"limits": da.values.tolist(), **kwargs})


def few_xticks(da, target, **kwargs):
    """Put ticks at round values within the range of the data, few enough to avoid overlap."""
    finite = da.values[np.isfinite(da.values)]
    ticks = _round_values(finite.min(), finite.max()) if finite.size else {}
    return set_xticks(da, target, **{"values": [], "labels": [], **ticks, **kwargs})


def _round_values(low: float, high: float) -> dict[str, list]:
    """Return multiples of the smallest of …, 1, 2, 5, 10, … that fit."""
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


def with_text(visual: Callable) -> Callable:
    """Return a visual whose text is the data."""
    return lambda da, target, **kwargs: visual(da, target, **{"text": str(da.item()), **kwargs})


class Canvas:
    """Figure with a panel per model, colours by one more dimension, and options for each visual.

    Parameters
    ----------
    name : str
        Of the data in the plot's store of artists.
    data : DataArray
        Data with the dimensions ``model`` and ``by``.
    options : Options
    colored, dashed : sequence of str
        Visuals that are told by colour, and those that are told by the style of lines too.
    by : str
        Dimension that the colours, the styles and the legend tell.
    legend : bool
        Whether there is one, unless the caller says otherwise.
    **defaults
        For `PlotCollection.wrap`, where the caller does not say otherwise.
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
        told = {"color": [by], "linestyle": [by]} if dashed else {"color": [by]}
        self.collection = options.plot_collection or _wrap(
            self.named(data), options.backend, defaults | options.pc_kwargs, told
        )

    def named(self, data: xr.DataArray) -> xr.Dataset:
        """Return the data in the form of arviz-plots."""
        return data.to_dataset(name=self._name)

    def draw(self, name: str, visual: Callable, data: xr.DataArray, **defaults) -> None:
        """Draw one visual for every combination of panel and aesthetics."""
        kwargs = get_visual_kwargs(self.visuals, name)
        if kwargs is not False:
            dims = [dim for dim in data.dims if dim not in ("model", self.by)]
            *_, ignore = filter_aes(self.collection, self.aes_by_visuals, name, dims)
            options = {**defaults, **kwargs}
            # The collection cannot store the several artists of ticks.
            keep = visual not in (few_xticks, set_xticks, set_yticks)
            self.collection.map(
                visual, name, data=self.named(data), ignore_aes=ignore, store_artist=keep, **options
            )

    def finish(self) -> PlotCollection:
        """Add the panels' titles and the legend."""
        title = get_visual_kwargs(self.visuals, "title")
        if title is not False and self.panel["model"].values.tolist() != [""]:
            self.collection.map(
                _model_title,
                "title",
                data=self.named(self.panel),
                ignore_aes="all",
                subset_info=True,
                **title,
            )
        options = get_visual_kwargs(self.visuals, "legend")
        if options is not False:
            beside = (
                {"loc": "outside right upper"} if self.collection.backend == "matplotlib" else {}
            )
            self.collection.add_legend(**{"dim": [self.by], **beside, **options})
        return self.collection


def draw_distributions(canvas: Canvas, data: xr.DataArray, kind: str) -> None:
    """Draw the visuals ``dist`` and ``face`` along the dimension ``sample``."""
    names = ("dist", "face")
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
            "credible_interval": False,
            "point_estimate": False,
            "point_estimate_text": False,
            "title": False,
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


def _model_title(da, target, *, sel, var_name, isel, **kwargs):
    return labelled_title(da, target, **{"text": str(sel["model"]), **kwargs})
