"""Labelled estimates and certified bounds are those of the plain estimators, row by row."""

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import (
    bar,
    certified_bounds,
    certified_lower,
    certified_probability,
    compare_estimators,
)
from tests.results.trees import tree
from tests.systems import GaussianWork

WORK = GaussianWork(stds=(1.0,), log_z=-7.0)
RNG = np.random.default_rng(3)
FORWARD = np.array([WORK.forward(200, RNG) for _ in range(2)])
REVERSE = np.array([WORK.reverse(100, RNG) for _ in range(2)])
REAL = GaussianWork(stds=(0.3,), log_z=-7.0).forward(150, RNG)


REVERSE = np.concatenate([REVERSE, np.full((2, 100), np.nan)], axis=1)
DT = tree(FORWARD, REVERSE, REAL)


def test_all_methods_with_one_recommendation_a_data_set():
    table = bdmc.evidence(DT)
    both = set(compare_estimators(FORWARD[0], REVERSE[0, :100]).estimates)
    methods = {key: {m for *_, m in rows.index} for key, rows in table.groupby(level=[0, 1])}
    forward = {"forward average", "cumulant forward"}
    assert methods == {("simulated", 0): both, ("simulated", 1): both, ("real", 0): forward}
    assert table.groupby(level=[0, 1])["recommended"].sum().tolist() == [1, 1, 1]
    of_bar = bdmc.evidence(DT, "bar")
    assert list(of_bar.index) == [("simulated", d, "bar") for d in range(2)]
    for d in range(2):
        expected, row = bar(FORWARD[d], REVERSE[d, :100]), of_bar.loc[("simulated", d, "bar")]
        assert (row["value"], row["error"]) == (expected.value, expected.error)
        assert abs(row["value"] + 7) < 4 * row["error"]


def test_unknown_and_impossible_methods_are_refused():
    with pytest.raises(ValueError, match=r"'mbar' is not among \['bar', 'histogram'"):
        bdmc.evidence(DT, "mbar")
    with pytest.raises(ValueError, match=r"'bar' is not among \['forward average'"):
        bdmc.evidence(tree(real=REAL), "bar")


def test_certified_bounds_need_an_exact_start_for_an_upper_side():
    table = bdmc.certified(DT, confidence=0.9)
    expected = certified_bounds(FORWARD[1], REVERSE[1, :100], 0.95)
    assert table.loc[("simulated", 1), "lower"] == expected.lower
    assert table.loc[("simulated", 1), "upper"] == expected.upper
    only_lower = certified_lower(REAL, 0.95, kind="order statistics")
    assert table.loc[("real", 0), "lower"] == only_lower.lower
    assert table.loc[("real", 0), "upper"] == np.inf
    assert (table["lower"] < -7).all()
    assert (table["upper"] > -7).all()
    burned_in = bdmc.certified(tree(FORWARD, REVERSE, status="burned-in"))
    assert (burned_in["upper"] == np.inf).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        bdmc.certified(DT, confidence=-0.5)


def test_a_hard_constraint_moves_bounds():
    certified = bdmc.certified(tree(real=REAL, draws=4.0))
    lower = certified_lower(REAL, 0.9875, kind="order statistics").lower
    mass = certified_probability(600, 150, 0.9875)
    assert certified.loc[("real", 0), "lower"] == pytest.approx(lower + mass.lower)


@pytest.mark.parametrize("mass", [0.99, 0.95, 0.5])
def test_certified_lower_bound_covers_whether_or_not_a_draw_was_rejected(mass):
    """80 % of 500 runs of 32 chains of equal weights: draws are rejected in few, most or all."""
    draws = np.random.default_rng(4).geometric(mass, size=(500, 32))
    weights = np.zeros((500, 32))
    dt = tree(weights, weights, prior_draws=(("dataset", "chain"), draws))
    assert np.mean(bdmc.certified(dt, 0.8)["lower"] > np.log(mass)) <= 0.2
    # Broken twin: P(S) taken to be K/N exactly
    trusting = certified_lower(weights[0], 0.8, kind="order statistics").lower
    failed = np.mean(trusting + np.log(32 / draws.sum(axis=1)) > np.log(mass))
    assert (failed > 0.2) == (mass == 0.5)


def test_the_real_data_get_a_recommendation_where_it_covers():
    """64 chains of 0.7 nats, as runs on real data have; 1 of 40 without one would be α < 1e-3."""
    rows = np.random.default_rng(9).normal(-0.245, 0.7, (40, 64))
    tables = [bdmc.evidence(tree(real=row)) for row in rows]
    assert sum(table["recommended"].any() for table in tables) >= 38
    values, errors = np.array([t.loc[t["recommended"], ["value", "error"]].iloc[0] for t in tables
                               if t["recommended"].any()]).T  # fmt: skip
    assert np.mean(np.abs(values) < 1.96 * errors) > 0.8
