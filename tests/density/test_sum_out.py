"""Discrete variables with few values: what is said of them, and that its two lines work."""

import importlib.util
import logging

import numpy as np
import pymc as pm
import pytest
from scipy.special import betaln, gammaln, logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.density.structure import sum_out

CAUGHT = np.array([3, 2, 1, 1, 2, 1, 1, 3, 1, 1] + [0] * 30)
TRIALS = 5
SIGMAS = 4
"""Two-sided α = 6e-5."""


def capture_recapture():
    """Animals that were caught, and those that may be there: an indicator for each."""
    with pm.Model() as model:
        share, chance = pm.Beta("share", 1, 1), pm.Beta("chance", 1, 1)
        real = pm.Bernoulli("real", share, shape=len(CAUGHT))
        pm.Binomial("y", TRIALS, real * chance, observed=CAUGHT)
    return model


def log_ml():
    def choose(n, k):
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    size, seen, total = len(CAUGHT), np.sum(CAUGHT > 0), np.sum(CAUGHT)
    number = np.arange(seen, size + 1)
    return logsumexp(
        choose(size - seen, number - seen)
        + betaln(number + 1, size - number + 1)
        + choose(TRIALS, CAUGHT).sum()
        + betaln(total + 1, number * TRIALS - total + 1)
    )


def run(model, **options):
    options = dict(simulate=None, random_seed=1, cores=1, progressbar=False) | options
    return bdmc.sample_bdmc(model, **options)


def test_many_indicators_are_told_to_be_summed_out(caplog):
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        dt = run(capture_recapture(), temperatures=5, chains=40, particles=1)
    remedy = sum_out("real")
    assert f"40 discrete elements mix slowly. For short runs {remedy}" in caplog.text
    found = bdmc.log_ml(dt)
    assert not found.valid
    assert remedy in found.reason
    assert remedy in bdmc.verdict(dt).text
    assert any(remedy in doubt for doubt in bdmc.diagnose(dt))


def test_few_indicators_are_left_alone(caplog):
    with caplog.at_level(logging.INFO, "pymc.bdmc"), pm.Model() as model:
        pm.Normal("y", pm.Bernoulli("k", 0.5, shape=3), observed=[0.1, 1.0, 0.3])
        run(model, temperatures=5, chains=2, particles=1)
    assert "sum k out" not in caplog.text


@pytest.mark.skipif(not importlib.util.find_spec("pymc_extras"), reason="pip install pymc-extras")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_two_lines_work():
    names = {"model": capture_recapture()}
    for line in sum_out("real").split("`")[1::2]:
        exec(line, names)
    found = bdmc.log_ml(run(names["model"]))
    assert found.valid
    assert abs(found.value - log_ml()) < SIGMAS * found.error
