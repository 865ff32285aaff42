"""Block analysis of exponential averages: spread, bias, limits and the central-limit check."""

import numpy as np
import pytest

from pymc_bdmc.estimators import error_analysis, jarzynski_forward
from tests.systems import GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_spread_and_bias_of_block_averages():
    """B(M) = C + D, where D(N) is tiny. Twin: the sign of the bias."""
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(1)
    analysis = error_analysis(work.forward(2**17, rng))
    for index in (0, 3):
        m = analysis.block_sizes[index]
        draws = work.forward(m * 4000, rng).reshape(4000, m)
        averages = np.log(np.exp(draws).mean(axis=1))
        assert analysis.variance[index] == pytest.approx(averages.var(), rel=0.1)
        error = averages.std() * np.sqrt(1 / 4000 + m / 2**17)
        assert abs(analysis.drift[index] - averages.mean()) < Z_ALPHA * error
        assert abs(-analysis.drift[index] - averages.mean()) > Z_ALPHA * error
        lower, upper = analysis.mean_square_error[:, index]
        assert 0.9 * lower <= np.mean(averages**2) <= 1.1 * upper
    # M = 1 is the mean of the logs: −σ²/2
    assert analysis.drift[0] == pytest.approx(-0.5, abs=0.02)


def jarzynski_forward_value(analysis):
    return analysis.estimate.value + np.mean(analysis.limits)


def test_limits_cover():
    """They are limits of log Ẑ, since log Z = 0, and not symmetric. Twin: half of them."""
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(2)
    runs = [error_analysis(work.forward(1000, rng)) for _ in range(500)]
    errors = np.array([jarzynski_forward_value(r) for r in runs])
    low, high = np.transpose([r.limits for r in runs])
    tolerance = Z_ALPHA * np.sqrt(500 * 0.95 * 0.05)
    assert abs(np.sum((low <= errors) & (errors <= high)) - 475) < tolerance
    assert abs(np.sum((low <= 2 * errors) & (2 * errors <= high)) - 475) > tolerance
    reach = (high - low) / 2
    np.testing.assert_allclose((low + high) / 2, -(reach**2) / (2 * 1.959964**2), rtol=1e-5)


def test_estimate_is_the_average_less_its_bias():
    forward = GaussianWork().forward(1000, np.random.default_rng(3))
    analysis, mirrored = error_analysis(forward), error_analysis(-forward, "reverse")
    assert jarzynski_forward_value(analysis) == pytest.approx(jarzynski_forward(forward).value)
    assert analysis.estimate.value > jarzynski_forward(forward).value
    weights = np.exp(forward)
    delta = weights.std(ddof=1) / weights.mean() / np.sqrt(1000)
    assert analysis.estimate.error == mirrored.estimate.error == pytest.approx(delta)
    assert mirrored.estimate.value == -analysis.estimate.value
    assert mirrored.limits == analysis.limits


def test_zero_weights():
    values = np.where(np.arange(4096) % 2, 0.0, -np.inf)
    analysis = error_analysis(values)
    assert analysis.block_sizes[0] > 1  # single weights have no finite logs
    assert analysis.estimate.value == pytest.approx(np.log(0.5), abs=1e-3)
    sparse = np.append(0.0, np.full(4095, -np.inf))
    assert not error_analysis(sparse).estimate.valid


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(63),), "64 chains"),
        ((np.full(64, -np.inf),), "every weight is zero"),
        ((np.zeros(64), "sideways"), "direction"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        error_analysis(*arguments)
