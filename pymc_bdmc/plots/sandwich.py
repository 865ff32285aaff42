"""Plot forward and reverse log weights and their bounds on log ML."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, set_xticks, vline

from pymc_bdmc.estimators import clustered_mean
from pymc_bdmc.plots.canvas import Canvas, Options, draw_distributions, plot, round_ticks
from pymc_bdmc.plots.common import joined, panels, sample, stacked
from pymc_bdmc.results.reading import Reading, Side

type Results = xr.DataTree | Sequence[xr.DataTree]


@plot("dist face bound band point title xlabel ylabel xticks")
def plot_sandwich(
    dt: Results | Mapping[str, Results],
    *,
    kind: Literal["kde", "hist", "ecdf", "dot"] = "kde",
    options: Options,
) -> PlotCollection:
    """Plot log weights of both directions with their means, the bounds on log ML.

    For one result, the plot shows the distributions over chains. For a sequence of results on one
    model, it shows the bounds against the number of temperatures, with a band of ± one standard
    error.

    Parameters
    ----------
    dt : DataTree, sequence of DataTree, or dict of either
        Results of `sample_bdmc`. A dict gives a panel for each of its entries. With several data
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
    by_panel = {title: _read(each) for title, each in panels(dt).items()}
    sides = [side for reads in by_panel.values() for read in reads for side in _sides(read)]
    relative = any(len(side.log_weight) > 1 for side in sides)
    label = "log weight (nats)" if not relative else "log weight − middle of the bounds (nats)"
    if all(isinstance(each, xr.DataTree) for each in panels(dt).values()):
        return _distributions(by_panel, relative, label, kind, options)
    return _against_temperatures(by_panel, relative, label, options)


def _read(results: Results) -> list[Reading]:
    return list(map(Reading.of, [results] if isinstance(results, xr.DataTree) else results))


def _sides(read: Reading) -> list[Side]:
    return [read.side(name) for name in read.directions]


def _weights(read: Reading, relative: bool) -> dict[str, np.ndarray]:
    """Return log weights by direction, on request relative to the middle of the bounds."""
    weights = {side.name: side.bounding for side in _sides(read)}
    if relative:
        bounds = [xr.DataArray(each).mean("dim_1").values[:, None] for each in weights.values()]
        weights = {name: each - sum(bounds) / len(bounds) for name, each in weights.items()}
    return weights


def _distributions(by_panel, relative, label, kind, options) -> PlotCollection:
    pooled = {}
    for title, (read,) in by_panel.items():
        runs = {
            name: sample(each[~np.isnan(each)]) for name, each in _weights(read, relative).items()
        }
        pooled[title] = {name: each for name, each in runs.items() if each.size}
    if empty := [title for title, runs in pooled.items() if not runs]:
        whose = "" if empty == [""] else f" of {', '.join(empty)}"
        raise ValueError(f"No chain was finished, so there is nothing to draw{whose}.")
    weights = stacked(pooled)
    canvas = Canvas("log_weight", weights, options, ["dist", "face", "bound"])
    draw_distributions(canvas, weights, kind)
    canvas.draw("bound", vline, weights.mean("sample"), linestyle="C1")
    canvas.draw("xticks", set_xticks, weights, round_ticks)
    return canvas.finish(label)


def _against_temperatures(by_panel, relative, label, options) -> PlotCollection:
    found = {title: _by_temperature(reads, relative) for title, reads in by_panel.items()}
    means, errors = joined("model", found).transpose("part", ...)
    canvas = Canvas("log_weight", means, options, ["bound", "band", "point"])
    place = xr.ufuncs.log10(means["temperatures"])
    canvas.fill("band", place, means - errors, means + errors, alpha=0.2)
    canvas.trace("bound", line_xy, place, means)
    canvas.trace("point", scatter_xy, place, means)
    canvas.ticks("xticks", place.values, means["temperatures"].values)
    return canvas.finish("number of temperatures (log scale)", label)


def _by_temperature(reads: list[Reading], relative: bool) -> xr.DataArray:
    """Return mean log weights and their errors by direction, along numbers of temperatures."""
    reads = sorted(reads, key=_n_temperatures)
    found = [
        {
            name: xr.DataArray(list(clustered_mean(each)), dims="part")
            for name, each in _weights(read, relative).items()
        }
        for read in reads
    ]
    places = xr.Variable("temperatures", list(map(_n_temperatures, reads)))
    return xr.concat([joined("direction", each) for each in found], places)


def _n_temperatures(read: Reading) -> int:
    return _sides(read)[0].n_temperatures
