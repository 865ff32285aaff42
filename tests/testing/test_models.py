"""Checks of what samplers are given, beside the faults of test_mutants.py; α = 1e-5 a check."""

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import transforms
from pymc.logprob.transforms import LogTransform
from pytensor import tensor as pt
from scipy.stats import norm

from pymc_bdmc.testing import (
    check_bayes_factor,
    check_conditionals,
    check_prior_sampler,
    check_transform,
)
from tests.models import interpreted
from tests.testing.mutants.trials import known_mean


@pytest.mark.parametrize("rate", [3, 5])
def test_counts_that_are_drawn_at_another_rate_fail(rate):
    """By 1200 draws, log10 of the p-value at another rate is −18 ± 3, by 24 seeds."""
    with pm.Model() as model:
        count = pm.CustomDist(
            "count", logp=lambda v: pm.logp(pm.Poisson.dist(3), v), dtype="int64",
            random=lambda rng=None, size=None: rng.poisson(rate, size=size),
        )  # fmt: skip
        pm.Normal("y", count, observed=0.5)
    report = check_prior_sampler(model, budget=1200, random_seed=1)
    assert report.passed == (rate == 3)
    assert rate == 3 or report.findings[0] == "count"


def joint(point):
    return -0.5 * (point["a"] ** 2 + (point["b"] - point["a"]) ** 2)


def conditional(point):
    return -((point["a"] - point["b"] / 2) ** 2)


POINTS = [{"a": 0.1, "b": 1.0}, {"a": 0.5, "b": -1.0}, {"a": 2.0, "b": 0.3}]


def test_conditionals_of_functions():
    assert check_conditionals(conditional, joint, "a", points=POINTS).passed
    assert not check_conditionals(joint, conditional, "b", points=POINTS).passed


def nested(width) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, width), observed=np.zeros(2))
    return model


def log_bayes_factor(data, shift=0.0, power=1.0):
    means = norm.logpdf(data["y"].sum(), 0, np.sqrt([6.0, 2.0]))  # the difference is irrelevant
    return power * (means[0] - means[1]) + shift


@pytest.mark.parametrize(
    ("fault", "alone"),
    [({}, True), ({"shift": 1.0}, False), ({"shift": -1.0}, True), ({"power": 4.0}, None)],
)
def test_bayes_factors(fault, alone):
    """Without the second model, the check is blind to a factor that is too small.

    The fourth power is seen after 150 of the 600 data sets at most, by 11 seeds.
    """

    def check(*models):
        return check_bayes_factor(
            lambda data: log_bayes_factor(data, **fault), *models, budget=600, random_seed=1
        )

    assert check(nested(1e-6), nested(1.0)).passed == (not fault)
    if alone is not None:
        report = check(nested(1e-6))
        assert report.passed == alone
        assert any("too small" in each for each in report.blind_to)


class NoInverse(LogTransform):
    name = "no_inverse"

    def backward(self, value, *inputs):
        return pt.exp(2 * value)

    def log_jac_det(self, value, *inputs):
        return 2 * value + np.log(2)


@pytest.mark.parametrize(
    ("transform", "dist", "finding"),
    [
        (transforms.ordered, pm.Normal.dist(np.arange(3), 0.1), None),
        (transforms.Interval(lower=0, upper=2), pm.Uniform.dist(0, 2, shape=2), None),
        (transforms.simplex, pm.Dirichlet.dist(np.ones((2, 3))), None),
        (NoInverse(), pm.HalfNormal.dist(), "backward(forward(x)) is"),
    ],
)
def test_transforms(transform, dist, finding):
    with interpreted():  # or PyTensor compiles the inner graph of a simplex in C
        report = check_transform(transform, dist, budget=5, random_seed=1)
    assert [each[: len(finding)] for each in report.findings] == ([finding] if finding else [])


@pytest.mark.parametrize(
    ("check", "arguments", "options", "message"),
    [
        (check_conditionals, (conditional, joint, "a"), {}, "points: they are needed if joint is"),
        (check_conditionals, (joint, joint, "c"), {"points": POINTS}, "name: there is no 'c'"),
        (check_conditionals, (joint, known_mean(), "x"), {"points": POINTS}, "points: they are dr"),
        (check_bayes_factor, (joint, nested(1), known_mean()), {}, "model_1: its observed variab"),
    ],
)
def test_refuses(check, arguments, options, message):
    with pytest.raises(ValueError, match=message):
        check(*arguments, **options)
