"""Draws of several models together."""

from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.studies.compare_models import ModelChoice
from tests.models import interpreted


def result(n, mean, *more, seed=1):
    """Posterior draws of one result: ``b`` is a mean, ``own`` a variable of some models."""
    draws = np.random.default_rng(seed).normal(mean, 0.1, (4, n // 4))
    posterior = {name: (("chain", "draw"), draws) for name in ("b", *more)}
    coords = {"chain": range(4), "draw": range(n // 4)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(posterior, coords=coords)})


def choice(probability, results):
    table = pd.DataFrame(
        {"probability": probability, "error": 0.1, "valid": True}, index=list(results)
    )
    return ModelChoice(table.index[0], False, 0.95, 1, table, results)


def test_each_model_has_its_share_of_draws():
    results = {"a": [result(400, -1), result(400, -1, seed=2)], "b": [result(400, 5, "own")]}
    found = bdmc.averaged(choice([0.7, 0.3], results), random_seed=1)["posterior"].dataset
    assert list(found) == ["b"]
    n = found.sizes["draw"]
    assert n == int(800 / 0.7)
    counts = pd.Series(found["model"].values).value_counts()
    assert abs(counts["a"] - 0.7 * n) <= 1
    assert np.unique(found["b"]).size == n  # no draw is taken twice
    assert float(found["b"].mean()) == pytest.approx(-0.7 + 1.5, abs=0.05)


def test_errors_of_probabilities():
    """By changing each log ML by its error; twin: errors that are not correlated."""
    results = {name: [result(400, 0)] for name in "abc"}
    p = np.array([0.5, 0.3, 0.2])
    models = bdmc.averaged(choice(p, results))["models"].dataset
    moved = [p * np.exp(0.1 * (np.arange(3) == i)) for i in range(3)]
    changes = [each / each.sum() - p for each in moved]
    right = np.linalg.norm(changes, axis=0)
    assert models["probability_error"].values == pytest.approx(right, rel=0.1)
    assert models["probability_error"].values != pytest.approx(0.1 * p, rel=0.1)


@cache
def model(mean):
    with interpreted(), pm.Model() as made:
        pm.Normal("y", pm.Normal("b", mean), 0.1, observed=[0.0, 1.0])
    return made


def test_predictions_are_of_all_models():
    models = {"a": model(-1), "b": model(5)}
    results = {"a": [result(400, -1)], "b": [result(400, 5)]}
    with interpreted():
        found = bdmc.averaged(choice([0.6, 0.4], results), models, random_seed=1)
    predicted = found["posterior_predictive"].dataset
    assert predicted["y"].shape == (1, 666, 2)
    apart = predicted["y"].mean("y_dim_0") - found["posterior"]["b"]
    assert float(abs(apart).max()) < 1
    assert (predicted["model"] == found["posterior"]["model"]).all()


def labelled(mean, arms, seed=1):
    """Posterior draws of ``effect`` by arm: its mean is the place of its label in "uvw"."""
    dt = result(400, mean, seed=seed)
    means = xr.DataArray(["uvw".index(arm) for arm in arms], {"arm": arms})
    dt["posterior"] = xr.DataTree(
        dt["posterior"].dataset.assign(effect=means + dt["posterior"]["b"] - mean)
    )
    return dt


@pytest.mark.parametrize(
    ("arms", "kept"), [(["u", "v"], True), (["v", "u"], True), (["u", "w"], False)]
)
def test_elements_are_joined_by_label(arms, kept, caplog):
    """Elements of other labels would be padded with NaN. Twin: the same labels."""
    results = {"a": [labelled(-1, ["u", "v"])], "b": [labelled(5, arms, seed=2)]}
    with caplog.at_level("WARNING", "pymc.bdmc"):
        found = bdmc.averaged(choice([0.6, 0.4], results), random_seed=1)["posterior"].dataset
    assert ("effect" in found) == kept
    assert ("coordinates of ['effect'] differ" in caplog.text) is not kept
    assert np.isfinite(found["b"]).all()
    if kept:
        means = found["effect"].mean("chain").groupby("model").mean("draw").sel(arm=["u", "v"])
        assert means.values == pytest.approx(np.array([[0, 1], [0, 1]]), abs=0.05)
    else:
        alone = {
            name: [dt.map_over_datasets(lambda d: d.drop_vars("b", errors="ignore"))]
            for name, (dt,) in results.items()
        }
        with pytest.raises(ValueError, match=r"\['effect'\] differ .* give them the same"):
            bdmc.averaged(choice([0.6, 0.4], alone))


@cache
def labelled_model(mean, arms):
    with interpreted(), pm.Model(coords={"arm": list(arms)}) as made:
        pm.Normal("y", pm.Normal("b", mean), 0.1, observed=[0.0, 1.0], dims="arm")
    return made


def test_predictions_of_other_labels_are_not_joined():
    """Twin: the same labels."""
    results = {"a": [result(400, -1)], "b": [result(400, 5)]}
    models = {"a": labelled_model(-1, "uv"), "b": labelled_model(5, "uw")}
    with interpreted(), pytest.raises(ValueError, match=r"\['y'\] differ"):
        bdmc.averaged(choice([0.6, 0.4], results), models, random_seed=1)
    models["b"] = labelled_model(5, "uv")
    with interpreted():
        found = bdmc.averaged(choice([0.6, 0.4], results), models, random_seed=1)
    assert np.isfinite(found["posterior_predictive"]["y"]).all()


def test_a_model_without_draws_is_left_out():
    results = {"a": [result(400, -1)], "b": [result(400, 5)]}
    found = bdmc.averaged(choice([1 - 1e-9, 1e-9], results), random_seed=1)
    assert set(found["posterior"]["model"].values) == {"a"}


def test_bad_input():
    results = {"a": [result(400, -1)], "b": [result(400, 5)]}
    wrong = choice([0.6, 0.4], results)
    with pytest.raises(ValueError, match=r"\['a'\] are given"):
        bdmc.averaged(wrong, {"a": model(-1)})
    wrong.table.loc["b", "valid"] = False
    with pytest.raises(ValueError, match=r"log ML of \['b'\] cannot be trusted"):
        bdmc.averaged(wrong)
    with pytest.raises(ValueError, match="a mapping of names to two or more results"):
        bdmc.averaged(5)
    null = {"a": [xr.DataTree.from_dict({"observed_data": xr.Dataset()})], "b": results["b"]}
    with pytest.raises(ValueError, match=r"\['a'\] have no free variables"):
        bdmc.averaged(choice([0.6, 0.4], null))
    apart = {"a": [result(400, 0).map_over_datasets(lambda d: d.rename(b="c") if "b" in d else d)]}
    with pytest.raises(ValueError, match="no variable that all models have"):
        bdmc.averaged(choice([0.6, 0.4], apart | {"b": results["b"]}))
