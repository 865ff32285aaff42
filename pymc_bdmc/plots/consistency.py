"""Plot forward log weights on real and on simulated data at every T."""

from collections.abc import Mapping

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy

from pymc_bdmc.estimators import shifted_runs
from pymc_bdmc.plots.canvas import Canvas, Options, limit_y, plot
from pymc_bdmc.plots.common import along, joined, panels
from pymc_bdmc.results.consistency import forward_ladder

WIDTH = 0.12
"""Width of a box, in decades of T."""
BOX = 14
"""Number of points of a box, of which the first seven are its corners."""


@plot("box estimate title xlabel ylabel xticks ylim")
def plot_consistency(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, options: Options
) -> PlotCollection:
    """Plot quartiles of forward log weights on real and on simulated data, against T.

    Log weights are relative to the best estimate of log ML of their data set, from its longest
    runs, so perfect runs would lie at 0. Runs on the real data are taken as many at a time as each
    simulated data set has, since an estimate lies the nearer to its own runs the fewer they are. If
    the boxes at one T are similar, real and simulated data are equally hard for the sampler, and
    the bound on its divergence from simulated data applies to the real data (Figs 1 and 5 of
    Grosse, Ancha and Roy 2016). `consistency` gives the numbers.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc` with one or several numbers of ``temperatures``. A dict gives a
        panel for each of its entries. Simulated data sets are drawn together.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * box -> :func:`arviz_plots.visuals.line_xy`, quartiles, with lines to the extreme runs
        * estimate -> :func:`arviz_plots.visuals.hline`, at 0
        * title, xlabel, ylabel -> the labels
        * xticks, ylim -> the numbers of temperatures, and the range of log weights, which by
          default is the range of the boxes
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If there are no finished runs on the real data, or none on simulated data.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_bdmc as bdmc
    >>> with pm.Model():
    ...     p = pm.Beta("p", 1, 1)
    ...     y = pm.Binomial("y", 10, p, observed=7)
    ...     dt = pm.sample_bdmc(chains=4, temperatures=20, simulate="prior", random_seed=1,
    ...                         cores=1, progressbar=False)
    >>> pc = bdmc.plot_consistency(dt)
    """
    pieces = joined("model", {title: _boxes(each) for title, each in panels(dt).items()})
    canvas = Canvas("log_weight", pieces, options, ["box"], by="data")
    canvas.draw("estimate", hline, canvas.panel, color="gray", linestyle="C1")
    canvas.draw("box", line_xy, pieces)
    canvas.draw("ylim", limit_y, _shown_range(pieces))
    for title, each in panels(dt).items():
        temperatures = forward_ladder(each)[0]
        canvas.ticks("xticks", np.log10(temperatures), [f"{t:.0f}" for t in temperatures], [title])
    scale = " (log scale)" if pieces.sizes["place"] > BOX else ""
    return canvas.finish(f"number of temperatures{scale}", "log weight − best estimate (nats)")


def _boxes(dt: xr.DataTree) -> xr.DataArray:
    """Return the outlines of the boxes of all T as one line by data, with NaN between pieces."""
    temperatures, real, simulated, _ = forward_ladder(dt)
    size = min(real.shape[1], simulated.shape[-1])
    alike = [real[:, start : start + size] for start in range(0, real.shape[1] - size + 1, size)]
    lines = []
    for side, sets in ((-1, np.stack(alike)), (1, simulated)):
        shifted = shifted_runs(sets).swapaxes(0, 1)  # by T
        pen = [
            _box(np.log10(t) + 0.6 * side * WIDTH, runs)
            for t, runs in zip(temperatures, shifted, strict=True)
        ]
        lines.append(np.concatenate(pen, axis=1))
    axes = {"data": ["real", "simulated"], "plot_axis": ["x", "y"]}
    return xr.DataArray(lines, axes | {"place": range(lines[0].shape[1])}, [*axes, "place"])


def _box(middle: float, runs: np.ndarray) -> np.ndarray:
    """Return the x and y of a box at the quartiles, a bar at the median, and whiskers."""
    values = runs[np.isfinite(runs)]
    if not values.size:
        return np.full((2, 1), np.nan)
    low, q25, median, q75, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    left, right, up = middle - WIDTH / 2, middle + WIDTH / 2, (np.nan, np.nan)
    pen = [
        (left, median), (right, median), (right, q75), (left, q75), (left, q25), (right, q25),
        (right, median), up, (middle, q25), (middle, low), up, (middle, q75), (middle, high), up,
    ]  # fmt: skip
    return np.array(pen).T


def _shown_range(pieces: xr.DataArray) -> xr.DataArray:
    """Return limits of the vertical axis that contain all boxes, and whiskers up to a limit."""
    y = pieces.sel(plot_axis="y", drop=True)
    corners = y.isel(place=np.arange(y.sizes["place"]) % BOX < 7)
    others = [dim for dim in y.dims if dim != "model"]
    low, high = corners.min(others), corners.max(others).clip(min=0)
    margin = (0.25 * (high - low)).clip(min=0.01)
    return along("limit", low=low - margin, high=high + margin)
