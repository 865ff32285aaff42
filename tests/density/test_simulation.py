"""Simulated data come from the model, and θ* from the posterior given them."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import stack
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import (
    FromHyperparameters,
    FromPrior,
    Given,
    Matched,
    default_hyperparameters,
)
from tests.density.short import QUICK, density_of
from tests.models import eight_schools, repeated_normal

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


@pytest.fixture(scope="module")
def matched():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, 3), 1.0, observed=Y)
        pm.Poisson("k", 3.0, observed=[2, 4])
    return TemperedDensity(model, QUICK)


def test_the_point_is_an_exact_posterior_sample_given_the_matched_data(matched):
    """Kolmogorov-Smirnov on 100 pairs, α = 1e-3; twin: the posterior given the real data."""
    found = Matched(draws=10, datasets=100).simulate(matched, 1)
    points = np.array([each.point["x"] for each in found])
    simulated = np.array([each.data["y"] for each in found])

    def pvalue(data):
        precision = 1 / 9 + 3
        posterior = stats.norm(data.sum(axis=-1) / precision, precision**-0.5)
        return stats.kstest(posterior.cdf(points), "uniform").pvalue

    assert pvalue(simulated) > 1e-3
    assert pvalue(Y) < 1e-3
    assert {each.status for each in found} == {"exact"}
    assert len(set(points)) == 100  # drawn afresh
    drawn = np.array([each.data["y"] for each in FromPrior(100).simulate(matched, 1)])
    apart = [np.abs(data.mean(axis=1) - Y.mean()).mean() for data in (simulated, drawn)]
    assert apart[0] < 0.7 * apart[1]


def test_the_nearest_by_a_distance_of_ones_own(matched):
    """Which sees all observed variables of both data sets; what is not finite comes last."""
    seen = []

    def distance(simulated, real):
        assert set(simulated) == set(real) == {"y", "k"}
        apart = abs(simulated["y"].mean() - real["y"].mean())
        seen.append(np.nan if apart < 0.5 else apart)
        return seen[-1]

    (found,) = Matched(draws=300, distance=distance).simulate(matched, 1)
    assert len(seen) == 300
    assert np.isnan(seen).any()
    assert abs(found.data["y"].mean() - Y.mean()) == found.attrs["distance"] == np.nanmin(seen)
    assert found.attrs["median_distance"] == np.median(np.nan_to_num(seen, nan=np.inf))
    with pytest.raises(ValueError, match="distance: it is not finite at any of 5 draws"):
        Matched(draws=5, distance=lambda *_: np.nan).simulate(matched, 1)


@pytest.mark.parametrize(
    "observed",
    [np.array([[1.0, 2.0], [3.0, 5.0]]), np.array(7.0), [3.0] * 4],
    ids=["matrix", "number", "constant"],
)
def test_matched_data_of_any_shape_and_scale(observed):
    """The prior reaches over many orders of magnitude, of which the data know one."""
    density = density_of(lambda: pm.Normal("y", 0, pm.LogNormal("scale", 0, 10), observed=observed))
    (found,) = Matched(draws=400).simulate(density, 3)
    size = np.sqrt(np.mean(np.square(found.data["y"])))
    assert 0.05 < size / np.sqrt(np.mean(np.square(observed))) < 20
    assert found.attrs["distance"] < found.attrs["median_distance"]


def test_a_result_is_certified_and_says_how_near_it_came(tmp_path):
    dt = pm.sample_bdmc(
        repeated_normal(), simulate=Matched(draws=50, datasets=2), path="prior", chains=8,
        particles=1, temperatures=5, random_seed=1, cores=1, progressbar=False,
    )  # fmt: skip
    assert dt.attrs["simulate"] == "matched"
    assert np.isfinite(bdmc.certified(dt).loc["simulated", "upper"]).all()
    near, typical = (dt["simulated"].attrs[key] for key in ("distance", "median_distance"))
    assert np.shape(near) == (2,)
    assert (np.array(near) < typical).all()
    dt.to_netcdf(tmp_path / "run.nc")
