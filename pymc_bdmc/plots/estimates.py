"""Plot estimates of log ML, with their errors and checks, and how they depend on the chains."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import fill_between_y, hline, line_xy, vline

from pymc_bdmc.estimators import error_analysis
from pymc_bdmc.plots.canvas import (
    Canvas,
    Options,
    Results,
    around,
    joined,
    log_ticks,
    plot,
    readings,
)
from pymc_bdmc.plots.runs import log_ml_runs
from pymc_bdmc.results.log_ml import Z95, evidence_of


@plot("point interval far exact title xlabel yticks xlim ylim")
def plot_estimators(
    dt: Results, *, exact: float | Mapping[str, float] | None = None, options: Options
) -> PlotCollection:
    """Plot estimates of log ML by every method, with 95 % intervals.

    The recommended method and the other valid methods have different colours. Methods whose check
    fails have grey dotted intervals. The axis covers the valid intervals, and an estimate beyond
    the axis is written at its edge.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. There is a panel for every data set of each.
    exact : float or dict of {str : float}, optional
        The true log ML, marked by a line. A number applies to all panels, and a dict gives the
        value by the title of the panel.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * point -> :func:`arviz_plots.visuals.scatter_xy`
        * interval -> :func:`arviz_plots.visuals.line_xy`
        * far -> :func:`arviz_plots.visuals.annotate_xy`, estimates beyond the axis
        * exact -> :func:`arviz_plots.visuals.vline`
        * title, xlabel -> the labels
        * yticks, xlim, ylim -> the names of the methods, the ranges of the axes
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If ``exact`` names an unknown panel.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> groups = {}
    >>> for name, mean in [("forward", -0.5), ("reverse", 0.5)]:
    ...     weights = ("dataset", "chain"), rng.normal(mean, 1, (1, 100))
    ...     draws = ("dataset", "chain"), np.ones((1, 100))
    ...     groups[name] = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> pc = bdmc.plot_estimators(xr.DataTree.from_dict(groups), exact=0.0)
    """
    table = _estimates(dt, [None]).isel(chains=0, drop=True)
    truth = _exact_values(exact, table)
    methods = table["estimator"].values.tolist()
    recommended, valid = table["recommended"] == 1, table["valid"] == 1
    masks = {"recommended": recommended, "valid": valid & ~recommended, "invalid": ~valid}
    found = joined("status", {status: table.where(mask) for status, mask in masks.items()})
    value, reach = found["value"], Z95 * found["error"]
    trusted = value["status"] != "invalid"
    counts = trusted | ~value.where(trusted).notnull().any(["status", "estimator"])
    low, high = _around_intervals(value.where(counts), reach, truth, 0.8, 0.01)

    place = xr.DataArray(-np.arange(len(methods)), {"estimator": methods})
    canvas = Canvas(
        "log_ml", value, options, by="status", col_wrap=2,
        color=["#bd1f01", "#3f90da", "#a0a0a0"], linestyle=["C0", "C0", "C2"],
    )  # fmt: skip
    canvas.intervals("estimator", value - reach, value + reach, place, level=True)
    is_below, is_above = value < low, value > high
    canvas.points("point", value.where(~is_below & ~is_above), place)
    below, above = (
        xr.apply_ufunc(np.vectorize(form.format), value) for form in ("◂ {:.4g}", "{:.4g} ▸")
    )
    text = xr.where(is_below, below, xr.where(is_above, above, ""))
    edge, align = xr.where(is_below, low, high), xr.where(is_below, "left", "right")
    canvas.notes("far", text, edge, place, align, vertical_align="bottom")
    canvas.draw("exact", vline, truth, color="gray", linestyle="C1")
    canvas.limits("xlim", low, high)
    canvas.rows(methods, above=0.6)
    return canvas.finish("log ML (nats)")


@plot("band line point exact title xlabel ylabel xticks ylim")
def plot_convergence(
    dt: Results,
    *,
    methods: Sequence[str] = ("forward average", "reverse average", "bar"),
    exact: float | Mapping[str, float] | None = None,
    options: Options,
) -> PlotCollection:
    """Plot estimates from the first n finished chains, with 95 % intervals, for growing n.

    A point marks each number of chains at which the method's check holds. One-sided averages that
    approach BAR from below or above show their bias, and a step shows a rare large weight.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. There is a panel for every data set of each.
    methods : sequence of str
        Methods of `evidence`. On the real data only the forward ones are drawn.
    exact : float or dict of {str : float}, optional
        The true log ML, marked by a line. A number applies to all panels, and a dict gives the
        value by the title of the panel.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * band -> :func:`arviz_plots.visuals.fill_between_y`, the intervals
        * line -> :func:`arviz_plots.visuals.line_xy`, the estimates
        * point -> :func:`arviz_plots.visuals.scatter_xy`, the valid ones
        * exact -> :func:`arviz_plots.visuals.hline`
        * title, xlabel, ylabel -> the labels
        * xticks, ylim -> numbers of chains, and the range of log ML, which by default is the range
          of the intervals from an eighth of the chains on
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If a method is unknown, no method applies, there are fewer than 8 chains, or ``exact`` names
        an unknown panel.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> rng = np.random.default_rng(0)
    >>> groups = {}
    >>> for name, mean in [("forward", -0.5), ("reverse", 0.5)]:
    ...     weights = ("dataset", "chain"), rng.normal(mean, 1, (1, 100))
    ...     draws = ("dataset", "chain"), np.ones((1, 100))
    ...     groups[name] = xr.Dataset(dict(log_weight=weights, prior_draws=draws))
    >>> pc = bdmc.plot_convergence(xr.DataTree.from_dict(groups), exact=0.0)
    """
    sides = [side for read in readings(dt).values() for side in read.sides.values()]
    weights = [side.log_weight for side in sides if side.name != "real_reverse"]
    chains = max(int((~np.isnan(each)).sum(axis=1).max()) for each in weights)
    if chains < 8:
        raise ValueError(f"{chains} finished chains are too few; run at least 8.")
    table = _estimates(dt, np.unique(np.geomspace(4, chains, 25).astype(int)).tolist())
    truth = _exact_values(exact, table)
    known = table["estimator"].values.tolist()
    unknown = sorted(set(methods) - {"reverse average", "bar"} - set(known))
    if unknown or not set(methods) & set(known):
        raise ValueError(f"methods: {unknown or methods} are not among {known} for this result.")
    table = table.sel(estimator=[name for name in methods if name in known])

    value, reach = table["value"], Z95 * table["error"]
    canvas = Canvas("log_ml", value, options, by="estimator")
    place = xr.ufuncs.log10(table["chains"])
    canvas.fill("band", place, value - reach, value + reach, alpha=0.15)
    canvas.draw("exact", hline, truth, color="gray", linestyle="C1")
    canvas.line("line", place, value)
    canvas.points("point", place, value.where(table["valid"] == 1))
    late = value["chains"] >= value["chains"].max() / 8  # the first intervals are very wide
    canvas.limits("ylim", *_around_intervals(value.where(late), reach, truth))
    ticks = _halved(chains, 4)
    canvas.ticks("xticks", np.log10(ticks), ticks)
    return canvas.finish("chains per direction (log scale)", "log ML (nats)")


def _estimates(dt: Results, sizes: Sequence[int | None]) -> xr.Dataset:
    """Return the columns of `evidence` by ``model`` (one a data set), ``chains`` and ``estimator``.

    ``sizes`` are numbers of finished chains, None for all.
    """
    found = {}
    for size, (title, read) in product(sizes, readings(dt).items()):
        finished = {each[:2]: max(each.forward.size, each.reverse.size) for each in read.data_sets}
        several = len(read.sets_of("simulated")) > 1
        table = evidence_of(read.first_finished(size)).drop(columns="reason").astype(float)
        for (data, dataset), rows in table.groupby(level=["data", "dataset"], sort=False):
            if size is None or size <= finished[data, dataset]:
                name = f"{data} {dataset}" if several and data == "simulated" else data
                key = f"{title}, {name}" if title else name
                found[key, size or 0] = rows.droplevel(["data", "dataset"])
    table = pd.concat(found, names=["model", "chains", "estimator"])
    order = {name: table.index.unique(name) for name in table.index.names}
    joined = table.to_xarray().reindex(order)
    return joined if joined.sizes["model"] > 1 else joined.assign_coords(model=[""])


def _exact_values(exact: float | Mapping[str, float] | None, table: xr.Dataset) -> xr.DataArray:
    """Return known values by panel, with NaN for panels without one."""
    titles = table["model"].values.tolist()
    by_title = exact if isinstance(exact, Mapping) else dict.fromkeys(titles, exact)
    if unknown := set(by_title) - set(titles):
        raise ValueError(f"exact: {sorted(unknown)} are not among the panels {titles}.")
    known = np.array([by_title.get(title) for title in titles], dtype=float)  # None becomes NaN
    return xr.DataArray(known, {"model": titles})


def _around_intervals(
    value: xr.DataArray, reach: xr.DataArray, truth: xr.DataArray, *margins: float
) -> list[xr.DataArray]:
    """Return the ends of an axis around the intervals value ± reach and the true value."""
    ends = [value - reach, value + reach, truth.broadcast_like(value)]
    return around(xr.concat(ends, "end"), *margins)


def _halved(chains: int, least: int) -> list[int]:
    """Return a number of chains, its half, and so on."""
    return [chains // 2**i for i in range(int(np.log2(chains / least)) + 1)]


@plot("line band agreement title xlabel xticks yticks")
def plot_error_analysis(
    dt: xr.DataTree,
    *,
    group: Literal["forward", "reverse", "real"] | None = None,
    dataset: int = 0,
    exact: float | None = None,
    options: Options,
) -> PlotCollection:
    """Plot the block analysis of the exponential average, as in Favaro et al. (2015), Figs 1-3.

    The left panel shows the variance σ̂²(M) of the log mean of M weights, and the limits of its
    mean square error. The middle panel shows three estimates of σ²(M), which agree once the central
    limit theorem holds. A line marks the smallest such M, and without it no interval can be
    trusted. The right panel shows the bias of the blocks, Ĉ(M, N), and the limits D̂±(N) of the
    error with N chains.

    Parameters
    ----------
    dt : DataTree
        Result of `sample_bdmc`.
    group : {"forward", "reverse", "real"}, optional
        Group of the weights. By default it is that of forward runs on simulated data, or on the
        real data if there are no others. Reverse weights are averaged as 1/w, with the bias of
        log 1/Z.
    dataset : int
        Index of the simulated data set.
    exact : float, optional
        The true log ML. If it is given, the right panel shows the actual error for growing N.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * line -> :func:`arviz_plots.visuals.line_xy`
        * band -> :func:`arviz_plots.visuals.fill_between_y`
        * agreement -> :func:`arviz_plots.visuals.vline`
        * title, xlabel -> the labels
        * xticks, yticks -> the ticks of the logarithmic axes
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If the result has no such group or data set, or fewer than 64 chains.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights = ("chain", np.random.default_rng(0).normal(-0.02, 0.2, 512))
    >>> real = xr.Dataset(dict(log_weight=weights, prior_draws=("chain", np.ones(512))))
    >>> pc = bdmc.plot_error_analysis(xr.DataTree.from_dict(dict(real=real)), exact=0.0)
    """
    runs = log_ml_runs(dt)
    name: str = group or next(iter(runs[0]))
    sets = [run[name] for run in runs if name in run]
    if not 0 <= dataset < len(sets):
        raise ValueError(f"group={name!r}, dataset={dataset}: the result has no such weights.")
    weights, direction = sets[dataset], "reverse" if name == "reverse" else "forward"
    whole = error_analysis(weights, direction)
    counts = _halved(weights.size, 64)  # fewer cannot be split into blocks
    parts = [error_analysis(weights[:n], direction) for n in counts]

    m, n = np.log10(whole.block_sizes), np.log10(counts)
    with np.errstate(invalid="ignore", divide="ignore"):  # noise can make the bias negative
        spread, by_bias, single = np.log10(whole.curves)
        square = np.log10(whole.mean_square_error)
    found = f"agree from M = {whole.agreement}" if whole.agreement else "do not agree"
    variance, bias = "variance and mean square error (nats²)", "bias (nats)"
    central_limit = f"σ²(M) by three ways: {found}"
    lines = {
        (variance, "spread of blocks"): (m, spread),
        (central_limit, "spread of blocks"): (m, spread),
        (central_limit, "bias of blocks"): (m, by_bias),
        (central_limit, "single weights"): (m, single),
        (bias, "Ĉ(M, N)"): (m, whole.drift),
    }
    bands = {
        (variance, "mean square error"): (m, *square),
        (bias, "limits D̂±(N)"): (n, *np.transpose([part.limits for part in parts])),
    }
    if exact is not None:
        # Estimates are corrected for the hidden bias; the limits are those of the plain average.
        sign = 1 if direction == "forward" else -1
        errors = [sign * (p.estimate.value - exact) + np.mean(p.limits) for p in parts]
        lines[bias, "log Ẑ − log Z"] = (n, np.array(errors))

    titles = [variance, central_limit, bias]
    names = list(dict.fromkeys(curve for _, curve in [*lines, *bands]))
    nothing = xr.DataArray(np.nan, {"model": titles, "curve": names}, ["model", "curve"])
    canvas = Canvas("error", nothing, options, by="curve")
    shaded = _filled(nothing, bands, "kwarg", ["x", "y_bottom", "y_top"])
    canvas.draw("band", fill_between_y, shaded, alpha=0.3)
    canvas.draw("line", line_xy, _filled(nothing, lines, "plot_axis", ["x", "y"]))
    if whole.agreement:
        place = canvas.panel.sel(model=[central_limit]) + np.log10(whole.agreement)
        canvas.draw("agreement", vline, place, color="gray")
    canvas.ticks("xticks", **log_ticks(m), panels=[variance, central_limit])
    canvas.ticks("xticks", **log_ticks(np.concatenate([m, n])), panels=[bias])
    ticks = log_ticks(np.concatenate([spread, by_bias, single, *square]))
    canvas.ticks("yticks", **ticks, panels=[variance, central_limit])
    return canvas.finish("number of chains, M or N (log scale)")


def _filled(nothing: xr.DataArray, curves: Mapping, dim: str, parts: list) -> xr.DataArray:
    """Return the coordinates of curves along a dimension of arviz-plots, by panel and curve."""
    length = max(len(values[0]) for values in curves.values())
    found = nothing.expand_dims({dim: parts, "place": range(length)}, axis=(2, 3)).copy()
    for (panel, curve), values in curves.items():
        found.loc[panel, curve, :, : len(values[0]) - 1] = np.array(values)
    return found
