"""Plot the upper bound against the burn-in of reverse runs."""

from collections.abc import Mapping

import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy

from pymc_bdmc.plots.canvas import Canvas, Options, plot
from pymc_bdmc.plots.common import joined, panels, readings
from pymc_bdmc.results.log_ml import Z95
from pymc_bdmc.results.sandwich import burn_in_effect


@plot("band line zero title xlabel ylabel xticks")
def plot_burn_in(
    dt: xr.DataTree | Mapping[str, xr.DataTree], *, options: Options
) -> PlotCollection:
    """Plot the mean reverse log weight against the burn-in S, relative to the longest burn-in.

    There is a line for each data set, and a band for the 95 % interval of the mean over data sets
    (`burn_in_effect`), as in Fig. 6 of Grosse, Ancha and Roy (2016). If the band contains zero,
    these runs show no effect of S.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc` with several burn-ins. A dict gives a panel for each of its
        entries, which must have the same burn-ins.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * band -> :func:`arviz_plots.visuals.fill_between_y`
        * line -> :func:`arviz_plots.visuals.line_xy`
        * zero -> :func:`arviz_plots.visuals.hline`
        * title, xlabel, ylabel -> the labels
        * xticks -> the burn-ins
        * legend -> :meth:`arviz_plots.PlotCollection.add_legend`, by default none
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Raises
    ------
    ValueError
        If there was only one burn-in.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> import pymc_bdmc as bdmc
    >>> weights = np.random.default_rng(0).normal(size=(3, 4, 16))
    >>> variables = dict(log_weight=(("burn_in", "dataset", "chain"), weights))
    >>> group = xr.Dataset(variables, coords=dict(burn_in=[10, 100, 1000]))
    >>> pc = bdmc.plot_burn_in(xr.DataTree.from_dict(dict(burn_in=group)))
    """
    table = joined("model", {t: burn_in_effect(each).to_xarray() for t, each in panels(dt).items()})
    means = {title: read.burn_ins.mean("chain") for title, read in readings(dt).items()}
    by_data_set = joined("model", {t: mean - mean.isel(burn_in=-1) for t, mean in means.items()})
    canvas = Canvas("log_weight", by_data_set, options, ["line"], by="dataset", legend=False)
    place = xr.ufuncs.log10(table["burn_in"] + 1)
    middle, reach = table["difference"], Z95 * table["error"].fillna(0.0)
    canvas.fill("band", place, middle - reach, middle + reach, alpha=0.3)
    canvas.draw("zero", hline, canvas.panel, color="gray", linestyle="C1")
    canvas.trace("line", line_xy, place, by_data_set, width=0.8, alpha=0.8)
    canvas.ticks("xticks", place.values, table["burn_in"].values)
    return canvas.finish("burn-in S (log scale)", "upper bound less its last value (nats)")
