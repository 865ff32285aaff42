"""Matched data resemble the real ones, and θ* is an exact posterior sample given them."""

import numpy as np
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import FromPrior, Matched

QUICK = {"mode": Mode("py", "fast_run")}
Y = np.array([4.0, 5.5, 4.5])


@pytest.fixture(scope="module")
def density():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Normal("y", x, 1.0, observed=Y)
        pm.Poisson("k", 3.0, observed=[2, 4])
    return TemperedDensity(model, QUICK)


def test_the_point_is_an_exact_posterior_sample_given_the_matched_data(density):
    """Kolmogorov-Smirnov on 400 pairs, α = 1e-3; twin: the posterior given the real data."""
    found = Matched(draws=30, datasets=400).simulate(density, 1)
    points = np.array([each.point["x"] for each in found])
    simulated = np.array([each.data["y"] for each in found])

    def pvalue(data):
        precision = 1 / 9 + 3
        posterior = stats.norm(data.sum(axis=-1) / precision, precision**-0.5)
        return stats.kstest(posterior.cdf(points), "uniform").pvalue

    assert pvalue(simulated) > 1e-3
    assert pvalue(Y) < 1e-3
    assert {each.status for each in found} == {"exact"}
    assert len(set(points)) == 400  # drawn afresh
    drawn = np.array([each.data["y"] for each in FromPrior(400).simulate(density, 1)])
    apart = [np.abs(data.mean(axis=1) - Y.mean()).mean() for data in (simulated, drawn)]
    assert apart[0] < 0.7 * apart[1]


def test_the_nearest_by_a_distance_of_ones_own():
    """Which sees all observed variables of both data sets; what is not finite comes last."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3)
        pm.Normal("y", x, 1.0, observed=Y)
        pm.Poisson("k", 3.0, observed=[2, 4])
    density, seen = TemperedDensity(model, QUICK), []

    def distance(simulated, real):
        assert set(simulated) == set(real) == {"y", "k"}
        apart = abs(simulated["y"].mean() - real["y"].mean())
        seen.append(np.nan if apart < 0.5 else apart)
        return seen[-1]

    (found,) = Matched(draws=300, distance=distance).simulate(density, 1)
    assert len(seen) == 300
    assert np.isnan(seen).any()
    assert abs(found.data["y"].mean() - Y.mean()) == found.attrs["distance"] == np.nanmin(seen)
    assert found.attrs["median_distance"] == np.median(np.nan_to_num(seen, nan=np.inf))
    with pytest.raises(ValueError, match="distance: it is not finite at any of 5 draws"):
        Matched(draws=5, distance=lambda *_: np.nan).simulate(density, 1)


@pytest.mark.parametrize(
    "observed",
    [np.exp([0.1, -0.2, 0.3, 0.0]), np.array([[1.0, 2.0], [3.0, 5.0]]), np.array(7.0), [3.0] * 4],
    ids=["scale", "matrix", "number", "constant"],
)
def test_data_of_any_shape_and_scale(observed):
    """The prior reaches over many orders of magnitude, of which the data know one."""
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0, 10)
        pm.Normal("y", 0, scale, observed=observed)
    (found,) = Matched(draws=400).simulate(TemperedDensity(model, QUICK), 3)
    size = np.sqrt(np.mean(np.square(found.data["y"])))
    assert 0.05 < size / np.sqrt(np.mean(np.square(observed))) < 20
    assert found.attrs["distance"] < found.attrs["median_distance"]


def test_a_result_is_certified_and_says_how_near_it_came(tmp_path):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, 10), observed=[6.0, 7.0])
    dt = pm.sample_bdmc(
        model, simulate=Matched(draws=50, datasets=2), chains=8, temperatures=20, random_seed=1,
        cores=1, progressbar=False,
    )  # fmt: skip
    assert dt.attrs["simulate"] == "matched"
    assert np.isfinite(bdmc.certified(dt).loc["simulated", "upper"]).all()
    near, typical = (dt["simulated"].attrs[key] for key in ("distance", "median_distance"))
    assert np.shape(near) == (2,)
    assert (np.array(near) < typical).all()
    dt.to_netcdf(tmp_path / "run.nc")
