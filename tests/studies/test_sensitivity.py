"""Log ML over a prior scale, against closed forms, and fresh runs where reweighting fails."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import Estimate
from pymc_bdmc.results import reweighting
from pymc_bdmc.results.reweighting import Reweighting
from pymc_bdmc.studies import sensitivity as module
from tests.models import SIGMAS
from tests.results.trees import exact_result, tree

pytestmark = pytest.mark.usefixtures("quickly_compiled")

Y = np.array([0.3, 1.2, -0.4, 0.8])
OPTIONS = dict(random_seed=1, cores=1, progressbar=False)
SCALES = [0.006, 2, 10.0, 60.0]  # 2 as others have it, who share its compiled density


@cache
def normal(scale, shift=0.0):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, scale), 1.0, observed=Y + shift)
    return model


@cache
def uniform(upper):
    with pm.Model() as model:
        pm.Normal("y", pm.Uniform("x", 0, upper), 1, observed=Y)
    return model


def log_ml(scale):
    return stats.multivariate_normal.logpdf(Y, np.zeros(4), np.eye(4) + scale**2)


def log_ml_uniform(upper):
    def joint(x):
        return np.exp(stats.norm.logpdf(Y, x).sum()) / upper

    return np.log(integrate.quad(joint, 0, upper, epsrel=1e-10)[0])


@pytest.fixture(scope="module")
def result():
    x = stats.norm(Y.sum() / 4.25, np.sqrt(1 / 4.25)).rvs(1024, random_state=1)
    return exact_result(normal(2), log_ml(2), x=x)


@pytest.fixture(scope="module")
def table(result):
    return bdmc.sensitivity(result, normal, SCALES, **OPTIONS)


def with_cost(dt):
    dt["real"].attrs["gradient_evaluations"] = 10
    dt.attrs |= {"sampling_time": 1.0, "preparation_time": 1.0}
    return dt


def exact_uniform(upper):
    mean, sd = Y.mean(), np.sqrt(1 / 4)
    law = stats.truncnorm(-mean / sd, (upper - mean) / sd, mean, sd)
    x = law.rvs(1024, random_state=1)
    return with_cost(exact_result(uniform(upper), log_ml_uniform(upper), x=x))


@pytest.fixture(scope="module")
def of_uniform():
    return exact_uniform(1.0)


def test_four_decades_of_prior_scale(table):
    """From one run and two fresh ones; α = 6e-5 a comparison."""
    truth = np.array([log_ml(scale) for scale in SCALES])
    assert table["valid"].all()
    assert (np.abs(table["log_ml"] - truth) < SIGMAS * table["error"]).all()
    others = table["how"] != "run"
    factors = table["log_bayes_factor"] - (truth - log_ml(2))
    assert (np.abs(factors) < SIGMAS * table["bayes_factor_error"])[others].all()
    # Broken twin: without the normaliser of the prior
    wrong = table["log_ml"] + np.log(SCALES)
    assert (np.abs(wrong - truth) > SIGMAS * table["error"])[others].all()


def test_both_ends_are_checked_and_the_cost_is_told_and_cores_do_not_matter(result, table):
    fresh = table["fresh_log_ml"].notna()
    assert table["how"].tolist() == ["fresh run", "run", "reweighed", "reweighed, checked"]
    assert fresh.tolist() == [True, False, False, True]
    assert ((table[["gradient_evaluations", "seconds"]] > 0).all(axis=1) == fresh).all()
    again = bdmc.sensitivity(result, normal, SCALES[:2], **OPTIONS | {"cores": 2})
    columns = ["log_ml", "error", "fresh_log_ml", "fresh_error"]
    assert again[columns].equals(table.loc[SCALES[:2], columns])


def test_a_support_that_grows_gets_a_fresh_run(of_uniform, monkeypatch):
    """The broken twin does not notice: weights look perfect, and the answer is wrong."""
    monkeypatch.setattr(module, "real_run", lambda *_, **__: exact_uniform(2.0))
    last = bdmc.sensitivity(of_uniform, uniform, [1.0, 2.0], **OPTIONS).loc[2.0]
    assert last["how"] == "fresh run"
    assert last["reason"].startswith("the support grows: x = ")
    assert abs(last["log_ml"] - log_ml_uniform(2.0)) < SIGMAS * last["error"]
    particles = Reweighting(of_uniform, uniform(1.0), "test")
    assert particles.to(uniform(1.0)).is_same
    assert not particles.to(uniform(2.0)).log_ml.valid
    monkeypatch.setattr(reweighting, "support_beyond", lambda *_: "")
    point = particles.to(uniform(2.0))
    assert point.log_ml.valid
    assert not point.pareto_k > 0.7
    assert abs(point.log_ml.value - log_ml_uniform(2.0)) > SIGMAS * point.log_ml.error


@cache
def counted(largest):
    with pm.Model() as model:
        n = pm.DiscreteUniform("n", 1, largest)
        pm.Binomial("y", n, 0.5, observed=3)
    return model


def test_discrete_variables_and_a_restricted_support():
    """Of n ≤ 2 the data are impossible, so that log P(S) is part of log ML."""
    rng, possible = np.random.default_rng(1), np.arange(3, 9)
    p = stats.binom.pmf(3, possible, 0.5)
    dt = exact_result(counted(8), np.log(p.mean()), n=rng.choice(possible, 1024, p=p / p.sum()))
    trials = ("chain", "accepted_draw"), rng.geometric(6 / 8, (16, 64))
    dt["real"] = dt["real"].dataset.assign(prior_draws=trials)
    particles = Reweighting(dt, counted(8), "test")
    for largest in (6, 8):
        found = particles.to(counted(largest)).log_ml
        exact = np.log(stats.binom.pmf(3, np.arange(1, largest + 1), 0.5).mean())
        assert abs(found.value - exact) < SIGMAS * found.error
        # Broken twin: without log P(S), which is log 6/8
        assert abs(found.value - particles._mass - exact) > SIGMAS * found.error
    assert "the support grows: n = " in particles.to(counted(9)).log_ml.reason


def test_another_likelihood(result):
    """Student's t with several degrees of freedom, known by quadrature."""

    def student(nu):
        with pm.Model() as model:
            pm.StudentT("y", nu, mu=pm.Normal("x", 0, 2), sigma=1, observed=Y)
        return model

    def joint(x, nu):
        return np.exp(stats.t.logpdf(Y, nu, x).sum() + stats.norm.logpdf(x, 0, 2))

    particles = Reweighting(result, normal(2), "test")
    for nu in (2.0, 30.0):
        found = particles.to(student(nu)).log_ml
        assert found.valid
        exact = np.log(integrate.quad(joint, -8, 8, args=(nu,), epsrel=1e-10)[0])
        assert abs(found.value - exact) < SIGMAS * found.error


def test_elasticity(result, of_uniform):
    """Against the derivative of the closed form; α = 6e-5 a comparison."""
    found = bdmc.elasticity(result, normal, [4.0], model=normal(2))
    exact = [(log_ml(s * np.exp(1e-4)) - log_ml(s * np.exp(-1e-4))) / 2e-4 for s in found.index]
    assert found["valid"].all()
    assert (np.abs(found["elasticity"] - exact) < SIGMAS * found["error"]).all()
    # Broken twin: d/d scale in place of d/d log scale
    wrong = found["elasticity"] / found.index
    assert (np.abs(wrong - exact) > SIGMAS * found["error"]).all()
    # It needs a support that stays.
    grows = bdmc.elasticity(of_uniform, uniform, [1.0])
    assert not grows["valid"].item()
    assert "the support grows" in grows["reason"].item()
    with pytest.raises(ValueError, match="values: must be a positive number"):
        bdmc.elasticity(result, normal, [0.0])


def other_data(value):
    return normal(value, 0.0 if value == 2 else 1.0)


@pytest.mark.parametrize(
    ("values", "build", "options", "message"),
    [
        ([], normal, {}, "different values"),
        ([1.0, 1.0], normal, {}, "different values"),
        ([1.0], normal, {"max_error": -1.0}, "max_error: must be a positive"),
        ([1.0], normal, {"simulate": "prior"}, "simulate: log ML needs the real data"),
        ([1.0], normal, {}, r"none of them gives the model of dt.*Pass model="),
        ([1.0], normal, {"model": normal(7.0)}, r"another model: .*\['x', 'y'\]"),
        ([1.0, 2], other_data, {}, "build: its observed data are not those"),
        ([1.0], normal(1.0), {}, "^build: a function is needed"),
        ([1.0], lambda scale: None, {}, "^build: .*return model"),
    ],
)
def test_bad_input_is_named(result, values, build, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        bdmc.sensitivity(result, build, values, **options)


def point(value, usable=True, is_same=False):
    own = Estimate(value, 0.1, "reweighed", usable, "" if usable else "Pareto k̂ is 1")
    found = SimpleNamespace(
        log_ml=own, log_bayes_factor=own, is_same=is_same, pareto_k=0.1,
        log_weights=np.full(16, value) + np.linspace(-0.1, 0.1, 16),
    )  # fmt: skip
    return module._Point(found, own.reason)


FRESH, BASE = (Estimate(value, 0.1, "forward average", True, "") for value in (-2.0, 0.0))


@pytest.fixture
def fresh_run(monkeypatch):
    """A result of a fresh run, whose log ML is taken to be −2."""
    monkeypatch.setattr(module, "recommended_log_ml", lambda dt: FRESH)
    return with_cost(tree(real=np.linspace(-2.1, -1.9, 16)))


def test_fresh_runs_go_inwards_until_both_ways_agree(fresh_run):
    """The particles missed a mode that matters at low values: −5 where runs find −2."""
    points = [point(-9, usable=False), *map(point, (-5, -5, -2, -2, -2))]
    asked = []

    def run(place):
        asked.append(place)
        return fresh_run

    module._add_fresh_runs(points, run)
    assert asked == [0, 1, 2, 3, 5]
    rows = [module._row(each, BASE) for each in points]
    checked = "reweighed, checked"
    assert [row["how"] for row in rows] == ["fresh run"] * 3 + [checked, "reweighed", checked]
    assert "beyond chance" in rows[1]["reason"]
    assert all(row["valid"] for row in rows)


def test_a_fresh_run_is_believed_if_it_is_the_higher_one(fresh_run):
    module._add_fresh_runs([point(-2, is_same=True)], None)  # checked by its own runs
    doubted = point(-2, usable=False, is_same=True)
    module._add_fresh_runs([doubted], lambda place: fresh_run)
    row = module._row(doubted, BASE)
    assert (row["how"], row["valid"]) == ("fresh run", True)
    for usable in (True, False):  # even if too few particles carry the weight for an estimate
        (low := point(5.0, usable)).add(fresh_run)
        row = module._row(low, BASE)
        assert not row["valid"]
        assert "beyond chance" in row["reason"]
    # A fresh run that fails its own check checks nothing.
    unknown = replace(point(5.0), fresh=replace(FRESH, valid=False))
    row = module._row(unknown, BASE)
    assert (row["how"], row["valid"]) == ("reweighed", False)
