"""Simulated data come from the model, and θ* from the posterior given them."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from pymc_bdmc.base.types import stack
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import (
    FromHyperparameters,
    FromPrior,
    Given,
    default_hyperparameters,
)
from tests.density.short import QUICK
from tests.models import eight_schools

Y = np.array([4.0, 5.5, 4.5])


def fit(**draws):
    """A fit of one chain with these draws."""
    data = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(np.ndim(values) - 1))), [values])
        for name, values in draws.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(data)})


@pytest.fixture(scope="module")
def regression():
    with pm.Model(coords={"row": range(3)}) as model:
        x = pm.Normal("x", 0, pm.HalfNormal("scale", 2))
        pm.Normal("y", x, 1.0, observed=[1.0, 2.0, 3.0], dims="row")
        pm.Poisson("k", pm.math.exp(0.1 * x), observed=2)
    return TemperedDensity(model, QUICK)


def test_the_pair_comes_from_the_joint(regression):
    """Kolmogorov-Smirnov on 300 pairs, α = 1e-3 over 3 comparisons; twin: y* of another pair."""
    pairs = FromPrior(300).simulate(regression, 1)
    points = regression.constrain(stack([pair.point for pair in pairs]))
    data = np.array([pair.data["y"] for pair in pairs])

    def pvalues(data):
        residual = data - points["x"][:, None]
        return [
            stats.kstest(points["scale"], stats.halfnorm(scale=2).cdf).pvalue,
            stats.kstest(residual.ravel(), stats.norm.cdf).pvalue,
            stats.kstest(residual.sum(axis=1) / np.sqrt(3), stats.norm.cdf).pvalue,
        ]

    assert min(pvalues(data)) > 1e-3 / 3
    assert min(pvalues(np.roll(data, 1, axis=0))) < 1e-3 / 3
    assert {pair.status for pair in pairs} == {"exact"}
    assert pairs[0].data["k"].dtype == regression.data["k"].dtype
    assert pairs[0].data["y"].shape == (3,)
    (again,) = FromPrior(1).simulate(regression, 1)  # each data set has its own stream
    np.testing.assert_array_equal(again.data["y"], data[0])
    assert not np.array_equal(data[0], data[1])


def test_hyperparameters_are_held_and_the_rest_is_drawn(regression):
    """Hyperparameters come from the given fit, or from one that is made."""
    simulation = FromHyperparameters(idata=fit(scale=[1e-6, 100.0]), burn_in=7, datasets=2)
    pairs = simulation.simulate(regression, 1, None)
    narrow, wide = sorted(pairs, key=lambda pair: pair.point["scale_log__"])
    assert abs(narrow.point["x"]) < 1e-4 < abs(wide.point["x"])
    assert np.exp(wide.point["scale_log__"]) == pytest.approx(100.0)
    assert (wide.status, wide.burn_in, wide.hyperparameters) == ("burned-in", 7, ("scale",))
    (found,) = FromHyperparameters(datasets=1).simulate(regression, 1, lambda: fit(scale=[3.0]))
    assert np.exp(found.point["scale_log__"]) == pytest.approx(3.0)


def schools():
    return eight_schools(centred=False)


def covariances():
    with pm.Model() as model:
        sd = pm.Exponential.dist(1.0, shape=2)
        root, *_ = pm.LKJCholeskyCov("root", n=2, eta=2, sd_dist=sd)
        pm.LKJCorr("correlation", n=3, eta=1)
        scale = pm.Exponential("scale", 1.0)
        pm.LKJCholeskyCov("lower", n=2, eta=2, sd_dist=pm.HalfNormal.dist(scale, shape=2))
        pm.MvNormal("y", np.zeros(2), chol=root, observed=np.ones((3, 2)))
    return model


def missing_values():
    with pm.Model() as model:
        pm.MvNormal("y", np.zeros(2), np.eye(2), observed=np.ma.masked_invalid([1.0, np.nan]))
        pm.Normal("x", pm.Normal("z"), observed=0.0)
    return model


@pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (schools, ["mu", "tau"]),  # the vector is simulated
        (covariances, ["root", "correlation", "scale"]),
        (missing_values, ["z"]),
    ],
)
def test_default_hyperparameters_have_no_random_parents(make, names):
    assert default_hyperparameters(make()) == names


def test_hyperparameters_come_from_joint_draws_or_are_means():
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b", shape=2)
        pm.Normal("y", a + b.sum(), observed=0.0)
    density = TemperedDensity(model, QUICK)
    idata = fit(a=np.arange(6.0), b=np.arange(12.0).reshape(6, 2))
    chosen = FromHyperparameters(["a", "b"], idata=idata, datasets=4).simulate(density, 1, None)
    for each in chosen:
        np.testing.assert_array_equal(each.point["b"], 2 * each.point["a"] + [0, 1])
    assert len({float(each.point["a"]) for each in chosen}) == 4
    at_mean = FromHyperparameters("a", at="mean", idata=idata, datasets=1)
    assert at_mean.simulate(density, 1, None)[0].point["a"] == 2.5
    with pytest.raises(ValueError, match=r"lacks the variables \['b'\]"):
        FromHyperparameters("b", idata=fit(a=[1.0])).check(density)


@pytest.mark.parametrize(
    ("y", "exact", "status"),
    [
        ([0.0, 1.0, 2.0], False, "heuristic"),
        ([0.0, 1.0, 2.0], True, "exact"),
        ([1.0, 2.0, 3.0], False, "heuristic"),  # real data
    ],
)
def test_a_pair_of_the_callers(regression, y, exact, status):
    simulation = Given({"scale": 0.5, "x": 1.0}, {"y": y, "k": 2}, exact=exact)
    simulation.check(regression)
    (given,) = simulation.simulate(regression)
    assert given.point["scale_log__"] == pytest.approx(np.log(0.5))
    assert given.status == status
    assert given.data["k"].dtype == regression.data["k"].dtype


RIGHT = {"scale": 1.0, "x": 1.0}


@pytest.mark.parametrize(
    ("point", "data", "message"),
    [
        (RIGHT, {"y": [1, 2, 3], "k": 2}, "those that the model observes"),
        ({"x": 1.0}, {"y": [0, 1, 2], "k": 3}, r"must give \['scale', 'x'\]"),
        (RIGHT | {"scale": -1.0}, {"y": [0, 1, 2], "k": 3}, "scale lies outside its support"),
        (RIGHT | {"x": [1.0, 2.0]}, {"y": [0, 1, 2], "k": 3}, r"x must be .* shape \(\)"),
        (RIGHT, {"y": [0, 1], "k": 3}, "y must have the shape"),
        (RIGHT, {"y": [0, 1, 2]}, "expected the observed variables"),
        (RIGHT, {"y": [0, 1, 2], "k": -1}, "log density .* is -inf"),
    ],
)
def test_a_wrong_pair_is_refused(regression, point, data, message):
    with pytest.raises(ValueError, match=message):
        Given(point, data, exact=True).check(regression)


def test_a_given_point_is_kept_where_its_prior_depends_on_data():
    with pm.Model() as model:
        y = pm.Normal("y", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("after", pm.Normal("z", y), 0.5, observed=1.0)
        pm.Uniform("u", y - 5, y + 5)
    point = {"x": np.array(0.5), "z": np.array(2.5), "u": np.array(1.0)}
    (given,) = Given(point, {"y": 2.0, "after": 1.5}).simulate(TemperedDensity(model, QUICK))
    expected = {"x": 0.5, "z": 2.5, "u_interval__": np.log(4 / 6)}  # of (−3, 7)
    assert {name: float(value) for name, value in given.point.items()} == pytest.approx(expected)
