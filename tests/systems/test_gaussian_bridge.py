"""The Gaussian bridge: simulation against its log Z."""

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
