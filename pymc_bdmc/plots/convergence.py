"""Plot estimates of log ML against the number of chains."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy, scatter_xy

from pymc_bdmc.plots.canvas import Canvas, Options, limit_y, plot
from pymc_bdmc.plots.common import around_intervals, estimates, exact_values, readings
from pymc_bdmc.results.log_ml import Z95

FEWEST_CHAINS = 4


@plot("band line point exact title xlabel ylabel xticks ylim")
def plot_convergence(
    dt: xr.DataTree | Mapping[str, xr.DataTree],
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
    chains = max(
        int((~np.isnan(side.log_weight)).sum(axis=1).max())
        for side in sides
        if side.name != "real_reverse"
    )
    if chains < 2 * FEWEST_CHAINS:
        raise ValueError(f"{chains} finished chains are too few; run at least {2 * FEWEST_CHAINS}.")
    sizes = np.unique(np.geomspace(FEWEST_CHAINS, chains, 25).astype(int)).tolist()
    table = estimates(dt, sizes)
    truth = exact_values(exact, table["model"].values.tolist())
    known = table["estimator"].values.tolist()
    unknown = sorted(set(methods) - {"reverse average", "bar"} - set(known))
    if unknown or not set(methods) & set(known):
        raise ValueError(f"methods: {unknown or methods} are not among {known} for this result.")
    table = table.sel(estimator=[name for name in methods if name in known])

    value, reach = table["value"], Z95 * table["error"]
    canvas = Canvas("log_ml", value, options, ["band", "line", "point"], by="estimator")
    place = xr.ufuncs.log10(table["chains"])
    canvas.fill("band", place, value - reach, value + reach, alpha=0.15)
    canvas.draw("exact", hline, truth, color="gray", linestyle="C1")
    canvas.trace("line", line_xy, place, value)
    canvas.trace("point", scatter_xy, place, value.where(table["valid"] == 1))
    late = value["chains"] >= value["chains"].max() / 8  # the first intervals are very wide
    canvas.draw("ylim", limit_y, around_intervals(value.where(late), reach, truth))
    ticks = [chains // 2**i for i in range(int(np.log2(chains / FEWEST_CHAINS)) + 1)]
    canvas.ticks("xticks", np.log10(ticks), ticks)
    return canvas.finish("chains per direction (log scale)", "log ML (nats)")
