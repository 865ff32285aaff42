"""Plot the log ML of models, or the gap of samplers against its cost."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, set_xticks

from pymc_bdmc.plots.canvas import Canvas, Options, forest, limit_y, plot
from pymc_bdmc.plots.common import along, joined, log_ticks, segments
from pymc_bdmc.results.compare import READ, check_comparable, compare, cost
from pymc_bdmc.results.log_ml import Z95

PANELS = {
    "temperatures": "number of temperatures",
    "gradient_evaluations": "gradient evaluations",
    "seconds": "seconds",
}

ANSWERS = {"log ML": "nats, with 95 % interval", "posterior probability": "of the valid models"}
"""Panels of a comparison of models, and the labels below them."""


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
    low, middle, high = (
        xr.DataArray(np.array(rows, dtype=float), {"model": list(ANSWERS), "name": names})
        for rows in ([value - half, 0 * share], [value, share], [value + half, share])
    )
    canvas = Canvas(
        "log_ml", middle, options, ["point", "interval"], by="name", legend=False, col_wrap=2
    )
    forest(canvas, low, middle, high)
    return canvas.finish(list(ANSWERS.values()), "")


def _draw_gap(table: pd.DataFrame, options: Options) -> PlotCollection:
    """Draw the gap of every round against its cost."""
    found = table[table["jeffreys_bound"].notna()].to_xarray()
    if not found.sizes["round"]:
        raise ValueError("results: none has a gap, which needs simulated data.")
    known = [column for column in PANELS if (found[column] > 0).any()]
    place = xr.ufuncs.log10(joined("model", {c: found[c] for c in known}))
    place = place.assign_coords(model=[PANELS[column] for column in known])
    gap, error = found["jeffreys_bound"], found["error"].fillna(0)
    floor = _floor(gap, error)
    low, value, high = (
        xr.ufuncs.log10(each.where(each > 0)).broadcast_like(place)
        for each in (np.maximum(gap - error, floor), gap, gap + error)
    )
    canvas = Canvas("gap", place, options, ["line", "point", "interval"], by="name", col_wrap=3)
    canvas.draw("interval", line_xy, segments("round", low, high, place))
    canvas.trace("line", line_xy, place, value)
    canvas.trace("point", scatter_xy, place, value)
    top = high.max(["name", "round"]) + 0.1
    shown = along("limit", low=xr.full_like(top, np.log10(floor)), high=top)
    canvas.draw("ylim", limit_y, shown)
    canvas.draw("xticks", set_xticks, place.stack(tick=("name", "round")), log_ticks)
    canvas.ticks("yticks", **log_ticks(shown.values))
    return canvas.finish("(log scale)", "Jeffreys bound (nats)")


def _floor(gap: xr.DataArray, error: xr.DataArray) -> float:
    """Return the lower end of the axis, a tenth of the smallest positive gap or upper end."""
    ends = np.stack([gap.values, (gap + error).values])
    return float(ends[ends > 0].min(initial=1.0)) / 10
