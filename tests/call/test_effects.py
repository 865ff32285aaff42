"""Effects of many families, in groups that do not interact, weighed group by group."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from tests.models import SIGMAS

QUANTILES = (np.arange(20_000) + 0.5) / 20_000
SCALES = np.exp(np.linspace(-7, 3, 400))


def normal_rows(y):
    return lambda x: pm.Normal("y", x, 0.5, observed=y), lambda x: stats.norm.logpdf(y, x, 0.5)


def count_rows(y):
    return lambda x: pm.Poisson("y", 3 * x, observed=y), lambda x: stats.poisson.logpmf(y, 3 * x)


def trial_rows(y):
    return lambda x: pm.Binomial("y", 10, x, observed=y), lambda x: stats.binom.logpmf(y, 10, x)


def log_ml(quantiles_at, log_likelihood):
    """By quadrature over the half-normal scale, and over quantiles of each effect given it."""

    def given(scale):
        each = log_likelihood(quantiles_at(scale)[:, None])
        return (logsumexp(each, axis=0) - np.log(len(each))).sum()

    logs = [given(s) + stats.halfnorm.logpdf(s) + np.log(s) for s in SCALES]
    return logsumexp(logs) + np.log(np.log(SCALES[1] / SCALES[0]))


RNG, RATES = np.random.default_rng(1), np.random.default_rng(2)
FAMILIES = {
    "exponential": (
        lambda s: pm.Exponential("x", scale=s, shape=20),
        lambda s: stats.expon.ppf(QUANTILES, scale=s),
        normal_rows(RNG.normal(RNG.exponential(0.5, 20), 0.5)),
    ),
    "gamma near 0": (
        lambda s: pm.Gamma("x", 0.3, 1 / s, shape=20),
        lambda s: stats.gamma.ppf(QUANTILES, 0.3, scale=s),
        count_rows(RATES.poisson(3 * RATES.gamma(0.3, 1, 20))),
    ),
    "gamma": (
        lambda s: pm.Gamma("x", 1.5, 1 / s, shape=20),
        lambda s: stats.gamma.ppf(QUANTILES, 1.5, scale=s),
        count_rows(RNG.poisson(3 * RNG.gamma(1.5, 1, 20))),
    ),
    "log-normal": (
        lambda s: pm.LogNormal("x", 0, s, shape=20),
        lambda s: stats.lognorm.ppf(QUANTILES, s),
        count_rows(RNG.poisson(3 * RNG.lognormal(0, 0.7, 20))),
    ),
    "beta": (
        lambda s: pm.Beta("x", 1 / s, 2 / s, shape=20),
        lambda s: stats.beta.ppf(QUANTILES, 1 / s, 2 / s),
        trial_rows(RNG.binomial(10, RNG.beta(2, 4, 20))),
    ),
    "logistic": (
        lambda s: pm.Logistic("x", 0, s, shape=20),
        lambda s: stats.logistic.ppf(QUANTILES, 0, s),
        normal_rows(RNG.normal(RNG.logistic(0, 0.5, 20), 0.5)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_log_ml_is_right_by_default_and_on_the_real_data_alone(family):
    """α = 6e-5 each; the verdict by default is good. The quick form is test_rates_are_weighed."""
    prior, quantiles_at, (rows, log_likelihood) = FAMILIES[family]
    with pm.Model() as model:
        rows(prior(pm.HalfNormal("scale", 1)))
    exact = log_ml(quantiles_at, log_likelihood)
    for options in ({}, {"simulate": None}):
        dt = pm.sample_bdmc(model, random_seed=1, progressbar=False, **options)
        assert "20 latent variables" in dt.attrs["path_reason"]
        found = bdmc.log_ml(dt)
        assert found.error < 0.1
        assert abs(found.value - exact) < SIGMAS * found.error
        assert options or bdmc.verdict(dt).status == "good"
