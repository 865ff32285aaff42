"""Plot forward and reverse log weights and their bounds on log ML."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import (
    fill_between_y,
    labelled_x,
    labelled_y,
    line_xy,
    scatter_xy,
    set_xticks,
    vline,
)

from pymc_bdmc.estimators import clustered_mean
from pymc_bdmc.plots.common import (
    Backend,
    Canvas,
    along,
    checked_options,
    draw_distributions,
    few_xticks,
    panels,
    stacked,
)
from pymc_bdmc.results.groups import directions, log_ml_weights

__all__ = ["plot_sandwich"]

type Results = xr.DataTree | Sequence[xr.DataTree]

Visual = Literal["dist", "face", "bound", "band", "point", "title", "xlabel", "ylabel", "xticks"]


def plot_sandwich(
    dt: Results | Mapping[str, Results],
    *,
    kind: Literal["kde", "hist", "ecdf", "dot"] = "kde",
    plot_collection: PlotCollection | None = None,
    backend: Backend | None = None,
    aes_by_visuals: Mapping[Visual, Sequence[str]] = None,
    visuals: Mapping[Literal[Visual, "legend"], Mapping[str, Any] | bool] = None,
    **pc_kwargs,
) -> PlotCollection:
    """Plot log weights of both directions with their means, the bounds on log ML.

    For one result it shows the distributions over chains. For a sequence of results of one model it
    shows the bounds against the number of temperatures, with a band of ± one standard error.

    Parameters
    ----------
    dt : DataTree, sequence of DataTree, or dict of either
        Results of `sample_bdmc`; a dict gives a panel for each of its entries. With several data
        sets, whose log ML differ, values are relative to the middle of the bounds of each set.
    kind : {"kde", "hist", "ecdf", "dot"}, default "kde"
        How to draw distributions.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * dist, face -> :func:`arviz_plots.plot_dist`, of one result
        * bound -> :func:`arviz_plots.visuals.vline` of one result,
          :func:`arviz_plots.visuals.line_xy` of a sequence
        * band -> :func:`arviz_plots.visuals.fill_between_y`, of a sequence
        * point -> :func:`arviz_plots.visuals.scatter_xy`, of a sequence
        * xticks -> :func:`arviz_plots.visuals.set_xticks`
        * title, xlabel, ylabel -> the labels
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
    >>> pc = bdmc.plot_sandwich(dt)
    """
    options = checked_options(
        plot_sandwich, plot_collection, backend, aes_by_visuals, visuals, pc_kwargs
    )
    by_panel = panels(dt)
    results = [r for each in by_panel.values() for r in _sequence(each)]
    relative = any(r[name].sizes.get("dataset", 1) > 1 for r in results for name in directions(r))
    label = "log weight (nats)" if not relative else "log weight − middle of the bounds (nats)"
    if all(isinstance(each, xr.DataTree) for each in by_panel.values()):
        return _distributions(by_panel, relative, label, kind, options)
    return _against_temperatures(by_panel, relative, label, options)


def _sequence(results: Results) -> Sequence[xr.DataTree]:
    return [results] if isinstance(results, xr.DataTree) else results


def _weights(dt: xr.DataTree, relative: bool) -> dict[str, xr.DataArray]:
    """Return log weights by direction, on request relative to the middle of the bounds."""
    weights = log_ml_weights(dt)
    if relative:
        bounds = [each.mean("chain") for each in weights.values()]
        weights = {name: each - sum(bounds) / len(bounds) for name, each in weights.items()}
    return weights


def _pooled(weights: xr.DataArray) -> xr.DataArray:
    """Join all finished chains of all data sets along one dimension."""
    values = weights.values.ravel()
    values = values[~np.isnan(values)]
    return xr.DataArray(values, dims="sample", coords={"sample": np.arange(values.size)})


def _distributions(by_panel, relative, label, kind, options) -> PlotCollection:
    pooled = {
        title: {name: _pooled(each) for name, each in _weights(dt, relative).items()}
        for title, dt in by_panel.items()
    }
    pooled = {
        title: {name: each for name, each in runs.items() if each.size}
        for title, runs in pooled.items()
    }
    empty = [title for title, runs in pooled.items() if not runs]
    if empty:
        raise ValueError(f"No chain was finished, so there is nothing to draw{_of(empty)}.")
    weights = stacked(pooled)
    canvas = Canvas("log_weight", weights, options, ["dist", "face", "bound"])
    draw_distributions(canvas, weights, kind)
    canvas.draw("bound", vline, weights.mean("sample"), linestyle="C1")
    canvas.draw("xticks", few_xticks, weights)
    canvas.draw("xlabel", labelled_x, canvas.panel, text=label)
    return canvas.finish()


def _of(titles: list[str]) -> str:
    return "" if titles == [""] else f" of {', '.join(titles)}"


def _against_temperatures(by_panel, relative, label, options) -> PlotCollection:
    means, errors = (
        stacked({title: _by_temperature(dts, relative, which) for title, dts in by_panel.items()})
        for which in ("mean", "error")
    )
    canvas = Canvas("log_weight", means, options, ["bound", "band", "point"])
    place = xr.ufuncs.log10(means["temperatures"])
    band = along("kwarg", x=place, y_bottom=means - errors, y_top=means + errors)
    canvas.draw("band", fill_between_y, band, alpha=0.2)
    points = along("plot_axis", x=place, y=means)
    canvas.draw("bound", line_xy, points)
    canvas.draw("point", scatter_xy, points)
    labels = [str(n) for n in means["temperatures"].values]
    canvas.draw("xticks", set_xticks, canvas.panel, values=place.values.tolist(), labels=labels)
    canvas.draw("xlabel", labelled_x, canvas.panel, text="number of temperatures (log scale)")
    canvas.draw("ylabel", labelled_y, canvas.panel, text=label)
    return canvas.finish()


def _by_temperature(results: Results, relative: bool, which: str) -> dict[str, xr.DataArray]:
    """Return the mean log weight, or its error, by direction and number of temperatures."""
    results = sorted(_sequence(results), key=_n_temperatures)
    coord, places = "temperatures", [_n_temperatures(dt) for dt in results]
    weights = [_weights(dt, relative) for dt in results]
    part = {"mean": 0, "error": 1}[which]
    return {
        name: xr.DataArray([clustered_mean(w[name].values)[part] for w in weights], {coord: places})
        for name in weights[0]
    }


def _n_temperatures(dt: xr.DataTree) -> int:
    return dt[directions(dt)[0]].sizes["beta"] - 1
