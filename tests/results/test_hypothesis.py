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


@cache
def counted():
    """Discrete variables, integer labels, and a name that is no identifier; y says nothing."""
    coords = {"year": [2002, 2001], "place": ["x", "y"]}
    with interpreted(), pm.Model(coords=coords) as model:
        pm.Poisson("k", 2)
        pm.Normal("b", [-2, 2], 1, dims="year")
        pm.Normal("c", [-2, 2], 1)
        pm.Normal("1|Subject_sigma")
        pm.Normal("d", [-2, 2], 1, dims="place")
        pm.Normal("y", 0, 1, observed=0.0)
        with pm.Model(name="sub"):
            pm.Normal("z")
        drawn = pm.draw([*model.free_RVs], 4000, random_seed=1)
    names = [rv.name for rv in model.free_RVs]
    dims = {name: ["chain", "draw", *(f"{name}_dim",) * (x.ndim - 1)]
            for name, x in zip(names, drawn, strict=True)}  # fmt: skip
    posterior = {
        name: (dims[name], x.reshape(4, 1000, *x.shape[1:]))
        for name, x in zip(names, drawn, strict=True)
    }
    return model, xr.Dataset(posterior)


@pytest.mark.parametrize(
    ("statement", "right"),
    [
        ("k == 2", stats.poisson.pmf(2, 2)),
        ("k != 2", 1 - stats.poisson.pmf(2, 2)),
        ("k / 2 == 1", stats.poisson.pmf(2, 2)),
        ("k ** -1 < 0.4", stats.poisson.sf(2, 2)),
        ("(c[0] > 0) == (c[1] > 0)", 2 * stats.norm.cdf(2) * stats.norm.cdf(-2)),
        ("(c[0] < -2) + (c[1] > 2) > 1", 0.25),
        ("(c[0] < -2) + (c[1] > 2) == 1", 0.5),
        ("b[2001] > 0", stats.norm.cdf(2)),
        ("b[2002] > 0", stats.norm.cdf(-2)),
        ("c[1] > 0", stats.norm.cdf(2)),
        ("c[-1] > 0", stats.norm.cdf(2)),
        ("d[1] > 0", stats.norm.cdf(2)),
        ("d['y'] > 0", stats.norm.cdf(2)),
        ("`1|Subject_sigma` > 1", stats.norm.sf(1)),
        ("`sub::z` > 1 or `k` == 2", 1 - stats.norm.cdf(1) * (1 - stats.poisson.pmf(2, 2))),
    ],
)
def test_counts_labels_and_names(statement, right):
    """The data say nothing, so both probabilities are that of the prior. Twin: a tenth beside."""
    model, posterior = counted()
    with interpreted():
        found = bdmc.hypothesis(posterior, model, statement, random_seed=1)
    for each in (found.prior, found.posterior):
        assert abs(each.value - right) < SIGMAS * each.error < 0.1 < abs(each.value + 0.2 - right)


@pytest.mark.parametrize("index", ["0", "-1", "2003", "'2001'"])
def test_positions_among_labels_that_are_numbers_are_refused(index):
    model, posterior = counted()
    with interpreted(), pytest.raises(ValueError, match=r"is no element.*2001"):
        bdmc.hypothesis(posterior, model, f"b[{index}] > 0")


def test_factors_of_probabilities():
    """Twin: odds in place of probabilities."""
    prior, posterior = (Estimate(p, 0.01, "", True, "") for p in (0.2, 0.6))
    found = of_probabilities("a > 0", prior, posterior)
    assert found.against_complement.value == pytest.approx(np.log(6))
    assert found.against_unrestricted.value == pytest.approx(np.log(3))
    errors = 0.01 / 0.2, 0.01 / 0.6
    assert found.against_unrestricted.error == pytest.approx(np.hypot(*errors))


def test_limits_cover():
    """Limits fail at most 5 % of the time if few draws are true; α = 1e-4 for the count.

    Twin: limits by normal errors of the same draws.
    """
    p0, p, n, rng = 0.5, 2e-3, 2000, np.random.default_rng(1)
    prior = Estimate(p0, np.sqrt(p0 * (1 - p0) / 1e5), "", True, "")
    right = np.log(p / (1 - p)) - np.log(p0 / (1 - p0))
    below = beside = 0
    for k in rng.binomial(n, p, 1000):
        error = np.sqrt(k / n * (1 - k / n) / n) if k else 1 / n
        found = of_probabilities("a > 4", prior, Estimate(k / n, error, "", False, "few"))
        assert not found.against_complement.valid
        below += found.against_complement.upper < right
        beside += k + 1.645 * np.sqrt(k) < n * p
    most = stats.binom.isf(1e-4, 1000, 0.05)
    assert below <= most < beside


@pytest.mark.parametrize(
    ("prior", "posterior", "side"),
    [
        (0.5, (3 / 2000, 2000), "at most"),
        (0.5, (0.0, 2000), "at most"),
        (0.5, (1.0, 2000), "at least"),
        (0.0, (0.5, 2000), "at least"),
        (0.0, (1.0, 2000), "at least"),
        (0.0, (0.0, 2000), "not known"),
    ],
)
def test_few_draws_give_a_limit(prior, posterior, side):
    """If none of n independent draws is true, the limit is about 3.7/n, with 97.5 % confidence."""
    made = []
    for p, n in ((prior, 100_000), posterior):
        error = np.sqrt(p * (1 - p) / n) if 0 < p < 1 else 1 / n
        made.append(Estimate(p, error, "draws", error < 0.2 * min(p, 1 - p), "few."))
    found = of_probabilities("a > 4", *made)
    line = next(each for each in repr(found).splitlines() if "complement" in each)
    assert side in line
    if prior == 0.5 and posterior[0] == 0:
        assert np.exp(found.against_complement.upper) == pytest.approx(3.7 / 2000, rel=0.02)
        assert repr(found).count("very strong") == 1
        assert "with 95 % confidence" in line


def test_limits_of_autocorrelated_draws_are_wider():
    """A statement that is never true shows no autocorrelation; what it compares does."""
    slow = draws().isel(draw=np.repeat(np.arange(1000), 20))
    with interpreted():
        once, often = (
            bdmc.hypothesis(each, three(), "a > 4", random_seed=1).against_complement.upper
            for each in (draws(), slow)
        )
    assert often == pytest.approx(once, abs=0.3)  # each draw counts once; else log 20 less


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("a == 0", "a is continuous.*bdmc.point_null"),
        ("-b[0] != 0 and a > 0", "point_null"),
        ("a ** 0.5 > 1", r"a \*\* 0.5 is NaN at .*% of the draws"),
        ("not a ** 0.5 > 1", "neither true nor false"),
        ("`a > 0", "is no comparison.*backticks"),
        ("`a > 0` > 1", r"no variables \['a > 0'\]"),
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
