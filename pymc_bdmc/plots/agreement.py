"""Plot the differences between a sampler's draws and the particles of a run."""

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, vline, vspan

from pymc_bdmc.base.arguments import check_counts
from pymc_bdmc.estimators.agreement import MARGINS
from pymc_bdmc.plots.canvas import Canvas, Options, limit_x, plot
from pymc_bdmc.plots.common import along, segments
from pymc_bdmc.results.agreement import agreement
from pymc_bdmc.results.particles import paired_elements

PANELS = {
    "difference of means": "posterior standard deviations, yours less the run's; grey: good",
    "ratio of standard deviations": "yours over the run's (log scale); grey: good",
}

SCALES: dict[str, Callable] = {"shift": np.asarray, "ratio": np.log}

POINTS = 400
"""Number of points at which a distribution function is drawn."""


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
    table = agreement(dt, idata, model=model, var_names=var_names).table
    shown = table[table["shift"].notna()].iloc[:rows]
    functions = _functions(dt, idata, var_names, table)
    pairs = zip_longest(PANELS, functions["model"].values)
    order = [name for pair in pairs for name in pair if name is not None]
    whole = xr.DataArray(0.0, {"model": order, "draws": functions["draws"]}, ["model", "draws"])
    canvas = Canvas(
        "agreement", whole, options, ["interval", "point", "distribution"], by="draws", col_wrap=2
    )

    scaled, margin = _scaled(shown), xr.DataArray(list(MARGINS[:2]), {"model": list(PANELS)})
    reach, (estimate, low, high) = _reach(scaled, margin), scaled
    at = xr.DataArray(-np.arange(len(shown), dtype=float), dims="place")  # the worst on top
    canvas.draw("margin", vspan, along("limit", low=-margin, high=margin), color="gray", alpha=0.2)
    canvas.draw("same", vline, 0 * margin, color="gray")
    canvas.draw("interval", line_xy, segments("place", low, high, at, level=True))
    canvas.trace("point", scatter_xy, estimate, at)
    canvas.draw("distribution", line_xy, functions)
    canvas.draw("xlim", limit_x, along("limit", low=-reach, high=reach))
    canvas.ticks("yticks", at.values, shown.index, list(PANELS))
    canvas.ticks("xticks", **_ratios(reach.values[1]), panels=list(PANELS)[1:])
    return canvas.finish(
        [PANELS.get(name, "c") for name in order],
        ["" if name in PANELS else "P(x ≤ c)" for name in order],
    )


def _ratios(reach: float) -> dict[str, list]:
    """Return ticks at round ratios within the shown range."""
    steps = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100])
    steps = steps[np.abs(np.log(steps)) <= reach]
    if len(steps) > 7:
        steps = steps[(steps != 0.8) & (steps != 1.25)]
    return {"values": np.log(steps).tolist(), "labels": [f"{step:g}" for step in steps]}


def _scaled(shown: pd.DataFrame) -> xr.DataArray:
    """Return estimates, lower and upper limits of all rows, by panel."""
    rows = [
        [scale(shown[f"{name}{end}"]) for name, scale in SCALES.items()]
        for end in ("", "_lower", "_upper")
    ]
    found = xr.DataArray(np.array(rows), {"model": list(PANELS)}, ["end", "model", "place"])
    return found.expand_dims(draws=["yours"], axis=2)


def _reach(scaled: xr.DataArray, margin: xr.DataArray) -> xr.DataArray:
    """Return half of the shown ranges, which contain all estimates and most of the intervals."""
    furthest, *ends = abs(scaled).max(["draws", "place"], skipna=False)
    widest = xr.ufuncs.minimum(xr.ufuncs.maximum(*ends), 2 * furthest + 4 * margin)
    return 1.1 * xr.ufuncs.fmax(2 * margin, widest)


def _functions(
    dt: xr.DataTree, idata: Any, var_names: Sequence[str] | None, table: pd.DataFrame
) -> xr.DataArray:
    """Return distribution functions of the two worst elements, of the draws and of the run."""
    elements = paired_elements(dt, idata, var_names=var_names)
    worst = [name for name in table.index if name in elements.labels][:2]
    levels = np.linspace(0, 1, POINTS)
    lines = {}
    for name in worst:
        place = elements.labels.index(name)
        given = elements.draws[..., place].ravel()
        own = elements.particles[..., place].ravel()
        order = np.argsort(own)
        share = np.cumsum(elements.weights.ravel()[order])
        at = np.minimum(np.searchsorted(share / share[-1], levels), own.size - 1)
        lines[f"distribution of {name}"] = [
            _steps(np.quantile(given, levels, method="inverted_cdf"), levels),
            _steps(own[order][at], levels),
        ]
    axes = {"draws": ["yours", "the run's"], "plot_axis": ["x", "y"]}
    return xr.DataArray(
        list(lines.values()), {"model": list(lines)} | axes, ["model", *axes, "place"]
    )


def _steps(x: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return a distribution function that is flat between values and jumps at each of them."""
    return np.array([np.repeat(x, 2)[1:], np.repeat(levels, 2)[:-1]])
