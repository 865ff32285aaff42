"""Weighted posterior means against a conjugate model, with dimensions and coordinates kept."""

import numpy as np
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from tests.models import SIGMAS
from tests.results.trees import particles

Y = np.array([4.0, -3.0, 1.0])


@pytest.fixture(scope="module")
def result():
    """Draws from the prior N(0, 3²), with the likelihood of y ~ N(x, 1) as their weights."""
    x = np.random.default_rng(1).normal(0, 3, (4000, 1, 3))
    weights = np.exp(-0.5 * np.sum((Y - x) ** 2, axis=-1))
    group = particles(weights, {"x": ["place"]}, x=x, total=x.sum(axis=-1))
    group = group.assign_coords(place=["north", "south", "east"])
    return xr.DataTree.from_dict({"particles": group})


def test_means_of_a_conjugate_model(result):
    found = bdmc.expectation(result, "x")
    assert found.attrs["effective_sample_size"] > 10
    assert "effective sample size" in found.attrs["reason"]
    assert found["mean"].dims == ("place",)
    assert found["place"].values.tolist() == ["north", "south", "east"]
    assert (np.abs(found["mean"] - 0.9 * Y) < SIGMAS * found["error"]).all()
    total = bdmc.expectation(result, "total")["mean"]
    assert total.dims == ()
    assert total.item() == pytest.approx(found["mean"].sum().item())
    # Broken twin: the average without weights
    unweighted = result["particles"]["x"].mean(("chain", "particle"))
    assert (np.abs(unweighted - 0.9 * Y) > SIGMAS * found["error"]).any()


def test_a_dimension_of_any_name():
    states, weights = np.array([[[0.0, 2.0]], [[1.0, 4.0]]]), np.array([[0.25], [0.75]])
    group = particles(weights, {"x": ["sample"]}, x=states)
    found = bdmc.expectation(xr.DataTree.from_dict({"particles": group}), "x")
    assert found["mean"].values == pytest.approx([0.75, 3.5])
    assert found["mean"].dims == ("sample",)


def test_unknown_names_and_missing_groups_are_told(result):
    with pytest.raises(ValueError, match=r"'z' is not among .*'total', 'x'"):
        bdmc.expectation(result, "z")
    with pytest.raises(ValueError, match="real_data=True"):
        bdmc.expectation(xr.DataTree(), "x")


def test_without_any_weight_there_is_no_mean(result):
    group = result["particles"].dataset
    weights = group["bdmc_weight"] * np.nan
    nothing = xr.DataTree.from_dict({"particles": group.assign_coords(bdmc_weight=weights)})
    found = bdmc.expectation(nothing, "x")
    assert np.isnan(found["mean"]).all()
    assert not found.attrs["valid"]
