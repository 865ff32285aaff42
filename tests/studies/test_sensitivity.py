"""Log ML over a prior scale, against closed forms, and fresh runs where reweighting fails."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, optimize, stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import Estimate
from pymc_bdmc.results import reweighting
from pymc_bdmc.results.reweighting import Reweighting
from pymc_bdmc.studies import sensitivity as module
from tests.models import SIGMAS

Y = np.array([0.3, 1.2, -0.4, 0.8, 1.1])
OPTIONS = dict(random_seed=1, cores=1, progressbar=False)
SCALES = [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0]


def normal(scale, y=Y, name="x"):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal(name, 0, scale), 1, observed=y)
    return model


def uniform(upper):
    with pm.Model() as model:
        pm.Normal("y", pm.Uniform("x", 0, upper), 1, observed=Y)
    return model


def log_ml(scale):
    return stats.multivariate_normal.logpdf(Y, np.zeros(5), np.eye(5) + scale**2)


def log_ml_uniform(upper):
    def joint(x):
        return np.exp(stats.norm.logpdf(Y, x).sum()) / upper

    return np.log(integrate.quad(joint, 0, upper, epsrel=1e-10)[0])


def sampled(model, **options):
    return bdmc.sample_bdmc(model, simulate=None, **(OPTIONS | options))


@pytest.fixture(scope="module")
def result():
    return sampled(normal(1.0))


@pytest.fixture(scope="module")
def table(result):
    return bdmc.sensitivity(result, normal, SCALES, **OPTIONS)


def test_five_decades_of_prior_scale(table):
    """From one run and three fresh ones; α = 6e-5 a comparison."""
    truth = np.array([log_ml(scale) for scale in SCALES])
    assert table["valid"].all()
    assert (np.abs(table["log_ml"] - truth) < SIGMAS * table["error"]).all()
    others = table["how"] != "run"
    factors = table["log_bayes_factor"] - (truth - log_ml(1.0))
    assert (np.abs(factors) < SIGMAS * table["bayes_factor_error"])[others].all()
    # Broken twin: without the normaliser of the prior
    wrong = table["log_ml"] + np.log(SCALES)
    assert (np.abs(wrong - truth) > SIGMAS * table["error"])[others].all()


def test_both_ends_are_checked_and_the_cost_is_told(table):
    how, fresh = table["how"], table["fresh_log_ml"].notna()
    assert how[1.0] == "run"
    assert how[1000.0] == "reweighed, checked"
    assert fresh.iloc[[0, -1]].all()
    # From the lower end inwards up to the first reweighed value that is checked
    first = how.tolist().index("reweighed, checked")
    assert (how.iloc[:first] == "fresh run").all()
    assert (how.iloc[first + 1 : -1].isin(["reweighed", "run"])).all()
    assert (table.loc[fresh, ["gradient_evaluations", "seconds"]] > 0).all(axis=None)
    assert (table.loc[~fresh, ["gradient_evaluations", "seconds"]] == 0).all(axis=None)


def test_the_same_bits_for_any_cores(result):
    first, second = (
        bdmc.sensitivity(result, normal, [0.5, 1.0], **OPTIONS | {"cores": cores})
        for cores in (1, 2)
    )
    columns = ["log_ml", "error", "fresh_log_ml", "fresh_error"]
    assert first[columns].equals(second[columns])


def test_the_curve_of_lindley(result, table):
    """A point null x = 0 wins over every prior that is wide enough; the scale is known."""
    null = stats.norm.logpdf(Y).sum()
    exact = optimize.brentq(lambda scale: log_ml(scale) - null, 0.5, 100)
    above = table["log_ml"] > null
    turn = table.index[above].max(), table.index[~above].min()
    assert (log_ml(np.array(1.0)) > null) == above[1.0]
    assert not above[1000.0]
    between = np.linspace(*turn, 6).tolist()
    fine = bdmc.sensitivity(result, normal, between, model=normal(1.0), **OPTIONS)
    pc = bdmc.plot_sensitivity({"effect": fine, "none": null_table(fine, null)})
    drawn = pc.viz["turn"]["log_ml"].item().get_xdata()[0]
    assert abs(drawn - exact) < 0.1 * exact
    assert abs(drawn / np.sqrt(2) - exact) > 0.1 * exact  # broken twin


def null_table(like, value):
    level = like.assign(log_ml=value, error=0.0, fresh_log_ml=np.nan)
    return level.assign(valid=True)


@pytest.mark.parametrize("unnoticed", [False, True])
def test_a_support_that_grows_gets_a_fresh_run(monkeypatch, unnoticed):
    """The broken twin does not notice: weights look perfect, and the answer is wrong."""
    if unnoticed:
        monkeypatch.setattr(reweighting, "support_beyond", lambda *_: "")
    dt = sampled(uniform(1.0))
    point = Reweighting(dt, uniform(1.0), "test").to(uniform(2.0))
    assert point.log_ml.valid == unnoticed
    if unnoticed:
        assert not point.pareto_k > 0.7
        assert abs(point.log_ml.value - log_ml_uniform(2.0)) > SIGMAS * point.log_ml.error
        return
    table = bdmc.sensitivity(dt, uniform, [0.5, 1.0, 2.0], **OPTIONS)
    assert table["how"].tolist() == ["reweighed, checked", "run", "fresh run"]
    assert "the support grows: x = " in table.loc[2.0, "reason"]
    truth = np.array([log_ml_uniform(upper) for upper in table.index])
    assert (np.abs(table["log_ml"] - truth) < SIGMAS * table["error"]).all()


def test_the_smallest_growth_of_a_bound_is_seen():
    """It lies beyond all prior draws but one in 10⁵."""
    particles = Reweighting(sampled(uniform(1.0)), uniform(1.0), "test")
    assert "the support grows" in particles.to(uniform(1.00001)).log_ml.reason
    assert particles.to(uniform(1.0)).is_same


def counted(largest):
    with pm.Model() as model:
        n = pm.DiscreteUniform("n", 1, largest)
        pm.Binomial("y", n, 0.5, observed=3)
    return model


def test_discrete_variables_and_a_restricted_support():
    """Of n ≤ 2 the data are impossible, so that log P(S) is part of log ML."""
    dt = sampled(counted(8), path="prior", step="metropolis")
    assert (dt["real"]["prior_draws"] > 1).any()
    particles = Reweighting(dt, counted(8), "test")
    for largest in (6, 8):
        found = particles.to(counted(largest)).log_ml
        exact = np.log(stats.binom.pmf(3, np.arange(1, largest + 1), 0.5).mean())
        assert abs(found.value - exact) < SIGMAS * found.error
        # Broken twin: without log P(S), which is log 6/8
        assert abs(found.value - particles._mass - exact) > SIGMAS * found.error
    assert "the support grows: n = " in particles.to(counted(9)).log_ml.reason


def test_transforms_that_restrict_are_not_confused():
    """A Normal cut by Interval(0, 1) is not renormalised; other bounds need a fresh run."""

    def cut(upper):
        with pm.Model() as model:
            bounds = pm.distributions.transforms.Interval(0, upper)
            pm.Normal("y", pm.Normal("x", transform=bounds), 1, observed=Y)
        return model

    particles = Reweighting(sampled(cut(1.0), path="prior"), cut(1.0), "test")
    assert particles.to(cut(1.0)).is_same
    assert "transform" in particles.to(cut(0.5)).log_ml.reason


def test_another_likelihood(result):
    """Student's t with several degrees of freedom, known by quadrature."""

    def student(nu):
        with pm.Model() as model:
            pm.StudentT("y", nu, mu=pm.Normal("x"), sigma=1, observed=Y)
        return model

    def truth(nu):
        def joint(x):
            return np.exp(stats.t.logpdf(Y, nu, x).sum() + stats.norm.logpdf(x))

        return np.log(integrate.quad(joint, -8, 8, epsrel=1e-10)[0])

    found = bdmc.sensitivity(result, student, [2.0, 5.0, 30.0], model=normal(1.0), **OPTIONS)
    assert found["valid"].all()
    exact = np.array([truth(nu) for nu in found.index])
    assert (np.abs(found["log_ml"] - exact) < SIGMAS * found["error"]).all()
    assert found["how"].tolist() == ["reweighed, checked", "reweighed", "reweighed, checked"]


def test_elasticity(result):
    """Against the derivative of the closed form; α = 6e-5 a comparison."""
    found = bdmc.elasticity(result, normal, [0.3, 2.0, 5.0], model=normal(1.0))
    exact = [(log_ml(s * np.exp(1e-4)) - log_ml(s * np.exp(-1e-4))) / 2e-4 for s in found.index]
    assert found["valid"].all()
    assert (np.abs(found["elasticity"] - exact) < SIGMAS * found["error"]).all()
    # Broken twin: d/d scale in place of d/d log scale
    wrong = found["elasticity"] / found.index
    assert (np.abs(wrong - exact) > SIGMAS * found["error"])[[2.0, 5.0]].all()


def test_elasticity_needs_a_support_that_stays(result):
    found = bdmc.elasticity(sampled(uniform(1.0)), uniform, [1.0])
    assert not found["valid"].item()
    assert "the support grows" in found["reason"].item()
    with pytest.raises(ValueError, match="values: must be a positive number"):
        bdmc.elasticity(result, normal, [0.0])


@pytest.mark.parametrize("curve", [bdmc.sensitivity, bdmc.elasticity])
@pytest.mark.parametrize(
    ("build", "match"),
    [(normal(1.0), "^build: a function is needed"), (lambda scale: None, "^build: .*return model")],
)
def test_what_builds_no_model_is_named(result, curve, build, match):
    with pytest.raises(TypeError, match=match):
        curve(result, build, [1.0])


def refused(match, dt, build=normal, values=(1.0, 2.0), **options):
    with pytest.raises(ValueError, match=match):
        bdmc.sensitivity(dt, build, values, **options)


def test_bad_input_is_named(result):
    refused("different values", result, values=[])
    refused("different values", result, values=[1.0, 1.0])
    refused("max_error: must be a positive", result, max_error=-1.0)
    refused("simulate: log ML needs the real data", result, simulate="prior")
    refused(r"none of them gives the model of dt.*Pass model=", result, values=[2.0, 3.0])
    refused(r"another model: .*\['x', 'y'\]", result, model=normal(7.0))
    refused("build: its observed data are not those", result,
            lambda value: normal(value, Y if value == 1.0 else Y + 1.0))  # fmt: skip
    refused("neither group", xr.DataTree(), model=normal(1.0))


def test_other_variables_get_a_fresh_run(result):
    build = {1.0: normal(1.0), 2.0: normal(2.0, name="z")}.__getitem__
    table = bdmc.sensitivity(result, build, [1.0, 2.0], **OPTIONS)
    assert table["how"].tolist() == ["run", "fresh run"]
    assert "['x', 'z']" in table.loc[2.0, "reason"]
    assert abs(table.loc[2.0, "log_ml"] - log_ml(2.0)) < SIGMAS * table.loc[2.0, "error"]


def point(value, usable=True, is_same=False):
    own = Estimate(value, 0.1, "reweighed", usable, "" if usable else "Pareto k̂ is 1")
    found = SimpleNamespace(
        log_ml=own, log_bayes_factor=own, is_same=is_same, pareto_k=0.1,
        log_weights=np.full(16, value) + np.linspace(-0.1, 0.1, 16),
    )  # fmt: skip
    return module._Point(found, own.reason)


def test_fresh_runs_go_inwards_until_both_ways_agree(monkeypatch):
    """The particles missed a mode that matters at low values: −5 where runs find −2."""
    points = [point(-9, usable=False), point(-5), point(-5), point(-2), point(-2), point(-2)]
    fresh = Estimate(-2.0, 0.1, "forward average", True, "")
    monkeypatch.setattr(module, "recommended_log_ml", lambda dt: fresh)
    runs = dict.fromkeys(["log_weight"], ("chain", np.linspace(-2.1, -1.9, 16)))
    runs["prior_draws"] = ("chain", np.ones(16))
    dt = xr.DataTree.from_dict({"real": xr.Dataset(runs)})
    dt["real"].attrs["gradient_evaluations"] = 10
    dt.attrs |= {"sampling_time": 1.0, "preparation_time": 1.0}
    asked = []

    def run(place):
        asked.append(place)
        return dt

    module._add_fresh_runs(points, run)
    assert asked == [0, 1, 2, 3, 5]
    base = Estimate(0.0, 0.1, "forward average", True, "")
    rows = [module._row(each, base) for each in points]
    assert [row["how"] for row in rows] == [
        "fresh run", "fresh run", "fresh run", "reweighed, checked", "reweighed",
        "reweighed, checked",
    ]  # fmt: skip
    assert "beyond chance" in rows[1]["reason"]
    assert all(row["valid"] for row in rows)
    # The model of dt is checked by its own runs, unless their average cannot be trusted.
    own = point(-2, is_same=True)
    module._add_fresh_runs([own], run)
    assert own.fresh is None
    doubted = point(-2, usable=False, is_same=True)
    module._add_fresh_runs([doubted], lambda place: dt)
    row = module._row(doubted, base)
    assert (row["how"], row["valid"]) == ("fresh run", True)
    # The higher one is right: a fresh run below the reweighed value is not believed.
    low = point(5.0)
    low.add(dt)
    assert not module._row(low, base)["valid"]
    # A fresh run that fails its own check checks nothing.
    unknown = replace(low, fresh=replace(fresh, valid=False), agrees=False)
    row = module._row(unknown, base)
    assert (row["how"], row["valid"]) == ("reweighed", False)
    # Even if too few particles carry the weight for an estimate
    unsure = point(5.0, usable=False)
    unsure.add(dt)
    row = module._row(unsure, base)
    assert not row["valid"]
    assert "beyond chance" in row["reason"]


@pytest.mark.slow
def test_errors_are_honest_over_40_seeds():
    """Mean z² is 1; by χ² it leaves 0.5 to 1.6 with probability 0.015. Chains of three steps."""
    options = {"chains": 1000, "particles": 1, "temperatures": 3, "path": "prior"}
    base, other = normal(2.0), normal(1.0)
    z, wrong = [], []
    for seed in range(40):
        dt = sampled(base, step="metropolis", random_seed=seed, **options)
        particles = Reweighting(dt, base, "test")
        found = particles.to(other).log_ml
        assert found.valid
        z.append((found.value - log_ml(1.0)) / found.error)
        particles.log_weights = np.full(1000, logsumexp(particles.log_weights) - np.log(1000))
        twin = particles.to(other).log_ml
        wrong.append((twin.value - log_ml(1.0)) / twin.error)
    assert 0.5 < np.mean(np.square(z)) < 1.6
    assert np.mean(np.square(wrong)) > 3  # broken twin: equal weights
