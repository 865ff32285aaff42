"""Estimators checked against one another, by the chains of both directions."""

import numpy as np
import pytest

from pymc_bdmc.estimators import compare_estimators, jarzynski_forward, methods
from tests.systems import GaussianWork


def test_forward_average_that_misses_a_spike_is_found_out():
    """A spike that one forward chain in 10,000 finds holds 90 % of Z."""
    work = GaussianWork(means=(0.0, 11.4), stds=(0.5, 0.5), weights=(0.9999, 0.0001), log_z=3.0)
    rng = np.random.default_rng(1)
    forward, reverse = work.forward(200, rng), work.reverse(4000, rng)
    assert jarzynski_forward(forward).valid  # its own check cannot know
    found = compare_estimators(forward, reverse)
    assert found.recommended == "bar"
    assert abs(found.estimates["bar"].value - 3.0) < 3.5 * found.estimates["bar"].error
    assert not found.estimates["forward average"].valid
    assert "differs from bar" in found.estimates["forward average"].reason


@pytest.mark.parametrize(
    ("std", "chains", "valid", "recommended", "reason"),
    [
        (0.4, 400, 7, {"bar", "forward average", "reverse average"}, ""),
        (8.0, 60, 0, {None, "cumulant combined"}, "bar"),
        (0.0, 1, 0, {None}, "no estimator"),
    ],
)
def test_what_is_recommended(std, chains, valid, recommended, reason):
    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(2)
    found = compare_estimators(work.forward(chains, rng), work.reverse(chains, rng))
    assert len(found.estimates) == 7
    assert sum(each.valid for each in found.estimates.values()) >= valid
    assert found.recommended in recommended
    assert reason in found.reason


@pytest.mark.parametrize(("n_f", "n_r"), [(200, 200), (16, 1), (1, 16)])
def test_an_average_that_the_other_side_contradicts_is_not_recommended(n_f, n_r, monkeypatch):
    """Works of N(0, 0.1²) and N(70, 0.1²). The twin asks each side for itself only."""
    rng = np.random.default_rng(4)
    forward, reverse = rng.normal(0, 0.1, n_f), rng.normal(70, 0.1, n_r)
    found = compare_estimators(forward, reverse)
    assert found.recommended is None
    assert "70 nats apart" in found.estimates["forward average"].reason
    monkeypatch.setattr(methods, "MAX_DISAGREEMENT", np.inf)
    assert compare_estimators(forward, reverse).recommended is not None


@pytest.mark.parametrize(
    ("forward", "reverse", "recommended"),
    [
        ([0.0], [0.0], "bar"),
        ([-501.0, -500.0], [500.0, 501.0], None),
        ([-np.inf, 0.0, 0.1], [0.0, np.inf], None),
    ],
)
def test_extreme_weights_are_judged_without_a_warning(forward, reverse, recommended):
    """Equal ones, ones a thousand nats apart, and infinite ones."""
    found = compare_estimators(np.resize(forward, 60), np.resize(reverse, 60))
    assert found.recommended == recommended
