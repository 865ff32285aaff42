"""Reweighting to another prior, on importance sampling whose answers are known."""

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc.estimators import jarzynski_forward, log_ratio_of_averages, reweighted_evidence
from tests.models import SIGMAS

Y = 2.5
"""One observation with standard deviation 1; the prior of its mean is N(0, scale²)."""


def log_ml(scale):
    return stats.norm.logpdf(Y, 0, np.hypot(1, scale))


def runs(seed, n_runs=32, n_particles=50):
    """Draws from the prior N(0, 1), their weights within a run, and log Ẑ of the runs."""
    theta = np.random.default_rng(seed).normal(size=(n_runs, n_particles))
    likelihood = stats.norm.pdf(Y, theta)
    shares = likelihood / likelihood.sum(axis=1, keepdims=True)
    return theta, shares, np.log(likelihood.mean(axis=1))


def log_ratios(theta, scale):
    return stats.norm.logpdf(theta, 0, scale) - stats.norm.logpdf(theta)


@pytest.mark.parametrize("scale", [0.5, 0.8, 1.3])
def test_errors_are_honest(scale):
    """Mean z² of 40 seeds is 1; by χ² it leaves 0.5 to 1.6 with probability 0.015."""

    def mean_square(equal):
        z, factors = [], []
        for seed in range(40):
            theta, shares, log_weights = runs(seed)
            used = np.full_like(shares, 1 / shares.shape[1]) if equal else shares
            found = reweighted_evidence(log_ratios(theta, scale), used, log_weights)
            z.append((found.log_z.value - log_ml(scale)) / found.log_z.error)
            factor = found.log_ratio
            factors.append((factor.value - log_ml(scale) + log_ml(1)) / factor.error)
        return np.mean(np.square(z)), np.mean(np.square(factors))

    assert all(0.5 < each < 1.6 for each in mean_square(equal=False))
    # Broken twin: particles as if they had equal weights
    assert min(mean_square(equal=True)) > 3


def test_average_is_unbiased():
    """Ẑ itself, not its logarithm, over 400 seeds; α = 6e-5."""
    scale, found = 2.0, []
    for seed in range(400):
        theta, shares, log_weights = runs(seed, n_runs=4)
        new = reweighted_evidence(log_ratios(theta, scale), shares, log_weights)
        found.append(np.exp(new.log_weights).mean() / np.exp(log_ml(scale)))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 1) < SIGMAS * error
    assert abs(np.mean(found) * 1.1 - 1) > SIGMAS * error  # broken twin


def test_the_same_model_is_the_same_average():
    theta, shares, log_weights = runs(1)
    found = reweighted_evidence(np.zeros_like(theta), shares, log_weights)
    assert found.log_z.value == pytest.approx(jarzynski_forward(log_weights).value)
    assert found.log_ratio.value == pytest.approx(0.0, abs=1e-12)
    assert found.log_ratio.error == pytest.approx(0.0, abs=1e-12)


def test_common_particles_make_the_ratio_more_precise():
    theta, shares, log_weights = runs(1)
    found = reweighted_evidence(log_ratios(theta, 1.1), shares, log_weights)
    assert found.log_ratio.error < 0.5 * found.log_z.error


def test_particles_and_runs_without_weight_say_nothing():
    theta, shares, log_weights = runs(1)
    log_weights[0], shares[1, 0] = -np.inf, 0.0
    ratios = log_ratios(theta, 2.0)
    ratios[0], ratios[1, 0] = np.nan, np.inf
    found = reweighted_evidence(ratios, shares, log_weights)
    assert found.log_weights[0] == -np.inf
    assert np.isfinite(found.log_z.value)
    ratios[2, 0] = np.nan
    with pytest.raises(ValueError, match="NaN or"):
        reweighted_evidence(ratios, shares, log_weights)


def test_ratios_without_weight_or_partner():
    nothing = log_ratio_of_averages([-np.inf, -np.inf], [0.0, 1.0])
    assert np.isnan(nothing.value)
    assert not nothing.valid
    with pytest.raises(ValueError, match="cannot be paired"):
        log_ratio_of_averages([0.0, 1.0], [0.0])
