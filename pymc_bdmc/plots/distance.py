"""Plot the divergences of approximations from the posterior."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy

from pymc_bdmc.estimators import total_variation_of_divergence
from pymc_bdmc.plots.canvas import Canvas, Options, limit_x, notes, plot
from pymc_bdmc.plots.common import along, log_ticks, segments
from pymc_bdmc.results.distance import COLUMNS, FROM_POSTERIOR, TO_POSTERIOR, distance

HEIGHTS = {TO_POSTERIOR: 0.15, FROM_POSTERIOR: -0.15}
"""Heights of the two divergences, relative to the row of their approximation."""

NOTES = ("infinite ▸", "not known", "not reliable")


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
    >>> pc = bdmc.plot_distance(dt, normals, model=model, random_seed=1)

    A table that exists is drawn as it is:

    >>> table = bdmc.distance(dt, normals, model=model, random_seed=1)
    >>> pc = bdmc.plot_distance(table)
    """
    settings = {
        "model": model, "draws": draws, "confidence": confidence, "random_seed": random_seed
    }  # fmt: skip
    table = _table(dt, approximation, settings)
    if not isinstance(table.index, pd.MultiIndex):
        table = pd.concat({"": table}, names=["approximation"])
    order = table.index.unique("approximation")
    found = table.to_xarray().sel(approximation=order, divergence=list(HEIGHTS))
    estimate = found["value"].astype(float)
    valid = found["valid"].astype(bool) & np.isfinite(estimate)
    upper, lower = found["upper"].astype(float).where(valid), found["lower"].astype(float)
    floor = 2 * estimate.where(valid) - upper
    value = estimate.where(floor > 0)
    places = xr.DataArray(-np.arange(len(order)), {"approximation": order})
    heights = places + xr.DataArray(list(HEIGHTS.values()), {"divergence": list(HEIGHTS)})
    shown = _shown(value, upper, lower)
    left, right = (float(end) for end in shown)

    whole, colored = heights.expand_dims(model=[""]), ["interval", "point", "certified", "note"]
    canvas = Canvas("divergence_nats", whole, options, colored, by="divergence")
    low = _log(floor).fillna(left).where(valid)
    ends = xr.ufuncs.maximum(low, left), _log(upper)
    canvas.draw("interval", line_xy, segments("approximation", *ends, heights, level=True))
    canvas.trace("point", scatter_xy, _log(value), heights)
    canvas.trace("certified", scatter_xy, _log(lower), heights, marker="C3")
    told = xr.where(valid, 0, xr.where(np.isinf(estimate), 1, xr.where(estimate.isnull(), 2, 3)))
    canvas.draw("note", notes, along("part", told=told, y=heights), note=_note, x=right)
    canvas.draw("xlim", limit_x, shown.expand_dims(model=[""]))
    canvas.rows(order)
    below = "<br>" if canvas.collection.backend == "plotly" else "\n"
    canvas.ticks("xticks", **_ticks(shown, below))
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


def _shown(value: xr.DataArray, upper: xr.DataArray, lower: xr.DataArray) -> xr.DataArray:
    """Return the limits of the axis around all points and limits, with a margin."""
    known = np.concatenate([_log(each).values.ravel() for each in (value, upper, lower)])
    known = known[np.isfinite(known)]
    known = known if known.size else np.array([-1.0, 1.0])
    margin = 0.1 * np.ptp(known) + 0.3
    return xr.DataArray([known.min() - margin, known.max() + margin], {"limit": ["low", "high"]})


def _ticks(shown: xr.DataArray, below: str) -> dict[str, list]:
    """Return ticks labelled by nats and by the largest error of a probability."""
    ticks = log_ticks(shown.values)
    bounds = [100 * total_variation_of_divergence(10**place) for place in ticks["values"]]
    told = [f"{bound:.{0 if bound >= 10 else 1}f} %" for bound in bounds]
    labels = [f"{nats}{below}{share}" for nats, share in zip(ticks["labels"], told, strict=True)]
    return {"values": ticks["values"], "labels": labels}


def _note(told: float, y: float) -> dict[str, Any]:
    """Return the note at the right for a divergence that is not on the axis."""
    align = {"horizontal_align": "right", "vertical_align": "bottom"}
    return {"text": NOTES[int(told) - 1], "y": y, **align} if told else {}
