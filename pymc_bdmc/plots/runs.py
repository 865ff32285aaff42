"""Plot the runs of a result: their log weights by direction and by T, and their paths along β."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import xarray as xr
from arviz_plots.plot_collection import PlotCollection
from arviz_plots.visuals import hline, line_xy, set_xticks, vline

from pymc_bdmc.estimators import (
    bar,
    clustered_mean,
    jarzynski_forward,
    jarzynski_reverse,
    shifted_runs,
    temperature_flow,
)
from pymc_bdmc.plots.canvas import (
    Canvas,
    Options,
    Results,
    along,
    around,
    joined,
    panels,
    plot,
    readings,
    round_ticks,
    sample,
    stacked,
)
from pymc_bdmc.results.consistency import forward_ladder
from pymc_bdmc.results.log_ml import Z95
from pymc_bdmc.results.reading import Reading, Side
from pymc_bdmc.results.sandwich import burn_in_effect

BOX = 14
"""Number of points that outline a box, of which the first seven are its corners."""

type Ladder = xr.DataTree | Sequence[xr.DataTree]
"""One result, or several of one model with different T."""


@plot("dist face bound band point title xlabel ylabel xticks")
def plot_sandwich(
    dt: Ladder | Mapping[str, Ladder],
    *,
    kind: Literal["kde", "hist", "ecdf", "dot"] = "kde",
    options: Options,
) -> PlotCollection:
    """Plot log weights of both directions with their means, the bounds on log ML.

    For one result, the plot shows the distributions over chains. For a sequence of results on one
    model, it shows the bounds against the number of temperatures, with a band of ± one standard
    error.

    Parameters
    ----------
    dt : DataTree, sequence of DataTree, or dict of either
        Results of `sample_bdmc`. A dict gives a panel for each of its entries. With several data
        sets, whose log ML differ, values are relative to the middle of the bounds of each set.
    kind : {"kde", "hist", "ecdf", "dot"}, default "kde"
        How to draw distributions.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * dist, face -> :func:`arviz_plots.plot_dist`, of one result
        * bound -> :func:`arviz_plots.visuals.vline` of one result,
          :func:`arviz_plots.visuals.line_xy` of a sequence
        * band -> :func:`arviz_plots.visuals.fill_between_y`, of a sequence
        * point -> :func:`arviz_plots.visuals.scatter_xy`, of a sequence
        * xticks -> :func:`arviz_plots.visuals.set_xticks`
        * title, xlabel, ylabel -> the labels
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    >>> pc = bdmc.plot_sandwich(dt)
    """
    given = panels(dt)
    ladders = {t: [each] if isinstance(each, xr.DataTree) else each for t, each in given.items()}
    reads = {title: list(map(Reading.of, each)) for title, each in ladders.items()}
    sides = [side for each in reads.values() for read in each for side in _sides(read)]
    relative = any(len(side.log_weight) > 1 for side in sides)
    label = "log weight − middle of the bounds (nats)" if relative else "log weight (nats)"
    if all(isinstance(each, xr.DataTree) for each in given.values()):
        weights = {title: _weights(read, relative) for title, (read,) in reads.items()}
        return _draw_distributions(weights, kind, label, options)
    found = {title: _bounds(each, relative) for title, each in reads.items()}
    means, errors = joined("model", found).transpose("part", ...)
    canvas = Canvas("log_weight", means, options)
    place = xr.ufuncs.log10(means["temperatures"])
    canvas.fill("band", place, means - errors, means + errors, alpha=0.2)
    canvas.line("bound", place, means)
    canvas.points("point", place, means)
    canvas.ticks("xticks", place.values, means["temperatures"].values)
    return canvas.finish("number of temperatures (log scale)", label)


def _sides(read: Reading) -> list[Side]:
    return [read.side(name) for name in read.directions]


def _weights(read: Reading, relative: bool) -> dict[str, np.ndarray]:
    """Return log weights by direction, on request relative to the middle of the bounds."""
    weights = {side.name: side.bounding for side in _sides(read)}
    if relative:
        bounds = [xr.DataArray(each).mean("dim_1").values[:, None] for each in weights.values()]
        weights = {name: each - sum(bounds) / len(bounds) for name, each in weights.items()}
    return weights


def _draw_distributions(
    weights: Mapping[str, Mapping[str, np.ndarray]], kind: str, label: str, options: Options
) -> PlotCollection:
    runs = {}
    for title, each in weights.items():
        finished = {name: row[~np.isnan(row)] for name, row in each.items()}
        runs[title] = {name: sample(row) for name, row in finished.items() if row.size}
    if empty := [title for title, each in runs.items() if not each]:
        whose = "" if empty == [""] else f" of {', '.join(empty)}"
        raise ValueError(f"No chain was finished, so there is nothing to draw{whose}.")
    pooled = stacked(runs)
    canvas = Canvas("log_weight", pooled, options)
    canvas.distributions(pooled, kind)
    canvas.draw("bound", vline, pooled.mean("sample"), linestyle="C1")
    canvas.draw("xticks", set_xticks, pooled.stack(run=("direction", "sample")), round_ticks)
    return canvas.finish(label)


def _bounds(reads: list[Reading], relative: bool) -> xr.DataArray:
    """Return mean log weights and their errors by direction, along numbers of temperatures."""
    by_size = sorted((_sides(read)[0].n_temperatures, i) for i, read in enumerate(reads))
    found = []
    for _, i in by_size:
        parts = {name: clustered_mean(row) for name, row in _weights(reads[i], relative).items()}
        found.append(
            xr.DataArray(list(parts.values()), {"direction": list(parts)}, ["direction", "part"])
        )
    return xr.concat(found, xr.Variable("temperatures", [size for size, _ in by_size]))


@plot("dist face estimate title xlabel")
def plot_work(
    dt: Results, *, kind: Literal["kde", "hist", "ecdf", "dot"] = "kde", options: Options
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
    label = "work W = −log w (nats)"
    works, marks = {}, {}
    for title, each in panels(dt).items():
        runs = log_ml_runs(each)
        runs = [run for run in runs if "reverse" in run] or runs
        if len(runs) > 1:
            label = "work W = −log w, plus log Z by BAR (nats)"
            middles = [bar(run["forward"], run["reverse"]).value for run in runs]
            runs = [{k: run[k] - z for k in run} for run, z in zip(runs, middles, strict=True)]
        pooled = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        works[title] = {name: sample(-row[np.isfinite(row)]) for name, row in pooled.items()}
        if "real" in pooled:
            found = {"real": jarzynski_forward(pooled["real"])}
        else:
            forward, reverse = pooled["forward"], pooled["reverse"]
            found = {"forward": jarzynski_forward(forward), "reverse": jarzynski_reverse(reverse)}
            found["both (BAR)"] = bar(forward, reverse)
        marks[title] = {name: xr.DataArray(-each.value) for name, each in found.items()}
    estimates = stacked(marks)
    canvas = Canvas("work", estimates, options)
    canvas.distributions(stacked(works), kind)
    canvas.draw("estimate", vline, estimates, linestyle="C1")
    return canvas.finish(label)


def log_ml_runs(dt: xr.DataTree) -> list[dict[str, np.ndarray]]:
    """Return the log weights of every data set by direction, whose averages estimate ML, nats."""
    found = []
    for each in Reading.of(dt).data_sets:
        runs = {"real": each.forward}
        if each.data == "simulated":
            runs = {"forward": each.forward, "reverse": each.reverse}
        found.append({name: row + each.mass.estimate for name, row in runs.items()})
    if not found:
        raise ValueError("No chain was finished, so there is nothing to draw.")
    return found


@plot("path loop critical title xlabel ylabel ylim")
def plot_hysteresis(dt: Results, *, options: Options) -> PlotCollection:
    """Plot the mean ℓ of the chains along β, forward and reverse.

    On a path from a reference r, log p(θ) + ℓ(θ) − log r(θ) replaces ℓ.

    If the directions disagree, the kernels do not equilibrate along the path. The area between the
    curves is the gap of the sandwich, up to discretisation.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `sample_bdmc`. A dict gives a panel for each of its entries. Several data sets
        are averaged.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * path -> :func:`arviz_plots.visuals.line_xy`, mean ℓ along β
        * loop -> :func:`arviz_plots.visuals.fill_between_y`, the area between the directions
        * critical -> :func:`arviz_plots.visuals.vline`, at the critical β of a lattice model
        * title, xlabel, ylabel -> the labels
        * ylim -> :func:`arviz_plots.visuals.set_ylim`, by default without the lowest 5 % of each
          path, which is next to the prior
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import pymc_bdmc as bdmc
    >>> dt = bdmc.lattice.anneal(bdmc.lattice.Ising(4), random_seed=1, progressbar=False)
    >>> pc = bdmc.plot_hysteresis(dt)
    """
    reads = readings(dt)
    found = {t: {side.name: _mean_path(side) for side in _sides(read)} for t, read in reads.items()}
    beta, paths = stacked(found).transpose("plot_axis", ...)
    canvas = Canvas("log_likelihood", paths, options)
    if paths.sizes["direction"] == 2:
        low, high = paths.min("direction"), paths.max("direction")
        canvas.fill("loop", beta.isel(direction=0, drop=True), low, high, color="gray", alpha=0.2)
    canvas.line("path", beta, paths)
    critical = xr.DataArray([read.critical_beta for read in reads.values()], {"model": list(reads)})
    canvas.draw("critical", vline, critical, color="gray", linestyle="C1")
    late = paths.quantile([0.05, 1.0], ["place", "direction"])  # ℓ is extremely low at the start
    canvas.limits("ylim", *around(late))
    taken = {read.path or "prior" for read in reads.values()}
    mean = "slope of log f" if "data" in taken else "log posterior over reference"
    mean = "log likelihood" if taken == {"prior"} else mean
    return canvas.finish("inverse temperature β", f"mean {mean} (nats)")


def _mean_path(side: Side) -> xr.DataArray:
    """Return β and mean ℓ by the index along the path, since schedules may differ."""
    path = side.variable("log_likelihood_path")
    path = path.mean("dataset") if "dataset" in path.dims else path
    pair = along("plot_axis", x=path["beta"], y=path).rename(beta="place")
    return pair.assign_coords(place=range(pair.sizes["place"]))


@plot("path knot title xlabel ylabel")
def plot_tempering(dt: Results, *, chains: int = 6, options: Options) -> PlotCollection:
    """Plot the inverse temperatures that chains visit by draw, and mark where few pass.

    A result can be trusted if every chain goes from end to end many times. A line marks a
    bottleneck, the β that the fewest chains cross, if the flow is less than 0.1 of the draws on the
    side with fewer draws. See Carlson et al. (2016), Appendix F.

    Parameters
    ----------
    dt : DataTree or dict of {str : DataTree}
        Results of `temper`. A dict gives a panel for each of its entries.
    chains : int, default 6
        Number of chains to draw.
    visuals : mapping of {str : mapping or False}, optional
        Options of the visuals, or False to leave one out:

        * path -> :func:`arviz_plots.visuals.line_xy`, β of each chain by draw
        * knot -> :func:`arviz_plots.visuals.hline`, the bottleneck
        * title, xlabel, ylabel -> the labels
    plot_collection, backend, aes_by_visuals, **pc_kwargs
        As in every plot, see `pymc_bdmc.plots`.

    Returns
    -------
    PlotCollection

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.ones((3, 2)))
    >>> dt = bdmc.temper(rbm, temperatures=4, draws=100, random_seed=1, progressbar=False)
    >>> pc = bdmc.plot_tempering(dt)
    """
    runs = {title: read.tempering for title, read in readings(dt).items()}
    paths = joined("model", {title: _visited(run, chains) for title, run in runs.items()})
    bottlenecks = joined("model", {title: _bottleneck(run) for title, run in runs.items()})
    canvas = Canvas("beta", paths, options, by="chain", legend=False, col_wrap=2)
    canvas.draw("path", line_xy, paths, width=0.8, alpha=0.8)
    canvas.draw("knot", hline, bottlenecks, color="black", linestyle="C1")
    return canvas.finish("draw", "inverse temperature β")


def _visited(run: xr.Dataset, chains: int) -> xr.DataArray:
    """Return draw number and β of the first chains."""
    places = run["place"].isel(chain=slice(chains))
    beta = places.copy(data=run["beta"].values[places.values])
    return along("plot_axis", x=places["draw"], y=beta)


def _bottleneck(run: xr.Dataset) -> xr.DataArray:
    """Return β at the cut with the smallest conductance, if that is below 0.1; else NaN."""
    arrays = [run[name].values for name in ("log_likelihood", "place", "beta", "log_z_guess")]
    conductance = temperature_flow(*arrays).conductance
    cut = int(np.nanargmin(conductance))
    is_narrow = conductance[cut] < 0.1  # a chain stays on one side for ten sweeps; chosen
    return xr.DataArray(run["beta"].values[cut : cut + 2].mean() if is_narrow else np.nan)


@plot("band line zero title xlabel ylabel xticks")
def plot_burn_in(dt: Results, *, options: Options) -> PlotCollection:
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
    canvas = Canvas("log_weight", by_data_set, options, by="dataset", legend=False)
    place = xr.ufuncs.log10(table["burn_in"] + 1)
    middle, reach = table["difference"], Z95 * table["error"].fillna(0.0)
    canvas.fill("band", place, middle - reach, middle + reach, alpha=0.3)
    canvas.draw("zero", hline, canvas.panel, color="gray", linestyle="C1")
    canvas.line("line", place, by_data_set, width=0.8, alpha=0.8)
    canvas.ticks("xticks", place.values, table["burn_in"].values)
    return canvas.finish("burn-in S (log scale)", "upper bound less its last value (nats)")


@plot("box estimate title xlabel ylabel xticks ylim")
def plot_consistency(dt: Results, *, options: Options) -> PlotCollection:
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
    boxes = joined("model", {title: _boxes(read) for title, read in readings(dt).items()})
    canvas = Canvas("log_weight", boxes, options, by="data")
    canvas.draw("estimate", hline, canvas.panel, color="gray", linestyle="C1")
    canvas.draw("box", line_xy, boxes)
    corners = boxes.sel(plot_axis="y", drop=True).where(boxes["place"] % BOX < 7)
    canvas.limits("ylim", *around(xr.concat([corners, 0 * corners], "end"), 0.25, 0.01))
    for title, read in readings(dt).items():
        temperatures = forward_ladder(read)[0]
        canvas.ticks("xticks", np.log10(temperatures), [f"{t:.0f}" for t in temperatures], [title])
    scale = " (log scale)" if boxes.sizes["place"] > BOX else ""
    return canvas.finish(f"number of temperatures{scale}", "log weight − best estimate (nats)")


def _boxes(read: Reading) -> xr.DataArray:
    """Return the outlines of the boxes at all T as one line by data, with NaN between pieces."""
    temperatures, real, simulated, _ = forward_ladder(read)
    size, width = min(real.shape[1], simulated.shape[-1]), 0.12  # decades of T
    starts = range(0, real.shape[1] - size + 1, size)
    alike = np.stack([real[:, start : start + size] for start in starts])
    lines = []
    for side, sets in ((-1, alike), (1, simulated)):
        runs = xr.DataArray(shifted_runs(sets), dims=["dataset", "T", "run"])
        ends = runs.where(np.isfinite(runs)).quantile([0, 0.25, 0.5, 0.75, 1], ["dataset", "run"])
        low, q25, median, q75, high = ends.values
        middle = np.log10(temperatures) + 0.6 * side * width
        left, right, up = middle - width / 2, middle + width / 2, [np.nan * middle] * 2
        pen = np.array([
            (left, median), (right, median), (right, q75), (left, q75), (left, q25), (right, q25),
            (right, median), up, (middle, q25), (middle, low), up, (middle, q75), (middle, high),
            up,
        ])  # fmt: skip
        lines.append(pen.transpose(1, 2, 0).reshape(2, -1))
    axes = {"data": ["real", "simulated"], "plot_axis": ["x", "y"]}
    return xr.DataArray(lines, axes | {"place": range(lines[0].shape[1])}, [*axes, "place"])
