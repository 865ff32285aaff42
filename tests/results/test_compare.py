"""Models and samplers side by side: the right numbers in the right order, of the same data only."""

import re

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.results.compare import cost
from tests.results.trees import Y, result


def test_the_best_comes_first_and_bayes_factors_are_against_it():
    table = bdmc.compare({"bad": result(-9.0), "good": result(-3.0), "fair": result(-5.0)})
    assert list(table.index) == ["good", "fair", "bad"]
    assert table["valid"].all()
    true = np.array([0.0, -2.0, -6.0])
    z = (table["log_bayes_factor"] - true)[1:] / table["bayes_factor_error"][1:]
    assert (abs(z) < 4).all()
    assert table.loc["good", ["log_bayes_factor", "bayes_factor_error"]].tolist() == [0, 0]
    expected = np.hypot(table.loc["fair", "error"], table.loc["good", "error"])
    assert table.loc["fair", "bayes_factor_error"] == pytest.approx(expected)
    odds = np.exp(table["log_bayes_factor"])
    np.testing.assert_allclose(table["probability"], odds / odds.sum())
    assert not {"lower", "upper"} & set(table)  # on real data no upper bound is certain


def test_prior_probabilities_enter():
    results = {"a": result(-3.0), "b": result(-5.0)}
    table = bdmc.compare(results, prior={"a": 1, "b": 9})
    log_odds = np.log(table.loc["b", "probability"] / table.loc["a", "probability"])
    assert log_odds == pytest.approx(table.loc["b", "log_bayes_factor"] + np.log(9))
    assert list(table.index) == ["a", "b"]  # by log ML, whatever the prior
    for prior, message in [({"a": 1}, "each of"), ({"a": 1, "b": 0}, "b must have a positive")]:
        with pytest.raises(ValueError, match=message):
            bdmc.compare(results, prior=prior)


def test_what_is_not_valid_has_no_probability_and_comes_last():
    table = bdmc.compare({"wild": result(-3.0, n=8, sd=6.0), "good": result(-9.0)}, details=True)
    assert list(table.index) == ["good", "wild"]
    left_out = ["error", "log_bayes_factor", "bayes_factor_error", "probability"]
    assert table.loc["wild", left_out].isna().all()
    assert "an average of 8 weights" in table.loc["wild", "reason"]
    assert np.isfinite(table.loc["wild", "log_ml"])
    assert table.loc["good", "probability"] == 1


def test_names_of_variables_do_not_matter_but_values_and_order_do():
    bdmc.compare({"a": result(y=Y, z=Y + 10), "b": result(obs=Y + 10, other=Y)})
    for other in ({"y": Y[::-1]}, {"y": np.log1p(Y)}, {"y": Y[:5]}):
        with pytest.raises(ValueError, match=r"b: its data are not those of a.*a has y \(6,\)"):
            bdmc.compare({"a": result(), "b": result(**other)})
    with pytest.raises(ValueError, match=r"a has nothing else; b has z \(6,\)"):
        bdmc.compare({"a": result(), "b": result(y=Y, z=Y)})
    # Data that begin alike are told apart by where they differ.
    y = np.r_[np.nan, np.arange(1.0, 9.0)]  # a missing value in both is no difference
    late = np.where(y == 5, -1.0, y)
    with pytest.raises(ValueError, match=r"a has y \(9,\): … 5\.0, .*b has y \(9,\): … -1\.0, "):
        bdmc.compare({"a": result(y=y), "b": result(y=late)})


ONE, MODEL = result(), pm.Model()


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ({"a": ONE}, "two or more results"),
        ([ONE, ONE], "two or more results"),
        (ONE, "two or more results"),
        (
            {"a": ONE, "b": xr.DataTree.from_dict({"tempering": xr.Dataset()})},
            "a result of temper has none",
        ),
        ({"a": ONE, "b": ONE.drop_nodes("observed_data")}, "b: it has no group 'observed_data'"),
        ({"a": ONE, "b": MODEL}, r"\['b'\] are models; bdmc.compare_models samples those"),
    ],
)
def test_what_cannot_be_compared_is_refused(results, words):
    with pytest.raises(ValueError, match=words):
        bdmc.compare(results)


def test_samplers_of_one_system_have_certified_intervals():
    options = {"temperatures": 60, "chains": 256, "random_seed": 1, "progressbar": False}
    a, b = (
        bdmc.lattice.anneal(bdmc.lattice.Ising(4), kernel=kernel, **options)
        for kernel in ("metropolis", "heat bath")
    )
    pair = {"a": a, "b": b}
    for several in (pair, pair | {"c": b}):  # all rows hold together, so more of them are wider
        rows, share = bdmc.compare(several, details=True), 1 - 0.05 / len(several)
        ends = [bdmc.certified(several[n], share).loc[("simulated", 0)] for n in rows.index]
        assert rows["lower"].iloc[1] == pytest.approx(ends[1]["lower"] - ends[0]["upper"])
        assert rows["upper"].iloc[-1] == pytest.approx(ends[-1]["upper"] - ends[0]["lower"])
        assert rows["lower"].iloc[1] < 0 < rows["upper"].iloc[1]  # it is one log Z
        assert rows["jeffreys_bound"].gt(0).all()
        assert rows["temperatures"].eq(60).all()
    rows, found = bdmc.compare(pair), bdmc.bayes_factor(a, b)
    ends = rows.loc[rows.index[1], ["lower", "upper"]] * (-1 if rows.index[1] == "b" else 1)
    assert [found.certified_lower, found.certified_upper] == pytest.approx(sorted(ends))
    assert "It is certified to be" in repr(found)
    other = bdmc.lattice.anneal(bdmc.lattice.Ising(8), **options)
    with pytest.raises(ValueError, match=r"Ising\(L=8"):
        bdmc.compare({"a": a, "b": other})


def test_cost_is_that_of_every_round():
    dt = result()
    assert len(cost(dt)) == 1
    columns = {
        "temperatures": [30, 60], "jeffreys_bound": [0.2, 0.1], "error": [0.02, 0.01],
        "gradient_evaluations": [100, 200], "seconds": [1.0, 2.0],
    }  # fmt: skip
    dt["rounds"] = xr.DataTree(xr.Dataset({k: ("round", np.array(v)) for k, v in columns.items()}))
    assert cost(dt).to_dict("list") == columns
    row = bdmc.compare({"a": dt, "b": result(-3.0)}, details=True).loc["a"]
    assert row[["temperatures", "gradient_evaluations", "seconds"]].tolist() == [60, 200, 2.0]


def test_real_data_may_be_missing():
    table = bdmc.compare({"with": ONE, "without": ONE.drop_nodes("real")}, details=True)
    assert table.loc["without", "reason"] == "no runs on the real data"
    assert np.isnan(table.loc["without", "log_ml"])
    assert np.isfinite(table.loc["without", "jeffreys_bound"])


def test_the_same_data_in_another_form_are_compared_if_the_caller_says_so():
    """The error of other data names the remedy, which works; two models of y and of log y."""
    results = {"y": result(-9.0, y=np.exp(Y)), "log y": result(-3.0, z=Y)}
    with pytest.raises(ValueError, match=r"pass same_data=True; with z = g\(y\) in place of y"):
        bdmc.compare(results)
    with pytest.raises(ValueError, match="same_data=True"):
        bdmc.bayes_factor(*results.values())
    table = bdmc.compare(results, same_data=True)
    found = bdmc.bayes_factor(*results.values(), same_data=True)
    assert found.value == pytest.approx(table.loc["y", "log_bayes_factor"])
    with pytest.raises(TypeError, match="same_data"):
        bdmc.compare(results, same_data="yes")


def test_arviz_plots_the_table():
    """The line in the docstring of `compare` plots it."""
    table = bdmc.compare({"a": result(-3.0), "b": result(-5.0)})
    line = re.search(r"``(az\.plot_compare\(table.*?\))``", bdmc.compare.__doc__, re.S)[1]
    drawn = eval(line, {"az": az, "table": table})
    assert isinstance(drawn, az.PlotCollection)
    points = drawn.viz["plot"].item().collections[0].get_offsets()
    np.testing.assert_allclose(points[:, 0], table["log_ml"])
