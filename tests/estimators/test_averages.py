"""Weighted posterior averages, reweighting to another prior, and the bootstrap."""

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc import estimators as est
from tests.models import SIGMAS
from tests.systems import GaussianWork


def test_error_is_the_spread_of_replicates():
    """x = log w has mean 0.64 under the tilted density N(0.64, 0.8²). Twins: equal weights."""
    x = np.random.default_rng(2).normal(0, 0.8, size=(1000, 200))
    runs = [est.weighted_average(row, row) for row in x]
    values, errors = np.array([(run.value, run.error) for run in runs]).T
    assert np.mean([run.valid for run in runs]) > 0.9
    assert np.mean(np.abs(values - 0.64) < 1.96 * errors) > 0.9
    assert np.mean(np.abs(x.mean(axis=1) - 0.64) < 1.96 * errors) < 0.1
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.1)
    assert np.sqrt(np.mean(errors**2)) != pytest.approx(x.std() / np.sqrt(200), rel=0.1)


def test_zero_weights_are_left_out_of_any_shape():
    values = np.array([[[np.inf], [1.0], [3.0]], [[0.0], [2.0], [4.0]]]).T
    average = est.weighted_average([-np.inf, 0.0, 0.0], values.transpose(1, 0, 2))
    assert average.value.tolist() == [[2.0, 3.0]]
    assert average.error.shape == (1, 2)
    nothing = est.weighted_average([-np.inf], [[1.0, 2.0]])
    assert np.isnan(nothing.value).tolist() == [True, True]
    assert not nothing.valid


def test_bootstrap_agrees_with_the_asymptotic_error():
    """The standard deviation of 200 replicates is good to 5 %. Twin: one direction resampled."""
    rng, work = np.random.default_rng(3), GaussianWork(stds=(1.5,), log_z=3.0)
    forward, reverse = work.forward(500, rng), work.reverse(300, rng)
    draws = est.bootstrap(est.bar, forward, reverse, replicates=200, random_seed=4)
    best = est.bar(forward, reverse)
    assert draws.estimate.value == best.value
    assert draws.estimate.error == pytest.approx(best.error, rel=0.15)
    lower, upper = draws.interval()
    assert lower < best.value < upper
    half = est.bootstrap(lambda f: est.bar(f, reverse), forward, replicates=200, random_seed=4)
    assert half.estimate.error != pytest.approx(best.error, rel=0.15)


# ---- Reweighting, by importance sampling whose answers are known ----

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


@pytest.mark.parametrize("scale", [0.5, 1.3])
def test_errors_of_reweighting_are_honest(scale):
    """Mean z² of 40 seeds is 1; by χ² it leaves 0.5 to 1.6 with probability 0.015.

    Broken twin: particles as if they had equal weights.
    """

    def mean_square(equal):
        z = []
        for seed in range(40):
            theta, shares, log_weights = runs(seed)
            used = np.full_like(shares, 1 / shares.shape[1]) if equal else shares
            found = est.reweighted_evidence(log_ratios(theta, scale), used, log_weights)
            log_z, factor = found.log_z, found.log_ratio
            z.append([
                (log_z.value - log_ml(scale)) / log_z.error,
                (factor.value - log_ml(scale) + log_ml(1)) / factor.error,
            ])  # fmt: skip
        return np.mean(np.square(z), axis=0)

    assert (abs(mean_square(equal=False) - 1.05) < 0.55).all()
    assert (mean_square(equal=True) > 3).all()


def test_reweighted_average_is_unbiased():
    """Ẑ itself, not its logarithm, over 200 seeds; α = 6e-5. Twin: a fifth more."""
    found = []
    for seed in range(200):
        theta, shares, log_weights = runs(seed, n_runs=4)
        new = est.reweighted_evidence(log_ratios(theta, 2.0), shares, log_weights)
        found.append(np.exp(new.log_weights).mean() / np.exp(log_ml(2.0)))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 1) < SIGMAS * error < abs(np.mean(found) * 1.2 - 1)


def test_the_same_or_a_like_model_has_a_precise_ratio():
    theta, shares, log_weights = runs(1)
    found = est.reweighted_evidence(np.zeros_like(theta), shares, log_weights)
    assert found.log_z.value == pytest.approx(est.jarzynski_forward(log_weights).value)
    assert found.log_ratio.value == pytest.approx(0.0, abs=1e-12)
    assert found.log_ratio.error == pytest.approx(0.0, abs=1e-12)
    found = est.reweighted_evidence(log_ratios(theta, 1.1), shares, log_weights)
    assert found.log_ratio.error < 0.5 * found.log_z.error


def test_particles_and_runs_without_weight_say_nothing():
    theta, shares, log_weights = runs(1)
    log_weights[0], shares[1, 0] = -np.inf, 0.0
    ratios = log_ratios(theta, 2.0)
    ratios[0], ratios[1, 0] = np.nan, np.inf
    found = est.reweighted_evidence(ratios, shares, log_weights)
    assert found.log_weights[0] == -np.inf
    assert np.isfinite(found.log_z.value)
    ratios[2, 0] = np.nan
    with pytest.raises(ValueError, match="NaN or"):
        est.reweighted_evidence(ratios, shares, log_weights)
    nothing = est.log_ratio_of_averages([-np.inf, -np.inf], [0.0, 1.0])
    assert np.isnan(nothing.value)
    assert not nothing.valid


def test_a_tiny_share_of_a_high_ratio_is_no_overflow():
    found = est.reweighted_evidence(np.tile([0.0, -1.0], (2, 1)), [[1e-320, 0.5]] * 2, [0.0, 0.0])
    assert found.log_weights == pytest.approx(np.log(0.5) - 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: est.weighted_average([0.0, 0.0], [1.0]), "do not fit"),
        (lambda: est.log_ratio_of_averages([0.0, 1.0], [0.0]), "cannot be paired"),
        (lambda: est.bootstrap(est.jarzynski_forward, [0.0], replicates=1), "at least 2"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
