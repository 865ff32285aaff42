"""The tail of weights: heavy ones are noted, and bounded ones do no harm."""

import numpy as np
import pytest

from pymc_bdmc.estimators import pareto_shape
from pymc_bdmc.estimators.checks import shape_by_states, shape_of_weights


@pytest.mark.parametrize(("n", "high"), [(128, 8), (1536, 40)])
def test_bounded_weights_have_no_heavy_tail(n, high):
    """A few weights are at their bound and the others nearly equal. The twin judges by k alone."""
    rng = np.random.default_rng(1)
    weights = 1 + 1e-4 * rng.exponential(size=n)
    weights[:high] = 2.2 - 0.1 * rng.random(high)
    assert pareto_shape(weights) > 1
    assert shape_of_weights(weights) == 0


@pytest.mark.parametrize("n", [128, 1536])
def test_a_heavy_tail_is_noted(n):
    """At least 90 % of 200 samples of weights without a mean are noted; 98 % are expected.

    With 128 weights the prior of k pulls a shape of 1.5 to 1.14 ± 0.33; α is below 1e-6.
    """
    samples = np.random.default_rng(2).pareto(1 / 1.5, size=(200, n))
    shapes = np.array([shape_of_weights(sample) for sample in samples])
    assert np.mean(shapes > 0.5) > 0.9
    assert np.mean(shapes) > 1


@pytest.mark.parametrize(("largest", "shape"), [(900.0, 1.0), (np.inf, 1.0), (0.0, 0.0)])
def test_a_tail_that_underflows_is_the_heaviest(largest, shape):
    """A few weights are e^900 times as large as the others, or infinite; equal ones have none."""
    assert shape_by_states(np.append(np.zeros(400), np.full(4, largest)))[0] == shape
