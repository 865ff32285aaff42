"""The Gaussian bridge: closed forms against simulation and against each other."""

import numpy as np
import pytest

from pymc_bdmc.estimators import bar
from tests.systems import GaussianBridge

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 for each of at most twenty comparisons

BRIDGES = {
    "short": GaussianBridge.linear(2, correlation=0.5),
    "long": GaussianBridge.linear(200, correlation=0.9),
    "linear": GaussianBridge.linear(10, correlation=0.5),
    "geometric": GaussianBridge.geometric(30, correlation=0.8),
    "equal": GaussianBridge.equal_divergence(20, correlation=0.3),
}


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("name", BRIDGES)
def test_moments_of_the_log_weight(name, direction):
    bridge, rng = BRIDGES[name], np.random.default_rng(1)
    draws = getattr(bridge, direction)(50_000, rng)
    mean, variance = bridge.log_weight_moments(direction)
    squares = (draws - draws.mean()) ** 2

    def deviations(mean, variance):
        return np.sqrt(draws.size) * np.array(
            [abs(draws.mean() - mean) / draws.std(), abs(squares.mean() - variance) / squares.std()]
        )

    assert (deviations(mean, variance) < Z_ALPHA).all()
    # Broken twin: moments as if a chain's states were independent of one another
    fresh = GaussianBridge(bridge.means, bridge.stds, correlation=0.0)
    assert (deviations(*fresh.log_weight_moments(direction)) > Z_ALPHA).any()


@pytest.mark.parametrize("name", BRIDGES)
def test_both_directions_estimate_log_z(name):
    bridge, rng = BRIDGES[name], np.random.default_rng(2)
    estimate = bar(bridge.forward(5000, rng), bridge.reverse(5000, rng))
    assert abs(estimate.value - bridge.log_z) < Z_ALPHA * estimate.error
    assert bridge.log_z == pytest.approx(-np.log(10))


def test_moments_bracket_log_z_and_bound_the_divergence():
    for steps in (2, 10, 50, 200):
        bridge = GaussianBridge.linear(steps, correlation=0.5)
        lower = bridge.log_weight_moments("forward")[0]
        upper = bridge.log_weight_moments("reverse")[0]
        assert lower < bridge.log_z < upper
        assert upper - lower >= sum(bridge.divergence())


def test_one_step_is_importance_sampling():
    # x ~ N(0, 4), log w = x²/8 − x²/2: mean −3/2, variance 2 (3/2)²
    bridge = GaussianBridge((0.0, 0.0), (2.0, 1.0))
    assert bridge.log_weight_moments("forward") == pytest.approx((-1.5, 4.5))
    assert bridge.log_weight_moments("reverse") == pytest.approx((-0.375, 0.28125))


def test_independent_kernel_reaches_every_target():
    bridge = GaussianBridge.linear(5, correlation=0.0)
    means, stds = bridge.marginals("forward")
    np.testing.assert_allclose(means, bridge.means)
    np.testing.assert_allclose(stds, bridge.stds)
    assert bridge.divergence() == pytest.approx((0, 0))


@pytest.mark.parametrize("curve", ["linear", "geometric"])
@pytest.mark.parametrize("steps", [1, 2, 7, 60])
def test_equal_divergence(curve, steps):
    bridge = GaussianBridge.equal_divergence(steps, bridge=curve)
    means, stds = np.array(bridge.means), np.array(bridge.stds)
    ratio, shift = stds[:-1] / stds[1:], np.diff(means) / stds[1:]
    steps_apart = (shift**2 + ratio**2 - 1) / 2 - np.log(ratio)
    np.testing.assert_allclose(steps_apart, steps_apart[0], rtol=1e-6)
    assert (means[0], means[-1], stds[0]) == (20.0, 0.0, 10.0)
    assert stds[-1] == pytest.approx(1.0)


def test_geometric_bridge_is_the_tempered_path():
    bridge = GaussianBridge.geometric(4)
    x = np.linspace(-3, 3, 7)

    def log_f(k):
        return -(((x - bridge.means[k]) / bridge.stds[k]) ** 2) / 2

    between = 0.75 * log_f(0) + 0.25 * log_f(4) - log_f(1)
    np.testing.assert_allclose(between, between[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GaussianBridge((0.0,), (1.0,)), "at least 2"),
        (lambda: GaussianBridge((0.0, 0.0), (1.0, 0.0)), "positive"),
        (lambda: GaussianBridge((0.0, 0.0), (1.0, 1.0), correlation=1.0), "correlation"),
        (lambda: GaussianBridge.linear(2, path=[0, 1, 0.5]), "increase from 0 to 1"),
        (lambda: GaussianBridge.equal_divergence(2, bridge="other"), "bridge must be"),
        (lambda: GaussianBridge.linear(2).marginals("backward"), "direction"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
