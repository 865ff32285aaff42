"""Plot comparisons of models, samplers and experiments."""

from collections.abc import Mapping
from itertools import count
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, set_xticks, vline

from pymc_bdmc.plots.canvas import (
    ROOM,
    Canvas,
    Options,
    Results,
    around,
    joined,
    log_ticks,
    panels,
    plot,
    round_ticks,
)
from pymc_bdmc.results.compare import READ, check_comparable, compare, cost, pointwise
from pymc_bdmc.results.log_ml import Z95, recommended_log_ml


@plot("line point interval title xlabel ylabel xticks yticks ylim")
def plot_compare(
    results: Mapping[str, xr.DataTree],
    *,
    kind: Literal["log_ml", "gap"] | None = None,
    prior: Mapping[str, float] | None = None,
    options: Options,
) -> PlotCollection:
    """Plot the log ML and probabilities of models, or the gap of samplers against its cost.

    For models, the plot shows log ML with 95 % intervals and posterior probabilities, with the best
    model at the top. A log ML that cannot be trusted has no point, and the name of its model is
    marked.

    For samplers, the plot shows the Jeffreys bound against temperatures, gradient evaluations and
    seconds. Every round of a result is a point, with one standard error on either side. Both axes
    are logarithmic, so a gap that is negative by chance has no point, only the upper end of its
    error bar.

    Parameters
    ----------
    results : mapping of {str : DataTree}
        Results on the same data, as for `compare`. Results with several ``temperatures`` or a
        ``target_gap`` give a line in the plot of the gap.
    kind : {"log_ml", "gap"}, optional
        Quantity to plot. By default it is the gap if all results are of one model or system and one
        of them has a gap, and log ML otherwise. Two parametrisations count as two models.
    prior : mapping of {str : float}, optional
        Prior probabilities of the models, as for `compare`, for the plot of log ML.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line, interval -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel -> the labels
        * xticks, yticks, ylim -> numbers or names on the axes, and the vertical range
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If the results cannot be compared, ``kind`` is unknown, or it is ``"gap"`` and none of the
        results has one.

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> options = dict(temperatures=50, random_seed=1, progressbar=False)
    >>> results = {
    ...     kernel: bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, **options)
    ...     for kernel in ("metropolis", "heat bath")
    ... }
    >>> pc = bdmc.plot_compare(results)
    """
    reads = check_comparable(results)
    table = pd.concat({name: cost(read) for name, read in reads.items()}, names=["name", "round"])
    if kind not in (None, "log_ml", "gap"):
        raise ValueError(f'kind: it is "log_ml" or "gap", not {kind!r}.')
    if kind is None:
        sources = {read.source for read in reads.values()}
        kind = "gap" if len(sources) == 1 and table["jeffreys_bound"].notna().any() else "log_ml"
    if kind == "log_ml":
        return _draw_log_ml(compare(results, prior=prior), options)
    if prior is not None:
        raise ValueError('prior: it has no effect on the gap; use kind="log_ml".')
    return _draw_gap(table, options)


def _draw_log_ml(table: pd.DataFrame, options: Options) -> PlotCollection:
    """Draw log ML with 95 % intervals and the probabilities, in a row for each model."""
    names = [name if valid else f"{name} (not valid)" for name, valid in table["valid"].items()]
    shown = table.reindex(columns=[*READ, "valid"])
    value = shown["log_ml"].where(shown["valid"])
    half, share = Z95 * shown["error"], shown["probability"]
    answers = {"log ML": "nats, with 95 % interval", "posterior probability": "of the valid models"}
    low, middle, high = (
        xr.DataArray(np.array(rows, dtype=float), {"model": list(answers), "name": names})
        for rows in ([value - half, 0 * share], [value, share], [value + half, share])
    )
    canvas = Canvas("log_ml", middle, options, by="name", legend=False, col_wrap=2)
    canvas.forest(low, middle, high)
    return canvas.finish(list(answers.values()), "")


def _draw_gap(table: pd.DataFrame, options: Options) -> PlotCollection:
    found = table[table["jeffreys_bound"].notna()].to_xarray()
    if not found.sizes["round"]:
        raise ValueError("results: none has a gap, which needs simulated data.")
    costs = {
        "temperatures": "number of temperatures",
        "gradient_evaluations": "gradient evaluations",
        "seconds": "seconds",
    }
    known = {title: found[name] for name, title in costs.items() if (found[name] > 0).any()}
    place = xr.ufuncs.log10(joined("model", known))
    gap, error = found["jeffreys_bound"], found["error"].fillna(0)
    ends = np.stack([gap, gap + error])
    floor = ends[ends > 0].min(initial=1.0) / 10
    low, value, high = (
        xr.ufuncs.log10(each.where(each > 0)).broadcast_like(place)
        for each in (np.maximum(gap - error, floor), gap, gap + error)
    )
    canvas = Canvas("gap", place, options, by="name")
    canvas.intervals("round", low, high, place)
    canvas.line("line", place, value)
    canvas.points("point", place, value)
    bottom, top = np.log10(floor), high.max(["name", "round"]) + 0.1
    canvas.limits("ylim", bottom, top)
    canvas.draw("xticks", set_xticks, place.stack(tick=("name", "round")), log_ticks)
    canvas.ticks("yticks", **log_ticks([bottom, *top.values]))
    return canvas.finish("(log scale)", "Jeffreys bound (nats)")


@plot("zero interval point line title xlabel ylabel xticks")
def plot_pointwise(dt: Results, *, options: Options) -> PlotCollection:
    """Plot log predictive densities of observations, or the log Bayes factors that they add.

    The first panel shows every observation and the second the sum so far, both with 95 % intervals.
    If the error of a sum is not known, only its value is shown. With several results, the first is
    compared with each of the others, and a value above 0 speaks for the first.

    Parameters
    ----------
    dt : DataTree or mapping of {str : DataTree}
        Results as for `pointwise`: one, or several models of the same data by name.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * zero -> :func:`arviz_plots.visuals.hline`, for differences only
        * interval, line -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel, xticks -> the labels, and the coordinates of the observations
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        As `pointwise` does, or if a mapping has no results.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("x"), observed=[0.5, 1.0, 4.0])
    ...     dt = pm.sample_bdmc(path="data", simulate=None, random_seed=1, cores=1,
    ...                         progressbar=False)
    >>> pc = bdmc.plot_pointwise(dt)  # or of several models, {"narrow": dt, "wide": other_dt}
    """
    if not (results := panels(dt)):
        raise ValueError('dt: a result, or a mapping such as {"a": dt, "b": other_dt}, is needed.')
    (name, result), *others = results.items()
    tables = {f"{name} against {other}": pointwise(result, each) for other, each in others}
    tables = tables or {name: pointwise(result)}
    index, titles = next(iter(tables.values())).index, ["each observation", "sum so far"]
    coords = {"model": titles, "pair": list(tables)}

    def columns(*names: str) -> xr.DataArray:
        rows = [[table[name] for table in tables.values()] for name in names]
        return xr.DataArray(np.array(rows, dtype=float), coords, ["model", "pair", "observation"])

    y, error = columns("value", "cumulative"), columns("error", "cumulative_error")
    apart = 0.15 * (np.arange(len(tables)) - (len(tables) - 1) / 2)
    x = xr.zeros_like(y) + np.arange(len(index)) + apart[None, :, None]
    canvas = Canvas("log_density", y, options, by="pair", legend=bool(others), col_wrap=2)
    if others:
        canvas.draw("zero", hline, canvas.panel, color="gray")
    canvas.intervals("observation", y - Z95 * error, y + Z95 * error, x)
    canvas.points("point", x, y)
    canvas.line("line", x, y.where(y["model"] == titles[1]))
    labels = [str(label) for label in index]
    step = next(n for n in count(1) if n >= len(labels) or len("".join(labels[::n])) <= ROOM)
    canvas.ticks("xticks", np.arange(len(index))[::step], labels[::step])
    label = ["log Bayes factor (nats)"] * 2 if others else ["log p(y_i | y_<i) (nats)", "nats"]
    return canvas.finish(str(index.name), label)


@plot("band line interval point turn note title xlabel ylabel xticks ylim")
def plot_sensitivity(
    curves: pd.DataFrame | Mapping[str, pd.DataFrame | xr.DataTree], *, options: Options
) -> PlotCollection:
    """Plot log ML against a value of the prior, for one or two models.

    A band shows 95 % intervals, and a point is a fresh run. The preference turns where two curves
    cross. A vertical line marks this value, which is interpolated between the values of the tables.
    Rows that are not valid leave a gap. The axis is logarithmic if the values span a factor of 10
    or more.

    Parameters
    ----------
    curves : DataFrame or mapping of str to DataFrame or DataTree
        Table of `sensitivity`, or two by name. The name of its index is the label of the axis. A
        DataTree is the result of `sample_bdmc` on a model that does not depend on the value, such
        as a point null, and gives a level line.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * band -> :func:`arviz_plots.visuals.fill_between_y`
        * line -> :func:`arviz_plots.visuals.line_xy`
        * interval -> :func:`arviz_plots.visuals.line_xy`, 95 % of fresh runs
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * turn -> :func:`arviz_plots.visuals.vline`
        * note -> :func:`arviz_plots.visuals.annotate_xy`, the value at which the preference turns
        * title, xlabel, ylabel -> the labels
        * xticks, ylim -> numbers on the axis, and the range of log ML
        * legend -> :meth:`arviz_plots.PlotCollection.add_legend`
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If there are more than two curves, no table, or values that are not numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc_bdmc as bdmc
    >>> def table(log_ml):
    ...     fresh = dict(fresh_log_ml=log_ml, fresh_error=0.1)
    ...     columns = dict(log_ml=log_ml, error=0.1, **fresh, valid=True)
    ...     return pd.DataFrame(columns, index=pd.Index([0.1, 1.0, 10.0], name="value"))
    >>> curves = {"effect": table([-3.0, -2.0, -4.0]), "no effect": table([-3.1, -3.1, -3.1])}
    >>> pc = bdmc.plot_sensitivity(curves)
    """
    named = {"log ML": curves} if isinstance(curves, pd.DataFrame) else dict(curves)
    values = _values(named)
    is_log = values[0] > 0 and values[-1] / values[0] >= 10
    place = np.log10(values) if is_log else values
    curved = {name: _curve(each, values, place) for name, each in named.items()}
    found = joined("curve", curved).expand_dims(model=[""])
    x = xr.DataArray(place, dims="value")
    middle, fresh = found["log_ml"], found["fresh_log_ml"]
    low, high = middle - Z95 * found["error"], middle + Z95 * found["error"]
    lowest, highest = fresh - Z95 * found["fresh_error"], fresh + Z95 * found["fresh_error"]
    several = len(named) > 1
    canvas = Canvas("log_ml", middle, options, by="curve", legend=several)
    canvas.fill("band", x, low, high, alpha=0.3)
    canvas.line("line", x, middle)
    canvas.intervals("value", lowest, highest, x)
    canvas.points("point", x, fresh)
    bottom, top = around(xr.concat([low, high, fresh, lowest, highest], "end"), 0.1, 0.05)
    turns = _turns(place, middle.values[0]) if several else np.empty(0)
    if turns.size:
        at = xr.DataArray(turns, dims="turn")
        canvas.draw("turn", _vlines, at.expand_dims(model=[""]), color="gray", linestyle="C1")
        texts = [f" {value:.3g}" for value in (10**turns if is_log else turns)]
        text, height = xr.DataArray(texts, dims="turn"), 0.97 * top + 0.03 * bottom
        canvas.notes("note", text, at, height, "left", vertical_align="top")
    canvas.limits("ylim", bottom, top)
    ticks = log_ticks if is_log else round_ticks
    canvas.draw("xticks", set_xticks, x.expand_dims(model=[""]), ticks)
    title = next(each.index.name for each in named.values() if isinstance(each, pd.DataFrame))
    return canvas.finish(f"{title} (log scale)" if is_log else f"{title}", "log ML (nats)")


def _values(named: Mapping[str, Any]) -> np.ndarray:
    """Return the values of all tables in increasing order."""
    tables = [each for each in named.values() if isinstance(each, pd.DataFrame)]
    if not tables or len(named) > 2:
        raise ValueError(
            "curves: a table of sensitivity, or a mapping of one or two names to tables, is "
            f"needed, and one of them may be a result of sample_bdmc; got {list(named)}."
        )
    values = np.concatenate([table.index.values for table in tables])
    if values.dtype.kind not in "iuf":
        raise ValueError(
            f"curves: its values {values[:3].tolist()} … are not numbers, so there is no axis to "
            "draw them on."
        )
    return np.unique(values.astype(float))


def _curve(each: pd.DataFrame | xr.DataTree, values: np.ndarray, place: np.ndarray) -> xr.Dataset:
    """Return log ML, its error and the fresh runs at all values, interpolated between its own."""
    fresh = ["fresh_log_ml", "fresh_error"]
    if isinstance(each, xr.DataTree):
        level = recommended_log_ml(each)
        known = {"log_ml": level.value, "error": level.error, "valid": level.valid}
        each = pd.DataFrame(known | dict.fromkeys(fresh, np.nan), index=values)
    table = each[["log_ml", "error", *fresh]].astype(float).where(each["valid"])
    table = table.set_axis(each.index.astype(float)).sort_index()
    own, columns = place[np.searchsorted(values, table.index)], table.reindex(values)
    for name in ("log_ml", "error"):
        columns[name] = np.interp(place, own, table[name], left=np.nan, right=np.nan)
    return xr.Dataset({name: ("value", column) for name, column in columns.items()})


def _turns(place: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Return where two curves cross, by linear interpolation; shape (number of crossings,)."""
    gap = pair[0] - pair[1]
    with np.errstate(invalid="ignore"):  # NaN in a gap of a curve
        left = np.flatnonzero(gap[:-1] * gap[1:] < 0)
    share = gap[left] / (gap[left] - gap[left + 1])
    crossings = place[left] + share * (place[left + 1] - place[left])
    return np.concatenate([crossings, place[gap == 0]])


def _vlines(da, target, **kwargs):
    return [vline(x, target, **kwargs) for x in da][-1]


@plot("interval bound point title xlabel xticks yticks ylim")
def plot_information(gains: Any, *, options: Options) -> PlotCollection:
    """Plot the expected information gain of one or several experiments.

    A row is an experiment: the point is its gain, the bars are the means of its lower and upper
    bound, and the line is the 95 % interval. For several, a second panel shows their distance from
    the first, with 95 % intervals; these are shorter, since designs share the parameters.

    Parameters
    ----------
    gains : InformationGain or DataFrame
        Result of `information_gain` or `compare_designs`.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * interval, bound -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel -> the labels
        * xticks, yticks, ylim -> numbers, names and the vertical range
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If it is neither result.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc_bdmc as bdmc
    >>> gain = dict(gain=[3.1, 2.7], lower=[2.9, 2.5], upper=[3.3, 3.0])
    >>> bounds = dict(lower_bound=[3.05, 2.6], upper_bound=[3.15, 2.8])
    >>> behind = dict(behind=[0.0, 0.4], behind_error=[0.0, 0.06])
    >>> table = pd.DataFrame(gain | bounds | behind, index=["two doses", "spread"])
    >>> pc = bdmc.plot_information(table)
    """
    table = getattr(gains, "summary", gains)
    if not isinstance(table, pd.DataFrame) or not {"gain", "lower_bound"} <= set(table):
        raise ValueError("gains: the result of information_gain or compare_designs is needed.")
    several = "behind" in table
    names = [str(name) if several else "" for name in table.index]
    titles = ["expected information gain", "behind the first"][: 1 + several]
    nothing = np.nan * table["gain"]
    behind, reach = table.get("behind", nothing), Z95 * table.get("behind_error", nothing)

    def rows(*columns: pd.Series) -> xr.DataArray:
        values = np.array(columns[: len(titles)], dtype=float)
        return xr.DataArray(values, {"model": titles, "name": names}, ["model", "name"])

    point = rows(table["gain"], behind)
    low, high = rows(table["lower"], behind - reach), rows(table["upper"], behind + reach)
    canvas = Canvas("information", point, options, by="name", legend=False, col_wrap=2)
    height = canvas.forest(low, point, high)
    bar = xr.concat([height - 0.07, height + 0.07], "end")  # rows
    for bound in ("lower_bound", "upper_bound"):
        canvas.line("bound", rows(table[bound], nothing).broadcast_like(bar), bar)
    return canvas.finish("nats", "")


@plot("line interval point title xlabel ylabel xticks ylim")
def plot_plan(table: pd.DataFrame, *, options: Options) -> PlotCollection:
    """Plot how often an experiment gives strong evidence, for each model that may be true.

    Lines join the chances at each size, with 95 % intervals: of strong evidence for the model that
    is true, and of strong evidence for the other one.

    Parameters
    ----------
    table : DataFrame
        ``table`` of the result of `plan`.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line, interval -> :func:`arviz_plots.visuals.line_xy`
        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * title, xlabel, ylabel -> the labels
        * xticks, ylim -> the sizes, and the range from 0 to 1
        * legend -> :meth:`arviz_plots.PlotCollection.add_legend`
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If it is not the table of a plan.

    Examples
    --------
    >>> import pandas as pd
    >>> import pymc_bdmc as bdmc
    >>> index = pd.MultiIndex.from_product([[10, 40], ["H0", "H1"]], names=["size", "truth"])
    >>> rows = dict(strong=[0.1, 0.3, 0.6, 0.8], strong_low=0.05, strong_high=0.9)
    >>> more = dict(misleading=0.02, misleading_low=0.0, misleading_high=0.1)
    >>> pc = bdmc.plot_plan(pd.DataFrame(rows | more, index))
    """
    if not isinstance(table, pd.DataFrame) or not {"strong", "misleading"} <= set(table):
        raise ValueError("table: the table of a plan is needed, as in plan(...).table.")
    found = table.astype(float).to_xarray().rename(truth="model")
    found = found.assign_coords(model=[f"{name} is true" for name in found["model"].values])
    names = {"strong": "strong for the truth", "misleading": "strong for the other"}
    y, low, high = (
        joined("curve", {curve: found[f"{name}{end}"] for name, curve in names.items()})
        for end in ("", "_low", "_high")
    )
    sizes = np.log(found["size"].values)
    x = xr.zeros_like(y) + xr.DataArray(sizes, dims="size")
    x = x + xr.DataArray([-0.01, 0.01], dims="curve") * np.ptp(sizes)
    canvas = Canvas("chance", y, options, by="curve", col_wrap=2)
    canvas.intervals("size", low, high, x)
    canvas.line("line", x, y)
    canvas.points("point", x, y)
    canvas.limits("ylim", -0.03, 1.03)  # room beyond chances of 0 and 1
    canvas.ticks("xticks", sizes, [f"{size:g}" for size in found["size"].values])
    return canvas.finish("size (log scale)", "chance")
