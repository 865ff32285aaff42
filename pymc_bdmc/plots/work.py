"""Plot the densities of forward and reverse work, which cross at −log Z."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import vline

from pymc_bdmc.estimators import bar, jarzynski_forward, jarzynski_reverse
from pymc_bdmc.plots.canvas import Canvas, Options, draw_distributions, plot
from pymc_bdmc.plots.common import log_ml_runs, panels, sample, stacked


@plot("dist face estimate title xlabel")
def plot_work(
    dt: xr.DataTree | Mapping[str, xr.DataTree],
    *,
    kind: Literal["kde", "hist", "ecdf", "dot"] = "kde",
    options: Options,
) -> PlotCollection:
    """Plot the work W = −log w of both directions, and the estimates of −log Z.

    By Crooks' relation p_f(W) e^(−W) = Z p_r(W), the densities cross at W = −log Z. Lines mark the
    exponential average of each direction in its colour, and BAR from both directions. If the
    densities do not overlap, their crossing is not known.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. A dict gives a panel for each of its entries. With several data
        sets, work is relative to the BAR estimate of each set, since their log Z differ. Without
        simulated data, the work on the real data is shown. Infinite works are left out.
    kind : {"kde", "hist", "ecdf", "dot"}, default "kde"
        How to draw distributions.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * dist, face -> :func:`arviz_plots.plot_dist`
        * estimate -> :func:`arviz_plots.visuals.vline`
        * title, xlabel -> the labels
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

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
    >>> pc = bdmc.plot_work(xr.DataTree.from_dict(groups))
    """
    found = {title: _both_ways(log_ml_runs(each)) for title, each in panels(dt).items()}
    relative = any(len(runs) > 1 for runs in found.values())
    pooled = {title: _pooled(runs, relative) for title, runs in found.items()}
    works = stacked(
        {
            title: {name: sample(-row[np.isfinite(row)]) for name, row in run.items()}
            for title, run in pooled.items()
        }
    )
    estimates = stacked({title: _marks(run) for title, run in pooled.items()})
    canvas = Canvas("work", estimates, options, ["dist", "face", "estimate"])
    draw_distributions(canvas, works, kind)
    canvas.draw("estimate", vline, estimates, linestyle="C1")
    label = "work W = −log w, plus log Z by BAR (nats)" if relative else "work W = −log w (nats)"
    return canvas.finish(label)


def _both_ways(runs: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Return the data sets with both directions, or the real data if there are none."""
    return [run for run in runs if "reverse" in run] or runs


def _pooled(runs: list[dict[str, np.ndarray]], relative: bool) -> dict[str, np.ndarray]:
    """Return log weights of all data sets by direction, on request relative to BAR."""
    if relative and len(runs) > 1:
        middles = [bar(run["forward"], run["reverse"]).value for run in runs]
        runs = [
            {name: row - middle for name, row in run.items()}
            for run, middle in zip(runs, middles, strict=True)
        ]
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def _marks(run: dict[str, np.ndarray]) -> dict[str, xr.DataArray]:
    """Return estimates of −log Z by direction."""
    if "real" in run:
        found = {"real": jarzynski_forward(run["real"])}
    else:
        forward, reverse = run["forward"], run["reverse"]
        found = {
            "forward": jarzynski_forward(forward),
            "reverse": jarzynski_reverse(reverse),
            "both (BAR)": bar(forward, reverse),
        }
    return {name: xr.DataArray(-estimate.value) for name, estimate in found.items()}
