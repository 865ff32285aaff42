"""Plot the spread and the bias of averaged weights against the number of chains."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import fill_between_y, line_xy, vline

from pymc_bdmc.estimators import error_analysis
from pymc_bdmc.plots.canvas import Canvas, Options, plot
from pymc_bdmc.plots.common import log_ml_runs, log_ticks

FEWEST_CHAINS = 64


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
    weights, direction = _chosen(dt, group, dataset)
    whole = error_analysis(weights, direction)
    counts = [weights.size // 2**i for i in range(int(np.log2(weights.size / FEWEST_CHAINS)) + 1)]
    parts = [error_analysis(weights[:n], direction) for n in counts]

    m, n = np.log10(whole.block_sizes), np.log10(counts)
    with np.errstate(invalid="ignore", divide="ignore"):  # noise can make the bias negative
        curves, square = np.log10(whole.curves), np.log10(whole.mean_square_error)
    found = f"agree from M = {whole.agreement}" if whole.agreement else "do not agree"
    panels = [
        "variance and mean square error (nats²)",
        f"σ²(M) by three ways: {found}",
        "bias (nats)",
    ]
    variance, central_limit, bias = panels
    lines = {
        (variance, "spread of blocks"): (m, curves[0]),
        (central_limit, "spread of blocks"): (m, curves[0]),
        (central_limit, "bias of blocks"): (m, curves[1]),
        (central_limit, "single weights"): (m, curves[2]),
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

    names = list(dict.fromkeys(curve for _, curve in [*lines, *bands]))
    nothing = xr.DataArray(np.zeros((3, len(names))), {"model": panels, "curve": names})
    canvas = Canvas("error", nothing, options, ["line", "band"], by="curve")
    shaded = _filled(nothing, bands, "kwarg", ["x", "y_bottom", "y_top"])
    canvas.draw("band", fill_between_y, shaded, alpha=0.3)
    canvas.draw("line", line_xy, _filled(nothing, lines, "plot_axis", ["x", "y"]))
    if whole.agreement:
        place = canvas.panel.sel(model=[central_limit]) + np.log10(whole.agreement)
        canvas.draw("agreement", vline, place, color="gray")
    canvas.ticks("xticks", **log_ticks(m), panels=[variance, central_limit])
    canvas.ticks("xticks", **log_ticks(np.concatenate([m, n])), panels=[bias])
    ticks = log_ticks(np.concatenate([curves.ravel(), square.ravel()]))
    canvas.ticks("yticks", **ticks, panels=[variance, central_limit])
    return canvas.finish("number of chains, M or N (log scale)")


def _chosen(dt: xr.DataTree, group: str | None, dataset: int) -> tuple[np.ndarray, str]:
    """Return log weights of one group and data set, and the direction for averaging them."""
    runs = log_ml_runs(dt)
    group = next(iter(runs[0])) if group is None else group
    weights = [run[group] for run in runs if group in run]
    if not 0 <= dataset < len(weights):
        raise ValueError(f"group={group!r}, dataset={dataset}: the result has no such weights.")
    return weights[dataset], "reverse" if group == "reverse" else "forward"


def _filled(like: xr.DataArray, curves: Mapping, dim: str, parts: list) -> xr.DataArray:
    """Return the coordinates of curves along a dimension of arviz-plots, by panel and curve."""
    length = max(len(values[0]) for values in curves.values())
    found = like.expand_dims({dim: parts, "place": range(length)}, axis=(2, 3)) * np.nan
    for (panel, curve), values in curves.items():
        found.loc[panel, curve, :, : len(values[0]) - 1] = np.array(values)
    return found
