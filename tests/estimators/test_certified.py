"""Certified bounds: failure probabilities enumerated where the inequalities are tight."""

import numpy as np
import pytest
from scipy.stats import binom, nbinom

from pymc_bdmc import estimators as est
from tests.systems import GaussianWork

# Markov's inequality is tight for w = Z·a with probability 1/a and nearly zero otherwise.
GRID = np.geomspace(1.001, 1e4, 200)
SMALL = -1e3


def failure_probability(bound, chains, grid=GRID):
    """Largest probability over the two-point weights that a lower bound exceeds log Z = 0."""

    def probability(a):
        hits = np.arange(chains + 1)
        weights = [np.repeat([np.log(a), SMALL], [m, chains - m]) for m in hits]
        failed = np.array([bound(w) > 1e-9 for w in weights])
        return binom.pmf(hits, chains, 1 / a)[failed].sum()

    return max(probability(a) for a in grid)


@pytest.mark.parametrize("kind", ["mean", "order statistics"])
def test_lower_bound_fails_with_probability_delta_at_most(kind):
    for chains in (1, 16):
        found = failure_probability(lambda w: est.certified_lower(w, 0.9, kind=kind).lower, chains)
        assert found <= 0.1


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_one_rank_spends_its_whole_budget(rank):
    """The smallest weight has a closed form. Broken twin: half the slack."""

    def bound(w):
        return est.certified_lower(w, 0.9, kind="order statistics", ranks=[rank]).lower

    slack = -bound(np.zeros(8))
    assert rank > 1 or slack == pytest.approx(-np.log(0.1) / 8)
    worst = [np.exp(slack) * (1 + 1e-6)]
    assert failure_probability(bound, 8, worst) == pytest.approx(0.1, abs=1e-4)
    assert failure_probability(bound, 8) <= 0.1
    assert failure_probability(lambda w: bound(w) + slack / 2, 8) > 0.1


def test_several_ranks_share_delta():
    """A continuous tail hits different ranks in different runs. Twin: each spends all of δ."""

    def lower(w, ranks):
        return est.certified_lower(w, 0.9, kind="order statistics", ranks=ranks).lower

    runs = GaussianWork(stds=(0.7,)).forward(8 * 1000, np.random.default_rng(1)).reshape(-1, 8)
    shared = np.array([lower(w, range(1, 9)) for w in runs])
    best = np.array([max(lower(w, [rank]) for rank in range(1, 9)) for w in runs])
    assert np.mean(shared > 0) <= 0.1
    assert (best > shared).all()


def test_two_sides_split_the_budget_and_all_rounds_spend_delta():
    bounds = est.certified_bounds(np.zeros(10), np.zeros(10), 0.9, kind="mean", lower_share=0.25)
    assert (bounds.lower, bounds.upper) == pytest.approx((np.log(0.025), -np.log(0.075)))
    assert (bounds.confidence, bounds.kind) == (0.9, "mean / mean")
    assert sum(1 - est.round_confidence(0.95, i) for i in range(1, 40)) == pytest.approx(0.05)


def test_extreme_weights():
    forward = np.array([-np.inf, 1e5, -1e5])
    assert est.certified_lower(forward).lower == pytest.approx(1e5 - np.log(3 / 0.05))
    for kind in ("mean", "order statistics"):
        assert est.certified_lower(np.full(3, -np.inf), kind=kind).lower == -np.inf


@pytest.mark.parametrize("p", [0.02, 0.9])
def test_probability_interval_covers(p):
    """Broken twin: bounds at half of their distance from the estimate miss too often."""
    rejections = np.arange(20_000)
    chances = nbinom.pmf(rejections, 10, p)
    rejections, chances = rejections[chances > 1e-9], chances[chances > 1e-9]
    bounds = [est.certified_probability(int(n) + 10, 10, 0.9) for n in rejections]
    lower, upper = np.array([(b.lower, b.upper) for b in bounds]).T
    assert chances[lower > np.log(p)].sum() <= 0.05
    assert chances[upper < np.log(p)].sum() <= 0.05
    centre = np.log(10 / (rejections + 10))
    narrow = (lower + centre > 2 * np.log(p)) | (upper + centre < 2 * np.log(p))
    assert chances[narrow].sum() > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: est.certified_lower([0.0], 1.0), "between 0 and 1"),
        (lambda: est.certified_lower([0.0], kind="median"), "kind must be"),
        (lambda: est.certified_lower([0.0], kind="order statistics", ranks=[2]), "from 1 to 1"),
        (lambda: est.certified_lower([0.0], ranks=[1]), "ranks belong"),
        (lambda: est.certified_bounds([0.0], [0.0], lower_share=1.0), "lower_share"),
        (lambda: est.certified_probability(3, 4), "not possible"),
        (lambda: est.round_confidence(0.95, 0), "count from 1"),
        (lambda: est.refutes([0.0], [0.0], 1.5), "confidence"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def two_errors_apart(high, low):
    """The twin: nothing is certified, and an error is that of the weights which were found."""
    relative = [np.std(w, ddof=1) / np.mean(w) / np.sqrt(len(w)) for w in map(np.exp, (high, low))]
    return est.log_mean_exp(high) - est.log_mean_exp(low) > 2 * np.hypot(*relative)


def refuted(gap, sds, runs, rule=est.refutes, trials=400):
    """Share of trials in which one sound way to Z, shifted up by so much, refutes another."""
    rng, count = np.random.default_rng(5), 0
    for _ in range(trials):
        # Normal log weights of mean −sd²/2 have mean weight 1.
        high, low = (rng.normal(-(sd**2) / 2, sd, runs) for sd in sds)
        count += rule(gap + high, low)
    return count / trials


@pytest.mark.parametrize("runs", [4, 16])
def test_a_sound_way_is_seldom_refuted(runs):
    """A sound method is refuted in at most 5 % of trials, for heavy weights too (α = 1e-3)."""
    limit = binom.ppf(0.999, 400, 0.05) / 400
    for sds in ((0.1, 0.1), (1.5, 1.5), (0.3, 1.5), (1.5, 0.3)):
        assert refuted(0.0, sds, runs) <= limit
    assert refuted(0.0, (0.3, 1.5), runs, two_errors_apart) > limit


def test_a_way_that_misses_much_is_refuted():
    assert refuted(6.0, (0.3, 0.3), 4) > 0.99
    assert refuted(0.3, (0.3, 0.3), 4) < 0.05  # what four runs cannot tell is not refuted
    assert est.refutes([0.0, 0.0], [-np.inf, -np.inf])
    assert not est.refutes([-np.inf, -np.inf], [0.0, 0.0])
