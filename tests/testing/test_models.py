"""Checks of what samplers are given: draws, densities, conditionals, gradients, evidence."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms
from pymc.logprob.transforms import LogTransform
from pytensor.compile.builders import OpFromGraph
from scipy.stats import norm

from pymc_bdmc.testing import (
    check_bayes_factor,
    check_conditionals,
    check_geweke,
    check_gradient,
    check_prior_sampler,
    check_transform,
)
from tests.testing.samplers import walk

COVARIANCE = np.array([[1.0, 0.9], [0.9, 1.0]])


def priors(**wrong) -> pm.Model:
    """A normal pair, a count, and normal data; each may be drawn from another law than it has."""
    with pm.Model() as model:
        if "pair" in wrong:
            pm.CustomDist(
                "pair", np.zeros(2), signature="(n)->(n)",
                logp=lambda v, mu: pm.logp(pm.MvNormal.dist(mu, COVARIANCE), v),
                random=lambda mu, rng=None, size=None: rng.normal(mu),
            )  # fmt: skip
        else:
            pm.MvNormal("pair", np.zeros(2), COVARIANCE)
        if "count" in wrong:
            pm.CustomDist(
                "count", logp=lambda v: pm.logp(pm.Poisson.dist(3), v), dtype="int64",
                random=lambda rng=None, size=None: rng.poisson(4, size=size),
            )  # fmt: skip
        else:
            pm.Poisson("count", 3)
        if "y" in wrong:
            pm.CustomDist(
                "y", model["pair"].sum(), logp=lambda v, mu: pm.logp(pm.Normal.dist(mu), v),
                random=lambda mu, rng=None, size=None: rng.normal(mu, 1.4), observed=0.5,
            )  # fmt: skip
        else:
            pm.Normal("y", model["pair"].sum(), observed=0.5)
    return model


def test_right_draws_pass():
    report = check_prior_sampler(priors(), budget=1000, random_seed=1)
    assert report.passed
    assert report.evidence > 1e-5


@pytest.mark.parametrize(
    ("name", "finding"),
    [("pair", "pair"), ("count", "count"), ("y", "log p of all variables together")],
)
def test_wrong_draws_fail(name, finding):
    """A correlation that draws lack, a wrong rate of a count, and data that are too wide."""
    report = check_prior_sampler(priors(**{name: True}), budget=1000, random_seed=1)
    assert not report.passed
    assert finding in report.findings


def test_atoms_fail():
    with pm.Model() as model:
        x = pm.CustomDist(
            "x",
            logp=lambda v: pm.logp(pm.Normal.dist(), v),
            random=lambda rng=None, size=None: np.maximum(rng.normal(size=size), -1),
        )
        pm.Normal("y", x, observed=0.0)
    report = check_prior_sampler(model, budget=300, random_seed=1)
    assert report.evidence == 0
    assert report.findings == ("x: draws repeat a value",)


def test_turns_find_a_simulator_that_is_not_that_of_the_likelihood():
    """The sampler is right, and so is the prior."""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist(
            "y", mu, logp=lambda v, mu: pm.logp(pm.Normal.dist(mu), v),
            random=lambda mu, rng=None, size=None: rng.normal(mu, 2.0), observed=0.5,
        )  # fmt: skip
    report = check_geweke(walk, model, random_seed=1)
    assert not report.passed


def beta_binomial() -> pm.Model:
    with pm.Model() as model:
        p = pm.Beta("p", 2, 2)
        pm.Binomial("y", 10, p, observed=7)
    return model


def of_p(point, prior=1):
    """log Beta(p; 1 + prior + y, …), not normalised."""
    p, y = point["p"], point["y"]
    return (prior + y) * np.log(p) + (prior + 10 - y) * np.log1p(-p)


def test_conditionals():
    assert check_conditionals(of_p, beta_binomial(), "p", random_seed=1).passed
    twin = check_conditionals(
        lambda point: of_p(point, prior=0), beta_binomial(), "p", random_seed=1
    )
    assert not twin.passed
    assert "log p(p|…) rises by" in twin.findings[0]


def test_conditionals_of_functions():
    points = [{"a": 0.1, "b": 1.0}, {"a": 0.5, "b": -1.0}, {"a": 2.0, "b": 0.3}]

    def joint(point):
        return -0.5 * (point["a"] ** 2 + (point["b"] - point["a"]) ** 2)

    def conditional(point):
        return -((point["a"] - point["b"] / 2) ** 2)

    assert check_conditionals(conditional, joint, "a", points=points).passed
    assert not check_conditionals(joint, conditional, "b", points=points).passed
    with pytest.raises(ValueError, match="points: they are needed if joint is a function"):
        check_conditionals(conditional, joint, "a")
    with pytest.raises(ValueError, match="name: there is no 'c'"):
        check_conditionals(conditional, joint, "c", points=points)
    with pytest.raises(ValueError, match="points: they are drawn from the model"):
        check_conditionals(of_p, beta_binomial(), "p", points=points)


def nested() -> list[pm.Model]:
    models = []
    for width in (1e-6, 1.0):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mu", 0, width), observed=np.zeros(2))
        models.append(model)
    return models


def log_bayes_factor(data, shift=0.0, power=1.0):
    y = data["y"]
    means = norm.logpdf(y.sum(), 0, np.sqrt([6.0, 2.0]))  # the difference of both is irrelevant
    return power * (means[0] - means[1]) + shift


def test_bayes_factors():
    assert check_bayes_factor(log_bayes_factor, *nested(), budget=500, random_seed=1).passed


@pytest.mark.parametrize("fault", [{"shift": 1.0}, {"shift": -1.0}, {"power": 2.0}])
def test_wrong_bayes_factors_fail(fault):
    report = check_bayes_factor(
        lambda data: log_bayes_factor(data, **fault), *nested(), random_seed=1
    )
    assert not report.passed


def test_one_model_sees_one_side():
    model, _ = nested()
    assert check_bayes_factor(log_bayes_factor, model, budget=500, random_seed=1).passed
    big = check_bayes_factor(lambda data: log_bayes_factor(data, 1.0), model, random_seed=1)
    small = check_bayes_factor(lambda data: log_bayes_factor(data, -1.0), model, random_seed=1)
    assert (big.passed, small.passed) == (False, True)
    assert any("too small" in fault for fault in small.blind_to)


def test_models_with_other_data():
    with pytest.raises(ValueError, match="model_1: its observed variables"):
        check_bayes_factor(log_bayes_factor, nested()[0], beta_binomial())


@pytest.mark.parametrize("scale", [1.0, 1.1])
def test_gradients(scale):
    """A square of one's own, whose derivative is too large in the twin."""
    x = pt.dscalar()
    square = OpFromGraph(
        [x], [x**2], pullback=lambda inputs, _, cotangents: [2 * scale * inputs[0] * cotangents[0]]
    )
    with pm.Model() as model:
        pm.Normal("y", 0, square(pm.HalfNormal("sigma")), observed=[0.3, -1.2])
    report = check_gradient(model, budget=3, random_seed=1)
    assert report.passed == (scale == 1)
    assert len(report.findings) == (scale != 1)


class NoVolume(LogTransform):
    name = "no_volume"

    def log_jac_det(self, value, *inputs):
        return pt.zeros_like(value)


class NoInverse(LogTransform):
    name = "no_inverse"

    def backward(self, value, *inputs):
        return pt.exp(2 * value)

    def log_jac_det(self, value, *inputs):
        return 2 * value + np.log(2)


@pytest.mark.parametrize(
    ("transform", "dist", "finding"),
    [
        (transforms.log, pm.HalfNormal.dist(), None),
        (transforms.ordered, pm.Normal.dist(np.arange(3), 0.1), None),
        (transforms.Interval(lower=0, upper=2), pm.Uniform.dist(0, 2, shape=2), None),
        (transforms.simplex, pm.Dirichlet.dist(np.ones((2, 3))), None),
        (NoVolume(), pm.HalfNormal.dist(), "log_jac_det is 0"),
        (NoInverse(), pm.HalfNormal.dist(), "backward(forward(x)) is"),
    ],
)
def test_transforms(transform, dist, finding):
    report = check_transform(transform, dist, budget=5, random_seed=1)
    assert report.passed == (finding is None)
    assert len(report.findings) == (finding is not None)
    assert finding is None or finding in report.findings[0]
