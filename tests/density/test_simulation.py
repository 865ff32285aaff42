"""Simulated data come from the model, and θ* from the posterior given them."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from scipy import stats

from pymc_bdmc.base.types import stack
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import (
    FromHyperparameters,
    FromPrior,
    Given,
    default_hyperparameters,
)
from tests.models import eight_schools

QUICK = {"mode": Mode("py", "fast_run")}


def from_prior(density, n, entropy=1):
    return FromPrior(datasets=n).simulate(density, entropy)


def fit(**draws):
    """A fit of one chain with these draws."""
    data = {name: (("chain", "draw"), np.array([values])) for name, values in draws.items()}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data)})


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
    pairs = from_prior(regression, 1500)
    points = regression.constrain(stack([pair.point for pair in pairs]))
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
    first, second = from_prior(regression, 2)
    (again,) = from_prior(regression, 1)
    np.testing.assert_array_equal(first.data["y"], again.data["y"])
    assert not np.array_equal(first.data["y"], second.data["y"])


def test_hyperparameters_are_held_and_the_rest_is_drawn(regression):
    simulation = FromHyperparameters(idata=fit(scale=[1e-6, 100.0]), burn_in=7, datasets=2)
    pairs = simulation.simulate(regression, 1, None)
    narrow, wide = sorted(pairs, key=lambda pair: pair.point["scale_log__"])
    assert abs(narrow.point["x"]) < 1e-4 < abs(wide.point["x"])
    assert np.exp(wide.point["scale_log__"]) == pytest.approx(100.0)
    assert (wide.status, wide.burn_in, wide.hyperparameters) == ("burned-in", 7, ("scale",))


def test_default_hyperparameters_have_no_random_parents(regression):
    assert default_hyperparameters(regression.model) == ["scale"]
    centred, other = (TemperedDensity(eight_schools(c), QUICK).model for c in (True, False))
    assert default_hyperparameters(centred) == ["mu", "tau"]
    assert default_hyperparameters(other) == ["mu", "tau"]  # the vector is simulated


def test_covariances_are_hyperparameters():
    with pm.Model() as model:
        sd = pm.Exponential.dist(1.0, shape=2)
        root, *_ = pm.LKJCholeskyCov("root", n=2, eta=2, sd_dist=sd)
        pm.LKJCorr("correlation", n=3, eta=1)
        scale = pm.Exponential("scale", 1.0)
        pm.LKJCholeskyCov("lower", n=2, eta=2, sd_dist=pm.HalfNormal.dist(scale, shape=2))
        pm.MvNormal("y", np.zeros(2), chol=root, observed=np.ones((3, 2)))
    assert default_hyperparameters(model) == ["root", "correlation", "scale"]


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
def test_missing_values_are_no_hyperparameters():
    with pm.Model() as model:
        z = pm.Normal("z")
        pm.MvNormal("y", np.zeros(2), np.eye(2), observed=np.ma.masked_invalid([1.0, np.nan]))
        pm.Normal("x", z, observed=0.0)
    assert default_hyperparameters(TemperedDensity(model, QUICK).model) == ["z"]


def test_hyperparameters_come_from_joint_draws_or_are_means():
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        pm.Normal("y", a + b.sum(), observed=0.0)
    density = TemperedDensity(model, QUICK)
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(2, 3, 2)
    draws = xr.Dataset({"a": (("chain", "draw"), a), "b": (("chain", "draw", "k"), b)})
    idata = xr.DataTree.from_dict({"posterior": draws})
    chosen = FromHyperparameters(["a", "b"], idata=idata, datasets=4).simulate(density, 1, None)
    for each in chosen:
        np.testing.assert_array_equal(each.point["b"], 2 * each.point["a"] + [0, 1])
    assert len({float(each.point["a"]) for each in chosen}) == 4
    (mean,) = FromHyperparameters("a", at="mean", idata=idata, datasets=1).simulate(
        density, 1, None
    )
    assert mean.point["a"] == 2.5
    with pytest.raises(ValueError, match=r"lacks the variables \['b'\]"):
        FromHyperparameters("b", idata=fit(a=[1.0])).check(density)


def test_a_fit_is_made_only_where_none_is_given(regression):
    (found,) = FromHyperparameters(datasets=1).simulate(regression, 1, lambda: fit(scale=[3.0]))
    assert np.exp(found.point["scale_log__"]) == pytest.approx(3.0)
    FromHyperparameters(idata=fit(scale=[3.0])).simulate(regression, 1, None)


def test_a_pair_of_the_callers(regression):
    point = {"scale": 0.5, "x": 1.0}
    data = {"y": [0.0, 1.0, 2.0], "k": 3}
    (given,) = Given(point, data).simulate(regression)
    assert given.point["scale_log__"] == pytest.approx(np.log(0.5))
    assert given.status == "heuristic"
    assert given.data["k"].dtype == regression.data["k"].dtype
    (claimed,) = Given(point, data, exact=True).simulate(regression)
    assert claimed.status == "exact"


def test_real_data_are_never_exact(regression):
    """Nor are real data with a little noise, unless the caller claims it."""
    point, y = {"scale": 0.5, "x": 1.0}, np.array([1.0, 2.0, 3.0])
    for data in (y, y + 1e-9):
        (found,) = Given(point, {"y": data, "k": 2}).simulate(regression)
        assert found.status == "heuristic"
    with pytest.raises(ValueError, match="those that the model observes"):
        Given(point, {"y": y, "k": 2}, exact=True).check(regression)


@pytest.mark.parametrize(
    ("point", "data", "message"),
    [
        ({"x": 1.0}, {"y": [0, 1, 2], "k": 3}, r"must give \['scale', 'x'\]"),
        ({"scale": -1.0, "x": 1.0}, {"y": [0, 1, 2], "k": 3}, "scale lies outside its support"),
        ({"scale": 1.0, "x": [1.0, 2.0]}, {"y": [0, 1, 2], "k": 3}, r"x must be .* shape \(\)"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1], "k": 3}, "y must have the shape"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1, 2]}, "expected the observed variables"),
        ({"scale": 1.0, "x": 1.0}, {"y": [0, 1, 2], "k": -1}, "log density .* is -inf"),
    ],
)
def test_a_wrong_pair_is_refused(regression, point, data, message):
    with pytest.raises(ValueError, match=message):
        Given(point, data).check(regression)


def test_a_pair_is_checked_without_compiling_the_density(regression, monkeypatch):
    monkeypatch.setattr(TemperedDensity, "terms", property(lambda density: pytest.fail("compiled")))
    Given({"scale": 0.5, "x": 1.0}, {"y": [0.0, 1.0, 2.0], "k": 3}).check(regression)


def test_a_given_point_is_kept_where_its_prior_depends_on_data():
    with pm.Model() as model:
        y = pm.Normal("y", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("after", pm.Normal("z", y), 0.5, observed=1.0)
        pm.Uniform("u", y - 5, y + 5)
    point = {"x": np.array(0.5), "z": np.array(2.5), "u": np.array(1.0)}
    (given,) = Given(point, {"y": 2.0, "after": 1.5}).simulate(TemperedDensity(model))
    expected = {"x": 0.5, "z": 2.5, "u_interval__": np.log(4 / 6)}  # of (−3, 7)
    assert {name: float(value) for name, value in given.point.items()} == pytest.approx(expected)


def test_given_hyperparameters_are_kept():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        pm.Normal("y", pm.Normal("x", mean, 1e-3), 1e-3, observed=0.0)
    simulation = FromHyperparameters(idata=fit(mean=[7.0]), datasets=1)
    (found,) = simulation.simulate(TemperedDensity(model), 1, None)
    assert found.point["mean"] == 7
    assert abs(found.data["y"] - 7) < 0.01
