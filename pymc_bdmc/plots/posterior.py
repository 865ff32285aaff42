"""Plot how far draws and approximations are from the posterior."""

from collections.abc import Mapping, Sequence
from inspect import signature
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, vline, vspan

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.density.draws import as_idata
from pymc_bdmc.estimators import total_variation_of_divergence
from pymc_bdmc.estimators.agreement import MARGINS
from pymc_bdmc.plots.canvas import Canvas, Options, along, around, log_ticks, plot
from pymc_bdmc.results.agreement import agreement
from pymc_bdmc.results.distance import COLUMNS, FROM_POSTERIOR, TO_POSTERIOR, distance
from pymc_bdmc.results.particles import Elements, paired_elements

MEASURES = {
    "difference of means": "posterior standard deviations, yours less the run's; grey: good",
    "ratio of standard deviations": "yours over the run's (log scale); grey: good",
}
"""Panels of the rows of `agreement`, and the labels below them."""

HEIGHTS = {TO_POSTERIOR: 0.15, FROM_POSTERIOR: -0.15}
"""Heights of the two divergences, relative to the row of their approximation."""


@plot("margin same interval point distribution title xlabel ylabel xticks yticks xlim")
def plot_agreement(
    dt: xr.DataTree,
    idata: Any,
    *,
    model: pm.Model | None = None,
    var_names: Sequence[str] | None = None,
    rows: int = 10,
    options: Options,
) -> PlotCollection:
    """Plot how far a sampler's draws differ from a run, and the distributions that differ most.

    The left panels show the rows of `agreement` with the largest differences. They show the
    difference of means and the ratio of standard deviations, with 95 % limits that hold for all
    rows simultaneously. Intervals within the shaded margins are good. The right panels show the
    distribution functions of the two worst elements, from the draws and from the run.

    Parameters
    ----------
    dt, idata, model, var_names
        As for `agreement`.
    rows : int, default 10
        Number of rows to show.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * margin -> :func:`arviz_plots.visuals.vspan`; same -> :func:`arviz_plots.visuals.vline`
        * interval, distribution -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel -> the labels
        * xticks, yticks, xlim -> ratios, names of the rows, and the range shown
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        As `agreement` does.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> far = (dt["posterior"].dataset["p"] / 2).to_dataset()
    >>> pc = bdmc.plot_agreement(dt, far)
    """
    check_counts(rows=rows)
    idata = as_idata("idata", idata, model)
    table = agreement(dt, idata, model=model, var_names=var_names).table
    shown = table[table["shift"].notna()].iloc[:rows]
    elements = paired_elements(dt, idata, var_names=var_names)
    worst = [name for name in table.index if name in elements.labels][:2]
    functions = _distribution_functions(elements, worst)
    pairs = zip_longest(MEASURES, functions["model"].values)
    order = [name for pair in pairs for name in pair if name is not None]
    whole = xr.DataArray(0.0, {"model": order, "draws": functions["draws"]}, ["model", "draws"])
    canvas = Canvas("agreement", whole, options, by="draws", col_wrap=2)

    limits = ("", "_lower", "_upper")
    ends = [[shown[f"shift{end}"], np.log(shown[f"ratio{end}"])] for end in limits]
    found = xr.DataArray(ends, {"model": list(MEASURES)}, ["end", "model", "place"])
    estimate, low, high = found.expand_dims(draws=["yours"], axis=2)
    margin = xr.DataArray(MARGINS[:2], {"model": list(MEASURES)})
    # The range contains all estimates and most of the intervals.
    furthest, *widths = abs(found).max("place", skipna=False)
    widest = xr.ufuncs.minimum(xr.ufuncs.maximum(*widths), 2 * furthest + 4 * margin)
    reach = 1.1 * xr.ufuncs.fmax(2 * margin, widest)
    at = xr.DataArray(-np.arange(len(shown), dtype=float), dims="place")  # the worst first
    canvas.draw("margin", vspan, along("limit", low=-margin, high=margin), color="gray", alpha=0.2)
    canvas.draw("same", vline, 0 * margin, color="gray")
    canvas.intervals("place", low, high, at, level=True)
    canvas.points("point", estimate, at)
    canvas.draw("distribution", line_xy, functions)
    canvas.limits("xlim", -reach, reach)
    canvas.ticks("yticks", at.values, shown.index, list(MEASURES))
    ratios = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    if reach[1] < np.log(10):
        ratios = np.array([0.2, 0.5, 0.8, 1, 1.25, 2, 5])
    ratios = ratios[abs(np.log(ratios)) <= reach[1].item()]
    canvas.ticks("xticks", np.log(ratios), [f"{each:g}" for each in ratios], list(MEASURES)[1:])
    labels = [MEASURES.get(name, "c") for name in order]
    return canvas.finish(labels, ["" if name in MEASURES else "P(x ≤ c)" for name in order])


def _distribution_functions(elements: Elements, names: Sequence[str]) -> xr.DataArray:
    """Return distribution functions of elements, of the draws and of the run."""
    levels, lines = np.linspace(0, 1, 400), []
    for name in names:
        place = elements.labels.index(name)
        given, own = (each[..., place].ravel() for each in (elements.draws, elements.particles))
        for values, weights in ((given, None), (own, elements.weights.ravel())):
            x = np.quantile(values, levels, weights=weights, method="inverted_cdf")
            # The function is flat between values and jumps at each of them.
            lines.append([np.repeat(x, 2)[1:], np.repeat(levels, 2)[:-1]])
    axes = {"draws": ["yours", "the run's"], "plot_axis": ["x", "y"]}
    titles = {"model": [f"distribution of {name}" for name in names]}
    values = np.reshape(lines, (len(names), 2, 2, -1))
    return xr.DataArray(values, titles | axes, [*titles, *axes, "place"])


@plot("interval point certified note title xlabel xticks yticks xlim ylim")
def plot_distance(
    dt: xr.DataTree | pd.DataFrame,
    approximation: Any = None,
    *,
    model: pm.Model | None = None,
    draws: int = 10_000,
    confidence: float = 0.95,
    random_seed: int | np.random.Generator | None = None,
    options: Options,
) -> PlotCollection:
    """Plot KL(q‖p) and KL(p‖q) of one or several approximations, on a logarithmic scale.

    A point is an estimate, and its line shows the limits of `distance`. A divergence below its
    noise has a line only. The cross is the certified lower bound on KL(q‖p). Divergences that are
    infinite or not reliable have a note at the right. Below the nats, the axis shows the largest
    error of the probability of any event (Pinsker; Bretagnolle and Huber).

    Parameters
    ----------
    dt : DataTree or DataFrame
        Result of `sample_bdmc` on the real data, or the table that `distance` made of it.
    approximation : object, or mapping of str to object
        As in `distance`. Leave it out with a table.
    model, draws, confidence, random_seed
        As in `distance`. Leave them out with a table.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * interval -> :func:`arviz_plots.visuals.line_xy`
        * point, certified -> :func:`arviz_plots.visuals.scatter_xy`
        * note -> :func:`arviz_plots.visuals.annotate_xy`
        * title, xlabel -> the labels
        * xticks, yticks, xlim, ylim -> numbers, names and ranges
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError, TypeError, FloatingPointError
        As for `distance`.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> from scipy import stats
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=1.0)
    >>> dt = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    >>> normals = {name: stats.norm(0.5, sd) for name, sd in [("narrow", 0.5), ("wide", 1.0)]}
    >>> table = bdmc.distance(dt, normals, model=model, random_seed=1)
    >>> pc = bdmc.plot_distance(table)  # or plot_distance(dt, normals, model=model)
    """
    settings = dict(model=model, draws=draws, confidence=confidence, random_seed=random_seed)
    table = _table(dt, approximation, settings)
    if not isinstance(table.index, pd.MultiIndex):
        table = pd.concat({"": table}, names=["approximation"])
    order = table.index.unique("approximation")
    found = table.to_xarray().sel(approximation=order, divergence=list(HEIGHTS))
    estimate = found["value"].astype(float)
    valid = found["valid"].astype(bool) & np.isfinite(estimate)
    upper, lower = found["upper"].astype(float).where(valid), found["lower"].astype(float)
    floor = 2 * estimate.where(valid) - upper
    value, high, certified = map(_log, (estimate.where(floor > 0), upper, lower))
    places = xr.DataArray(-np.arange(len(order)), {"approximation": order})
    heights = places + xr.DataArray(list(HEIGHTS.values()), {"divergence": list(HEIGHTS)})
    shown = xr.concat([value, high, certified], "kind")
    shown = shown if np.isfinite(shown).any() else xr.DataArray([-1.0, 1.0])
    left, right = (float(end) for end in around(shown))
    left, right = left - 0.3, right + 0.3

    canvas = Canvas("divergence_nats", heights.expand_dims(model=[""]), options, by="divergence")
    low = xr.ufuncs.maximum(_log(floor).fillna(left).where(valid), left)
    canvas.intervals("approximation", low, high, heights, level=True)
    canvas.points("point", value, heights)
    canvas.points("certified", certified, heights, marker="C3")
    infinite, unknown = np.isinf(estimate), estimate.isnull()
    text = xr.where(unknown, "not known", "not reliable")
    text = xr.where(valid, "", xr.where(infinite, "infinite ▸", text))
    canvas.notes("note", text, xr.DataArray(right), heights, "right", vertical_align="bottom")
    canvas.limits("xlim", left, right)
    canvas.rows(order)
    below = "<br>" if canvas.collection.backend == "plotly" else "\n"
    canvas.ticks("xticks", **_ticks([left, right], below))
    return canvas.finish(f"nats (log scale){below}a probability is off by at most")


def _table(dt: Any, approximation: Any, settings: Mapping[str, Any]) -> pd.DataFrame:
    """Return the given table of `distance`, or compute it from a result."""
    if not isinstance(dt, pd.DataFrame):
        return distance(dt, approximation, **settings)
    known = signature(distance).parameters
    idle = [name for name, value in settings.items() if value != known[name].default]
    idle += ["approximation"] if approximation is not None else []
    if idle:
        raise ValueError(f"{', '.join(idle)}: without effect on a table; leave out, or pass dt.")
    if not set(COLUMNS) <= set(dt.columns):
        raise ValueError("dt: expected a result of sample_bdmc, or the table that distance made.")
    return dt


def _log(array: xr.DataArray) -> xr.DataArray:
    """Return the decimal logarithm, NaN for values ≤ 0."""
    return xr.ufuncs.log10(array.where(array > 0))


def _ticks(ends: list[float], below: str) -> dict[str, list]:
    """Return ticks labelled by nats and by the largest error of a probability."""
    ticks = log_ticks(ends)
    for i, place in enumerate(ticks["values"]):
        bound = 100 * total_variation_of_divergence(10**place)
        ticks["labels"][i] += f"{below}{bound:.{0 if bound >= 10 else 1}f} %"
    return ticks
