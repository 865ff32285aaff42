"""Runs on real data are told from runs on simulated data where they differ, and only there."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import wasserstein_distance

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import (
    quantile_distance,
    rank_among,
    run_distance,
    shortfall_difference,
    spread_and_tails,
)
from pymc_bdmc.results import consistency
from tests.results.trees import runs


def test_quantile_distance_is_that_of_scipy():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=17), rng.normal(1, 2, size=30)
    assert quantile_distance(a, b) == pytest.approx(wasserstein_distance(a, b))
    assert quantile_distance([1.0, np.nan], [1.0]) == 0
    assert quantile_distance([-np.inf], [1.0]) == np.inf
    assert np.isnan(quantile_distance([np.nan], [1.0]))


def test_permuted_runs_have_uniform_p_values_where_nothing_differs():
    """α = 7e-4: of 12 p-values 7 or more are at most 0.15 by chance."""
    rng = np.random.default_rng(2)
    for sd, differs in ((1.0, False), (2.5, True)):  # the latter is the broken twin
        pairs = [(rng.normal(3, sd, (1, 12)), rng.normal(0, 1, (1, 1, 12))) for _ in range(12)]
        low = sum(run_distance(*pair, rng).p_value <= 0.15 for pair in pairs)
        assert (low >= 7) == differs


def test_ranks_are_uniform_where_data_sets_are_exchangeable():
    """α = 1e-3: 400 p-values, of which 36 or more are at most 0.05 by chance.

    Also if a side does not count. Twins: the real data deviate, on a side that counts.
    """
    rng = np.random.default_rng(3)
    features = rng.normal(size=(400, 20, 3)) * [1, 5, 0.1] + [0, 3, 9]
    features[:, :, 1] = np.exp(features[:, :, 1])  # whatever their law

    def low(*sides):
        parts = features[:, :, -len(sides) :]
        return [found for x in parts if (found := rank_among(x, sides)).p_value <= 0.05]

    assert len(low(0, 0, 0)) < 36
    assert len(low(1)) < 36
    features[:, 0, 2] -= 1  # ten standard deviations
    assert np.mean([rank_among(each).p_values[2] <= 0.05 for each in features]) > 0.99
    assert len(low(-1)) > 396
    assert len(low(1)) < 36
    assert all(found.worst == 0 for found in low(0, 1))


def test_features_that_do_not_vary_say_nothing():
    found = rank_among(np.ones((20, 1)))
    assert found.p_value == 1
    assert found.deviations.tolist() == [0]
    odd = np.zeros((20, 1))
    odd[0] = 1
    assert rank_among(odd).p_value == pytest.approx(0.05)
    assert (spread_and_tails(np.ones((4, 3))) == 0).all()


def test_shortfall_is_that_of_the_mean_log_weight():
    rng = np.random.default_rng(4)
    real, simulated = rng.normal(0, 1, (1, 4000)), rng.normal(5, 0.5, (1, 1, 4000))
    found = shortfall_difference(real, simulated, rng)
    # Normal log weights of variance σ² have a mean σ²/2 below log Z.
    assert abs(found.value - (0.5 - 0.125)) < 4 * found.error
    assert 0.01 < found.error < 0.1
    assert found.real - found.simulated == pytest.approx(found.value)


def test_one_simulated_data_set_compares_runs_but_flags_no_model():
    table = bdmc.consistency(runs(real_sd=3.0))
    assert list(table.index) == [("log weights", 30), ("shortfall", 30)]
    distance = table.loc[("log weights", 30)]
    assert distance["p_value"] <= 0.01
    assert distance["value"] > distance["reference"] + 2 * distance["error"]
    assert not distance["flagged"]
    assert table.loc[("shortfall", 30), "flagged"]
    alike = bdmc.consistency(runs())
    assert alike.loc[("shortfall", 30), ["valid", "flagged"]].tolist() == [True, False]


def test_too_few_runs_cannot_pass():
    for few, enough in ((runs(sd=1.0, real_sd=1.0, n=12), 13), (runs(n=7), 8)):
        row = bdmc.consistency(few).loc[("shortfall", 30)]
        assert not row["valid"]
        assert int(row["kind"].split("take chains=")[1]) >= enough


@pytest.mark.parametrize(("datasets", "valid"), [(18, False), (19, True)])
def test_the_rank_test_says_if_it_could_have_failed(datasets, valid):
    rng = np.random.default_rng(5)
    y = rng.standard_t(1.5, size=200)
    row = bdmc.consistency(runs(datasets=datasets, y=y)).loc[("model", 30)]
    assert row["valid"] == row["flagged"] == valid
    assert row["p_value"] == pytest.approx(1 / (datasets + 1))
    assert "y" in row["kind"]
    right = bdmc.consistency(runs(datasets=datasets, y=rng.normal(size=200))).loc[("model", 30)]
    assert not right["flagged"]
    assert ("datasets=19" in right["kind"]) != valid


@pytest.mark.parametrize(("temperatures", "counts"), [(1, False), (2, True)])
def test_runs_without_annealing_are_no_feature_of_the_model(temperatures, counts):
    """Fits are then the only difference, and that to the real data is made with more effort."""
    dt = runs(datasets=19, y=np.random.default_rng(9).normal(size=200))
    lengths = {"forward": ("dataset", 1 + np.arange(19) / 100), "real": 99.0}
    for group, length in lengths.items():
        found = dt[group].dataset.drop_vars("beta").assign(thermodynamic_length=length)
        dt[group] = found.assign_coords(beta=np.linspace(0, 1, temperatures + 1))
    table = bdmc.consistency(dt)
    assert ("path length" in table.index) == counts
    assert table.loc["model", "flagged"].iloc[0] == counts
    assert ("log weights", temperatures) in table.index


@pytest.mark.parametrize(("scale", "flagged"), [(0.01, False), (100.0, True)])
def test_data_narrower_than_a_prior_expects_are_no_error(scale, flagged):
    """Held hyperparameters should have the spread of the data, so there it is one."""
    dt = runs(datasets=19, y=scale * np.random.default_rng(10).normal(size=200))
    dt.attrs["simulate"] = "prior"
    row = bdmc.consistency(dt).loc["spread of y"].iloc[0]
    assert abs(row["value"]) > 3.5
    assert np.sign(row["value"]) == (1 if flagged else -1)
    found = bdmc.verdict(dt)
    assert bdmc.consistency(dt).loc["model", "flagged"].iloc[0] == flagged
    assert (found.table.loc["model", "status"] == "open") == flagged
    assert ("Your prior expects data far more spread than yours" in found.text) != flagged
    dt.attrs |= {"simulate": "hyperparameters", "hyperparameters": "sigma"}
    assert bdmc.consistency(dt).loc["model", "flagged"].iloc[0]
    assert "Your prior expects" not in bdmc.verdict(dt).text


@pytest.mark.parametrize(("fitted", "counts", "models"), [(40, False, 8), (1, True, 2)])
def test_data_that_a_fit_has_seen_may_be_close_to_it(fitted, counts, models, monkeypatch):
    """Forty means of five values each, drawn from their posterior; and one, which counts still.

    Of 8 right models 4 or more are flagged with α = 4e-4; twin: the small spread counts.
    """

    def is_flagged(seed):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=200)
        means = y.reshape(fitted, -1).mean(axis=1)
        drawn = means + rng.normal(size=(19, fitted)) / np.sqrt(200 / fitted)
        dt = runs(datasets=19, n=8, y=y, seed=seed)
        dt["simulated"]["y"] = dt["simulated"]["y"] + np.repeat(drawn, 200 // fitted, axis=1)
        dt["simulated"]["mean"] = xr.DataArray(drawn, dims=("dataset", "group"))
        dt.attrs["simulate"] = "posterior"
        table = bdmc.consistency(dt)
        one_sided = bool(table.loc["spread of y", "p_value"].isna().iloc[0])
        assert not (one_sided and counts)
        return table.loc["model", "flagged"].iloc[0]

    assert sum(map(is_flagged, range(models))) < 4
    if not counts:
        monkeypatch.setattr(consistency, "MOST_SHIFT", np.inf)
        assert sum(map(is_flagged, range(models))) >= 4


def test_every_round_of_a_ladder_has_its_row():
    dt, rng = runs(), np.random.default_rng(6)
    sds = np.array([2.0, 1.0, 0.3])[:, None]
    forward, real = (rng.normal(level - sds**2 / 2, sds, (3, 40)) for level in (-7, -20))
    dt["rounds"] = xr.DataTree(xr.Dataset({
        "temperatures": ("round", [10, 20, 30]),
        "forward_log_weight": (("round", "dataset", "chain"), forward[:, None]),
        "real_log_weight": (("round", "chain"), real),
    }))  # fmt: skip
    table = bdmc.consistency(dt)
    shortfalls = table.loc["shortfall"]
    assert shortfalls.index.tolist() == [10, 20, 30]
    assert shortfalls["reference"].is_monotonic_decreasing
    expected = np.log(np.mean(np.exp(real[-1]))) - real[0].mean() - shortfalls.loc[10, "reference"]
    assert shortfalls.loc[10, "value"] == pytest.approx(expected)
    assert table.loc["log weights", "p_value"].gt(0.01).all()


def test_unfinished_runs_and_data_sets_are_left_out():
    dt = runs(datasets=3, y=np.zeros(5))
    dt["forward"]["log_weight"][1] = dt["forward"]["log_weight"][0, :7] = np.nan
    table = bdmc.consistency(dt)
    assert "among 3 data sets" in table.loc[("log weights", 30), "kind"]
    assert np.isfinite(table.loc[("shortfall", 30), "value"])


@pytest.mark.parametrize(
    ("dt", "words"),
    [
        (runs().drop_nodes("real"), "no group 'real'"),
        (runs().drop_nodes("forward"), "no group 'forward'"),
        (runs().map_over_datasets(lambda each: each * np.nan), "no run was finished"),
        (xr.DataTree.from_dict({"tempering": xr.Dataset()}), "consistency reads annealed runs"),
    ],
)
def test_what_cannot_be_compared_is_refused(dt, words):
    with pytest.raises(ValueError, match=words):
        bdmc.consistency(dt)
