"""Predictive densities of observations: exact answers, honest errors, and what is refused."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import predictive_densities
from tests.models import SIGMAS

Y = np.array([0.5, 1.0, 4.0, -0.3])
DAYS = ["mon", "tue", "wed", "thu"]
QUICK = {"path": "data", "simulate": None, "cores": 1, "progressbar": False}


@cache
def model():
    with pm.Model(coords={"day": DAYS}) as model:
        pm.Normal("y", pm.Normal("mu", 0, 2), 1.0, observed=Y, dims="day")
    return model


def exact(data=Y):
    """Predictive densities of a normal mean with prior N(0, 2²): normal, in closed form."""
    found, precision, total = [], 0.25, 0.0
    for y in data:
        found.append(stats.norm.logpdf(y, total / precision, np.sqrt(1 + 1 / precision)))
        precision, total = precision + 1, total + y
    return np.array(found)


@cache
def run():
    return pm.sample_bdmc(model(), random_seed=1, **QUICK)


def changed(change):
    """The same run with other parts of its log weights."""
    dt = run().copy(deep=True)
    parts = change(dt["real"]["row_log_weight"])
    dt["real"]["row_log_weight"], dt["real"]["log_weight"] = parts, parts.sum("row")
    return dt


def test_exact_predictive_densities_sum_to_log_ml():
    """Seeded; α = 6e-5 a comparison. Every error is below 0.1 nats.

    The broken twin writes what came with one row to the next one.
    """
    table, found = bdmc.pointwise(run()), bdmc.log_ml(run())
    assert list(table.index) == DAYS
    assert table.index.name == "day"
    assert table["valid"].all()
    z = (table["value"] - exact()) / table["error"]
    assert (abs(z) < SIGMAS).all()
    z = (table["cumulative"] - np.cumsum(exact())) / table["cumulative_error"]
    assert (abs(z) < SIGMAS).all()
    assert (table[["error", "cumulative_error"]] < 0.1).all(axis=None)
    assert found.method == "forward average"
    assert table["value"].sum() == pytest.approx(found.value, abs=1e-12)
    last = table.iloc[-1][["cumulative", "cumulative_error"]].tolist()
    assert last == pytest.approx([found.value, found.error])
    twin = bdmc.pointwise(changed(lambda parts: parts.roll(row=1)))
    assert (abs(twin["value"] - exact()) > SIGMAS * twin["error"]).any()


def test_differences_tell_which_observations_decide():
    other = changed(lambda parts: parts + np.array([0.1, -0.2, -2.0, 0.3]))
    table, alone = bdmc.pointwise(run(), other), bdmc.pointwise(run())
    assert table["value"].tolist() == pytest.approx([-0.1, 0.2, 2.0, -0.3])
    assert table["error"].tolist() == pytest.approx(np.sqrt(2) * alone["error"])
    factor = bdmc.bayes_factor(run(), other)
    assert table["cumulative"].iloc[-1] == pytest.approx(factor.value)
    assert table["cumulative_error"].iloc[-1] == pytest.approx(factor.error)
    assert list(table.columns) == list(alone.columns)


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


def test_another_order():
    """The outlier first; α = 6e-5 a comparison. The twin with labels in the order of rows fails."""
    order = [2, 0, 3, 1]
    options = QUICK | {"path": bdmc.DataPath(order=np.array(order)), "random_seed": 3}
    dt = pm.sample_bdmc(model(), **options)
    table = bdmc.pointwise(dt)
    assert list(table.index) == [DAYS[i] for i in order]
    assert (abs(table["value"] - exact(Y[order])) < SIGMAS * table["error"]).all()
    assert (abs(table["value"] - exact()) > SIGMAS * table["error"]).any()
    with pytest.raises(ValueError, match="came in another order"):
        bdmc.pointwise(dt, run())
    for wrong in ([0, 1, 2], [0, 1, 2, 2]):
        with pytest.raises(ValueError, match="path: the order must have each of 0, …, 3 once"):
            pm.sample_bdmc(model(), **QUICK | {"path": bdmc.DataPath(order=wrong)})


def test_several_orders():
    """Values of each order sum to log ML, though they differ from order to order.

    Seeded; α = 6e-5 a comparison.
    """
    table = bdmc.pointwise_orders(model(), 2, random_seed=1, cores=1, progressbar=False)
    assert list(table.index) == DAYS
    assert table["valid"].all()
    error = max(2 * np.linalg.norm(table["error"]), 0.02)
    assert np.abs(np.array(table.attrs["log_ml"]) - exact().sum()).max() < SIGMAS * error
    assert table["spread"].max() > 0.5  # who comes first is predicted from the prior
    assert np.allclose(table["mean"], table[[0, 1]].mean(axis=1))
    with pytest.raises(ValueError, match="orders"):
        bdmc.pointwise_orders(model(), 0)


def test_what_its_check_contradicts_has_no_error():
    noise = np.zeros((run()["real"].sizes["chain"], 4))
    noise[:, 3] = 4 * np.random.default_rng(1).normal(size=len(noise))
    table = bdmc.pointwise(changed(lambda parts: parts + noise))
    assert not table["valid"].any()
    assert table[["error", "cumulative_error"]].isna().all(axis=None)
    assert "effective sample size" in table.attrs["reason"]


def test_other_results_are_refused(schools_result):
    with pytest.raises(ValueError, match=r'pm.sample_bdmc\(path="data"'):
        bdmc.pointwise(schools_result)
    coarse = run().copy()
    coarse["real"] = coarse["real"].dataset.drop_vars("row_log_weight")
    with pytest.raises(ValueError, match="a multiple of that of the observations"):
        bdmc.pointwise(coarse)
    constrained = run().copy(deep=True)
    constrained["real"]["prior_draws"][:] = 2.0
    with pytest.raises(ValueError, match="some prior draws make the data impossible"):
        bdmc.pointwise(constrained)
    with pytest.raises(ValueError, match="other: its data are not those of dt"):
        bdmc.pointwise(run(), schools_result)
