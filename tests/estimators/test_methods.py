"""Estimators checked against one another, and the recommendation."""

import numpy as np
import pytest

from pymc_bdmc.estimators import compare_estimators, jarzynski_forward, methods
from tests.systems import GaussianWork


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


@pytest.mark.parametrize(("n_f", "n_r"), [(16, 16), (200, 200), (16, 1), (1, 16), (100, 3)])
def test_an_average_that_the_other_side_contradicts_is_not_recommended(n_f, n_r, monkeypatch):
    """Works of N(0, 0.1²) and N(70, 0.1²). The twin asks each side for itself only."""
    rng = np.random.default_rng(4)
    forward, reverse = rng.normal(0, 0.1, n_f), rng.normal(70, 0.1, n_r)
    found = compare_estimators(forward, reverse)
    assert found.recommended is None
    assert "70 nats apart" in found.estimates["forward average"].reason
    monkeypatch.setattr(methods, "MAX_DISAGREEMENT", np.inf)
    assert compare_estimators(forward, reverse).recommended is not None


@pytest.mark.parametrize(("n_f", "n_r"), [(100, 1), (100, 3), (3, 100)])
def test_few_chains_that_agree_do_not_speak_against_the_other_side(n_f, n_r):
    """At most 4 of 100 replicates differ by 3 standard errors; 0.3 are expected (α = 2e-5)."""
    work, rng = GaussianWork(stds=(0.3,)), np.random.default_rng(5)
    method = "forward average" if n_f > n_r else "reverse average"
    found = [
        compare_estimators(work.forward(n_f, rng), work.reverse(n_r, rng)).estimates[method]
        for _ in range(100)
    ]
    assert sum(not each.valid for each in found) <= 4
