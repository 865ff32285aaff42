"""Divergences from a posterior known in closed form, and errors that name what is wrong."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import digamma, gammaln

import pymc_bdmc as bdmc
from pymc_bdmc.results.distance import FROM_POSTERIOR, JEFFREYS, TO_POSTERIOR
from tests.models import SIGMAS, interpreted

COUNTS = np.array([3, 1, 4, 2, 2])
SHAPE, RATE = 2.0 + COUNTS.sum(), 1.0 + len(COUNTS)
"""The posterior of a Poisson rate is Gamma(SHAPE, RATE)."""
OPTIONS = dict(simulate=None, random_seed=1, cores=1, progressbar=False)


def poisson(shape=2.0, counts=COUNTS, name="rate") -> pm.Model:
    with pm.Model() as model:
        rate = pm.Gamma(name, shape, 1.0)
        pm.Poisson("counts", rate, observed=counts)
    return model


def log_gamma(shape, rate):
    """Density of the logarithm of a Gamma variable, Jacobian and all."""
    return stats.loggamma(shape, loc=-np.log(rate))


def kl_of_gammas(first, second):
    (a, b), (c, d) = first, second
    return (a - c) * digamma(a) - gammaln(a) + gammaln(c) + c * np.log(b / d) + a * (d - b) / b


EXACT = log_gamma(SHAPE, RATE)


@pytest.fixture(scope="module")
def model():
    return poisson()


@pytest.fixture(scope="module")
def result(model):
    return bdmc.sample_bdmc(model, **OPTIONS)


def close(table, truths):
    """Whether all values are within their errors; α = 6e-5 each."""
    known = [table.loc[name, "value"] for name in truths]
    errors = [table.loc[name, "error"] for name in truths]
    return all(
        abs(value - truth) < SIGMAS * error
        for value, truth, error in zip(known, truths.values(), errors, strict=True)
    )


def truths(shape, rate):
    to = kl_of_gammas((shape, rate), (SHAPE, RATE))
    back = kl_of_gammas((SHAPE, RATE), (shape, rate))
    return {TO_POSTERIOR: to, FROM_POSTERIOR: back, JEFFREYS: to + back}


@pytest.mark.parametrize(("shape", "rate"), [(SHAPE, RATE), (10.0, 4.0), (20.0, 9.0)])
def test_known_answers(result, model, shape, rate):
    q, known = log_gamma(shape, rate), truths(shape, rate)
    table = bdmc.distance(result, q, model=model, random_seed=1)
    assert table["valid"].all()
    assert close(table, known)
    assert (table["upper"] >= list(known.values())).all()
    assert 0 <= table.loc[TO_POSTERIOR, "lower"] <= known[TO_POSTERIOR]
    grid = np.linspace(-6, 4, 20_001)
    exact = 0.5 * np.sum(np.abs(q.pdf(grid) - EXACT.pdf(grid))) * 5e-4
    assert (table["total_variation"] >= exact).all()
    # Broken twins: the Jacobian left out, another sign, and log ML of another model.
    draws = q.rvs(5000, random_state=1)[:, None]
    without = bdmc.distance(
        result, (draws, lambda x: q.logpdf(x[:, 0]) - x[:, 0]), model=model, random_seed=1
    )
    assert not close(without, known)
    if shape != SHAPE:
        assert not close(table, {name: -value for name, value in known.items()})
    shifted = result.copy()
    shifted["real"]["log_weight"] = result["real"]["log_weight"] + 0.7
    assert not close(bdmc.distance(shifted, q, model=model, random_seed=1), known)


def test_an_exact_approximation_is_below_its_noise(result, model):
    table = bdmc.distance(result, EXACT, model=model, random_seed=1)
    assert (table["value"].abs() < 0.1).all()
    assert table["reason"].str.contains("below its noise, at most").all()
    assert table.loc[TO_POSTERIOR, "lower"] == 0.0


def test_a_normal_of_more_elements():
    """A regression, whose posterior is normal: by a t in 5 dimensions, and by q = p."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 5))
    y = x @ np.ones(5) + rng.normal(size=40)
    with pm.Model():
        slopes = [pm.Normal("first", shape=2), pm.Normal("others", shape=(3, 1))]
        mean = x[:, :2] @ slopes[0] + (x[:, 2:] @ slopes[1])[:, 0]
        pm.Normal("y", mean, 1.0, observed=y)
        result = bdmc.sample_bdmc(**OPTIONS)
        covariance = np.linalg.inv(x.T @ x + np.eye(5))
        normal = stats.multivariate_normal(covariance @ x.T @ y, covariance)
        student = stats.multivariate_t(normal.mean, covariance, df=8)
        found = bdmc.distance(result, {"normal": normal, "t": student}, random_seed=1)
    assert found.index.names == ["approximation", "divergence"]
    assert close(found.loc["normal"], dict.fromkeys([TO_POSTERIOR, FROM_POSTERIOR], 0.0))
    theta = normal.rvs(200_000, random_state=2)
    terms = normal.logpdf(theta) - student.logpdf(theta)
    assert close(found.loc["t"], {FROM_POSTERIOR: terms.mean()})
    theta = student.rvs(200_000, random_state=2)
    terms = student.logpdf(theta) - normal.logpdf(theta)
    assert close(found.loc["t"], {TO_POSTERIOR: terms.mean()})


def test_log_q_at_the_draws_alone(result, model):
    draws = EXACT.rvs(5000, random_state=1)
    pair = ({"rate_log__": draws}, EXACT.logpdf(draws))
    table = bdmc.distance(result, pair, model=model)
    assert table["valid"].tolist() == [True, False, False]
    assert "at its own draws only" in table.loc[FROM_POSTERIOR, "reason"]
    assert table.loc[FROM_POSTERIOR, "total_variation"] == 1.0
    assert np.isnan(table.loc[FROM_POSTERIOR, "value"])


def test_a_mean_field_fit_brings_its_model(result, model):
    with interpreted():
        fitted = pm.fit(300, model=model, progressbar=False, random_seed=1)
        group = fitted.groups[0]
        q = stats.norm(group.mean.eval()[0], group.std.eval()[0])
    table = bdmc.distance(result, fitted, random_seed=1)
    same = bdmc.distance(result, q, model=model, random_seed=2)
    assert close(table, same["value"].to_dict())
    again = bdmc.distance(result, fitted, random_seed=1)
    assert (again["value"] == table["value"]).all()


def test_a_density_that_is_zero_somewhere(result, model):
    """q within a part of the posterior: KL(p‖q) is infinite; and the other way round."""
    table = bdmc.distance(result, stats.uniform(0.5, 0.5), model=model, random_seed=1)
    assert table.loc[FROM_POSTERIOR, "value"] == np.inf
    assert table.loc[FROM_POSTERIOR, "reason"].startswith("infinite: ")
    assert table.loc[TO_POSTERIOR, "valid"]
    with pm.Model() as other:
        x = pm.Normal("x")
        pm.Potential("above", pm.math.switch(x > 0, 0.0, -np.inf))
        pm.Normal("y", x, 1.0, observed=0.5)
        runs = bdmc.sample_bdmc(**OPTIONS)
    table = bdmc.distance(runs, stats.norm(0.25, np.sqrt(0.5)), model=other, random_seed=1)
    assert table.loc[TO_POSTERIOR, ["value", "lower", "upper"]].tolist() == [np.inf] * 3
    assert "log p(θ, y) is −∞ at" in table.loc[TO_POSTERIOR, "reason"]
    # The posterior is q cut at 0.
    assert close(table, {FROM_POSTERIOR: -stats.norm.logsf(0, 0.25, np.sqrt(0.5))})


def test_below_zero_beyond_chance_is_told(result, model):
    """A log q that lacks its normalising constant, and runs that missed most of the posterior."""
    draws = EXACT.rvs(5000, random_state=1)[:, None]
    unnormalised = (draws, lambda x: EXACT.logpdf(x[:, 0]) - 1.0)
    table = bdmc.distance(result, unnormalised, model=model)
    assert not table.loc[TO_POSTERIOR, "valid"]
    assert "below zero beyond chance" in table.loc[TO_POSTERIOR, "reason"]
    missed = result.copy()
    missed["real"]["log_weight"] = result["real"]["log_weight"] - 1.0
    table = bdmc.distance(missed, EXACT, model=model)
    assert not table.loc[TO_POSTERIOR, "valid"]


def test_heavier_tails_than_those_of_q_are_told():
    """A Cauchy posterior and a normal q: KL(p‖q) is infinite."""
    with pm.Model() as model:
        x = pm.Cauchy("x", 0, 1)
        pm.Potential("nothing", 0 * x)
        runs = bdmc.sample_bdmc(path="prior", **OPTIONS)
    table = bdmc.distance(runs, stats.norm(), model=model, random_seed=1)
    assert not table.loc[FROM_POSTERIOR, "valid"]
    assert np.isnan(table.loc[FROM_POSTERIOR, "error"])
    assert table.loc[FROM_POSTERIOR, "upper"] == np.inf


def test_where_no_log_ml_can_be_trusted(result, model):
    few = result.isel(chain=slice(3))
    table = bdmc.distance(few, EXACT, model=model, random_seed=1)
    assert not table["valid"].any()
    assert "log ML: no estimate can be trusted" in table.loc[TO_POSTERIOR, "reason"]
    assert table["error"].isna().all()


def test_bad_input_is_named(result, model):
    def refused(message, dt=result, q=EXACT, error=ValueError, **options):
        with pytest.raises(error, match=message):
            bdmc.distance(dt, q, **({"model": model} | options))

    refused("confidence must lie between", confidence=95)
    refused("draws", draws=0)
    refused("the mapping is empty", q={})
    refused(r"compare the draws with bdmc.agreement", q=result["posterior"].dataset)
    refused(r"Pass a pair \(draws, log_q\)", q=np.zeros((100, 1)))
    refused("not list", q=[1.0], error=TypeError)
    refused("model: pass the model of the run", model=None, error=TypeError)
    refused(r"another model.* the data of \['counts', 'rate'\]", model=poisson(3.0))
    refused("its counts in observed_data differs", model=poisson(counts=COUNTS + 1))
    refused(r"dt: the model lacks its variables \['rate'\]", model=poisson(name="risk"))
    simulated = xr.DataTree.from_dict({"forward": result["real"].to_dataset()})
    refused("call sample_bdmc with real_data=True", dt=simulated)
    refused("a result of sample_bdmc", dt=xr.DataTree())
    unfinished = result.copy()
    unfinished["real"]["log_weight"] = np.nan * result["real"]["log_weight"]
    refused("no run on the real data was finished", dt=unfinished)
    refused(r"shape \(10000, 2\)", q=stats.multivariate_normal([0.0, 0.0]))
