"""One-sided divergence bounds and the e-value of the sandwich."""

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc.estimators import (
    clustered_mean,
    clustered_median,
    forward_divergence,
    jeffreys_bound,
    log_e_values,
    reverse_divergence,
)
from tests.systems import GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_divergences_of_gaussian_work():
    # E[log Z − log w_f] = E[log w_r − log Z] = σ²/2
    work, rng = GaussianWork(stds=(2.0,), log_z=5.0), np.random.default_rng(1)
    for estimate in (
        forward_divergence(work.forward(4000, rng), upper=5.0),
        reverse_divergence(work.reverse(4000, rng), lower=5.0),
    ):
        assert abs(estimate.value - 2.0) < Z_ALPHA * estimate.error
        assert abs(-estimate.value - 2.0) > Z_ALPHA * estimate.error  # sign swapped


@pytest.mark.parametrize(
    "estimate", [clustered_mean, clustered_median, lambda rows: jeffreys_bound(-rows, rows)]
)
def test_an_error_over_data_sets_contains_their_spread(estimate):
    """Of 500 averages over 12 data sets of 4 chains each, 5 % are outside their interval by t.

    Within 4 standard errors of this number, α = 6e-5. Twin: all chains are taken as independent.
    """
    rng = np.random.default_rng(4)
    cases = 2 * rng.normal(size=(500, 12, 1)) + 0.5 * rng.normal(size=(500, 12, 4))

    def outside(cases):
        values, errors = np.transpose([estimate(each) for each in cases])
        return np.sum(abs(values) > stats.t.isf(0.025, 11) * errors)

    assert 6 <= outside(cases) <= 44 < outside(cases.reshape(500, 1, 48))


def test_zero_weight_bounds_nothing():
    estimate = forward_divergence([0.0, -np.inf], upper=1.0)
    assert estimate.value == np.inf
    assert not estimate.valid


def e_values(replicates, shift, datasets=3):
    """E-values after each data set, where forward weights are too high by so many nats."""
    rng = np.random.default_rng(2)
    work, wrong = GaussianWork(stds=(0.5,)), GaussianWork(stds=(0.5,), log_z=shift)

    def rows(of, chains):
        return [of(chains, rng) for _ in range(datasets)]

    found = [log_e_values(rows(wrong.forward, 4), rows(work.reverse, 6)) for _ in range(replicates)]
    return np.exp(found)


def test_e_value_has_expectation_one_and_grows_for_a_broken_sampler():
    """Three comparisons, α = 6.5e-4. The twin's forward weights are too high by 0.4 nats."""
    for shift in (0.0, 0.4):
        values = e_values(300, shift)
        score = np.abs(values.mean(axis=0) - 1) / values.std(axis=0) * np.sqrt(300)
        assert ((score < 3.7) == (shift == 0)).all()
    assert e_values(1, 2.0, datasets=20)[0, -1] > 1e6


def test_rows_differ_in_length_but_directions_must_match():
    assert log_e_values([[0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0]]).tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="shorter"):
        log_e_values([[0.0], [0.0]], [[0.0]])
