"""Draws that differ from weighted particles are called bad, and sound draws seldom are.

Elements stand for replicates: five of them are a posterior, with fifteen hypotheses. Sound draws
may be called bad in 1 of 200. Of 100 posteriors at most 5 may be: P(more | 1/200) < 1e-4, so that
all comparisons together have α < 1e-3. Where 1 in 10 are, a test fails with a power of 94 %.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom, norm

from pymc_bdmc.estimators import compare_draws, copies, differing_directions
from pymc_bdmc.estimators.agreement import batch_variance
from tests.models import SIGMAS

POSTERIORS, ROWS = 100, 5
N = POSTERIORS * ROWS
MOST_BAD = binom.isf(1e-4, POSTERIORS, 1 / 200)
RUNS = (16, 32)
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


def posteriors_with(rows):
    """Return the number of posteriors of which a row is so."""
    return rows.reshape(POSTERIORS, -1).any(axis=1).sum()


def bad_posteriors(draws, particles, weights=ONES):
    return posteriors_with(compare_draws(draws, particles, weights).status(3 * ROWS) == "bad")


@pytest.mark.parametrize("law", LAWS)
def test_sound_draws_of_any_law_are_seldom_called_bad(law):
    rng = np.random.default_rng(11)
    draws, particles = LAWS[law]((4, 100, N), rng), LAWS[law]((*RUNS, N), rng)
    assert bad_posteriors(draws, particles) <= MOST_BAD
    found = compare_draws(draws, particles, ONES)
    lower, upper = found.limits(0.95, 3 * ROWS)
    assert posteriors_with((lower > 0) | (upper < 0)) <= binom.isf(1e-4, POSTERIORS, 0.05)
    assert np.isnan(found.estimate[:, 0]).all() == (law == "rare")


@pytest.mark.parametrize(("rho", "chains", "draws"), [(0.9, 4, 300), (0.8, 1, 1000)])
def test_sound_draws_of_slow_chains_are_seldom_called_bad(rho, chains, draws):
    """Twin: shuffled in time, the draws look independent."""
    rng = np.random.default_rng(12)
    slow, particles = autoregressive(rho, (chains, draws, N), rng), rng.normal(size=(*RUNS, N))
    shuffled = rng.permuted(slow, axis=1)
    assert bad_posteriors(slow, particles) <= MOST_BAD < bad_posteriors(shuffled, particles)


def test_runs_of_unequal_weight_are_clusters():
    """Sound draws are seldom bad. The twin treats particles of one run as independent.

    Weights are the same with every seed, for the power: they are worth 4.7 runs of 16.
    """
    rng = np.random.default_rng(13)
    weights = np.exp(1.5 * norm.ppf((np.arange(16) + 0.5) / 16))[:, None] * ONES
    particles = 0.4 * rng.normal(size=(16, 1, N)) + np.sqrt(0.84) * rng.normal(size=(*RUNS, N))
    draws = rng.normal(size=(4, 100, N))
    alone = particles.reshape(-1, 1, N), weights.reshape(-1, 1)
    assert bad_posteriors(draws, particles, weights) <= MOST_BAD < bad_posteriors(draws, *alone)


def test_every_functional_has_an_error_of_its_own():
    """Errors hold for pairs of mirror images, whose mean is exact and whose spread is not.

    Of 150 limits of 99 % at most 8 may exclude 0, in each of three columns: α < 3e-4 in all. The
    twin gives the distance the error of the mean; it exceeds Kolmogorov's limit in 80 %.
    """
    rng = np.random.default_rng(14)
    half, particles = rng.normal(size=(4, 60, 150)), rng.normal(size=(32, 128, 150))
    draws = np.stack([half, -half], axis=2).reshape(4, 120, 150)
    found = compare_draws(draws, particles, np.ones((32, 128)))
    lower, upper = found.limits(0.99, 1)
    excluding = ((lower > 0) | (upper < 0)).sum(axis=0)
    assert excluding.max() <= binom.isf(1e-4, 150, 0.01)
    exact = batch_variance(draws)  # of the mean: it is known exactly, but for rounding
    assert exact.max() < 1e-20
    as_of_mean = np.sqrt(exact + 0.25 / (32 * 128))
    critical = 1.63  # Kolmogorov's, at 1 %
    assert (found.estimate[:, 2] / (2 * as_of_mean) > critical).mean() > 0.3


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda x: x, "good"),
        (lambda x: x + 0.25, "bad"),
        (lambda x: 0.8 * x, "bad"),
        (lambda x: 1.2 * x, "bad"),
        (lambda x: np.sign(x) + 0.1 * x, "bad"),
    ],
    ids=["sound", "shift", "narrow", "wide", "another shape"],
)
def test_what_is_off_by_a_quarter_deviation_or_a_fifth_is_caught(change, status):
    """At least 95 % of elements are, one of ten each, by thousands of draws and particles."""
    rng = np.random.default_rng(15)
    draws, particles = rng.normal(size=(4, 750, 60)), rng.normal(size=(16, 96, 60))
    found = compare_draws(change(draws), particles, np.ones((16, 96))).status(30)
    assert (found == status).mean() >= 0.95


@pytest.mark.parametrize("spread", [1e-6, 1.0])
def test_chains_that_contradict_each_other_are_bad(spread):
    """One chain lies in another mode, far off or stuck: it does not show the share of a mode.

    Nothing is said of chains of 40 draws, which are too few to be compared. Other elements are bad
    with α = 0.005. Means, and q95 − q05 with a standard error of 4 %, are off by more than four
    standard errors with α < 0.001.
    """
    rng = np.random.default_rng(17)
    draws, particles = rng.normal(size=(4, 1000, 20)), rng.normal(size=(*RUNS, 20))
    draws[:3, :, 0] += 6
    particles[..., 0] += 6 * (rng.random(RUNS) < 0.5)
    draws[2, :, 7] = 400 + spread * draws[2, :, 7]
    found = compare_draws(draws, particles, ONES)
    assert np.flatnonzero(found.status(60) == "bad").tolist() == [0, 7]
    assert (found.rhat[[0, 7]] > 1.5).all()
    np.testing.assert_allclose(found.ends[0], [0, 6], atol=SIGMAS / np.sqrt(1000))
    assert found.away[7] == pytest.approx(400, rel=0.2)
    assert found.reach[7] < 100  # k < 13, and no normal draw is 6.5 deviations off
    few = compare_draws(draws[1:, :40, :1], particles[..., :1], ONES)
    assert few.status(3).tolist() == ["open"]


def test_slow_chains_seldom_contradict_each_other():
    """Chains of 300 draws are worth 1.5; at most 1 in 800 posteriors may have some that do.

    P(more than 2 of 100) = 3e-4. The twin is shuffled in time, so that draws look independent.
    """
    rng = np.random.default_rng(25)
    draws, particles = autoregressive(0.99, (4, 300, N), rng), rng.normal(size=(4, 8, N))
    right, twin = (
        posteriors_with(compare_draws(each, particles, np.ones((4, 8))).contradicts)
        for each in (draws, rng.permuted(draws, axis=1))
    )
    assert right <= 2 < twin


@pytest.mark.parametrize("law", ["normal", "cauchy"])
def test_chains_that_never_move_are_seldom_far_off(law):
    """Each chain stays at one posterior draw. The twin's draws lie 1000 times as far out."""
    rng, far, twin = np.random.default_rng(23), 0, 0
    for _ in range(POSTERIORS):
        particles = LAWS[law]((16, 32, 5), rng)
        draws = np.repeat(LAWS[law]((4, 1, 5), rng), 25, axis=1)
        far += compare_draws(draws, particles, ONES).is_far.any()
        twin = twin or compare_draws(1000 * draws, particles, ONES).is_far.any()
    assert far <= binom.isf(1e-4, POSTERIORS, 1 / 400)
    assert twin


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
    particles = rng.normal(size=(32, 64, 10))
    assert "bad" not in compare_draws(related, particles, np.ones((32, 64))).status(39)
    directions, found = differing_directions(related, particles, np.ones((32, 64)))
    assert found.status(39)[0] == "bad"
    assert abs(directions[:, 0].sum()) > 0.9 * np.sqrt(10) * np.linalg.norm(directions[:, 0])
    bad = twin = 0
    for _ in range(40):
        draws, particles = rng.normal(size=(4, 100, 60)), rng.normal(size=(*RUNS, 60))
        directions, found = differing_directions(draws, particles, ONES)
        bad += "bad" in found.status(3 * 63)
        same = compare_draws(draws[::2] @ directions, particles[::2] @ directions, ONES[::2])
        twin += "bad" in same.status(3 * 63)
    assert bad <= binom.isf(1e-4, 40, 1 / 200) < 20 < twin


def in_turn(rng):
    """Draws whose elements move one at a time, as in Metropolis within Gibbs."""
    moves = np.array([rng.normal(size=3)] * 100)
    for t in range(1, 100):
        moves[t:, t % 3] = rng.normal()
    return moves[None]


@pytest.mark.parametrize(
    ("draw", "number"),
    [
        (lambda rng: rng.normal(size=(2, 500, 2)).round(1), 1),  # rounded, which is no copy
        (lambda rng: np.repeat(rng.normal(size=(2, 500, 2)), 5, axis=1), 1),  # rejections
        (lambda rng: rng.permuted(np.tile(rng.normal(size=(2, 500, 1)), (1, 5, 1)), axis=1), 5),
        (lambda rng: np.tile(in_turn(rng).astype(np.float32), (1, 10, 1)), 10),
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
