"""Weighted posterior averages and the bootstrap."""

import numpy as np
import pytest

from pymc_bdmc.estimators import bar, bootstrap, jarzynski_forward, weighted_average
from pymc_bdmc.testsystems import BimodalGaussian

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_average_over_two_modes():
    system, rng = BimodalGaussian(), np.random.default_rng(1)
    log_weights, states = system.anneal("forward", 40_000, rng)
    average = weighted_average(log_weights, system.parallel(states))
    assert average.valid
    assert abs(average.value - system.mean_parallel) < Z_ALPHA * average.error
    # Broken twin: without the weights, the modes count by what the chains found
    assert abs(system.parallel(states).mean() - system.mean_parallel) > Z_ALPHA * average.error


def test_error_is_the_spread_of_replicates():
    rng = np.random.default_rng(2)
    # x = log w has mean 0.64 under the tilted density N(0.64, 0.8²)
    x = rng.normal(0, 0.8, size=(1000, 200))
    runs = [weighted_average(row, row) for row in x]
    values, errors = (np.array([getattr(r, f) for r in runs]) for f in ("value", "error"))
    assert np.mean(np.abs(values - 0.64) < 1.96 * errors) > 0.9
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(values.std(), rel=0.1)
    assert np.sqrt(np.mean(errors**2)) != pytest.approx(x.std() / np.sqrt(200), rel=0.1)


def test_any_shape():
    values = np.arange(24.0).reshape(4, 3, 2)
    average = weighted_average(np.zeros(4), values)
    np.testing.assert_allclose(average.value, values.mean(axis=0))
    assert average.error.shape == (3, 2)


def test_zero_weights_are_left_out():
    average = weighted_average([-np.inf, 0.0, 0.0], [np.inf, 1.0, 3.0])
    assert average.value == 2.0
    nothing = weighted_average([-np.inf], [[1.0, 2.0]])
    assert np.isnan(nothing.value).tolist() == [True, True]
    assert not nothing.valid


def test_lengths_must_fit():
    with pytest.raises(ValueError, match="do not fit"):
        weighted_average([0.0, 0.0], [1.0])


def test_bootstrap_agrees_with_the_asymptotic_error(gaussian_work):
    rng = np.random.default_rng(3)
    forward, reverse = gaussian_work.forward(500, rng), gaussian_work.reverse(300, rng)
    draws = bootstrap(bar, forward, reverse, replicates=400, random_seed=4)
    best = bar(forward, reverse)
    assert draws.estimate.value == best.value
    # The standard deviation of 400 replicates is good to 3.5 %.
    assert draws.estimate.error == pytest.approx(best.error, rel=0.15)
    lower, upper = draws.interval()
    assert lower < best.value < upper
    # Broken twin: resampling one direction only
    half = bootstrap(lambda f: bar(f, reverse), forward, replicates=400, random_seed=4)
    assert half.estimate.error != pytest.approx(best.error, rel=0.15)


def test_bootstrap_is_seeded():
    forward = np.random.default_rng(5).normal(size=50)
    first, second = (
        bootstrap(jarzynski_forward, forward, replicates=10, random_seed=6) for _ in range(2)
    )
    np.testing.assert_array_equal(first.log_z, second.log_z)


def test_bootstrap_needs_replicates():
    with pytest.raises(ValueError, match="at least 2"):
        bootstrap(jarzynski_forward, [0.0], replicates=1)
