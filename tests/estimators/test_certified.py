"""Certified bounds: failure probabilities enumerated where the inequalities are tight."""

import numpy as np
import pytest
from scipy.stats import binom, nbinom

from pymc_bdmc.estimators import (
    certified_bounds,
    certified_lower,
    certified_probability,
    certified_upper,
    log_mean_exp,
    refutes,
    round_confidence,
)
from tests.systems import GammaWork, GaussianWork

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


@pytest.mark.parametrize("chains", [1, 5, 16])
@pytest.mark.parametrize("kind", ["mean", "order statistics"])
def test_lower_bound_fails_with_probability_delta_at_most(kind, chains):
    assert failure_probability(lambda w: certified_lower(w, 0.9, kind=kind).lower, chains) <= 0.1


@pytest.mark.parametrize("rank", [1, 3, 8])
def test_one_rank_spends_its_whole_budget(rank):
    def bound(w):
        return certified_lower(w, 0.9, kind="order statistics", ranks=[rank]).lower

    slack = -bound(np.zeros(8))
    worst = [np.exp(slack) * (1 + 1e-6)]
    assert failure_probability(bound, 8, worst) == pytest.approx(0.1, abs=1e-4)
    assert failure_probability(bound, 8) <= 0.1
    # Broken twin: half the slack
    assert failure_probability(lambda w: bound(w) + slack / 2, 8) > 0.1


def test_several_ranks_that_do_not_share_delta_fail():
    def best(w):
        return max(
            certified_lower(w, 0.9, kind="order statistics", ranks=[r]).lower for r in range(1, 9)
        )

    def shared(w):
        return certified_lower(w, 0.9, kind="order statistics", ranks=range(1, 9)).lower

    # A continuous tail hits different ranks in different runs.
    work, rng = GaussianWork(stds=(0.7,)), np.random.default_rng(1)
    runs = [work.forward(8, rng) for _ in range(4000)]
    assert np.mean([shared(w) > 0 for w in runs]) <= 0.1
    assert np.mean([best(w) > shared(w) for w in runs]) == 1


def test_smallest_weight_has_the_closed_form():
    bound = certified_lower(np.zeros(20), 0.95, kind="order statistics", ranks=[1]).lower
    assert bound == pytest.approx(np.log(0.05) / 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean", "order statistics"])
@pytest.mark.parametrize(
    "work",
    [
        GaussianWork(stds=(0.5,)),
        GaussianWork(stds=(4.0,)),
        GammaWork(shape=1.0, rate=0.1),
        GaussianWork(means=(0.0, 11.4), stds=(0.5, 0.5), weights=(0.9999, 0.0001)),
    ],
    ids=["easy", "hard", "skewed", "spike"],
)
def test_interval_covers(work, kind):
    rng = np.random.default_rng(2)
    bounds = [
        certified_bounds(work.forward(64, rng), work.reverse(64, rng), 0.95, kind=kind)
        for _ in range(1000)
    ]
    assert np.mean([b.lower <= 0 <= b.upper for b in bounds]) >= 0.95


def test_sides_mirror_each_other():
    weights = np.random.default_rng(3).normal(size=50)
    for kind in ("mean", "order statistics"):
        lower = certified_lower(weights, 0.97, kind=kind).lower
        assert certified_upper(-weights, 0.97, kind=kind).upper == -lower


def test_two_sides_split_the_budget():
    weights = np.zeros(10)
    bounds = certified_bounds(weights, weights, 0.9, kind="mean", lower_share=0.25)
    assert bounds.lower == pytest.approx(np.log(0.025))
    assert bounds.upper == pytest.approx(-np.log(0.075))
    assert (bounds.confidence, bounds.kind) == (0.9, "mean / mean")


def test_extreme_weights():
    forward = np.array([-np.inf, 1e5, -1e5])
    assert certified_lower(forward).lower == pytest.approx(1e5 - np.log(3 / 0.05))
    assert certified_lower(np.full(3, -np.inf)).lower == -np.inf
    assert certified_lower(np.full(3, -np.inf), kind="order statistics").lower == -np.inf


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_probability_interval_covers(p):
    acceptances = 10
    rejections = np.arange(20_000)
    chances = nbinom.pmf(rejections, acceptances, p)
    kept = chances > 1e-9
    bounds = [
        certified_probability(int(n) + acceptances, acceptances, 0.9) for n in rejections[kept]
    ]
    chances = chances[kept]
    too_high = np.array([b.lower > np.log(p) for b in bounds])
    too_low = np.array([b.upper < np.log(p) for b in bounds])
    assert chances[too_high].sum() <= 0.05
    assert chances[too_low].sum() <= 0.05
    # Broken twin: bounds at two thirds of their distance from the estimate miss too often.
    narrow = np.array(
        [
            (b.lower - centre) / 2 + centre > np.log(p)
            or (b.upper - centre) / 2 + centre < np.log(p)
            for b, n in zip(bounds, rejections[kept], strict=True)
            for centre in [np.log(acceptances / (n + acceptances))]
        ]
    )
    assert chances[narrow].sum() > 0.1


def test_all_rounds_together_spend_delta():
    spent = sum(1 - round_confidence(0.95, i) for i in range(1, 40))
    assert spent == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certified_lower([0.0], 1.0), "between 0 and 1"),
        (lambda: certified_lower([0.0], kind="median"), "kind must be"),
        (lambda: certified_lower([0.0], kind="order statistics", ranks=[2]), "from 1 to 1"),
        (lambda: certified_lower([0.0], ranks=[1]), "ranks belong"),
        (lambda: certified_bounds([0.0], [0.0], lower_share=1.0), "lower_share"),
        (lambda: certified_probability(3, 4), "not possible"),
        (lambda: round_confidence(0.95, 0), "count from 1"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def two_errors_apart(high, low):
    """The twin: nothing is certified, and an error is that of the weights which were found."""
    relative = [np.std(w, ddof=1) / np.mean(w) / np.sqrt(len(w)) for w in map(np.exp, (high, low))]
    return log_mean_exp(high) - log_mean_exp(low) > 2 * np.hypot(*relative)


def refuted(gap, sds, runs, rule=refutes, trials=400):
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


def test_a_way_without_any_weight_is_refuted():
    assert refutes([0.0, 0.0], [-np.inf, -np.inf])
    assert not refutes([-np.inf, -np.inf], [0.0, 0.0])
    with pytest.raises(ValueError, match="confidence"):
        refutes([0.0], [0.0], 1.5)
