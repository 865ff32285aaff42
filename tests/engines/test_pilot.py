"""Tests of what a pilot's trace tells."""

import itertools

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.pilots import pilot
from pymc_bdmc.pilots.pilot import (
    ITERATIONS,
    LEAST_STILLNESS,
    MEMBERS,
    Trace,
    _rhat,
    _stillness,
)


def traced(thetas):
    """The trace of members with these states, shape (S, M, d); ℓ is the sum of their elements."""
    return Trace(thetas.sum(axis=2), thetas, np.empty((2, *thetas.shape)))


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_members_that_move_away_together_are_seen(correlation):
    """AR(1) chains of five elements: of 200 at the posterior less than 17 % are said to move (the
    level is 10 %, α = 1e-3), and all that move away by two deviations. R̂ over members, the twin,
    does not see these; at a correlation of 0.9 it sees that chains have not mixed, moving or not.
    """
    rng = np.random.default_rng(4)
    still, blind = [], []
    for _ in range(200):
        thetas = rng.normal(size=(ITERATIONS, MEMBERS, 5))
        for before, now in itertools.pairwise(thetas):
            now[:] = correlation * before + np.sqrt(1 - correlation**2) * now
        still.append(_stillness(traced(thetas)) >= LEAST_STILLNESS)
        away = traced(thetas + np.linspace(0, 2, ITERATIONS)[:, None, None])
        assert _stillness(away) < LEAST_STILLNESS
        blind.append(_rhat(away) <= MAX_RHAT)
    assert np.mean(still) > 0.83
    assert np.mean(blind) > 0.97 or correlation == 0.9


def test_a_member_that_moves_far_does_not_hide_that_others_stand_still(monkeypatch):
    """All but one stay near a place of their own, a hundred deviations apart.

    In the twin the variance within members is their mean, and they seem to have mixed.
    """
    rng = np.random.default_rng(5)
    thetas = rng.normal(size=(1, MEMBERS, 1)) + 0.01 * rng.normal(size=(ITERATIONS, MEMBERS, 1))
    thetas[:, 0] = rng.normal(0, 100, size=(ITERATIONS, 1))
    assert _rhat(traced(thetas[:, 1:])) > 10
    assert _rhat(traced(thetas)) > 10
    monkeypatch.setattr(np, "median", np.mean)
    assert _rhat(traced(thetas)) < MAX_RHAT


def test_fits_to_simulated_data_far_from_the_real_ones_come_to_their_posterior(monkeypatch):
    """With wide priors simulated outcomes are nearly separable, and their weights far larger.

    The gap is at most 0.2 in each of three calls with other seeds. The twin, which does not see
    that members drift together, has gaps from 3.6 to 8.
    """
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 20))
    y = rng.random(400) < 1 / (1 + np.exp(-x @ rng.normal(0, 0.5, 20)))
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, 10, shape=20)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, weights), observed=y.astype(int))

    options = {"path": "fitted", "temperatures": 10, "chains": 2, "random_seed": 1, "cores": 1}
    options |= {"simulate": bdmc.FromPrior(datasets=3), "progressbar": False}

    def gap():
        dt = pm.sample_bdmc(model, **options)
        return bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"]

    assert abs(gap()) < 0.3
    monkeypatch.setattr(pilot, "_stillness", lambda trace: 1.0)
    assert gap() > 1
