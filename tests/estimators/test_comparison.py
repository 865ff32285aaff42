"""Estimators checked against one another, and the recommendation."""

import numpy as np

from pymc_bdmc.estimators import compare_estimators, jarzynski_forward
from pymc_bdmc.testsystems import GaussianWork


def test_forward_average_that_misses_a_spike_is_found_out(spike_work):
    rng = np.random.default_rng(1)
    forward, reverse = spike_work.forward(200, rng), spike_work.reverse(4000, rng)
    assert jarzynski_forward(forward).valid  # its own check cannot know
    found = compare_estimators(forward, reverse)
    assert found.recommended == "bar"
    average = found.estimates["forward average"]
    assert not average.valid
    assert "differs from bar" in average.reason


def test_estimates_that_agree_stay_valid():
    work, rng = GaussianWork(stds=(0.4,)), np.random.default_rng(2)
    found = compare_estimators(work.forward(400, rng), work.reverse(400, rng))
    assert len(found.estimates) == 7
    assert all(e.valid for e in found.estimates.values())


def test_without_overlap_nothing_of_bar_is_recommended():
    work, rng = GaussianWork(stds=(8.0,)), np.random.default_rng(3)
    found = compare_estimators(work.forward(60, rng), work.reverse(60, rng))
    assert not found.estimates["bar"].valid
    assert found.recommended in (None, "cumulant combined")
    assert "bar" in found.reason


def test_nothing_to_recommend():
    found = compare_estimators([0.0], [40.0])
    assert found.recommended is None
    assert "no estimator" in found.reason
