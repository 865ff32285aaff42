"""Every plot draws what the result holds, on every backend."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from arviz_plots import PlotCollection

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import bar, error_analysis, jarzynski_forward
from tests.results.test_compare import result
from tests.results.test_summary import tree
from tests.systems import GaussianBridge, GaussianWork

BACKENDS = ["matplotlib", "bokeh", "plotly"]


EVIDENCE_PLOTS = [
    bdmc.plot_work,
    bdmc.plot_estimators,
    bdmc.plot_convergence,
    bdmc.plot_error_analysis,
]


@pytest.fixture(scope="module")
def works():
    """Forward and reverse chains on two data sets, and on the real data; log ML is 2."""
    work, rng = GaussianWork(stds=(1.2,), log_z=2.0), np.random.default_rng(1)
    forward, reverse = (draw(256, rng).reshape(2, 128) for draw in (work.forward, work.reverse))
    return tree(forward, reverse, work.forward(128, rng))


@pytest.fixture(autouse=True)
def close():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def one_data_set(dt):
    return dt.isel(dataset=[0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["kde", "hist", "ecdf"])
def test_sandwich_of_one_result(schools_result, backend, kind):
    pc = bdmc.plot_sandwich(one_data_set(schools_result), backend=backend, kind=kind)
    assert isinstance(pc, PlotCollection)
    assert pc.viz["bound"]["log_weight"].sizes == {"model": 1, "direction": 2}


def test_the_bounds_are_marked_at_the_means(schools_result):
    dt = one_data_set(schools_result)
    pc = bdmc.plot_sandwich(dt, backend="matplotlib")
    for name in ("forward", "reverse"):
        line = pc.viz["bound"]["log_weight"].sel(direction=name).item()
        assert line.get_xdata()[0] == pytest.approx(float(dt[name]["log_weight"].mean()))


@pytest.mark.parametrize(
    ("log_ml", "spread"), [(-31.31, 0.005), (-477.35, 1e-4), (-120_000.0, 0.005), (0.0, 2.0)]
)
def test_ticks_of_log_weights_do_not_touch(log_ml, spread):
    """Tick labels are written in full, without an offset."""
    weights = log_ml + spread * np.random.default_rng(1).normal(size=(2, 16))
    results = dict.fromkeys(["a", "b", "c"], tree(*weights[:, None]))
    pc = bdmc.plot_sandwich(results, backend="matplotlib")
    figure = pc.get_viz("figure")
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert not axes.xaxis.get_offset_text().get_text()
        boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert len(boxes) > 1
        gaps = [right.x0 - left.x1 for left, right in pairwise(boxes)]
        assert min(gaps) > 5  # pixels


@pytest.mark.parametrize("backend", BACKENDS)
def test_sandwich_against_temperatures(schools_result, backend):
    dts = [schools_result.isel(beta=slice(0, n)) for n in (11, 21, 31)]
    pc = bdmc.plot_sandwich({"a": dts, "b": dts[:2]}, backend=backend)
    assert pc.viz["band"]["log_weight"].sizes == {"model": 2, "direction": 2}


@pytest.mark.parametrize("backend", BACKENDS)
def test_hysteresis(schools_result, backend):
    pc = bdmc.plot_hysteresis({"one": schools_result, "two": schools_result}, backend=backend)
    assert pc.viz["path"]["log_likelihood"].sizes == {"model": 2, "direction": 2}


@pytest.fixture(scope="module")
def tempered():
    rng = np.random.default_rng(1)
    rbm = bdmc.rbm.RBM(np.zeros(6), np.zeros(4), rng.normal(size=(6, 4)))
    return bdmc.temper(rbm, temperatures=5, draws=200, random_seed=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tempering(tempered, backend):
    pc = bdmc.plot_tempering({"a": tempered, "b": tempered}, chains=3, backend=backend)
    assert pc.viz["path"]["beta"].sizes == {"model": 2, "chain": 3}
    assert pc.viz["knot"]["beta"].sizes == {"model": 2}


def test_tempering_draws_the_places(tempered):
    pc = bdmc.plot_tempering(tempered, backend="matplotlib", visuals={"knot": False})
    line = pc.viz["path"]["beta"].sel(chain=2, model="").item()
    np.testing.assert_allclose(line.get_ydata(), tempered["tempering"]["place"][2] / 5)
    assert "knot" not in pc.viz.children


def test_tempering_marks_a_knot_only_where_there_is_one(tempered):
    stuck = tempered.copy()
    group = stuck["tempering"].dataset.copy()
    group["place"] = group["place"] % 3 + 3 * (group["chain"] % 2)  # halves that no chain leaves
    group["log_likelihood"] = 1000.0 * (group["chain"] % 2 * 2 - 1) + 0 * group["place"]
    group["log_z_guess"] = 1000.0 * abs(group["beta"] - 0.5)
    stuck["tempering"] = group
    pc = bdmc.plot_tempering({"free": tempered, "stuck": stuck}, backend="matplotlib")
    free, knot = (pc.viz["knot"]["beta"].sel(model=m).item() for m in ("free", "stuck"))
    assert free is None
    assert knot.get_ydata()[0] == pytest.approx(0.5)


def test_hysteresis_draws_the_mean_path(schools_result):
    dt = one_data_set(schools_result)
    pc = bdmc.plot_hysteresis(dt, backend="matplotlib")
    line = pc.viz["path"]["log_likelihood"].sel(direction="reverse").item()
    np.testing.assert_allclose(line.get_xdata(), dt["reverse"]["beta"])
    np.testing.assert_allclose(line.get_ydata(), dt["reverse"]["log_likelihood_path"][0])


@pytest.mark.parametrize("plot", [bdmc.plot_sandwich, bdmc.plot_hysteresis])
def test_real_data_alone(schools_result, plot):
    dt = schools_result.copy()
    del dt["forward"], dt["reverse"]
    pc = plot(dt, backend="matplotlib")
    assert pc.aes["color"].sizes["direction"] == 1


@pytest.mark.parametrize("plot", [bdmc.plot_sandwich, bdmc.plot_hysteresis])
def test_options_reach_the_visuals(schools_result, plot):
    pc = plot(
        schools_result,
        backend="matplotlib",
        visuals={"xlabel": {"text": "mine"}, "legend": False, "title": False},
        figure_kwargs={"figsize": (4, 3)},
    )
    figure = pc.viz["figure"].item()
    assert figure.axes[0].get_xlabel() == "mine"
    assert not figure.legends
    assert tuple(figure.get_size_inches()) == (4, 3)
    with pytest.raises(ValueError, match="nonsense"):
        plot(schools_result, visuals={"nonsense": False})


def test_panels_may_differ_in_chains_and_schedule(schools_result):
    long, short = one_data_set(schools_result), one_data_set(schools_result).copy()
    for group in ("forward", "reverse"):
        short[group] = short[group].dataset.isel(chain=slice(3), beta=slice(0, 20))
    pc = bdmc.plot_sandwich({"long": long, "short": short}, backend="matplotlib")
    line = pc.viz["bound"]["log_weight"].sel(direction="forward", model="short").item()
    mean = float(short["forward"]["log_weight"].mean())
    assert line.get_xdata()[0] == pytest.approx(mean)
    pc = bdmc.plot_hysteresis({"long": long, "short": short}, backend="matplotlib")
    for model, n in (("long", 31), ("short", 20)):
        line = pc.viz["path"]["log_likelihood"].sel(direction="forward", model=model).item()
        assert np.isfinite(line.get_ydata()[:n]).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("plot", EVIDENCE_PLOTS)
def test_plots_of_the_evidence(works, plot, backend):
    for dt in (works, one_data_set(works)):
        assert isinstance(plot(dt, backend=backend), PlotCollection)


@pytest.mark.parametrize("plot", EVIDENCE_PLOTS)
def test_evidence_plots_of_real_data_alone(works, plot):
    dt = works.copy()
    del dt["forward"], dt["reverse"]
    assert isinstance(plot(dt, backend="matplotlib"), PlotCollection)


@pytest.mark.parametrize("plot", EVIDENCE_PLOTS)
def test_options_reach_the_visuals_of_the_evidence(works, plot):
    options = {"xlabel": {"text": "mine"}, "legend": False, "title": False}
    pc = plot(one_data_set(works), backend="matplotlib", visuals=options)
    figure = pc.viz["figure"].item()
    assert figure.axes[0].get_xlabel() == "mine"
    assert not figure.legends
    with pytest.raises(ValueError, match="nonsense"):
        plot(works, visuals={"nonsense": False})


PARTS = {"few reverse": (40, 2, 20), "no reverse": (40, 0, 20), "some": (40, 30, 20)}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_plots_of_an_interrupted_run(works, parts):
    """Chains that were not finished are NaN anywhere in a row; there may be none in a group."""
    dt, rng = one_data_set(works), np.random.default_rng(3)
    for group, finished in zip(("forward", "reverse", "real"), parts, strict=True):
        run = dt[group].dataset
        lost = np.isin(np.arange(128), rng.permutation(128)[finished:])
        dt[group] = xr.DataTree(run.where(xr.DataArray(~lost, dims="chain")))
    for plot in (bdmc.plot_sandwich, bdmc.plot_work, bdmc.plot_estimators):
        assert isinstance(plot(dt, backend="matplotlib"), PlotCollection)
    pc = bdmc.plot_convergence(dt, methods=["forward average"], backend="matplotlib")
    title = "" if parts[1] == 0 else "real"
    line = pc.viz["line"]["log_ml"].sel(model=title, estimator="forward average").item()
    real = dt["real"]["log_weight"].values
    drawn = line.get_ydata()[~np.isnan(line.get_ydata())]
    assert drawn[-1] == pytest.approx(jarzynski_forward(real[~np.isnan(real)]).value)
    last = line.get_xdata()[~np.isnan(line.get_ydata())][-1]
    assert last <= np.log10(20.01)  # no chain beyond those that were finished


@pytest.mark.parametrize("plot", EVIDENCE_PLOTS)
def test_plots_where_the_prior_is_cut(works, plot):
    """With several draws per chain, a chain counts the trials of all its draws."""
    dt = works.copy(deep=True)
    for group in ("forward", "real"):
        trials = dt[group]["prior_draws"].expand_dims(start=3, axis=-1)
        dt[group] = dt[group].dataset.assign(prior_draws=trials + 1)
    assert plot(dt, backend="matplotlib") is not None


def test_nothing_finished_is_nothing_to_draw(works):
    nothing = works.map_over_datasets(lambda run: run * np.nan)
    for plot in (bdmc.plot_sandwich, bdmc.plot_work, bdmc.plot_estimators, bdmc.plot_convergence):
        with pytest.raises(ValueError, match=r"finished"):
            plot(nothing, backend="matplotlib")


def test_work_is_marked_where_the_estimates_are(works):
    dt = one_data_set(works)
    forward, reverse = (dt[name]["log_weight"].values[0] for name in ("forward", "reverse"))
    pc = bdmc.plot_work(dt, backend="matplotlib")
    lines = pc.viz["estimate"]["work"].sel(model="")
    for name, expected in [
        ("forward", jarzynski_forward(forward).value),
        ("both (BAR)", bar(forward, reverse).value),
    ]:
        assert lines.sel(direction=name).item().get_xdata()[0] == pytest.approx(-expected)
    # Of several data sets, relative to BAR
    shared = bdmc.plot_work(works, backend="matplotlib").viz["estimate"]["work"]
    place = shared.sel(direction="both (BAR)").item().get_xdata()[0]
    assert abs(place) < 0.01


def test_estimators_tell_valid_from_invalid_and_mark_the_truth(works):
    pc = bdmc.plot_estimators(works, exact={"real": 2.0}, backend="matplotlib")
    table = bdmc.evidence(works)
    points = pc.viz["point"]["log_ml"]
    for (data, dataset), rows in table.groupby(level=["data", "dataset"]):
        title = "real" if data == "real" else f"{data} {dataset}"
        invalid = rows.loc[~rows["valid"], "value"]
        drawn = points.sel(model=title, status="invalid").item().get_offsets()[:, 0]
        drawn = np.ma.compressed(drawn)
        assert np.isin(drawn, invalid).all()
        best = rows.loc[rows["recommended"], "value"].tolist()
        mark = points.sel(model=title, status="recommended").item().get_offsets()[:, 0]
        assert np.ma.compressed(mark).tolist() == best
        assert len(best) == 1 or data == "real"
    assert pc.viz["exact"]["log_ml"].sel(model="real").item().get_xdata()[0] == 2.0
    assert pc.viz["exact"]["log_ml"].sel(model="simulated 0").item() is None
    with pytest.raises(ValueError, match="'imaginary'"):
        bdmc.plot_estimators(works, exact={"imaginary": 2.0})


def test_estimates_beyond_the_axis_are_written_at_its_end():
    bridge, rng = GaussianBridge.linear(5, correlation=0.5), np.random.default_rng(2)
    dt = tree(bridge.forward(400, rng)[None], bridge.reverse(400, rng)[None])
    value = bdmc.evidence(dt, "cumulant forward")["value"].item()
    pc = bdmc.plot_estimators(dt, backend="matplotlib")
    axes = pc.viz["figure"].item().axes[0]
    assert f"{value:.4g} ▸" in [text.get_text() for text in axes.texts]
    assert axes.get_xlim()[1] < value


def test_convergence_draws_the_estimates_of_the_first_chains(works):
    pc = bdmc.plot_convergence(works, methods=["bar"], backend="matplotlib")
    line = pc.viz["line"]["log_ml"].sel(model="simulated 1", estimator="bar").item()
    sizes, values = np.round(10 ** line.get_xdata()).astype(int), line.get_ydata()
    assert (sizes[0], sizes[-1]) == (4, 128)
    for n, value in zip(sizes, values, strict=True):
        rows = [works[name]["log_weight"].values[1, :n] for name in ("forward", "reverse")]
        assert value == pytest.approx(bar(*rows).value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"methods": ["mbar"]}, "mbar"), ({"exact": {"nowhere": 0.0}}, "nowhere")],
)
def test_convergence_refuses_what_it_does_not_know(works, changes, message):
    with pytest.raises(ValueError, match=message):
        bdmc.plot_convergence(works, **changes)
    with pytest.raises(ValueError, match="run at least 8"):
        bdmc.plot_convergence(works.isel(chain=slice(7)))


def test_error_analysis_draws_the_curves_of_the_estimators(works):
    pc = bdmc.plot_error_analysis(works, group="reverse", dataset=1, backend="matplotlib")
    expected = error_analysis(works["reverse"]["log_weight"].values[1], "reverse")
    lines = pc.viz["line"]["error"]
    bias = lines.sel(model="bias (nats)", curve="Ĉ(M, N)").item()
    drawn = bias.get_ydata()
    np.testing.assert_allclose(drawn[np.isfinite(drawn)], expected.drift)
    with pytest.raises(ValueError, match="no such weights"):
        bdmc.plot_error_analysis(works, dataset=2)
    with pytest.raises(ValueError, match="64 chains"):
        bdmc.plot_error_analysis(works.isel(chain=slice(63)))


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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("plot", [bdmc.plot_consistency, bdmc.plot_compare])
def test_plots_of_ladders(ladders, plot, backend):
    assert isinstance(plot(ladders, backend=backend), PlotCollection)


def test_consistency_draws_the_quartiles_of_shifted_runs(ladders):
    pc = bdmc.plot_consistency(ladders["easy"], backend="matplotlib")
    box = pc.viz["box"]["log_weight"].sel(data="real", model="").item()
    runs = ladders["easy"]["rounds"]["real_log_weight"].values
    shifted = runs - jarzynski_forward(runs[-1]).value
    for i in range(3):
        drawn = box.get_ydata()[14 * i : 14 * (i + 1)]
        q25, median, q75 = np.quantile(shifted[i], [0.25, 0.5, 0.75])
        assert drawn[:7] == pytest.approx([median, median, q75, q75, q25, q25, median])
        assert drawn[9] == pytest.approx(shifted[i].min())


def test_consistency_of_a_single_round(works):
    dt = works.copy()
    for group in ("forward", "reverse", "real"):
        dt[group] = dt[group].dataset.assign_coords(beta=np.linspace(0, 1, 31))
    axes = bdmc.plot_consistency(dt, backend="matplotlib").viz["figure"].item().axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["30"]


def test_comparison_draws_the_gap_of_every_round(ladders):
    pc = bdmc.plot_compare(ladders, backend="matplotlib")
    titles = ["number of temperatures", "gradient evaluations", "seconds"]
    assert pc.viz["line"]["gap"]["model"].values.tolist() == titles
    line = pc.viz["line"]["gap"].sel(model="seconds", name="hard").item()
    np.testing.assert_allclose(10 ** line.get_xdata(), [0.1, 0.3, 1.0])
    np.testing.assert_allclose(10 ** line.get_ydata(), [12, 3, 0.75])


def test_comparison_leaves_out_what_is_not_known(ladders):
    options = {"temperatures": 50, "chains": 64, "random_seed": 1, "progressbar": False}
    ising = [bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=k, **options)
             for k in ("metropolis", "heat bath")]  # fmt: skip
    pc = bdmc.plot_compare(dict(zip("ab", ising, strict=True)), backend="matplotlib")
    assert "gradient evaluations" not in pc.viz["line"]["gap"]["model"].values
    alone = {name: dt.copy() for name, dt in ladders.items()}
    for dt in alone.values():
        for group in ("forward", "reverse", "rounds"):
            del dt[group]
    with pytest.raises(ValueError, match="none has a gap"):
        bdmc.plot_compare(alone, kind="gap")
    with pytest.raises(ValueError, match="kind: it is"):
        bdmc.plot_compare(alone, kind="nonsense")
    with pytest.raises(ValueError, match="prior: it has no effect"):
        bdmc.plot_compare(ladders, prior={"easy": 1, "hard": 1})


@pytest.mark.parametrize("backend", BACKENDS)
def test_comparison_of_models_draws_log_ml_and_probabilities(backend):
    results = {"a": result(-3.0), "b": result(-4.0), "wild": result(-3.0, n=8, sd=6.0)}
    for dt in results.values():
        del dt["forward"], dt["reverse"]
    table = bdmc.compare(results)
    pc = bdmc.plot_compare(results, backend=backend)
    assert pc.viz["point"]["log_ml"].sizes == {"model": 2, "name": 3}
    if backend == "matplotlib":
        line = pc.viz["interval"]["log_ml"].sel(model="log ML", name="b").item()
        middle, half = table.loc["b", "log_ml"], 1.96 * table.loc["b", "error"]
        np.testing.assert_allclose(line.get_xdata(), [middle - half, middle + half])
        line = pc.viz["interval"]["log_ml"].sel(model="posterior probability", name="a").item()
        np.testing.assert_allclose(line.get_xdata(), [0, table.loc["a", "probability"]])
        axes = pc.viz["figure"].item().axes[0]
        names = [tick.get_text() for tick in axes.get_yticklabels()]
        assert names == ["a", "b", "wild (not valid)"]


def test_comparison_without_any_valid_log_ml_draws_nothing_false():
    wild = {name: result(-3.0, n=8, sd=6.0, seed=k) for k, name in enumerate("ab")}
    for dt in wild.values():
        del dt["forward"], dt["reverse"]
    pc = bdmc.plot_compare(wild, backend="matplotlib")
    line = pc.viz["interval"]["log_ml"].sel(model="log ML", name="a (not valid)").item()
    assert np.isnan(line.get_xdata()).all()


def test_options_reach_the_visuals_of_the_comparison(ladders):
    for plot in (bdmc.plot_consistency, bdmc.plot_compare):
        options = {"xlabel": {"text": "mine"}, "legend": False}
        figure = plot(ladders, backend="matplotlib", visuals=options).viz["figure"].item()
        assert figure.axes[0].get_xlabel() == "mine"
        assert not figure.legends
        with pytest.raises(ValueError, match="nonsense"):
            plot(ladders, visuals={"nonsense": False})


@pytest.fixture(scope="module")
def normal_posterior():
    """x = 0.5 ± √0.5 a posteriori, and approximations of it: near, poor, infinitely far, draws."""
    import pymc as pm
    from scipy import stats

    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=1.0)
    dt = bdmc.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    exact = stats.norm(0.5, np.sqrt(0.5))
    draws = exact.rvs(1000, random_state=1)
    approximations = {
        "poor": stats.norm(0.5, 0.2),
        "exact": exact,
        "a part": stats.uniform(0.0, 1.0),
        "draws": (draws, exact.logpdf(draws)),
        "heavy": (stats.cauchy.rvs(size=1000, random_state=1), stats.cauchy.logpdf),
    }
    return dt, approximations, model


@pytest.mark.parametrize("backend", BACKENDS)
def test_distance(normal_posterior, backend):
    dt, approximations, model = normal_posterior
    options = dict(model=model, random_seed=1, draws=1000, backend=backend)
    pc = bdmc.plot_distance(dt, approximations, **options)
    assert isinstance(pc, PlotCollection)
    assert pc.viz["interval"]["divergence_nats"].sizes == {"divergence": 2}
    alone = bdmc.plot_distance(dt, approximations["poor"], visuals={"note": False}, **options)
    assert "note" not in alone.viz


def test_distance_draws_the_table(normal_posterior):
    dt, approximations, model = normal_posterior
    options = dict(model=model, random_seed=1, draws=1000)
    table = bdmc.distance(dt, approximations, **options)
    pc = bdmc.plot_distance(dt, approximations, backend="matplotlib", **options)
    points = pc.viz["point"]["divergence_nats"].sel(divergence="KL(q‖p)").item()
    places = np.asarray(points.get_offsets())
    assert places[0] == pytest.approx([np.log10(table.loc[("poor", "KL(q‖p)"), "value"]), 0.15])
    assert np.isnan(places[1, 0])  # below its noise
    told = [text.get_text() for axes in pc.get_viz("figure").axes for text in axes.texts]
    assert {"infinite ▸", "not known", "not reliable"} <= set(told)
    labels = [each.get_text() for each in pc.get_viz("figure").axes[0].get_xticklabels()]
    assert "1\n71 %" in labels
    same = bdmc.plot_distance(table, backend="matplotlib").viz["point"]["divergence_nats"]
    again = same.sel(divergence="KL(q‖p)").item().get_offsets()
    np.testing.assert_array_equal(np.asarray(again), places)
    with pytest.raises(ValueError, match="draws, approximation: without effect on a table"):
        bdmc.plot_distance(table, approximations, draws=1000)
    with pytest.raises(ValueError, match="the table that distance made"):
        bdmc.plot_distance(table[["value"]])


@pytest.fixture(scope="module")
def perturbed(schools_result):
    """The run's own draws, one variable of them shifted, and one narrowed."""
    rng = np.random.default_rng(1)
    particles = schools_result["particles"].dataset
    spread = particles.isel(chain=rng.integers(8, size=400), particle=0).drop_vars("bdmc_weight")
    draws = spread.rename(chain="draw").assign_coords(draw=np.arange(400))
    return draws.assign(mu=draws["mu"] + rng.normal(30, 1, 400), tau=draws["tau"] / 9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_agreement(schools_result, perturbed, backend):
    pc = bdmc.plot_agreement(schools_result, perturbed, rows=5, backend=backend)
    assert isinstance(pc, PlotCollection)
    assert pc.viz["distribution"]["agreement"].sizes == {"model": 4, "draws": 2}


def test_agreement_names_its_rows_and_draws_their_limits(schools_result, perturbed):
    table = bdmc.agreement(schools_result, perturbed).table.iloc[:5]
    pc = bdmc.plot_agreement(schools_result, perturbed, rows=5, backend="matplotlib")
    means, first, *_ = pc.viz["figure"].item().axes
    names = [label.get_text() for label in means.get_yticklabels()]
    assert names == table.index.tolist()
    assert first.get_title() == "distribution of mu"
    line = pc.viz["interval"]["agreement"].sel(model="ratio of standard deviations", draws="yours")
    x = np.reshape(line.item().get_xdata(), (5, 3))
    np.testing.assert_allclose(np.exp(x[:, :2]), table[["ratio_lower", "ratio_upper"]])
    with pytest.raises(ValueError, match="rows"):
        bdmc.plot_agreement(schools_result, perturbed, rows=0)


def test_distribution_functions_are_steps():
    """The function is flat between the values of a discrete element, and jumps at each value."""
    rng = np.random.default_rng(1)
    counts = {"own": rng.poisson(2.0, (16, 64)), "given": rng.poisson(2.0, (4, 500))}
    weights = (("chain", "particle"), np.full((16, 64), 1 / 1024))
    own = xr.Dataset({"n": (("chain", "particle"), counts["own"])}, {"bdmc_weight": weights})
    given = xr.Dataset({"n": (("chain", "draw"), counts["given"])})
    pc = bdmc.plot_agreement(xr.DataTree.from_dict({"particles": own}), given, backend="matplotlib")
    lines = pc.viz["distribution"]["agreement"].sel(model="distribution of n")
    for line in lines.values:
        x, level = line.get_data()
        assert ((np.diff(x) == 0) | (np.diff(level) == 0)).all()
        assert set(x) <= set(range(20))


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


@pytest.mark.parametrize("backend", BACKENDS)
def test_pointwise_of_one_and_of_several(in_turn, backend):
    one = bdmc.plot_pointwise(in_turn["a"], backend=backend)
    assert one.viz["point"]["log_density"].sizes == {"model": 2, "pair": 1}
    assert "zero" not in one.viz.children
    several = bdmc.plot_pointwise(in_turn, backend=backend)
    pairs = several.viz["point"]["log_density"]["pair"].values.tolist()
    assert pairs == ["a against b", "a against c"]


def test_pointwise_draws_the_table(in_turn):
    pc = bdmc.plot_pointwise({name: in_turn[name] for name in "ab"}, backend="matplotlib")
    table = bdmc.pointwise(in_turn["a"], in_turn["b"])
    select = {"model": "sum so far", "pair": "a against b"}
    line = pc.viz["line"]["log_density"].sel(select).item()
    np.testing.assert_allclose(line.get_ydata(), table["cumulative"])
    bars = pc.viz["interval"]["log_density"].sel(select).item().get_ydata()
    half = 1.96 * table["cumulative_error"]
    np.testing.assert_allclose(bars[0::3], table["cumulative"] - half)
    np.testing.assert_allclose(bars[1::3], table["cumulative"] + half)
    axes = pc.viz["figure"].item().axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["mon", "tue"]
    assert axes.get_xlabel() == "day"
    with pytest.raises(ValueError, match="dt: a result, or a mapping"):
        bdmc.plot_pointwise({})


def sensitivity_table(log_ml, values, **columns):
    fresh = {"fresh_log_ml": np.nan, "fresh_error": np.nan}
    known = {"log_ml": log_ml, "error": 0.1, **fresh, "valid": True} | columns
    return pd.DataFrame(known, index=pd.Index(values, name="scale"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sensitivity(works, backend):
    curve = sensitivity_table([1.0, 3.0, 0.0], [0.1, 1.0, 10.0])
    assert isinstance(bdmc.plot_sensitivity(curve, backend=backend), PlotCollection)
    pc = bdmc.plot_sensitivity({"a": curve, "b": works}, backend=backend)
    assert pc.viz["line"]["log_ml"].sizes == {"model": 1, "curve": 2}


def test_sensitivity_shows_the_errors_of_fresh_runs():
    """The range contains all 95 % intervals. A value without a fresh run has none."""
    fresh = dict(fresh_log_ml=[0.1, np.nan, -9.0], fresh_error=[0.5, np.nan, 2.0])
    curve = sensitivity_table([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], **fresh)
    pc = bdmc.plot_sensitivity(curve, backend="matplotlib")
    line = pc.viz["interval"]["log_ml"].item()
    x, y = (np.array(each, float).reshape(3, 3) for each in line.get_data())
    np.testing.assert_array_equal(x[:, 0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(y[0, :2], [0.1 - 1.96 * 0.5, 0.1 + 1.96 * 0.5])
    assert np.isnan(y[1]).all()
    np.testing.assert_allclose(y[2, :2], [-9 - 1.96 * 2, -9 + 1.96 * 2])
    low, high = line.axes.get_ylim()
    assert low < y[2, 0] and high > y[0, 1]  # noqa: PT018


def test_sensitivity_marks_where_the_preference_turns():
    """Curves are interpolated in the logarithm, and over a row that is not valid there is a gap."""
    first = sensitivity_table([0.0, 0.0, 2.0], [0.1, 1.0, 100.0])
    second = sensitivity_table([1.0, 1.0], [0.1, 100.0])
    pc = bdmc.plot_sensitivity({"a": first, "b": second}, backend="matplotlib")
    axes = pc.viz["figure"].item().axes[0]
    assert pc.viz["turn"]["log_ml"].item().get_xdata()[0] == pytest.approx(1.0)
    assert [text.get_text().strip() for text in axes.texts] == ["10"]
    assert axes.get_xlabel() == "scale (log scale)"
    gap = sensitivity_table([0.0, 0.0, 2.0], [0.1, 1.0, 100.0], valid=[True, False, True])
    pc = bdmc.plot_sensitivity({"a": gap, "b": second}, backend="matplotlib")
    assert "turn" not in pc.viz.children
    line = pc.viz["line"]["log_ml"].sel(curve="a").item().get_ydata()
    assert np.isfinite(line).sum() == 2
    # On a range below a factor of 10 the axis is linear.
    near = sensitivity_table([0.0, 2.0], [1.0, 3.0])
    level = sensitivity_table([1.0, 1.0], [1.0, 3.0])
    pc = bdmc.plot_sensitivity({"a": near, "b": level}, backend="matplotlib")
    assert pc.viz["turn"]["log_ml"].item().get_xdata()[0] == pytest.approx(2.0)


def test_sensitivity_refuses_what_is_no_curve(works):
    table = sensitivity_table([1.0], ["normal"])
    with pytest.raises(ValueError, match="are not numbers"):
        bdmc.plot_sensitivity(table)
    for curves in ({"a": works}, dict.fromkeys("abc", table)):
        with pytest.raises(ValueError, match="one or two names"):
            bdmc.plot_sensitivity(curves)
