"""Plot log ML against a prior scale, or any other value, and mark where the preference turns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import line_xy, scatter_xy, set_xticks, vline

from pymc_bdmc.plots.canvas import Canvas, Options, limit_y, notes, plot, round_ticks
from pymc_bdmc.plots.common import along, around, joined, log_ticks, segments
from pymc_bdmc.results.evidence import recommended_log_ml
from pymc_bdmc.results.log_ml import Z95

LOG_FROM = 10.0
"""Ratio of the largest to the smallest value from which the axis is logarithmic."""

FRESH = ("fresh_log_ml", "fresh_error")


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
    is_log = values[0] > 0 and values[-1] / values[0] >= LOG_FROM
    place = np.log10(values) if is_log else values
    curved = {name: _curve(each, values, place) for name, each in named.items()}
    found = joined("curve", curved).expand_dims(model=[""])
    x = xr.DataArray(place, dims="value")
    middle, reach = found["log_ml"], Z95 * found["error"]
    low, high = middle - reach, middle + reach

    fresh, fresh_reach = found["fresh_log_ml"], Z95 * found["fresh_error"]
    lowest, highest = fresh - fresh_reach, fresh + fresh_reach
    colored = ["band", "line", "interval", "point"]
    several = len(named) > 1
    canvas = Canvas("log_ml", middle, options, colored, by="curve", legend=several)
    canvas.fill("band", x, low, high, alpha=0.3)
    canvas.trace("line", line_xy, x, middle)
    canvas.draw("interval", line_xy, segments("value", lowest, highest, x))
    canvas.trace("point", scatter_xy, x, fresh)
    limits = around(xr.concat([low, high, fresh, lowest, highest], "end"), 0.1, 0.05)
    turns = _turns(place, middle.values[0]) if several else np.empty(0)
    if turns.size:
        top = 0.97 * limits.sel(limit="high") + 0.03 * limits.sel(limit="low")
        at = xr.DataArray(turns, dims="turn")
        canvas.draw("turn", _lines, at.expand_dims(model=[""]), color="gray", linestyle="C1")
        marks = along("part", x=at, y=top + 0 * at, value=10**at if is_log else at)
        canvas.draw("note", notes, marks, note=_note)
    canvas.draw("ylim", limit_y, limits)
    if is_log:
        canvas.ticks("xticks", **log_ticks(place))
    else:
        canvas.draw("xticks", set_xticks, x.expand_dims(model=[""]), round_ticks)
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
    if isinstance(each, xr.DataTree):
        level = recommended_log_ml(each)
        known = {"log_ml": level.value, "error": level.error, "valid": level.valid}
        each = pd.DataFrame(known | dict.fromkeys(FRESH, np.nan), index=values)
    table = each[["log_ml", "error", *FRESH]].astype(float).where(each["valid"])
    table = table.set_axis(each.index.astype(float)).sort_index()
    own = place[np.searchsorted(values, table.index)]
    columns = {
        name: np.interp(place, own, table[name], left=np.nan, right=np.nan)
        for name in ("log_ml", "error")
    }
    columns |= {name: table[name].reindex(values).values for name in FRESH}
    return xr.Dataset({name: ("value", column) for name, column in columns.items()})


def _turns(place: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Return where two curves cross, by linear interpolation; shape (number of crossings,)."""
    gap = pair[0] - pair[1]
    with np.errstate(invalid="ignore"):  # NaN in a gap of a curve
        left = np.flatnonzero(gap[:-1] * gap[1:] < 0)
    share = gap[left] / (gap[left] - gap[left + 1])
    crossings = place[left] + share * (place[left + 1] - place[left])
    return np.concatenate([crossings, place[gap == 0]])


def _lines(da, target, **kwargs):
    """Draw a vertical line for every crossing."""
    return [vline(x, target, **kwargs) for x in da][-1]


def _note(x: float, y: float, value: float) -> dict[str, Any]:
    """Return the value to be written beside its line, below the upper edge."""
    align = {"horizontal_align": "left", "vertical_align": "top"}
    return {"text": f" {value:.3g}", "x": x, "y": y, **align}
