"""Bayes factors of statements on ranges and orders; α = 6e-5 for a known answer."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import Estimate
from pymc_bdmc.results.hypothesis import of_probabilities
from tests.models import SIGMAS, interpreted, repeated_normal


@cache
def three():
    """Three means in a vector with labels, and one more, whose posterior is normal."""
    with interpreted(), pm.Model(coords={"arm": ["none", "low", "high"]}) as model:
        b, a = pm.Normal("b", dims="arm"), pm.Normal("a")
        pm.Deterministic("gain", b[2] - b[0])
        pm.Normal("y", b, 1, observed=[-0.5, 0.5, 1.5], dims="arm")
        pm.Normal("z", a, 1, observed=0.4)
    return model


def draws(n=1000):
    """Exact draws of the posterior: means y/2, variance 1/2."""
    z = np.random.default_rng(1).normal(size=(4, n, 4)) * np.sqrt(0.5)
    b = z[..., :3] + np.array([-0.25, 0.25, 0.75])
    posterior = {
        "b": (("chain", "draw", "arm"), b),
        "a": (("chain", "draw"), 0.2 + z[..., 3]),
        "gain": (("chain", "draw"), b[..., 2] - b[..., 0]),
    }
    return xr.Dataset(posterior, coords={"arm": ["none", "low", "high"]})


@pytest.mark.parametrize(
    ("statement", "prior", "posterior"),
    [
        ("a > 0", 0.5, stats.norm.cdf(0.2 / np.sqrt(0.5))),
        ("-0.1 < a <= 0.1", np.diff(stats.norm.cdf([-0.1, 0.1]))[0],
         np.diff(stats.norm.cdf(np.array([-0.3, -0.1]) / np.sqrt(0.5)))[0]),
        ("abs(a) >= 1", 2 * stats.norm.cdf(-1),
         1 - np.diff(stats.norm.cdf(np.array([-1.2, 0.8]) / np.sqrt(0.5)))[0]),
        ("b[0] < b[2]", 0.5, stats.norm.cdf(1)),
        ("b['none'] < b['high']", 0.5, stats.norm.cdf(1)),
        ("gain > 0", 0.5, stats.norm.cdf(1)),
        ("gain / 2 + 1 > 1 and not a > 0", 0.25,
         stats.norm.cdf(1) * stats.norm.cdf(-0.2 / np.sqrt(0.5))),
        ("a > 0 or a < -1e9", 0.5, stats.norm.cdf(0.2 / np.sqrt(0.5))),
        # One of six orders, with the law of b[0] − b[1] and b[1] − b[2]
        ("b[0] < b[1] < b[2]", 1 / 6,
         stats.multivariate_normal([-0.5, -0.5], [[1, -0.5], [-0.5, 1]]).cdf([0, 0])),
    ],
)  # fmt: skip
def test_probabilities_of_draws(statement, prior, posterior):
    """Twin: a tenth beside."""
    with interpreted():
        found = bdmc.hypothesis(draws(), three(), statement, random_seed=1)
    for each, right in ((found.prior, prior), (found.posterior, posterior)):
        assert abs(each.value - right) < SIGMAS * each.error < 0.05 < abs(each.value + 0.1 - right)
    factor = np.log(posterior / (1 - posterior)) - np.log(prior / (1 - prior))
    both = found.against_complement, found.against_unrestricted
    for each, right in zip(both, (factor, np.log(posterior / prior)), strict=True):
        assert each.valid
        assert abs(each.value - right) < SIGMAS * each.error


def test_runs_give_the_same():
    """The posterior of the mean is N(1.15, 1/4.25), and the prior N(0, 4).

    A statement that is true of all particles has a probability of exactly 1, in spite of rounding.
    """
    options = {"simulate": None, "random_seed": 1, "cores": 1, "progressbar": False}
    dt = pm.sample_bdmc(repeated_normal(), **options)
    found = bdmc.hypothesis(dt, repeated_normal(), "x > 1", random_seed=1)
    right = stats.norm.sf(1, 4.9 / 4.25, 4.25**-0.5)
    assert abs(found.posterior.value - right) < SIGMAS * found.posterior.error < 0.1
    assert abs(found.prior.value - stats.norm.sf(0.5)) < SIGMAS * found.prior.error
    certain = bdmc.hypothesis(dt, repeated_normal(), "x > -9", random_seed=1)
    assert certain.posterior.value == 1
    assert "false at none" in certain.posterior.reason


def test_errors_of_autocorrelated_draws_are_larger():
    slow = draws().isel(draw=np.repeat(np.arange(1000), 20))
    with interpreted():
        errors = [
            bdmc.hypothesis(each, three(), "a > 0", random_seed=1).posterior.error
            for each in (draws(), slow)
        ]
    assert errors[1] == pytest.approx(errors[0], rel=0.2)  # each draw counts once


@pytest.mark.parametrize(
    ("statement", "known", "text"),
    [
        ("a < 4", (False, True), "false at none, and 25 are needed: sample longer"),
        ("a > 4", (False, False), "true at none"),
        ("a > 5", (False, False), "prior of a model of its own"),
    ],
)
def test_too_few_draws_are_told(statement, known, text):
    with interpreted():
        found = bdmc.hypothesis(draws(), three(), statement, random_seed=1)
    assert (found.against_complement.valid, found.against_unrestricted.valid) == known
    assert text in repr(found)


def test_factors_of_probabilities():
    """Twin: odds in place of probabilities."""
    prior, posterior = (Estimate(p, 0.01, "", True, "") for p in (0.2, 0.6))
    found = of_probabilities("a > 0", prior, posterior)
    assert found.against_complement.value == pytest.approx(np.log(6))
    assert found.against_unrestricted.value == pytest.approx(np.log(3))
    errors = 0.01 / 0.2, 0.01 / 0.6
    assert found.against_unrestricted.error == pytest.approx(np.hypot(*errors))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("a == 0", "point_null"),
        ("a >", "is no comparison"),
        ("a + 1", "is no comparison"),
        ("a and b[0]", "is no comparison"),
        ("c > 0", r"no variables \['c'\]"),
        ("1 > 0", "names no variable"),
        ("b > 0", r"name their elements"),
        ("b[3] > 0", "is no element"),
        ("b['some'] > 0", "is no element"),
        ("a.real > 0", "cannot be read"),
        ("exp(a) > 0", r"no variables \['exp'\]"),
    ],
)
def test_statements_that_cannot_be_read(statement, message):
    with interpreted(), pytest.raises(ValueError, match=message):
        bdmc.hypothesis(draws(20), three(), statement)
