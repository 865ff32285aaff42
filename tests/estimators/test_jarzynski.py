"""Exponential averages: log of mean, not mean of logs; and a check that speaks up."""

import numpy as np
import pytest

from pymc_bdmc.estimators import jarzynski_forward, jarzynski_reverse
from pymc_bdmc.testsystems import GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_mean_of_logs_for_log_of_mean(gaussian_work):
    rng = np.random.default_rng(1)
    forward, reverse = gaussian_work.forward(20_000, rng), gaussian_work.reverse(20_000, rng)
    for estimate, mean_of_logs in [
        (jarzynski_forward(forward), forward.mean()),
        (jarzynski_reverse(reverse), reverse.mean()),
    ]:
        assert estimate.valid
        assert abs(estimate.value - 3.0) < Z_ALPHA * estimate.error
        assert abs(mean_of_logs - 3.0) > 10 * estimate.error


def test_swapped_sign_of_reverse_work(gaussian_work):
    reverse = gaussian_work.reverse(2000, np.random.default_rng(2))
    estimate = jarzynski_reverse(-reverse)
    assert abs(estimate.value - 3.0) > 1.0


@pytest.mark.parametrize("n", [50, 200, 2000])
def test_says_invalid_where_coverage_drops(n):
    # At a spread of 3 nats a 95 % interval covers 48, 58, 73 %.
    work, rng = GaussianWork(stds=(3.0,)), np.random.default_rng(3)
    valid = [jarzynski_forward(work.forward(n, rng)).valid for _ in range(200)]
    assert np.mean(valid) < 0.05


def test_says_valid_for_easy_work():
    work, rng = GaussianWork(stds=(0.3,)), np.random.default_rng(4)
    valid = [jarzynski_forward(work.forward(100, rng)).valid for _ in range(200)]
    assert np.mean(valid) > 0.9


def test_all_weights_zero():
    estimate = jarzynski_forward([-np.inf, -np.inf])
    assert estimate.value == -np.inf
    assert np.isnan(estimate.error)
    assert not estimate.valid
