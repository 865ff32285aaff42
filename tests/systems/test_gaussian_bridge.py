"""The Gaussian bridge: closed forms against simulation and against each other."""

import numpy as np
import pytest

from pymc_bdmc.estimators import bar
from tests.systems import GaussianBridge

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 a comparison

BRIDGES = {
    "long": GaussianBridge.linear(200, correlation=0.9),
    "geometric": GaussianBridge.geometric(30, correlation=0.8),
    "equal": GaussianBridge.equal_divergence(20, correlation=0.3),
}


@pytest.mark.parametrize("name", BRIDGES)
def test_both_directions_estimate_log_z(name):
    """Twin: forward runs are taken for reverse ones."""
    bridge, rng = BRIDGES[name], np.random.default_rng(2)
    forward, reverse = bridge.forward(5000, rng), bridge.reverse(5000, rng)
    estimate, broken = bar(forward, reverse), bar(forward, bridge.forward(5000, rng))
    assert abs(estimate.value - bridge.log_z) < Z_ALPHA * estimate.error
    assert abs(broken.value - bridge.log_z) > Z_ALPHA * estimate.error
    assert bridge.log_z == pytest.approx(-np.log(10))


@pytest.mark.parametrize("steps", [1, 2, 60])
def test_equal_divergence(steps):
    bridge = GaussianBridge.equal_divergence(steps, correlation=0.5)
    means, stds = np.array(bridge.means), np.array(bridge.stds)
    ratio, shift = stds[:-1] / stds[1:], np.diff(means) / stds[1:]
    steps_apart = (shift**2 + ratio**2 - 1) / 2 - np.log(ratio)
    np.testing.assert_allclose(steps_apart, steps_apart[0], rtol=1e-6)
    assert (means[0], means[-1], stds[0]) == (20.0, 0.0, 10.0)
    assert stds[-1] == pytest.approx(1.0)


def test_geometric_bridge_is_the_tempered_path():
    bridge, x = GaussianBridge.geometric(4), np.linspace(-3, 3, 7)

    def log_f(k):
        return -(((x - bridge.means[k]) / bridge.stds[k]) ** 2) / 2

    between = 0.75 * log_f(0) + 0.25 * log_f(4) - log_f(1)
    np.testing.assert_allclose(between, between[0])
