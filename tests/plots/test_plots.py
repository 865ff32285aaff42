"""Every plot draws what the result holds, on every backend."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import bar, error_analysis, jarzynski_forward
from tests.results.trees import exact_result, particles, result, tree
from tests.systems import GaussianBridge, GaussianWork


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def one_data_set(dt):
    return dt.isel(dataset=[0])


def real_alone(dt):
    return dt.filter(lambda node: node.name not in ("forward", "reverse"))


def on_matplotlib(plot, *arguments, **options):
    return plot(*arguments, backend="matplotlib", **options)


def drawn(pc, visual, variable, **select):
    """The artist of a visual."""
    return pc.viz[visual][variable].sel(select).item()


def axes_of(pc):
    return pc.viz["figure"].item().axes[0]


@pytest.fixture(scope="module")
def works():
    """Forward and reverse chains on two data sets, and on the real data; log ML is 2."""
    work, rng = GaussianWork(stds=(1.2,), log_z=2.0), np.random.default_rng(1)
    forward, reverse = (draw(256, rng).reshape(2, 128) for draw in (work.forward, work.reverse))
    return tree(forward, reverse, work.forward(128, rng))


@pytest.fixture(scope="module")
def tempered():
    rng = np.random.default_rng(1)
    rbm = bdmc.rbm.RBM(np.zeros(6), np.zeros(4), rng.normal(size=(6, 4)))
    return bdmc.temper(rbm, temperatures=5, draws=200, random_seed=1)


@pytest.fixture(scope="module")
def ladders():
    """Two results of one model, with rounds of 30, 100 and 300 temperatures."""
    results, rng = {}, np.random.default_rng(1)
    for name, harder in (("easy", 1.0), ("hard", 3.0)):
        sds = np.array([2.0, 1.0, 0.5])[:, None]
        forward, real = (rng.normal(-(sds**2) / 2, sds, (3, 40)) for _ in range(2))
        dt = tree(forward[-1:], forward[-1:] + 0.25, real[-1])
        for group in ("forward", "reverse", "real"):
            dt[group] = dt[group].dataset.assign_coords(beta=np.linspace(0, 1, 301))
        dt["rounds"] = xr.DataTree(xr.Dataset({
            "temperatures": ("round", [30, 100, 300]),
            "forward_log_weight": (("round", "dataset", "chain"), forward[:, None]),
            "real_log_weight": (("round", "chain"), real),
            "jeffreys_bound": ("round", harder * sds[:, 0] ** 2),
            "error": ("round", 0.1 * sds[:, 0]),
            "gradient_evaluations": ("round", [300, 1000, 3000]),
            "seconds": ("round", [0.1, 0.3, 1.0]),
        }))  # fmt: skip
        dt["observed_data"] = xr.DataTree(xr.Dataset({"y": ("place", np.arange(3.0))}))
        results[name] = dt
    return results


@pytest.fixture(scope="module")
def compared():
    """Results on real data alone of three models; the last has no valid log ML."""
    made = {"a": result(-3.0), "b": result(-4.0), "wild": result(-3.0, n=8, sd=6.0)}
    return {name: real_alone(dt) for name, dt in made.items()}


@pytest.fixture(scope="module")
def normal_posterior():
    """A run whose posterior is x = 0.5 ± √0.5, and its model."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=1.0)
    x = stats.norm(0.5, np.sqrt(0.5)).rvs(1024, random_state=1)
    return exact_result(model, stats.norm.logpdf(1.0, 0, np.sqrt(2)), x=x), model


@pytest.fixture(scope="module")
def distances(normal_posterior):
    """A table of approximations: near, poor, infinitely far, draws."""
    dt, model = normal_posterior
    exact = stats.norm(0.5, np.sqrt(0.5))
    draws = exact.rvs(1000, random_state=1)
    approximations = {
        "poor": stats.norm(0.5, 0.2),
        "exact": exact,
        "a part": stats.uniform(0.0, 1.0),
        "draws": (draws, exact.logpdf(draws)),
        "heavy": (stats.cauchy.rvs(size=1000, random_state=1), stats.cauchy.logpdf),
    }
    return bdmc.distance(dt, approximations, model=model, random_seed=1, draws=1000)


@pytest.fixture(scope="module")
def perturbed(schools_result):
    """The run's own draws, one variable of them shifted, and one narrowed."""
    rng = np.random.default_rng(1)
    own = schools_result["particles"].dataset
    spread = own.isel(chain=rng.integers(8, size=400), particle=0).drop_vars("bdmc_weight")
    draws = spread.rename(chain="draw").assign_coords(draw=np.arange(400))
    return draws.assign(mu=draws["mu"] + rng.normal(30, 1, 400), tau=draws["tau"] / 9)


@pytest.fixture(scope="module")
def in_turn():
    """Three models of two observations, in the form of runs on the path of the data."""
    rng = np.random.default_rng(2)

    def dt(shift):
        parts = rng.normal([-1.0, -2.0 + shift], 0.1, (40, 2))
        made = tree(real=parts.sum(axis=1))
        made["real"] = made["real"].dataset.assign(row_log_weight=(("chain", "row"), parts))
        observed = xr.Dataset({"y": ("day", np.zeros(2))}, {"day": ["mon", "tue"]})
        made["observed_data"] = xr.DataTree(observed)
        made.attrs["path"] = "data"
        return made

    return {name: dt(shift) for name, shift in (("a", 0.0), ("b", 0.5), ("c", 1.0))}


def sensitivity_table(log_ml, values, **columns):
    fresh = {"fresh_log_ml": np.nan, "fresh_error": np.nan}
    known = {"log_ml": log_ml, "error": 0.1, **fresh, "valid": True} | columns
    return pd.DataFrame(known, index=pd.Index(values, name="scale"))


@pytest.fixture(scope="module")
def given(schools_result, works, tempered, ladders, compared, distances, perturbed, in_turn):
    """Results by name, as the arguments of a plot."""
    lengths = [schools_result.isel(beta=slice(0, n)) for n in (11, 21, 31)]
    curve = sensitivity_table([1.0, 3.0, 0.0], [0.1, 1.0, 10.0])
    return {
        "schools": (one_data_set(schools_result),),
        "two of schools": ({"one": schools_result, "two": schools_result},),
        "lengths": ({"a": lengths, "b": lengths[:2]},),
        "works": (works,),
        "one of works": (one_data_set(works),),
        "tempered": ({"a": tempered, "b": tempered},),
        "ladders": (ladders,),
        "compared": (compared,),
        "distances": (distances,),
        "draws": (schools_result, perturbed),
        "in turn": (in_turn,),
        "curves": ({"a": curve, "b": works},),
    }


OF_EVIDENCE = [
    (bdmc.plot_work, "estimate", "work"),
    (bdmc.plot_estimators, "point", "log_ml"),
    (bdmc.plot_convergence, "line", "log_ml"),
    (bdmc.plot_error_analysis, "line", "error"),
]
DRAWN = [
    (bdmc.plot_sandwich, "schools", {"kind": "hist"}, "bound", "log_weight", (1, 2)),
    (bdmc.plot_sandwich, "lengths", {}, "band", "log_weight", (2, 2)),
    (bdmc.plot_hysteresis, "two of schools", {}, "path", "log_likelihood", (2, 2)),
    (bdmc.plot_tempering, "tempered", {"chains": 3}, "path", "beta", (2, 3)),
    *((plot, "one of works", {}, visual, of, None) for plot, visual, of in OF_EVIDENCE),
    (bdmc.plot_consistency, "ladders", {}, "box", "log_weight", None),
    (bdmc.plot_compare, "ladders", {}, "line", "gap", (3, 2)),
    (bdmc.plot_compare, "compared", {}, "point", "log_ml", (2, 3)),
    (bdmc.plot_distance, "distances", {}, "interval", "divergence_nats", (2,)),
    (bdmc.plot_agreement, "draws", {"rows": 5}, "distribution", "agreement", (4, 2)),
    (bdmc.plot_pointwise, "in turn", {}, "point", "log_density", (2, 2)),
    (bdmc.plot_sensitivity, "curves", {}, "line", "log_ml", (1, 2)),
]


@pytest.mark.parametrize("backend", ["bokeh", "plotly"])
@pytest.mark.parametrize(("plot", "name", "options", "visual", "variable", "sizes"), DRAWN)
def test_every_plot_on_every_backend(given, backend, plot, name, options, visual, variable, sizes):
    """Other tests draw each of them on Matplotlib."""
    viz = plot(*given[name], backend=backend, **options).viz[visual][variable]
    assert sizes in (None, viz.shape)
    assert viz.size


@pytest.mark.parametrize(
    ("plot", "name"),
    [
        (bdmc.plot_sandwich, "lengths"),
        (bdmc.plot_hysteresis, "two of schools"),
        (bdmc.plot_work, "one of works"),
        (bdmc.plot_compare, "ladders"),
    ],
)
def test_options_reach_the_visuals(given, plot, name):
    options = {"visuals": {"xlabel": {"text": "mine"}, "legend": False}}
    pc = on_matplotlib(plot, *given[name], figure_kwargs={"figsize": (4, 3)}, **options)
    assert axes_of(pc).get_xlabel() == "mine"
    assert not pc.viz["figure"].item().legends
    assert tuple(pc.viz["figure"].item().get_size_inches()) == (4, 3)
    with pytest.raises(ValueError, match="nonsense"):
        plot(*given[name], visuals={"nonsense": False})


def test_real_data_alone_in_any_form(schools_result):
    dt = real_alone(schools_result)
    pc = on_matplotlib(bdmc.plot_hysteresis, dt)
    assert pc.aes["color"].sizes["direction"] == 1
    for kind in ("hist", "kde", "ecdf"):
        pc = on_matplotlib(bdmc.plot_sandwich, dt, kind=kind)
        assert pc.aes["color"].sizes["direction"] == 1


@pytest.mark.parametrize(("plot", "visual", "variable"), OF_EVIDENCE)
def test_evidence_of_real_data_alone_and_where_the_prior_is_cut(works, plot, visual, variable):
    """With several draws per chain, a chain counts the trials of all its draws."""
    cut = works.copy(deep=True)
    for group in ("forward", "real"):
        trials = cut[group]["prior_draws"].expand_dims(start=3, axis=-1)
        cut[group] = cut[group].dataset.assign(prior_draws=trials + 1)
    for dt in (real_alone(works), cut):
        assert on_matplotlib(plot, dt).viz[visual][variable].size


@pytest.mark.parametrize(("log_ml", "spread"), [(-477.35, 1e-4), (-120_000.0, 0.005)])
def test_ticks_of_log_weights_do_not_touch(log_ml, spread):
    """Tick labels are written in full, without an offset."""
    weights = log_ml + spread * np.random.default_rng(1).normal(size=(2, 16))
    results = dict.fromkeys(["a", "b", "c"], tree(*weights[:, None]))
    figure = on_matplotlib(bdmc.plot_sandwich, results).get_viz("figure")
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert not axes.xaxis.get_offset_text().get_text()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > 1
        assert min(right.x0 - left.x1 for left, right in pairwise(boxes)) > 5  # pixels


def test_bounds_are_at_the_means_of_panels_that_differ_in_chains_and_schedule(schools_result):
    long, short = one_data_set(schools_result), one_data_set(schools_result).copy()
    for group in ("forward", "reverse"):
        short[group] = short[group].dataset.isel(chain=slice(3), beta=slice(0, 20))
    both = {"long": long, "short": short}
    bounds = on_matplotlib(bdmc.plot_sandwich, both)
    paths = on_matplotlib(bdmc.plot_hysteresis, both)
    for model, dt in both.items():
        for name in ("forward", "reverse"):
            select = {"direction": name, "model": model}
            mean = float(dt[name]["log_weight"].mean())
            x = drawn(bounds, "bound", "log_weight", **select).get_xdata()
            assert x[0] == pytest.approx(mean)
            path = drawn(paths, "path", "log_likelihood", **select)
            n = dt[name].sizes["beta"]
            np.testing.assert_allclose(path.get_xdata()[:n], dt[name]["beta"])
            np.testing.assert_allclose(path.get_ydata()[:n], dt[name]["log_likelihood_path"][0])


def test_tempering_draws_the_places(tempered):
    pc = on_matplotlib(bdmc.plot_tempering, tempered, visuals={"knot": False})
    line = drawn(pc, "path", "beta", chain=2, model="")
    np.testing.assert_allclose(line.get_ydata(), tempered["tempering"]["place"][2] / 5)
    assert "knot" not in pc.viz.children


def test_tempering_marks_a_knot_only_where_there_is_one(tempered):
    stuck = tempered.copy()
    group = stuck["tempering"].dataset.copy()
    group["place"] = group["place"] % 3 + 3 * (group["chain"] % 2)  # halves that no chain leaves
    group["log_likelihood"] = 1000.0 * (group["chain"] % 2 * 2 - 1) + 0 * group["place"]
    group["log_z_guess"] = 1000.0 * abs(group["beta"] - 0.5)
    stuck["tempering"] = group
    pc = on_matplotlib(bdmc.plot_tempering, {"free": tempered, "stuck": stuck})
    assert drawn(pc, "knot", "beta", model="free") is None
    assert drawn(pc, "knot", "beta", model="stuck").get_ydata()[0] == pytest.approx(0.5)


@pytest.mark.parametrize("finished", [(40, 2, 20), (40, 0, 20)])
def test_plots_of_an_interrupted_run(works, finished):
    """Chains that were not finished are NaN anywhere in a row; there may be none in a group."""
    dt, rng = one_data_set(works), np.random.default_rng(3)
    for group, n in zip(("forward", "reverse", "real"), finished, strict=True):
        lost = np.isin(np.arange(128), rng.permutation(128)[n:])
        dt[group] = xr.DataTree(dt[group].dataset.where(xr.DataArray(~lost, dims="chain")))
    for plot in (bdmc.plot_sandwich, bdmc.plot_work, bdmc.plot_estimators):
        on_matplotlib(plot, dt)
    pc = on_matplotlib(bdmc.plot_convergence, dt, methods=["forward average"])
    title = "real" if finished[1] else ""
    x, y = drawn(pc, "line", "log_ml", model=title, estimator="forward average").get_data()
    real = dt["real"]["log_weight"].values
    is_drawn = ~np.isnan(y)
    assert y[is_drawn][-1] == pytest.approx(jarzynski_forward(real[~np.isnan(real)]).value)
    assert x[is_drawn][-1] <= np.log10(20.01)  # no chain beyond those that were finished


@pytest.mark.parametrize(
    "plot", [bdmc.plot_sandwich, bdmc.plot_work, bdmc.plot_estimators, bdmc.plot_convergence]
)
def test_nothing_finished_is_nothing_to_draw(works, plot):
    with pytest.raises(ValueError, match=r"finished"):
        on_matplotlib(plot, works.map_over_datasets(lambda run: run * np.nan))


def test_work_is_marked_where_the_estimates_are(works):
    dt = one_data_set(works)
    forward, reverse = (dt[name]["log_weight"].values[0] for name in ("forward", "reverse"))
    pc = on_matplotlib(bdmc.plot_work, dt)
    expected = {"forward": jarzynski_forward(forward), "both (BAR)": bar(forward, reverse)}
    for name, estimate in expected.items():
        line = drawn(pc, "estimate", "work", model="", direction=name)
        assert line.get_xdata()[0] == pytest.approx(-estimate.value)
    # Of several data sets, relative to BAR
    shared = on_matplotlib(bdmc.plot_work, works)
    assert abs(drawn(shared, "estimate", "work", direction="both (BAR)").get_xdata()[0]) < 0.01


def test_estimators_tell_valid_from_invalid_and_mark_the_truth(works):
    pc = on_matplotlib(bdmc.plot_estimators, works, exact={"real": 2.0})

    def points(title, status):
        found = drawn(pc, "point", "log_ml", model=title, status=status)
        return np.ma.compressed(found.get_offsets()[:, 0]).tolist()

    for (data, dataset), rows in bdmc.evidence(works).groupby(level=["data", "dataset"]):
        title = "real" if data == "real" else f"{data} {dataset}"
        assert np.isin(points(title, "invalid"), rows.loc[~rows["valid"], "value"]).all()
        best = rows.loc[rows["recommended"], "value"].tolist()
        assert points(title, "recommended") == best
        assert len(best) == 1 or data == "real"
    assert drawn(pc, "exact", "log_ml", model="real").get_xdata()[0] == 2.0
    assert drawn(pc, "exact", "log_ml", model="simulated 0") is None
    with pytest.raises(ValueError, match="'imaginary'"):
        bdmc.plot_estimators(works, exact={"imaginary": 2.0})


def test_estimates_beyond_the_axis_are_written_at_its_end():
    bridge, rng = GaussianBridge.linear(5, correlation=0.5), np.random.default_rng(2)
    dt = tree(bridge.forward(400, rng)[None], bridge.reverse(400, rng)[None])
    value = bdmc.evidence(dt, "cumulant forward")["value"].item()
    axes = axes_of(on_matplotlib(bdmc.plot_estimators, dt))
    assert f"{value:.4g} ▸" in [text.get_text() for text in axes.texts]
    assert axes.get_xlim()[1] < value


def test_convergence_draws_the_estimates_of_the_first_chains(works):
    pc = on_matplotlib(bdmc.plot_convergence, works, methods=["bar"])
    x, y = drawn(pc, "line", "log_ml", model="simulated 1", estimator="bar").get_data()
    sizes = np.round(10**x).astype(int)
    assert (sizes[0], sizes[-1]) == (4, 128)
    for n, value in zip(sizes, y, strict=True):
        rows = [works[name]["log_weight"].values[1, :n] for name in ("forward", "reverse")]
        assert value == pytest.approx(bar(*rows).value)
    for changes, message in [({"methods": ["mbar"]}, "mbar"), ({"exact": {"no": 0.0}}, "no")]:
        with pytest.raises(ValueError, match=message):
            bdmc.plot_convergence(works, **changes)
    with pytest.raises(ValueError, match="run at least 8"):
        bdmc.plot_convergence(works.isel(chain=slice(7)))


def test_error_analysis_draws_the_curves_of_the_estimators(works):
    pc = on_matplotlib(bdmc.plot_error_analysis, works, group="reverse", dataset=1)
    expected = error_analysis(works["reverse"]["log_weight"].values[1], "reverse")
    bias = drawn(pc, "line", "error", model="bias (nats)", curve="Ĉ(M, N)").get_ydata()
    np.testing.assert_allclose(bias[np.isfinite(bias)], expected.drift)
    with pytest.raises(ValueError, match="no such weights"):
        bdmc.plot_error_analysis(works, dataset=2)
    with pytest.raises(ValueError, match="64 chains"):
        bdmc.plot_error_analysis(works.isel(chain=slice(63)))


def test_consistency_draws_the_quartiles_of_shifted_runs(ladders):
    pc = on_matplotlib(bdmc.plot_consistency, ladders["easy"])
    box = drawn(pc, "box", "log_weight", data="real", model="").get_ydata()
    runs = ladders["easy"]["rounds"]["real_log_weight"].values
    shifted = runs - jarzynski_forward(runs[-1]).value
    for i in range(3):
        q25, median, q75 = np.quantile(shifted[i], [0.25, 0.5, 0.75])
        own = box[14 * i : 14 * (i + 1)]
        assert own[:7] == pytest.approx([median, median, q75, q75, q25, q25, median])
        assert own[9] == pytest.approx(shifted[i].min())


def test_consistency_of_a_single_round():
    axes = axes_of(on_matplotlib(bdmc.plot_consistency, result()))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["30"]


def test_comparison_draws_the_gap_of_every_round(ladders):
    """And leaves out what is not known: a lattice has no gradients."""
    pc = on_matplotlib(bdmc.plot_compare, ladders)
    titles = ["number of temperatures", "gradient evaluations", "seconds"]
    assert pc.viz["line"]["gap"]["model"].values.tolist() == titles
    x, y = drawn(pc, "line", "gap", model="seconds", name="hard").get_data()
    np.testing.assert_allclose(10**x, [0.1, 0.3, 1.0])
    np.testing.assert_allclose(10**y, [12, 3, 0.75])
    few = {"temperatures": 50, "chains": 64, "random_seed": 1, "progressbar": False}
    ising = {
        kernel: bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, **few)
        for kernel in ("metropolis", "heat bath")
    }
    pc = on_matplotlib(bdmc.plot_compare, ising)
    assert pc.viz["line"]["gap"]["model"].values.tolist() == titles[::2]


def test_comparison_refuses(ladders, compared):
    with pytest.raises(ValueError, match="none has a gap"):
        bdmc.plot_compare(compared, kind="gap")
    with pytest.raises(ValueError, match="kind: it is"):
        bdmc.plot_compare(compared, kind="nonsense")
    with pytest.raises(ValueError, match="prior: it has no effect"):
        bdmc.plot_compare(ladders, prior={"easy": 1, "hard": 1})


def test_comparison_of_models_draws_log_ml_and_probabilities(compared):
    """If no log ML is valid, nothing false."""
    table, pc = bdmc.compare(compared), on_matplotlib(bdmc.plot_compare, compared)
    middle, half = table.loc["b", "log_ml"], 1.96 * table.loc["b", "error"]
    x = drawn(pc, "interval", "log_ml", model="log ML", name="b").get_xdata()
    np.testing.assert_allclose(x, [middle - half, middle + half])
    x = drawn(pc, "interval", "log_ml", model="posterior probability", name="a").get_xdata()
    np.testing.assert_allclose(x, [0, table.loc["a", "probability"]])
    names = [tick.get_text() for tick in axes_of(pc).get_yticklabels()]
    assert names == ["a", "b", "wild (not valid)"]
    wild = {name: compared["wild"] for name in "ab"}
    pc = on_matplotlib(bdmc.plot_compare, wild)
    x = drawn(pc, "interval", "log_ml", model="log ML", name="a (not valid)").get_xdata()
    assert np.isnan(x).all()


def test_distance_draws_the_table(distances, normal_posterior):
    pc = on_matplotlib(bdmc.plot_distance, distances)
    points = drawn(pc, "point", "divergence_nats", divergence="KL(q‖p)")
    places = np.asarray(points.get_offsets())
    assert places[0] == pytest.approx([np.log10(distances.loc[("poor", "KL(q‖p)"), "value"]), 0.15])
    assert np.isnan(places[1, 0])  # below its noise
    told = [text.get_text() for axes in pc.get_viz("figure").axes for text in axes.texts]
    assert {"infinite ▸", "not known", "not reliable"} <= set(told)
    labels = [each.get_text() for each in pc.get_viz("figure").axes[0].get_xticklabels()]
    assert "1\n71 %" in labels
    dt, model = normal_posterior
    options = dict(model=model, random_seed=1, draws=1000, visuals={"note": False})
    alone = on_matplotlib(bdmc.plot_distance, dt, stats.norm(0.5, 0.2), **options)
    assert "note" not in alone.viz
    points = drawn(alone, "point", "divergence_nats", divergence="KL(q‖p)")
    np.testing.assert_allclose(points.get_offsets()[0, 0], places[0, 0])
    with pytest.raises(ValueError, match="draws, approximation: without effect on a table"):
        bdmc.plot_distance(distances, {"near": stats.norm()}, draws=1000)
    with pytest.raises(ValueError, match="the table that distance made"):
        bdmc.plot_distance(distances[["value"]])


def test_agreement_names_its_rows_and_draws_their_limits(schools_result, perturbed):
    table = bdmc.agreement(schools_result, perturbed).table.iloc[:5]
    pc = on_matplotlib(bdmc.plot_agreement, schools_result, perturbed, rows=5)
    means, first, *_ = pc.viz["figure"].item().axes
    assert [label.get_text() for label in means.get_yticklabels()] == table.index.tolist()
    assert first.get_title() == "distribution of mu"
    select = {"model": "ratio of standard deviations", "draws": "yours"}
    x = np.reshape(drawn(pc, "interval", "agreement", **select).get_xdata(), (5, 3))
    np.testing.assert_allclose(np.exp(x[:, :2]), table[["ratio_lower", "ratio_upper"]])
    with pytest.raises(ValueError, match="rows"):
        bdmc.plot_agreement(schools_result, perturbed, rows=0)


def test_distribution_functions_are_steps():
    """The function is flat between the values of a discrete element, and jumps at each value."""
    rng = np.random.default_rng(1)
    dt = xr.DataTree.from_dict({"particles": particles(n=rng.poisson(2.0, (16, 64)))})
    given = xr.Dataset({"n": (("chain", "draw"), rng.poisson(2.0, (4, 500)))})
    pc = on_matplotlib(bdmc.plot_agreement, dt, given)
    for line in pc.viz["distribution"]["agreement"].sel(model="distribution of n").values:
        x, level = line.get_data()
        assert ((np.diff(x) == 0) | (np.diff(level) == 0)).all()
        assert set(x) <= set(range(20))


def test_pointwise_draws_the_table(in_turn):
    pc = on_matplotlib(bdmc.plot_pointwise, {name: in_turn[name] for name in "ab"})
    table = bdmc.pointwise(in_turn["a"], in_turn["b"])
    select = {"model": "sum so far", "pair": "a against b"}
    line = drawn(pc, "line", "log_density", **select).get_ydata()
    np.testing.assert_allclose(line, table["cumulative"])
    bars = drawn(pc, "interval", "log_density", **select).get_ydata()
    half = 1.96 * table["cumulative_error"]
    np.testing.assert_allclose(bars[0::3], table["cumulative"] - half)
    np.testing.assert_allclose(bars[1::3], table["cumulative"] + half)
    assert [tick.get_text() for tick in axes_of(pc).get_xticklabels()] == ["mon", "tue"]
    assert axes_of(pc).get_xlabel() == "day"
    alone = on_matplotlib(bdmc.plot_pointwise, in_turn["a"])
    assert alone.viz["point"]["log_density"].sizes == {"model": 2, "pair": 1}
    assert "zero" not in alone.viz.children
    with pytest.raises(ValueError, match="dt: a result, or a mapping"):
        bdmc.plot_pointwise({})


def test_sensitivity_shows_the_errors_of_fresh_runs():
    """The range contains all 95 % intervals. A value without a fresh run has none."""
    fresh = dict(fresh_log_ml=[0.1, np.nan, -9.0], fresh_error=[0.5, np.nan, 2.0])
    curve = sensitivity_table([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], **fresh)
    line = drawn(on_matplotlib(bdmc.plot_sensitivity, curve), "interval", "log_ml")
    x, y = (np.array(each, float).reshape(3, 3) for each in line.get_data())
    np.testing.assert_array_equal(x[:, 0], [1.0, 2.0, 3.0])
    half = 1.96 * np.array([0.5, np.nan, 2.0])
    np.testing.assert_allclose(y[:, 0], fresh["fresh_log_ml"] - half)
    np.testing.assert_allclose(y[:, 1], fresh["fresh_log_ml"] + half)
    low, high = line.axes.get_ylim()
    assert low < y[2, 0]
    assert high > y[0, 1]


@pytest.mark.parametrize(
    ("log_ml", "values", "valid", "turn"),
    [
        ([0.0, 0.0, 2.0], [0.1, 1.0, 100.0], True, 1.0),  # in the logarithm of the scale
        ([0.0, 0.0, 2.0], [0.1, 1.0, 100.0], [True, False, True], None),  # a gap
        ([0.0, 2.0], [1.0, 3.0], True, 2.0),  # the axis is linear below a factor of 10
    ],
)
def test_sensitivity_marks_where_the_preference_turns(log_ml, values, valid, turn):
    first = sensitivity_table(log_ml, values, valid=valid)
    level = sensitivity_table([1.0, 1.0], [values[0], values[-1]])
    pc = on_matplotlib(bdmc.plot_sensitivity, {"a": first, "b": level})
    if turn is None:
        assert "turn" not in pc.viz.children
        assert np.isfinite(drawn(pc, "line", "log_ml", curve="a").get_ydata()).sum() == 2
    else:
        assert drawn(pc, "turn", "log_ml").get_xdata()[0] == pytest.approx(turn)
    if turn == 1.0:
        assert [text.get_text().strip() for text in axes_of(pc).texts] == ["10"]
        assert axes_of(pc).get_xlabel() == "scale (log scale)"


def test_sensitivity_refuses_what_is_no_curve(works):
    table = sensitivity_table([1.0], ["normal"])
    with pytest.raises(ValueError, match="are not numbers"):
        bdmc.plot_sensitivity(table)
    for curves in ({"a": works}, dict.fromkeys("abc", table)):
        with pytest.raises(ValueError, match="one or two names"):
            bdmc.plot_sensitivity(curves)
