"""Plot the errors of estimators of log ML against CPU time."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import xarray as xr
from matplotlib.figure import Figure

from factor_models.race import standings

LOWEST = 0.05
"""Smallest error shown, nats."""

LINES = ("o-", "o--", "o-.", "o:")


def plot_race(results: xr.Dataset | Mapping[str, xr.Dataset]) -> Figure:
    """Plot the root mean square error of each estimator against the CPU time of one estimate.

    Both axes are logarithmic. The shaded area is the uncertainty of the true value, which is the
    width of its sandwich or 1.96 standard errors, whichever is larger. Errors within the area
    cannot be judged.

    Parameters
    ----------
    results : Dataset or mapping of {str : Dataset}
        Result of `race`, or results on several problems, each of which has a panel.

    Returns
    -------
    Figure

    Examples
    --------
    >>> from factor_models import ESTIMATORS, Clustering, plot_race, race
    >>> problem = Clustering(2, n=6, size=2).simulate(random_seed=1)
    >>> chosen = {name: ESTIMATORS[name] for name in ("AIS", "SMC")}
    >>> figure = plot_race(race(problem, chosen, budgets=[10, 100], trials=3, random_seed=1))
    """
    races = {"": results} if isinstance(results, xr.Dataset) else results
    figure, axes = plt.subplots(
        1, len(races), sharex=True, sharey=True, squeeze=False,
        figsize=(2 + 4 * len(races), 5), layout="constrained",
    )  # fmt: skip
    for ax, (title, result) in zip(axes[0], races.items(), strict=True):
        width = max(result.attrs["upper"] - result.attrs["lower"], 1.96 * result.attrs["error"])
        ax.axhspan(LOWEST, max(width, LOWEST), color="gray", alpha=0.3)
        for i, (name, own) in enumerate(standings(result).groupby(level="estimator", sort=False)):
            line = LINES[i % len(LINES)]  # there are more estimators than colours
            ax.plot(own["seconds"], own["rmse"].clip(lower=LOWEST), line, label=name)
        ax.set(xscale="log", yscale="log", title=title, xlabel="CPU seconds")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_formatter("{x:g}")
    axes[0, 0].set(ylim=(LOWEST, None), ylabel="RMSE (nats)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    return figure
