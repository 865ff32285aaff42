"""Draws that differ from weighted particles are called bad, and sound draws seldom are.

Elements stand for replicates: ten of them are a posterior of ten elements, thirty hypotheses. Sound
draws may be called bad in 1 of 200. Of 100 posteriors at most 5 may be: P(more | 1/200) < 1e-4, so
that all comparisons together have α < 1e-3. Where 1 in 10 are, a test fails with a power of 95 %.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from pymc_bdmc.estimators import compare_draws, copies, differing_directions
from pymc_bdmc.estimators.agreement import batch_variance
from tests.models import SIGMAS

POSTERIORS, ROWS, MOST_BAD = 100, 10, 5
N = POSTERIORS * ROWS
RUNS = (16, 64)
ONES = np.ones(RUNS)


def autoregressive(rho, shape, rng):
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1], [1, -rho], noise, axis=1)


LAWS = {
    "normal": lambda shape, rng: rng.normal(size=shape),
    "cauchy": lambda shape, rng: rng.standard_cauchy(size=shape),
    "lognormal": lambda shape, rng: np.exp(1.5 * rng.normal(size=shape)),
    "rare": lambda shape, rng: 1.0 * (rng.random(shape) < 0.02),
    "spike": lambda shape, rng: np.where(rng.random(shape) < 0.7, 0.0, rng.normal(size=shape)),
}


def bad_posteriors(found):
    """Number of posteriors of which an element is called bad."""
    return (found.status(3 * ROWS) == "bad").reshape(-1, ROWS).any(axis=1).sum()


def test_the_bar_is_as_stated():
    assert binom.sf(MOST_BAD, POSTERIORS, 1 / 200) < 1e-4
    assert binom.sf(MOST_BAD, POSTERIORS, 1 / 10) > 0.94


@pytest.mark.parametrize("law", LAWS)
def test_sound_draws_of_any_law_are_seldom_called_bad(law):
    rng = np.random.default_rng(11)
    draws, particles = LAWS[law]((4, 250, N), rng), LAWS[law]((*RUNS, N), rng)
    found = compare_draws(draws, particles, ONES)
    assert bad_posteriors(found) <= MOST_BAD
    lower, upper = found.limits(0.95, 3 * ROWS)
    missed = ((lower > 0) | (upper < 0)).reshape(-1, 3 * ROWS).any(axis=1)
    assert missed.sum() <= binom.isf(1e-4, POSTERIORS, 0.05)
    assert np.isnan(found.estimate[:, 0]).all() == (law == "rare")


@pytest.mark.parametrize(("rho", "chains", "draws"), [(0.9, 4, 600), (0.8, 1, 2000)])
def test_sound_draws_of_slow_chains_are_seldom_called_bad(rho, chains, draws):
    """Twin: shuffled in time, the draws look independent."""
    rng = np.random.default_rng(12)
    slow, particles = autoregressive(rho, (chains, draws, N), rng), rng.normal(size=(*RUNS, N))
    assert bad_posteriors(compare_draws(slow, particles, ONES)) <= MOST_BAD
    assert bad_posteriors(compare_draws(rng.permuted(slow, axis=1), particles, ONES)) > MOST_BAD


def test_runs_of_unequal_weight_are_clusters():
    """Sound draws are seldom bad. The twin treats particles of one run as independent."""
    rng = np.random.default_rng(13)
    weights = np.exp(1.5 * rng.normal(size=(16, 1))) * ONES
    particles = 0.4 * rng.normal(size=(16, 1, N)) + np.sqrt(0.84) * rng.normal(size=(*RUNS, N))
    draws = rng.normal(size=(4, 250, N))
    assert bad_posteriors(compare_draws(draws, particles, weights)) <= MOST_BAD
    alone = particles.reshape(-1, 1, N), weights.reshape(-1, 1)
    assert bad_posteriors(compare_draws(draws, *alone)) > MOST_BAD


def test_every_functional_has_an_error_of_its_own():
    """Errors hold for pairs of mirror images, whose mean is exact and whose spread is not.

    The twin gives the distance the error of the mean.
    """
    rng = np.random.default_rng(14)
    half, particles = rng.normal(size=(4, 120, 150)), rng.normal(size=(64, 256, 150))
    draws = np.stack([half, -half], axis=2).reshape(4, 240, 150)
    found = compare_draws(draws, particles, np.ones((64, 256)))
    assert np.median(found.error[:, 2]) > 0.01
    score = found.estimate[:, :2] / found.error[:, :2]
    assert (np.abs(score) > 3.3).mean(axis=0).max() < 0.01
    exact = batch_variance(draws)  # of the mean: it is known exactly, but for rounding
    assert exact.max() < 1e-20
    as_of_mean = np.sqrt(exact + 0.25 / (64 * 256))
    critical = 1.63  # Kolmogorov's, at 1 %
    assert (found.estimate[:, 2] / (2 * as_of_mean) > critical).mean() > 0.3
    assert (found.limits(0.99, 1)[0][:, 2] > 0).mean() < 0.02


@pytest.mark.parametrize(
    ("change", "status", "least"),
    [
        (lambda x: x, "good", 0.95),
        (lambda x: x + 0.25, "bad", 0.95),
        (lambda x: 0.8 * x, "bad", 0.95),
        (lambda x: 1.2 * x, "bad", 0.95),
        (lambda x: np.sign(x) + 0.1 * x, "bad", 1.0),
    ],
    ids=["sound", "shift", "narrow", "wide", "another shape"],
)
def test_what_is_off_by_a_quarter_deviation_or_a_fifth_is_caught(change, status, least):
    """One of ten elements is off, with thousands of effective draws and particles."""
    rng = np.random.default_rng(15)
    draws, particles = rng.normal(size=(4, 750, 300)), rng.normal(size=(16, 96, 300))
    found = compare_draws(change(draws), particles, np.ones((16, 96))).status(3 * ROWS)
    assert (found == status).mean() >= least
    assert status == "good" or (found == "good").sum() <= binom.isf(1e-3, 300, 0.05)


def test_chains_that_contradict_each_other_are_bad():
    """Three chains lie in one mode and one in another, which does not show the share of a mode."""
    rng = np.random.default_rng(17)
    draws, particles = rng.normal(size=(4, 1000, 1)), rng.normal(size=(*RUNS, 1))
    draws[:3] += 6
    particles += 6 * (rng.random((*RUNS, 1)) < 0.5)
    found = compare_draws(draws, particles, ONES)
    assert found.rhat > 1.5
    assert found.status(3).tolist() == ["bad"]
    np.testing.assert_allclose(found.ends, [[0, 6]], atol=SIGMAS * 0.03)
    assert compare_draws(draws[:3, :40], particles, ONES).status(3).tolist() == ["open"]


@pytest.mark.parametrize("rho", [0.9, 0.99])
def test_slow_chains_seldom_contradict_each_other(rho):
    """Chains of 500 draws are worth 26 and 2.5; at most 1 in 800 posteriors may have some that do.

    P(more than 2 of 100) = 3e-4. The twin is shuffled in time, so that draws look independent.
    """
    rng = np.random.default_rng(25)
    draws, particles = autoregressive(rho, (4, 500, N), rng), rng.normal(size=(4, 8, N))

    def contradicting(draws):
        found = compare_draws(draws, particles, np.ones((4, 8)))
        return found.contradicts.reshape(-1, ROWS).any(axis=1).sum()

    assert contradicting(draws) <= 2 < contradicting(rng.permuted(draws, axis=1))


@pytest.mark.parametrize("law", ["normal", "cauchy", "lognormal"])
def test_chains_that_never_move_are_seldom_far_off(law):
    """Each chain stays at one posterior draw. The twin's draws lie 1000 times as far out."""
    rng, far, twin = np.random.default_rng(23), 0, False
    for _ in range(200):
        particles = LAWS[law]((16, 32, 5), rng)
        draws = np.repeat(LAWS[law]((4, 1, 5), rng), 25, axis=1)
        far += compare_draws(draws, particles, np.ones((16, 32))).is_far.any()
        if not twin:
            twin = compare_draws(1000 * draws, particles, np.ones((16, 32))).is_far.any()
    assert far <= binom.isf(1e-4, 200, 1 / 400)
    assert twin


@pytest.mark.parametrize("spread", [1e-6, 1.0])
def test_a_chain_that_lies_far_off_is_bad_whatever_the_others_do(spread):
    rng = np.random.default_rng(24)
    draws, particles = rng.normal(size=(4, 500, 20)), rng.normal(size=(*RUNS, 20))
    draws[2, :, 7] = 400 + spread * draws[2, :, 7]
    found = compare_draws(draws, particles, ONES)
    assert np.flatnonzero(found.status(69) == "bad").tolist() == [7]
    assert found.rhat[7] > 1.5
    assert found.away[7] == pytest.approx(400, rel=0.1)
    assert found.reach[7] < 40


def test_constants_are_the_same_or_not():
    draws, particles = np.ones((2, 500, 3)), np.ones((*RUNS, 3))
    draws[..., 0] += 1e-16
    draws[..., 2] = particles[..., 1] = 0.0
    found = compare_draws(draws, particles, ONES)
    assert found.status(9).tolist() == ["good", "bad", "bad"]
    assert np.isnan(found.estimate[:, :2]).all()
    particles[..., 0] = np.random.default_rng(18).normal(size=RUNS)
    assert compare_draws(draws, particles, ONES).status(9)[0] == "bad"


def test_directions_show_a_wrong_correlation():
    """No single element shows it. The twin tests directions on the half that gave them."""
    rng = np.random.default_rng(19)
    covariance = np.eye(10) + 0.5 * (1 - np.eye(10))
    related = rng.multivariate_normal(np.zeros(10), covariance, size=(4, 500))
    particles = rng.normal(size=(*RUNS, 10))
    assert "bad" not in compare_draws(related, particles, ONES).status(39)
    directions, found = differing_directions(related, particles, ONES)
    assert found.status(39)[0] == "bad"
    assert abs(directions[:, 0].sum()) > 0.9 * np.sqrt(10) * np.linalg.norm(directions[:, 0])
    bad = twin = 0
    for _ in range(100):
        draws, particles = rng.normal(size=(4, 250, 60)), rng.normal(size=(*RUNS, 60))
        directions, found = differing_directions(draws, particles, ONES)
        bad += "bad" in found.status(3 * 63)
        same = compare_draws(draws[::2] @ directions, particles[::2] @ directions, ONES[::2])
        twin += "bad" in same.status(3 * 63)
    assert bad <= binom.isf(1e-4, 100, 1 / 200)
    assert twin > 50


def in_turn(rng):
    """Draws whose elements move one at a time, as in Metropolis within Gibbs."""
    moves = np.array([rng.normal(size=3)] * 100)
    for t in range(1, 100):
        moves[t:, t % 3] = rng.normal()
    return moves[None]


SHAPE = (2, 500, 2)


@pytest.mark.parametrize(
    ("draw", "number"),
    [
        (lambda rng: rng.normal(size=SHAPE).round(1), 1),  # rounded, which is no copy
        (
            lambda rng: np.vectorize(lambda x: float(f"{x:.3g}"))(
                np.exp(2 * rng.normal(size=SHAPE))
            ),
            1,
        ),
        (lambda rng: np.repeat(rng.normal(size=SHAPE), 5, axis=1), 1),  # rejections
        (lambda rng: np.tile(rng.normal(size=SHAPE).astype(np.float32), (1, 5, 1)), 5),
        (lambda rng: rng.permuted(np.tile(rng.normal(size=(2, 500, 1)), (1, 5, 1)), axis=1), 5),
        (lambda rng: np.tile(in_turn(rng), (1, 10, 1)), 10),
    ],
)
def test_copies_are_counted(draw, number):
    assert copies(draw(np.random.default_rng(21))) == pytest.approx(number, rel=0.1)


def test_it_does_not_depend_on_blocks_units_or_dead_particles(monkeypatch):
    """A particle that has weight must be finite."""
    rng = np.random.default_rng(21)
    draws, particles = rng.normal(size=(3, 333, 7)), rng.normal(size=(*RUNS, 7))
    weights = rng.random(RUNS)
    found = compare_draws(draws, particles, weights)
    monkeypatch.setattr("pymc_bdmc.estimators.agreement.BLOCK", 5000)
    more = np.concatenate([particles, np.full((16, 8, 7), 1e9)], axis=1)
    more[3, -1, 1] = np.inf
    padded = np.concatenate([weights, np.zeros((16, 8))], axis=1)
    for other in (
        compare_draws(draws, particles, 3 * weights),
        compare_draws(1e6 + 1e-3 * draws, 1e6 + 1e-3 * particles, weights),
        compare_draws(draws, more, padded),
    ):
        np.testing.assert_allclose(other.estimate, found.estimate, atol=1e-6)
        np.testing.assert_allclose(other.error, found.error, rtol=1e-5)
    padded[3, -1] = 0.1
    with pytest.raises(ValueError, match="must be finite"):
        compare_draws(draws, more, padded)


@pytest.mark.parametrize(
    ("draws", "particles", "weights", "said"),
    [
        ((1, 99, 1), (4, 8, 1), (4, 8), "99 are too few; 100"),
        ((1, 100), (4, 8, 1), (4, 8), "shapes"),
        ((1, 100, 1), (1, 8, 1), (1, 8), "two independent runs"),
        ((1, 100, 1), (4, 8, 1), (4,), "weights"),
    ],
)
def test_bad_input_is_named(draws, particles, weights, said):
    with pytest.raises(ValueError, match=said):
        compare_draws(np.zeros(draws), np.zeros(particles), np.ones(weights))
