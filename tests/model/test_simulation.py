"""Simulated data come from the model, and θ* from the posterior given them."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from scipy import stats

from pymc_bdmc.model.simulation import (
    as_simulated,
    default_hyperparameters,
    hyperparameter_values,
    simulate_from_hyperparameters,
    simulate_from_prior,
)
from pymc_bdmc.model.tempered import TemperedDensity
from tests.models import eight_schools

QUICK = {"mode": Mode("py", "fast_run")}


def seeds(n, entropy=1):
    return np.random.SeedSequence(entropy).spawn(n)


@pytest.fixture(scope="module")
def regression():
    with pm.Model(coords={"row": range(3)}) as model:
        scale = pm.HalfNormal("scale", 2)
        x = pm.Normal("x", 0, scale)
        pm.Normal("y", x, 1.0, observed=[1.0, 2.0, 3.0], dims="row")
        pm.Poisson("k", pm.math.exp(0.1 * x), observed=2)
    return TemperedDensity(model, QUICK)


def test_the_pair_comes_from_the_joint(regression):
    """Kolmogorov-Smirnov on 1500 pairs, α = 1e-3 over 3 comparisons; twin: y* of another pair."""
    pairs = simulate_from_prior(regression, seeds(1500))
    points = regression.constrain([pair.point for pair in pairs])
    residual = np.array([pair.data["y"] for pair in pairs]) - points["x"][:, None]

    def pvalues(residual):
        return [
            stats.kstest(points["scale"], stats.halfnorm(scale=2).cdf).pvalue,
            stats.kstest(residual.ravel(), stats.norm.cdf).pvalue,
            stats.kstest(residual.sum(axis=1) / np.sqrt(3), stats.norm.cdf).pvalue,
        ]

    assert min(pvalues(residual)) > 1e-3 / 3
    assert min(pvalues(np.roll(residual + points["x"][:, None], 1, 0) - points["x"][:, None])) < (
        1e-3 / 3
    )
    assert {pair.status for pair in pairs} == {"exact"}
    assert pairs[0].data["k"].dtype == regression.data["k"].dtype
    assert pairs[0].data["y"].shape == (3,)


def test_each_data_set_has_its_own_stream(regression):
    first, second = simulate_from_prior(regression, seeds(2))
    (again,) = simulate_from_prior(regression, seeds(1))
    np.testing.assert_array_equal(first.data["y"], again.data["y"])
    assert not np.array_equal(first.data["y"], second.data["y"])


def test_hyperparameters_are_held_and_the_rest_is_drawn(regression):
    values = [{"scale": np.array(1e-6)}, {"scale": np.array(100.0)}]
    narrow, wide = simulate_from_hyperparameters(regression, values, seeds(2))
    assert abs(narrow.point["x"]) < 1e-4 < abs(wide.point["x"])
    assert np.exp(wide.point["scale_log__"]) == pytest.approx(100.0)
    assert wide.status == "burned-in"


def test_default_hyperparameters_have_no_random_parents(regression):
    assert default_hyperparameters(regression.model) == ["scale"]
    centred, other = (TemperedDensity(eight_schools(c), QUICK).model for c in (True, False))
    assert default_hyperparameters(centred) == ["mu", "tau"]
    assert default_hyperparameters(other) == ["mu", "tau", "z"]


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_missing_values_are_no_hyperparameters():
    with pm.Model() as model:
        z = pm.Normal("z")
        pm.MvNormal("y", np.zeros(2), np.eye(2), observed=np.ma.masked_invalid([1.0, np.nan]))
        pm.Normal("x", z, observed=0.0)
    assert default_hyperparameters(TemperedDensity(model, QUICK).model) == ["z"]


def test_hyperparameters_from_a_fit():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(2, 3, 2)
    draws = xr.Dataset({"a": (("chain", "draw"), a), "b": (("chain", "draw", "k"), b)})
    rng = np.random.default_rng(0)
    chosen = hyperparameter_values(draws, ["a", "b"], 4, "draw", rng)
    for each in chosen:
        np.testing.assert_array_equal(each["b"], [2 * each["a"], 2 * each["a"] + 1])
    assert len({float(each["a"]) for each in chosen}) == 4
    (mean,) = hyperparameter_values(xr.DataTree(draws), ["a"], 1, "mean", rng)
    assert mean["a"] == 2.5
    with pytest.raises(ValueError, match=r"lacks the hyperparameters \['c'\]"):
        hyperparameter_values(draws, ["c"], 1, "draw", rng)


def test_a_pair_of_the_callers(regression):
    point = {"scale": 0.5, "x": 1.0}
    data = {"y": [0.0, 1.0, 2.0], "k": 3}
    given = as_simulated(regression, point, data)
    assert given.point["scale_log__"] == pytest.approx(np.log(0.5))
    assert given.status == "exact"
    assert given.data["k"].dtype == regression.data["k"].dtype
    real = as_simulated(regression, point, {"y": [1.0, 2.0, 3.0], "k": 2})
    assert real.status == "heuristic"


@pytest.mark.parametrize(
    ("point", "data", "message"),
    [
        ({"x": 1.0}, {"y": [0, 1, 2], "k": 3}, r"must give \['scale', 'x'\]"),
        ({"scale": -1.0, "x": 1.0}, {"y": [0, 1, 2], "k": 3}, "scale lies outside its support"),
        ({"scale": 1.0, "x": [1.0, 2.0]}, {"y": [0, 1, 2], "k": 3}, r"x must be .* shape \(\)"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1], "k": 3}, "y must have the shape"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1, 2]}, "expected the observed variables"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1, 2], "k": -1}, "zero density"),
    ],
)
def test_a_wrong_pair_is_refused(regression, point, data, message):
    with pytest.raises(ValueError, match=message):
        as_simulated(regression, point, data)


def test_a_given_point_is_kept_where_its_prior_depends_on_data():
    with pm.Model() as model:
        y = pm.Normal("y", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("after", pm.Normal("z", y), 0.5, observed=1.0)
        pm.Uniform("u", y - 5, y + 5)
    point = {"x": np.array(0.5), "z": np.array(2.5), "u": np.array(1.0)}
    found = as_simulated(TemperedDensity(model), point, {"y": 2.0, "after": 1.5}).point
    expected = {"x": 0.5, "z": 2.5, "u_interval__": np.log(4 / 6)}  # of (−3, 7)
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected)


def test_given_hyperparameters_are_kept():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Normal("y", pm.Normal("x", mean, 1e-3), 1e-3, observed=0.0)
    seed = np.random.SeedSequence(1)
    (found,) = simulate_from_hyperparameters(
        TemperedDensity(model), [{"mean": np.array(7.0)}], [seed]
    )
    assert found.point["mean"] == 7
    assert abs(found.data["y"] - 7) < 0.01
