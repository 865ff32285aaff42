"""Draws that differ from weighted particles are called bad, and sound draws seldom are.

Elements stand for replicates: ten of them are a posterior of ten elements, thirty hypotheses. Sound
draws may be called bad in 1 of 200. Of 100 posteriors at most 5 may be, of 400 at most 9 (if slow):
P(more | 1/200) < 1e-4, so that all comparisons together have α < 1e-3. Where 1 in 10 are, or 1 in
25, a test fails with a power of 95 %.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom, norm

from pymc_bdmc.estimators import compare_draws, copies, differing_directions
from pymc_bdmc.estimators.agreement import MARGINS, batch_variance
from tests.models import SIGMAS

ROWS, MOST_BAD = 10, {100: 5, 400: 9}
RUNS = (16, 64)


def autoregressive(rho, shape, rng):
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1], [1, -rho], noise, axis=1)


def alternating(shape, rng):
    """Draw pairs of mirror images, whose mean is exact and whose spread is not."""
    half = rng.normal(size=(shape[0], shape[1] // 2, *shape[2:]))
    return np.stack([half, -half], axis=2).reshape(shape)


LAWS = {
    "normal": lambda shape, rng: rng.normal(size=shape),
    "cauchy": lambda shape, rng: rng.standard_cauchy(size=shape),
    "lognormal": lambda shape, rng: np.exp(1.5 * rng.normal(size=shape)),
    "rare": lambda shape, rng: 1.0 * (rng.random(shape) < 0.02),
    "count": lambda shape, rng: 1.0 * rng.poisson(2, size=shape),
    "spike": lambda shape, rng: (
        np.where(rng.random(shape) < 0.7, 0.0, rng.normal(size=shape))
    ),
}  # fmt: skip
CHAINS = {
    "slow": lambda shape, rng: autoregressive(0.9, (4, 1000, shape[2]), rng),
    "one chain": lambda shape, rng: autoregressive(0.8, (1, 2000, shape[2]), rng),
    "alternating": alternating,
}


def judged(draws, particles, weights):
    """Statuses of the elements, a posterior a row, and the comparison."""
    found = compare_draws(draws, particles, weights)
    return found.status(3 * ROWS).reshape(-1, ROWS), found


def elements(n):
    return ROWS * n


@pytest.fixture(params=[100, pytest.param(400, marks=pytest.mark.slow)])
def posteriors(request):
    return request.param


def test_the_bar_is_as_stated():
    for (posteriors, bad), share in zip(MOST_BAD.items(), (1 / 10, 1 / 25), strict=True):
        assert binom.sf(bad, posteriors, 1 / 200) < 1e-4
        assert binom.sf(bad, posteriors, share) > 0.94
    shift, log_ratio, _ = MARGINS
    x = np.linspace(-12, 12, 200_001)

    def total_variation(mean, deviation):
        return 0.5 * np.trapezoid(abs(norm.pdf(x) - norm.pdf(x, mean, deviation)), x)

    found = [total_variation(*each) for each in ((shift, 1), (0, 1.25), (shift, 1.25))]
    np.testing.assert_allclose(found, [0.10, 0.11, 0.13], atol=0.004)
    assert np.exp(log_ratio) == pytest.approx(1.25)


@pytest.mark.parametrize("law", LAWS)
def test_sound_draws_of_any_law_are_seldom_called_bad(law, posteriors):
    rng, n = np.random.default_rng(11), elements(posteriors)
    draws, particles = LAWS[law]((4, 250, n), rng), LAWS[law]((*RUNS, n), rng)
    status, found = judged(draws, particles, np.ones(RUNS))
    assert (status == "bad").any(axis=1).sum() <= MOST_BAD[posteriors]
    lower, upper = found.limits(0.95, 3 * ROWS)
    missed = ((lower > 0) | (upper < 0)).reshape(-1, 3 * ROWS).any(axis=1)
    assert missed.sum() <= binom.isf(1e-4, posteriors, 0.05)
    assert np.isnan(found.estimate[:, 0]).all() == (law == "rare")


@pytest.mark.parametrize("chain", CHAINS)
def test_sound_draws_of_any_chain_are_seldom_called_bad(chain, posteriors):
    rng, n = np.random.default_rng(12), elements(posteriors)
    draws, particles = CHAINS[chain]((4, 250, n), rng), rng.normal(size=(*RUNS, n))
    status, _ = judged(draws, particles, np.ones(RUNS))
    assert (status == "bad").any(axis=1).sum() <= MOST_BAD[posteriors]


def test_a_slow_chain_whose_order_is_lost_is_called_bad():
    """The twin of the test before: shuffled in time, its draws look independent."""
    rng, n = np.random.default_rng(12), elements(60)
    draws, particles = autoregressive(0.98, (4, 250, n), rng), rng.normal(size=(*RUNS, n))
    status, _ = judged(rng.permuted(draws, axis=1), particles, np.ones(RUNS))
    assert (status == "bad").any(axis=1).sum() > MOST_BAD[400]


@pytest.mark.parametrize("spread", [0.7, 1.5])
def test_runs_of_unequal_weight_are_clusters(spread, posteriors):
    """Sound draws are seldom bad. The twin treats particles of one run as independent."""
    rng, n = np.random.default_rng(13), elements(posteriors)
    weights = np.exp(spread * rng.normal(size=(16, 1))) * np.ones(RUNS)
    particles = 0.4 * rng.normal(size=(16, 1, n)) + np.sqrt(0.84) * rng.normal(size=(*RUNS, n))
    draws = rng.normal(size=(4, 250, n))
    status, _ = judged(draws, particles, weights)
    assert (status == "bad").any(axis=1).sum() <= MOST_BAD[posteriors]
    alone = particles.reshape(-1, 1, n), weights.reshape(-1, 1)
    status, _ = judged(draws, *alone)
    assert (status == "bad").any(axis=1).sum() > MOST_BAD[posteriors]


def test_every_functional_has_an_error_of_its_own():
    """Errors hold on an alternating chain. The twin gives the distance the error of the mean."""
    rng, n = np.random.default_rng(14), 500
    draws, particles = alternating((4, 240, n), rng), rng.normal(size=(64, 256, n))
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
    ("change", "least"),
    [
        (lambda x: x + 0.25, 0.95),
        (lambda x: 0.8 * x, 0.95),
        (lambda x: 1.2 * x, 0.95),
        (lambda x: 0.1 * x, 1.0),
        (lambda x: x + 1, 1.0),
        (lambda x: np.sign(x) + 0.1 * x, 1.0),
    ],
    ids=["shift 0.25", "0.8", "1.2", "0.1", "shift 1", "another shape"],
)
def test_what_is_off_by_a_quarter_deviation_or_a_fifth_is_caught(change, least):
    """One of ten elements is off, with thousands of effective draws and particles."""
    rng = np.random.default_rng(15)
    draws, particles = rng.normal(size=(4, 750, 300)), rng.normal(size=(16, 96, 300))
    found = compare_draws(change(draws), particles, np.ones((16, 96)))
    status = found.status(3 * ROWS)
    assert (status == "bad").mean() >= least
    assert (status == "good").sum() <= binom.isf(1e-3, 300, 0.05)


def test_sound_draws_are_called_good_where_both_sides_are_worth_a_thousand():
    rng, n = np.random.default_rng(16), elements(50)
    draws, particles = rng.normal(size=(4, 500, n)), rng.normal(size=(*RUNS, n))
    status, _ = judged(draws, particles, np.ones(RUNS))
    assert (status == "good").mean() > 0.95


def test_chains_that_contradict_each_other_are_bad():
    """Three chains lie in one mode and one in another, which does not show the share of a mode."""
    rng = np.random.default_rng(17)
    draws, particles = rng.normal(size=(4, 1000, 1)), rng.normal(size=(*RUNS, 1))
    draws[:3] += 6
    particles += 6 * (rng.random((*RUNS, 1)) < 0.5)
    found = compare_draws(draws, particles, np.ones(RUNS))
    assert found.rhat > 1.5
    assert found.status(3).tolist() == ["bad"]
    np.testing.assert_allclose(found.ends, [[0, 6]], atol=SIGMAS * 0.03)
    few = compare_draws(draws[:3, :40], particles, np.ones(RUNS))
    assert few.status(3).tolist() == ["open"]


@pytest.mark.parametrize("rho", [0.9, 0.99])
def test_slow_chains_seldom_contradict_each_other(rho):
    """Chains of 500 draws are worth 26 and 2.5; at most 1 in 800 posteriors may have some that do.

    P(more than 2 of 100) = 3e-4. The twin is shuffled in time, so that draws look independent.
    """
    rng, n = np.random.default_rng(25), elements(100)
    draws = autoregressive(rho, (4, 500, n), rng)

    def contradicting(draws):
        found = compare_draws(draws, rng.normal(size=(*RUNS, n)), np.ones(RUNS))
        return found.contradicts.reshape(-1, ROWS).any(axis=1).sum()

    assert contradicting(draws) <= 2
    assert contradicting(rng.permuted(draws, axis=1)) > 2


def test_slow_chains_of_many_elements_are_called_good_and_seldom_where_one_is_off():
    """12 of 16 posteriors are good. With a mean at its margin, P(more than 5 good) < 1e-3."""
    rng, good, wrong = np.random.default_rng(22), 0, 0
    for _ in range(16):
        draws, particles = autoregressive(0.9, (4, 4000, 50), rng), rng.normal(size=(16, 96, 50))
        good += set(compare_draws(draws, particles, np.ones((16, 96))).status(159)) == {"good"}
        few = draws[..., :1] + MARGINS[0], particles[..., :1]
        wrong += compare_draws(*few, np.ones((16, 96))).status(159)[0] == "good"
    assert good >= 12
    assert wrong <= 5
    assert binom.sf(5, 16, 0.05) < 1e-3


@pytest.mark.parametrize("law", ["normal", "cauchy", "lognormal"])
def test_chains_that_never_move_are_seldom_far_off(law):
    """Each chain stays at one posterior draw. The twin's draws lie 1000 times as far out."""
    rng, far, twin = np.random.default_rng(23), 0, 0
    for _ in range(200):
        particles = LAWS[law]((16, 32, 5), rng)
        draws = np.repeat(LAWS[law]((4, 1, 5), rng), 25, axis=1)
        far += compare_draws(draws, particles, np.ones((16, 32))).is_far.any()
        if not twin:
            twin += compare_draws(1000 * draws, particles, np.ones((16, 32))).is_far.any()
    assert far <= binom.isf(1e-4, 200, 1 / 400)
    assert twin


@pytest.mark.parametrize("spread", [1e-6, 1.0])
def test_a_chain_that_lies_far_off_is_bad_whatever_the_others_do(spread):
    rng = np.random.default_rng(24)
    draws, particles = rng.normal(size=(4, 500, 20)), rng.normal(size=(*RUNS, 20))
    draws[2, :, 7] = 400 + spread * draws[2, :, 7]
    found = compare_draws(draws, particles, np.ones(RUNS))
    assert np.flatnonzero(found.status(69) == "bad").tolist() == [7]
    assert found.rhat[7] > 1.5
    assert found.away[7] == pytest.approx(400, rel=0.1)
    assert found.reach[7] < 40


def test_constants_are_the_same_or_not():
    rng = np.random.default_rng(18)
    draws, particles = np.ones((2, 500, 3)), np.ones((*RUNS, 3))
    draws[..., 0] += 1e-16
    draws[..., 2] = particles[..., 1] = 0.0
    found = compare_draws(draws, particles, np.ones(RUNS))
    assert found.status(9).tolist() == ["good", "bad", "bad"]
    assert np.isnan(found.estimate[:, :2]).all()
    particles[..., 0] = rng.normal(size=RUNS)
    assert compare_draws(draws, particles, np.ones(RUNS)).status(9)[0] == "bad"


def test_directions_show_a_wrong_correlation():
    """No single element shows it. The twin tests directions on the half that gave them."""
    rng, weights = np.random.default_rng(19), np.ones((16, 64))
    covariance = np.eye(10) + 0.5 * (1 - np.eye(10))
    related = rng.multivariate_normal(np.zeros(10), covariance, size=(4, 500))
    particles = rng.normal(size=(16, 64, 10))
    assert "bad" not in compare_draws(related, particles, weights).status(39)
    directions, found = differing_directions(related, particles, weights)
    assert found.status(39)[0] == "bad"
    assert abs(directions[:, 0].sum()) > 0.9 * np.sqrt(10) * np.linalg.norm(directions[:, 0])
    bad = twin = 0
    for _ in range(100):
        draws, particles = rng.normal(size=(4, 250, 60)), rng.normal(size=(16, 64, 60))
        directions, found = differing_directions(draws, particles, weights)
        bad += "bad" in found.status(3 * 63)
        same = compare_draws(draws[::2] @ directions, particles[::2] @ directions, weights[::2])
        twin += "bad" in same.status(3 * 63)
    assert bad <= binom.isf(1e-4, 100, 1 / 200)
    assert twin > 50


ROUNDED = {
    "one digit": lambda rng: rng.normal(size=(4, 1000, 1)).round(1),
    "two elements": lambda rng: rng.normal(size=(4, 1000, 2)).round(1),
    "three significant digits": lambda rng: np.vectorize(lambda x: float(f"{x:.3g}"))(
        np.exp(2 * rng.normal(size=(4, 1000, 1)))
    ),
    "a grid": lambda rng: rng.choice(np.linspace(-1, 2, 301), size=(4, 1000, 1)),
}  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDED)
def test_rounded_draws_are_no_copies(rounding):
    assert copies(ROUNDED[rounding](np.random.default_rng(21))) == 1


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 3])
def test_copies_are_counted(size, kind):
    rng = np.random.default_rng(20)
    draws = rng.normal(size=(2, 100, size)).astype(kind)
    assert copies(draws) == 1
    assert copies(np.repeat(draws, 5, axis=1)) == 1  # rejections
    assert copies(np.tile(draws, (1, 5, 1))) == 5
    assert copies(rng.permuted(np.tile(draws[..., :1], (1, 5, 1)), axis=1)) > 2


def test_copies_of_draws_whose_elements_move_one_at_a_time_are_counted():
    """Elements move one at a time, as in Metropolis within Gibbs."""
    rng = np.random.default_rng(21)
    moves = np.array([rng.normal(size=3)] * 100)
    for t in range(1, 100):
        moves[t:, t % 3] = rng.normal()
    assert copies(np.tile(moves[None], (1, 10, 1))) == 10


def test_it_does_not_depend_on_blocks_units_or_dead_particles(monkeypatch):
    rng = np.random.default_rng(21)
    draws, particles = rng.normal(size=(3, 333, 7)), rng.normal(size=(*RUNS, 7))
    weights = rng.random(RUNS)
    found = compare_draws(draws, particles, weights)
    monkeypatch.setattr("pymc_bdmc.estimators.agreement.BLOCK", 5000)
    for other in (
        compare_draws(draws, particles, 3 * weights),
        compare_draws(1e6 + 1e-3 * draws, 1e6 + 1e-3 * particles, weights),
    ):
        np.testing.assert_allclose(other.estimate, found.estimate, atol=1e-6)
        np.testing.assert_allclose(other.error, found.error, rtol=1e-5)
    more = np.concatenate([particles, np.full((16, 8, 7), 1e9)], axis=1)
    padded = compare_draws(draws, more, np.concatenate([weights, np.zeros((16, 8))], axis=1))
    np.testing.assert_allclose(padded.estimate, found.estimate, atol=1e-9)


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
    with pytest.raises(ValueError, match="finite"):
        compare_draws(np.full((1, 100, 1), np.nan), np.zeros((4, 8, 1)), np.ones((4, 8)))


def test_particles_without_weight_may_be_infinite():
    """A particle that has weight must be finite."""
    rng = np.random.default_rng(11)
    draws, particles = rng.normal(size=(4, 250, 2)), rng.normal(size=(8, 64, 2))
    weights = np.ones((8, 64))
    particles[3, 5, 1] = np.inf
    with pytest.raises(ValueError, match="finite"):
        compare_draws(draws, particles, weights)
    weights[3, 5] = 0.0
    found = compare_draws(draws, particles, weights)
    particles[3, 5, 1] = 0.0
    same = compare_draws(draws, particles, weights)
    assert np.allclose(found.estimate, same.estimate, equal_nan=True)
