"""Predictive densities of observations: exact answers, honest errors, and what is refused."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import predictive_densities
from tests.models import SIGMAS

Y = np.array([0.5, 1.0, 4.0, -0.3, 2.2])
DAYS = ["mon", "tue", "wed", "thu", "fri"]
QUICK = {"path": "data", "simulate": None, "cores": 1, "progressbar": False}


@cache
def normal_mean(sd):
    with pm.Model(coords={"day": DAYS}) as model:
        pm.Normal("y", pm.Normal("mu", 0, sd), 1.0, observed=Y, dims="day")
    return model


def exact(sd, data=Y):
    """Predictive densities of a normal mean with prior N(0, sd²): normal, in closed form."""
    found, precision, total = [], sd**-2, 0.0
    for y in data:
        found.append(stats.norm.logpdf(y, total / precision, np.sqrt(1 + 1 / precision)))
        precision, total = precision + 1, total + y
    return np.array(found)


@cache
def run(sd):
    return pm.sample_bdmc(normal_mean(sd), random_seed=1, **QUICK)


def test_exact_predictive_densities():
    """Seeded; α = 6e-5 a comparison. Every error is below 0.1 nats."""
    dt = run(2.0)
    table = bdmc.pointwise(dt)
    assert list(table.index) == DAYS
    assert table.index.name == "day"
    assert table["valid"].all()
    z = (table["value"] - exact(2.0)) / table["error"]
    assert (abs(z) < SIGMAS).all()
    z = (table["cumulative"] - np.cumsum(exact(2.0))) / table["cumulative_error"]
    assert (abs(z) < SIGMAS).all()
    assert (table[["error", "cumulative_error"]] < 0.1).all(axis=None)
    assert table["value"].idxmin() == "wed"


def test_the_sum_is_log_ml():
    dt = run(2.0)
    table, found = bdmc.pointwise(dt), bdmc.log_ml(dt)
    assert found.method == "forward average"
    assert table["value"].sum() == pytest.approx(found.value, abs=1e-12)
    assert table["cumulative"].iloc[-1] == pytest.approx(found.value, abs=1e-12)
    assert table["cumulative_error"].iloc[-1] == pytest.approx(found.error)
    parts = dt["real"]["row_log_weight"]
    assert parts.dims == ("chain", "row")
    np.testing.assert_allclose(parts.sum("row"), dt["real"]["log_weight"], rtol=0, atol=1e-12)


def test_several_variables_in_rows():
    """A row is a value of each variable; normal given all before it."""
    pairs = np.reshape([*Y, 0.1], (3, 2))
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=Y[:3])
        pm.MvNormal("z", pm.math.stack([mu, -mu]), np.eye(2), observed=pairs)
    table = bdmc.pointwise(pm.sample_bdmc(model, random_seed=2, **QUICK))
    values = np.column_stack([Y[:3], pairs]).ravel()
    slopes = np.tile([1.0, 1.0, -1.0], 3)
    joint = [
        stats.multivariate_normal.logpdf(
            values[:n], np.zeros(n), np.eye(n) + np.outer(slopes[:n], slopes[:n])
        )
        for n in (3, 6, 9)
    ]
    z = (table["value"] - np.diff(joint, prepend=0)) / table["error"]
    assert (abs(z) < SIGMAS).all()


def test_differences_tell_which_observations_decide():
    wide, narrow = run(10.0), run(2.0)
    table = bdmc.pointwise(wide, narrow)
    expected = exact(10.0) - exact(2.0)
    assert (abs(table["value"] - expected) < SIGMAS * table["error"]).all()
    assert table["value"].idxmax() == "wed"  # the outlier speaks for the wide prior
    factor = bdmc.bayes_factor(wide, narrow)
    assert table["cumulative"].iloc[-1] == pytest.approx(factor.value)
    assert table["cumulative_error"].iloc[-1] == pytest.approx(factor.error)
    assert list(table.columns) == list(bdmc.pointwise(wide).columns)


def simulated_parts(rng, k=16):
    """Parts of log weights that depend on one another within a run, of known averages."""
    noise = rng.normal(size=(k, 4)) * [0.1, 0.3, 0.2, 0.1]
    noise[:, 2] -= 0.5 * noise[:, 1]
    sums = np.cumsum(noise, axis=1)
    spreads = np.array([0.01, 0.10, 0.01 + 0.09 / 4 + 0.04, 0.02 + 0.09 / 4 + 0.04])
    return np.diff(sums - spreads / 2, axis=1, prepend=0)  # E exp(sum) = 1 for all


def test_errors_are_honest():
    """95 % intervals, also of sums, cover the true values within 92.5 and 97.5 % of 2000 cases: 5
    binomial errors, seeded.

    The broken twin takes the errors of sums for independent, as if rows had their own runs.
    """
    rng, inside, twin = np.random.default_rng(5), np.zeros((2, 4)), np.zeros(4)
    for _ in range(2000):
        found = predictive_densities(simulated_parts(rng))
        errors = np.array([found.error, found.cumulative_error])
        inside += abs(np.array([found.value, found.cumulative])) < 1.96 * errors
        before = np.concatenate([[0.0], found.cumulative_error[:-1]])
        twin += abs(found.value) < 1.96 * np.hypot(found.cumulative_error, before)
    assert (abs(inside / 2000 - 0.95) < 0.025).all()
    assert (abs(twin / 2000 - 0.95) > 0.025).any()


def test_a_run_that_skips_an_observation_is_exposed():
    """The broken twin writes what came with one row to the next one."""
    dt = run(2.0).copy(deep=True)
    parts = dt["real"]["row_log_weight"]
    dt["real"]["row_log_weight"] = parts.roll(row=1)
    table = bdmc.pointwise(dt)
    assert (abs(table["value"] - exact(2.0)) > SIGMAS * table["error"]).any()


def test_another_order():
    """The outlier first; α = 6e-5 a comparison. The twin with labels in the order of rows fails."""
    order = [2, 4, 0, 3, 1]
    options = QUICK | {"path": bdmc.DataPath(order=np.array(order)), "random_seed": 3}
    dt = pm.sample_bdmc(normal_mean(2.0), **options)
    table = bdmc.pointwise(dt)
    assert list(table.index) == [DAYS[i] for i in order]
    expected = exact(2.0, Y[order])
    assert (abs(table["value"] - expected) < SIGMAS * table["error"]).all()
    assert (abs(table["value"] - exact(2.0)) > SIGMAS * table["error"]).any()
    total = np.hypot(table["cumulative_error"].iloc[-1], bdmc.log_ml(run(2.0)).error)
    assert abs(table["value"].sum() - bdmc.log_ml(run(2.0)).value) < SIGMAS * total
    with pytest.raises(ValueError, match="came in another order"):
        bdmc.pointwise(dt, run(2.0))
    for wrong in ([0, 1, 2, 3], [0, 1, 2, 3, 3]):
        with pytest.raises(ValueError, match="path: the order must have each of 0, …, 4 once"):
            pm.sample_bdmc(normal_mean(2.0), **QUICK | {"path": bdmc.DataPath(order=wrong)})


def test_what_its_check_contradicts_has_no_error():
    dt = run(2.0).copy(deep=True)
    wild = dt["real"]["row_log_weight"].copy()
    wild[:, 3] += 4 * np.random.default_rng(1).normal(size=16)
    dt["real"]["row_log_weight"], dt["real"]["log_weight"] = wild, wild.sum("row")
    table = bdmc.pointwise(dt)
    assert not table["valid"].any()
    assert table[["error", "cumulative_error"]].isna().all(axis=None)
    assert "effective sample size" in table.attrs["reason"]


def test_other_results_are_refused(schools_result):
    with pytest.raises(ValueError, match=r'pm.sample_bdmc\(path="data"'):
        bdmc.pointwise(schools_result)
    coarse = pm.sample_bdmc(normal_mean(2.0), temperatures=22, random_seed=1, **QUICK)
    with pytest.raises(ValueError, match="a multiple of that of the observations"):
        bdmc.pointwise(coarse)
    constrained = run(2.0).copy(deep=True)
    constrained["real"]["prior_draws"][:] = 2.0
    with pytest.raises(ValueError, match="some prior draws make the data impossible"):
        bdmc.pointwise(constrained)
    with pytest.raises(ValueError, match="other: its data are not those of dt"):
        bdmc.pointwise(run(2.0), schools_result)
