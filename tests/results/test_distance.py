"""Divergences from a posterior known in closed form, and errors that name what is wrong."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.special import digamma, gammaln

import pymc_bdmc as bdmc
from pymc_bdmc.results.distance import FROM_POSTERIOR, JEFFREYS, TO_POSTERIOR
from tests.models import SIGMAS, hard_constraint, interpreted, rates
from tests.results.trees import exact_result

COUNTS = (3, 1, 4, 2)
MODEL, POSTERIOR, LOG_ML = rates(COUNTS)
SHAPE, RATE = 2.0 + sum(COUNTS), 1.0 + len(COUNTS)
"""The posterior of the rate is Gamma(SHAPE, RATE)."""


def log_gamma(shape, rate):
    """Density of the logarithm of a Gamma variable, Jacobian and all."""
    return stats.loggamma(shape, loc=-np.log(rate))


def kl_of_gammas(first, second):
    (a, b), (c, d) = first, second
    return (a - c) * digamma(a) - gammaln(a) + gammaln(c) + c * np.log(b / d) + a * (d - b) / b


EXACT = log_gamma(SHAPE, RATE)
FEW = {"draws": 1000, "random_seed": 1}


@pytest.fixture(scope="module")
def result():
    return exact_result(MODEL, LOG_ML, rate=POSTERIOR.rvs(1024, random_state=2))


def close(table, truths):
    """Whether all values are within their errors; α = 6e-5 each."""
    return all(
        abs(table.loc[name, "value"] - truth) < SIGMAS * table.loc[name, "error"]
        for name, truth in truths.items()
    )


def truths(shape, rate):
    to = kl_of_gammas((shape, rate), (SHAPE, RATE))
    back = kl_of_gammas((SHAPE, RATE), (shape, rate))
    return {TO_POSTERIOR: to, FROM_POSTERIOR: back, JEFFREYS: to + back}


Q = log_gamma(20.0, 9.0)


@pytest.fixture(scope="module")
def tables(result):
    """Tables of several approximations in one call."""
    draws = EXACT.rvs(1000, random_state=1)
    approximations = {
        "exact": EXACT,
        "another": Q,
        "without its Jacobian": (
            Q.rvs(1000, random_state=1)[:, None], lambda x: Q.logpdf(x[:, 0]) - x[:, 0],
        ),
        "draws alone": ({"rate_log__": draws}, EXACT.logpdf(draws)),
        "a part": stats.uniform(0.5, 0.5),
        "light tails": stats.gumbel_r(0.85, 0.036),
        "not normalised": (draws[:, None], lambda x: EXACT.logpdf(x[:, 0]) - 1.0),
    }  # fmt: skip
    return bdmc.distance(result, approximations, model=MODEL, **FEW)


def test_known_answers(tables):
    table, known = tables.loc["another"], truths(20.0, 9.0)
    assert tables.index.names == ["approximation", "divergence"]
    assert table["valid"].all()
    assert close(table, known)
    assert (table["upper"] >= list(known.values())).all()
    assert 0 <= table.loc[TO_POSTERIOR, "lower"] <= known[TO_POSTERIOR]
    grid = np.linspace(-6, 4, 20_001)
    exact = 0.5 * np.sum(np.abs(Q.pdf(grid) - EXACT.pdf(grid))) * 5e-4
    assert (table["total_variation"] >= exact).all()
    # Broken twins: the Jacobian left out, and another sign.
    assert not close(tables.loc["without its Jacobian"], known)
    assert not close(table, {name: -value for name, value in known.items()})


@pytest.mark.parametrize(
    ("name", "divergence", "valid", "told"),
    [
        ("exact", TO_POSTERIOR, True, "below its noise, at most"),
        ("draws alone", TO_POSTERIOR, True, ""),
        ("draws alone", FROM_POSTERIOR, False, "at its own draws only"),
        ("not normalised", TO_POSTERIOR, False, "below zero beyond chance"),
        # The rate has no moment of order −28 under the posterior, so KL(p‖q) is infinite.
        ("light tails", FROM_POSTERIOR, False, ""),
    ],
)
def test_what_is_not_known_is_told(tables, name, divergence, valid, told):
    row = tables.loc[(name, divergence)]
    assert row["valid"] == valid
    assert told in row["reason"]
    if name == "exact":
        assert abs(row["value"]) < 0.1
        assert row["lower"] == 0.0
    if divergence == FROM_POSTERIOR:
        assert np.isnan(row["error"])
        assert row["total_variation"] == 1.0


def test_a_normal_of_more_elements():
    """A regression, whose posterior is normal: by a t in 3 dimensions, and by q = p."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3))
    y = x @ np.ones(3) + rng.normal(size=40)
    covariance = np.linalg.inv(x.T @ x + np.eye(3))
    normal = stats.multivariate_normal(covariance @ x.T @ y, covariance)
    student = stats.multivariate_t(normal.mean, covariance, df=8)
    log_ml = stats.multivariate_normal.logpdf(y, np.zeros(40), x @ x.T + np.eye(40))
    with pm.Model() as model, interpreted():
        slopes = pm.Normal("first"), pm.Normal("others", shape=(2, 1))
        pm.Normal("y", x[:, 0] * slopes[0] + (x[:, 1:] @ slopes[1])[:, 0], 1.0, observed=y)
        draws = normal.rvs(1024, random_state=3)
        dt = exact_result(model, log_ml, first=draws[:, 0], others=draws[:, 1:, None])
        found = bdmc.distance(dt, {"normal": normal, "t": student}, **FEW)
    assert close(found.loc["normal"], dict.fromkeys([TO_POSTERIOR, FROM_POSTERIOR], 0.0))
    for name, p, q in ((FROM_POSTERIOR, normal, student), (TO_POSTERIOR, student, normal)):
        theta = p.rvs(200_000, random_state=2)
        assert close(found.loc["t"], {name: np.mean(p.logpdf(theta) - q.logpdf(theta))})


def test_a_mean_field_fit_brings_its_model(result):
    with interpreted():
        fitted = pm.fit(300, model=MODEL, progressbar=False, random_seed=1)
        group = fitted.groups[0]
        q = stats.norm(group.mean.eval()[0], group.std.eval()[0])
    found = bdmc.distance(result, {"fit": fitted, "same": q}, **FEW)
    assert close(found.loc["fit"], found.loc["same", "value"].to_dict())


def test_a_density_that_is_zero_somewhere(tables):
    """q within a part of the posterior: KL(p‖q) is infinite; and the other way round."""
    table = tables.loc["a part"]
    assert table.loc[FROM_POSTERIOR, "value"] == np.inf
    assert table.loc[FROM_POSTERIOR, "reason"].startswith("infinite: ")
    assert table.loc[TO_POSTERIOR, "valid"]
    model, log_ml = hard_constraint()  # its posterior is q cut at 1
    q = stats.norm(0.25, np.sqrt(0.5))
    x = q.isf(q.sf(1) * np.random.default_rng(1).random(1024))
    with interpreted():
        table = bdmc.distance(exact_result(model, log_ml, x=x), q, model=model, **FEW)
    assert table.loc[TO_POSTERIOR, ["value", "lower", "upper"]].tolist() == [np.inf] * 3
    assert "log p(θ, y) is −∞ at" in table.loc[TO_POSTERIOR, "reason"]
    assert close(table, {FROM_POSTERIOR: -q.logsf(1)})


def test_where_no_log_ml_can_be_trusted(result):
    table = bdmc.distance(result.isel(chain=slice(3)), EXACT, model=MODEL, **FEW)
    assert not table["valid"].any()
    assert "log ML: no estimate can be trusted" in table.loc[TO_POSTERIOR, "reason"]
    assert table["error"].isna().all()


def test_bad_input_is_named(result):
    def other(shape=2, name="rate"):
        with pm.Model() as model:
            pm.Poisson("y", pm.Gamma(name, shape, 1), observed=COUNTS)
        return model

    def refused(message, dt=result, q=EXACT, error=ValueError, **options):
        with interpreted(), pytest.raises(error, match=message):
            bdmc.distance(dt, q, **({"model": MODEL} | options))

    refused("confidence must lie between", confidence=95)
    refused("draws", draws=0)
    refused("the mapping is empty", q={})
    refused(r"compare the draws with bdmc.agreement", q=result["particles"].dataset)
    refused(r"Pass a pair \(draws, log_q\)", q=np.zeros((100, 1)))
    refused("not list", q=[1.0], error=TypeError)
    refused("model: pass the model of the run", model=None, error=TypeError)
    refused(r"another model.* the data of \['rate', 'y'\]", model=other(3))
    refused("its y in observed_data differs", model=rates()[0])
    refused(r"dt: the model lacks its variables \['rate'\]", model=other(name="risk"))
    simulated = xr.DataTree.from_dict({"forward": result["real"].to_dataset()})
    refused("call sample_bdmc with real_data=True", dt=simulated)
    refused("a result of sample_bdmc", dt=xr.DataTree())
    unfinished = result.copy()
    unfinished["real"]["log_weight"] = np.nan * result["real"]["log_weight"]
    refused("no run on the real data was finished", dt=unfinished)
    refused(r"shape \(10000, 2\)", q=stats.multivariate_normal([0.0, 0.0]))
