"""Fits to the tops of posteriors, and runs that weigh draws from them.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5 a comparison, seeded),
and their twins must exceed them.
"""

import dataclasses
import itertools
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import digamma, logsumexp, polygamma, softmax

from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, problem
from pymc_bdmc.fits import adapt, draws, limits, modes
from pymc_bdmc.fits import fit as fitting
from pymc_bdmc.fits.fit import part_beyond
from pymc_bdmc.fits.modes import find_modes
from pymc_bdmc.reference.metric import Metric, root_of
from pymc_bdmc.reference.student import make_reference, mix_references
from pymc_bdmc.run.tasks import FitTask
from tests.models import SIGMAS

FORWARD, REVERSE = Direction
RUNS, N = 500, 3


def round_fit(place, scale=1.0, dof=None):
    """A round t distribution with so many elements."""
    place = np.atleast_1d(np.asarray(place, dtype=float))
    return make_reference(place, unit(len(place), scale), dof)


def unit(n, scale=1.0):
    return Metric(np.full(n, float(scale)), np.zeros((0, n)), np.zeros(0))


def tuning_at(reference):
    """Return the tuning of draws from a fit to other data."""
    return draws.DrawTuning(reference, np.zeros(2), np.zeros(1), 0)


A, B, Y = 2.0, 0.5, 3
"""A Gamma rate on the log scale with a Poisson count, and a reference that lies beside it."""
LOG_Z = stats.nbinom.logpmf(Y, A, B / (1 + B))
BESIDE = round_fit(0.9, 0.9, 10.0)


@cache
def skewed():
    with pm.Model() as model:
        pm.Poisson("y", pm.Gamma("rate", A, B), observed=Y)
    return CompiledEngine(TemperedDensity(model))


def posterior(seed, n=RUNS):
    return np.log(np.random.default_rng(seed).gamma(A + Y, 1 / (B + 1), size=n))


def log_weights(direction, starts=(None,) * RUNS):
    engine, found = skewed(), []
    seeds = np.random.SeedSequence([7, direction is REVERSE]).spawn(RUNS)
    for seed, start in zip(seeds, starts, strict=True):
        task = AnnealTask(
            direction, engine.density.data, np.array([0.0, 1.0]), tuning_at(BESIDE), seed,
            None if start is None else {"rate_log__": np.array(start)}, 0, N, keeps_ends=False,
        )  # fmt: skip
        found.append(engine.run(task).log_weight)
    return np.array(found)


def score(values, expected):
    """Standard errors by which a mean differs."""
    return (np.mean(values) - expected) / (np.std(values) / np.sqrt(len(values)))


def test_forward_and_reverse_runs_are_unbiased():
    """E_f[Ẑ] = Z, and E_f[min(Ẑ/Z, 1)] = E_r[min(Z/Ẑ, 1)] by Crooks' relation; α = 6e-5 each.

    Z/Ẑ itself has no variance: its mean square is E_f[Z/Ẑ], which is infinite for a reference with
    heavier tails than the posterior. Twin: reverse runs that start beside the posterior.
    """
    forward = np.exp(log_weights(FORWARD) - LOG_Z)
    assert abs(score(forward, 1)) < SIGMAS
    first = np.minimum(forward, 1)
    for shift, is_sound in ((0, True), (-1, False)):
        found = log_weights(REVERSE, posterior(1) + shift)
        second = np.exp(np.minimum(LOG_Z - found, 0))
        error = np.hypot(first.std(), second.std()) / np.sqrt(RUNS)
        assert (abs(first.mean() - second.mean()) < SIGMAS * error) == is_sound


class Rows:
    """A density of rows of θ: a likelihood, and a flat prior or one that is alike in all θ."""

    evaluations, has_gradient = 0, False

    def __init__(self, log_likelihood, prior=None):
        self.log_likelihood, self.prior = log_likelihood, prior

    def terms(self, thetas):
        log_prior = self.prior.logpdf(thetas).sum(axis=1) if self.prior else np.zeros(len(thetas))
        return np.stack([log_prior, self.log_likelihood(thetas)], axis=1)


@pytest.mark.parametrize(
    ("starts", "moves", "accepts", "is_sound"),
    [
        (posterior(2), 4, False, True),
        (posterior(2), 4, True, False),
        (np.full(RUNS, 3.5), 60, False, True),
        (np.full(RUNS, 3.5), 0, False, False),
    ],
)
def test_a_burn_in_leads_to_the_posterior_and_leaves_it_as_it_is(starts, moves, accepts, is_sound):
    """By means and squares. Twins: every proposal is accepted; no burn-in."""
    density = Rows(BESIDE.log_density) if accepts else skewed().on(skewed().density.data)
    rng = np.random.default_rng(3)
    moved = [draws.metropolis(t[None], BESIDE, density, moves, rng)[0] for t in starts]
    ends = np.array(moved)[:, 0]
    # log Gamma(5, 1.5): its mean and variance are polygamma functions
    mean, variance = digamma(A + Y) - np.log(1 + B), polygamma(1, A + Y)
    with np.errstate(divide="ignore"):
        scores = score(ends, mean), score((ends - mean) ** 2, variance)
    assert (max(np.abs(scores)) < SIGMAS) == is_sound


def distances(log_weights, moves):
    """Total variation from the posterior after Metropolis moves among a few states, by start."""
    weights, n = np.exp(log_weights), len(log_weights)
    kernel = np.minimum(1, weights / weights[:, None]) / n
    np.fill_diagonal(kernel, 0)
    np.fill_diagonal(kernel, 1 - kernel.sum(axis=1))
    law = np.linalg.matrix_power(kernel, moves)
    return np.abs(law - weights / weights.sum()).sum(axis=1) / 2


def test_a_burn_in_is_shortened_as_far_as_it_forgets():
    """Exact, by matrices. Twins: a fifth of the moves; weights too uneven to shorten it."""

    def shortened(g, burn_in=100):
        return dataclasses.replace(tuning_at(BESIDE), prior_log_likelihood=g).shortened(burn_in)

    g = 0.4 * stats.norm.ppf((np.arange(60) + 0.5) / 60)
    moves = shortened(g)
    assert moves < 40
    after = [distances(g, n).max() for n in (moves, moves // 5)]
    assert after[0] < draws.REMEMBERED < after[1]
    assert shortened(g, 3) == 3
    assert shortened(np.append(np.zeros(59), 0.5)) < 100 == shortened(np.append(np.zeros(59), 1.5))


@pytest.mark.parametrize(("spread", "moves"), [(0.3, 1), (1.0, 10), (3.0, 10)])
def test_the_distance_of_a_burned_in_start_is_bounded(spread, moves):
    """Exact, by matrices. The twin only asks for how long the start itself stays."""
    g = spread * np.random.default_rng(1).normal(size=60)
    exact, shares = distances(g, moves), softmax(g)
    # The start is among the draws too, so its weight counts twice.
    bound = [draws.distance_after(moves, start, g) for start in g] * (1 + shares)
    assert (exact <= bound + 1e-12).all()
    stays = (1 - np.exp(np.minimum(g - g[:, None], 0)).mean(axis=1)) ** moves
    assert (exact > stays + 1e-12).any()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("bound", "leaves"), [(0.5, True), (np.inf, False)])
def test_an_impossible_start_is_left_at_the_first_possible_draw(bound, leaves):
    """Comparing an impossible state with an impossible proposal gives no warning of NumPy."""
    reference, start = round_fit(0), np.array([-3.0])
    density = Rows(lambda x: np.where(x[:, 0] < bound, -np.inf, reference.log_density(x)))
    end, distance = draws.metropolis(start, reference, density, 50, np.random.default_rng(1))
    assert (distance < 1e-3) == leaves
    assert (end >= bound if leaves else end == start).all()


@pytest.mark.filterwarnings("error")
def test_components_of_an_adapted_mixture_have_draws():
    """One that has a single draw stays, and one so far off that it has none goes in silence."""
    thetas = np.array([[0.0], [1.0], [2.0]])
    for ahead in (2000.0, 730.0):  # the others have no weight, and a subnormal one
        weights = adapt._truncated(np.array([ahead, 0.0, 0.0]))
        assert adapt._em(thetas, weights, BESIDE) is BESIDE
    even = adapt._em(np.repeat(thetas, 2, axis=0), np.full(6, 1 / 6), BESIDE)
    assert even.locations[0, 0] == pytest.approx(1)
    thetas = np.random.default_rng(1).normal(size=(40, 1))
    far = mix_references([round_fit(0, dof=1e6), round_fit(1e4, 1e-3, 1e6)])
    adapted = adapt._em(thetas, np.full(40, 1 / 40), far)
    assert len(adapted.locations) == 1
    assert abs(adapted.locations[0, 0]) < 1


def test_components_of_an_adapted_mixture_have_draws_enough(monkeypatch):
    """Mean log variance of weights for six logarithms of Gamma variables; twin: any draws do.

    By 200 fits one is 0.00 ± 0.46, and 2.22 ± 0.98 of the twin. So the limit, 1, is 4.6 standard
    errors of 14 fits or more from both; of 1e5 samples of these fits, less than 1e-4 are beyond it.
    α = 1e-4.
    """
    density = Rows(lambda x: (2 * x - np.exp(np.minimum(x, 500))).sum(axis=1))
    start = round_fit(np.full(6, np.log(2)), 1.4)

    def log_variance(seed):
        rng = np.random.default_rng(seed)
        fitted = adapt.adapted(density, start, 96, rng, lambda mixture: mixture).reference
        return np.log(adapt.draw_weighted(density, fitted, 1000, rng).variance)

    assert np.mean([log_variance(seed) for seed in range(14)]) < 1
    monkeypatch.setattr(adapt, "LEAST_DRAWS", 0)
    assert np.mean([log_variance(seed) for seed in range(14)]) > 1


def normal_mixture(places, sd, shares):
    """log density of a mixture of round normals, with its gradient."""
    places = np.asarray(places, dtype=float)

    def log_density(theta):
        distances = theta - places
        logs = np.log(shares) - (distances**2).sum(axis=1) / 2 / sd**2
        value = logsumexp(logs)
        return value, -np.exp(logs - value) @ distances / sd**2

    return log_density


def test_climbs_find_every_top_and_its_shape():
    density = normal_mixture([[-3, 0], [3, 0], [0, 4]], 0.5, [0.5, 0.3, 0.2])
    starts = np.random.default_rng(1).normal(0, 3, (64, 2))
    found = find_modes(density, starts, unit(2, 3.0), searches=16)
    assert found.is_all
    assert found.reason.endswith("optimisations found 3 modes")
    np.testing.assert_allclose(sorted(found.reference.locations[:, 0]), [-3, 0, 3], atol=0.05)
    np.testing.assert_allclose(found.reference.scales, 0.5, rtol=1e-2)


LOW = [[4.0 * i] for i in range(1, 60)]
ANYWHERE = np.random.default_rng(1).uniform(-2, 240, (64, 1))


@pytest.mark.parametrize(
    ("places", "shares", "starts", "is_all"),
    [
        ([[-9.0], [9.0]], [0.5, 0.5], [[-8.0], [-7.0], [-10.0], [8.0]], False),
        ([[-9.0], [9.0]], [0.5, 0.5], [[-8.0], [-7.0], [-10.0], [8.0], [9.5]], True),
        ([[0.0], *LOW], [1.0] + 59 * [1e-6], [[0.0], *ANYWHERE], False),
        ([[0.0]], [1.0], [[0.0], *(ANYWHERE / 60)], True),
    ],
)
def test_tops_that_one_climb_came_to_are_a_sign_of_others(places, shares, starts, is_all):
    """If they are low too: how many higher ones are unseen nobody knows."""
    sd, searches = (1.0, 4) if len(starts) < 9 else (0.5, 16)
    found = find_modes(normal_mixture(places, sd, shares), np.array(starts), unit(1), searches)
    assert found.is_all is is_all
    assert found.is_unfinished is not is_all
    assert is_all or "of which a single one found" in found.reason
    assert len(found.reference.locations) == (2 if len(starts) < 9 else 1)


def test_none_of_six_tops_that_are_alike_is_overlooked():
    """As of three labels that are switched: 20 seeds, α = 0.02. Good's rule overlooks some."""
    angles = np.arange(6) * np.pi / 3
    places = 9 * np.column_stack([np.cos(angles), np.sin(angles)])
    density = normal_mixture(places, 0.7, [1 / 6] * 6)

    def claims_fewer(seed, overlooked):
        starts = np.random.default_rng(seed).normal(0, 9, (64, 2))
        found = find_modes(density, starts, unit(2, 3.0), 16, None, overlooked)
        return found.is_all and len(found.reference.locations) < 6

    assert not any(claims_fewer(seed, limits.OVERLOOKED) for seed in range(20))
    assert any(claims_fewer(seed, 1.0) for seed in range(20))


def test_curvature_where_scales_differ_by_ten_orders():
    """The reference of a normal density is that density, whatever the units are."""
    root = np.diag([1e-5, 1.0, 1e5]) @ np.linalg.cholesky(np.eye(3) + 0.5)
    centre, expected = np.array([1e-3, -20.0, 3e6]), root @ root.T
    inverse = np.linalg.inv(expected)

    def log_density(theta):
        slope = -inverse @ (theta - centre)
        return slope @ (theta - centre) / 2, slope

    metric = Metric(np.array([1e-3, 3.0, 1e4]), np.zeros((0, 3)), np.zeros(0))
    starts = centre + np.random.default_rng(2).normal(size=(4, 3)) * metric.scale
    found = root_of(find_modes(log_density, starts, metric, searches=2).reference.metric(0))
    units = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found @ found.T / units, expected / units, atol=1e-3)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda theta: (-(theta[0] ** 2), np.array([-2 * theta[0], 0.0])),  # flat
        lambda theta: (-np.log(np.sum(theta**2)), -2 * theta / np.sum(theta**2)),  # without end
        lambda theta: (np.nan, np.full(2, np.nan)),
    ],
)
def test_no_top_no_reference(log_density):
    starts = np.random.default_rng(3).normal(size=(8, 2))
    assert find_modes(log_density, starts, unit(2), searches=4).reference is None


@pytest.mark.filterwarnings("error")
def test_an_infinite_slope_has_no_curvature_and_no_warning():
    """As where a scale goes to zero; a newcomer would read a warning of NumPy as a fault."""
    slope = np.full(2, np.inf)
    assert modes._curvature(lambda theta: (0.0, slope), np.zeros(2), slope, np.ones(2)) is None


@pytest.mark.parametrize("is_flat", [False, True])
def test_a_climb_comes_back_from_where_the_density_is_not_finite(is_flat):
    """The log of an exponential variable, which overflows; line searches stop at a flat floor."""
    floor, nowhere = -np.finfo(float).max / 2, (-np.inf, np.full(1, np.nan))

    def log_density(theta):
        if theta[0] > 5:
            return (floor, np.zeros(1)) if is_flat else nowhere
        return theta[0] - np.exp(theta[0]), 1 - np.exp(theta)

    starts = [np.array([start]) for start in (-50.0, -30.0, -20.0, -10.0, -5.0)]
    ends = [modes.ascend_by_gradients(log_density, start, np.eye(1))[0] for start in starts]
    assert np.allclose(ends, 0, atol=0.05) is not is_flat


@pytest.mark.parametrize(
    ("starts", "floor", "is_all"),
    [
        ([10, 1, 10, 1] + 60 * [1], -40.5, True),
        ([10, 1, 10, 1] + 8 * [10, 1, 1, 1, 1, 1, 1, 1], -40.5, True),
        ([10, 1, 10, 1] + 30 * [10, 1], -40.5, False),
        (4 * [1] + 20 * [10], -np.inf, True),
        (3 * [1] + 20 * [10], -np.inf, False),
    ],
)
def test_lost_climbs_count_by_their_share(starts, floor, is_all):
    """They end on a plateau. None starts where the density is not finite.

    Data underflow at most prior draws, for example: no sign that a mode is missed.
    """
    slope = np.zeros(1) if np.isfinite(floor) else np.full(1, np.nan)

    def log_density(theta):
        return (floor, slope) if abs(theta[0]) > 9 else (-(theta[0] ** 2) / 2, -theta)

    found = find_modes(log_density, np.array(starts, dtype=float)[:, None], unit(1), searches=4)
    assert found.is_all is is_all
    outside = find_modes(log_density, np.full((20, 1), 10.0), unit(1), searches=4)
    assert outside.reference is None


class Mixture(problem.Problem):
    """A mixture of normals with the interface of a model's density; all of it is the likelihood."""

    def __init__(self, log_density):
        jitted, moves = SimpleNamespace(n_continuous=1), SimpleNamespace(needs_gradient=True)
        super().__init__(None, jitted, moves, None, {}, np.zeros(1))
        self.log_density = log_density

    def evaluated(self, thetas):
        return np.array([(0.0, self.log_density(theta)[0]) for theta in thetas])

    def __call__(self, theta):
        with self._counting(1):
            return self.log_density(theta)


def fit_of(density, prior, rng):
    n = prior.shape[1]
    plain = fitting.Structure(np.zeros(n, dtype=bool), np.full(n, -1), False, False, False)
    return fitting.Fitting(density, prior, plain, rng)


@pytest.mark.parametrize(("n", "share"), [(5, 0.1), (30, 0.3), (30, 0.0)])
def test_rays_find_a_wider_shell_that_has_no_top(n, share):
    """A posterior ten times as wide around the mode of the other: quadrature, no chance but r.

    Farther out arithmetic fails, and the density is infinite; no part of the posterior is there.
    """
    rng, shell = np.random.default_rng(1), normal_mixture(np.zeros((1, n)), 1.0, [1.0])
    normal = -n / 2 * np.log(2 * np.pi)

    def log_density(theta):
        if theta @ theta > 12 * n:
            return np.inf, None
        narrow = normal - n * np.log(0.1) - 50 * theta @ theta + np.log1p(-share)
        with np.errstate(divide="ignore"):
            return np.logaddexp(narrow, normal + shell(theta)[0] + np.log(share)), None

    reference, prior = round_fit(np.zeros(n), 0.1, float(n)), rng.normal(0, 3, (256, n))
    found, wider = part_beyond(reference, Mixture(log_density), prior, 0.0, 16, rng)
    assert abs(found - share) < 0.02
    assert (wider is None) is (share == 0.0)
    if wider:  # as wide as the shell, in each direction
        np.testing.assert_allclose(wider.scales, 1.0, rtol=0.1)


def test_a_search_on_further_data_knows_nothing_of_the_first(monkeypatch):
    """Twin: one that begins where the known mode is ends there."""
    density = Mixture(normal_mixture([[-5.0], [5.0]], 0.5, [0.5, 0.5]))
    prior = np.random.default_rng(0).normal(0, 5, (256, 1))

    def found(place):
        fit = fit_of(density, prior, np.random.default_rng(1))
        return fit.further(tuning_at(round_fit(place, 0.5))).tuning.reference.locations

    assert len(found(5.0)) == 2
    np.testing.assert_array_equal(found(5.0), found(-5.0))
    monkeypatch.setattr(fitting.Fitting, "_starts", lambda self, n: iter([np.full(1, 5.0)] * n))
    monkeypatch.setattr(fitting, "MOST_WIDER", 0)  # rays find the other mode
    assert len(found(5.0)) == 1


@pytest.mark.parametrize(
    ("places", "shares", "found", "reason"),
    [
        ([[-9.0], [1.0], [9.0]], [0.5, 0.3, 0.2], [-9.0, 1.0, 9.0], ""),
        ([[-9.0], [1.0], [40.0]], [0.4, 0.3, 0.3], [-9.0, 1.0, 40.0], "may miss others"),
        (None, None, [0.5], "the fit to other data, since no mode was found"),
    ],
)
def test_no_fit_to_further_data_is_refused(places, shares, found, reason):
    """The mode at 40 is reached from one prior draw alone; a plane has no mode.

    Twin: as first data, the last two are refused.
    """
    density = Mixture(normal_mixture(places, 1, shares) if places else lambda _: (0.0, np.zeros(1)))
    prior = np.array([[40.0], [-9.0], [9.0]] + 61 * [[-9.0], [9.0], [1.0]])
    fit = fit_of(density, prior, np.random.default_rng(1)).further(tuning_at(round_fit(0.5)))
    np.testing.assert_allclose(np.sort(fit.tuning.reference.locations.ravel()), found, atol=0.5)
    assert reason in fit.reason
    first = fit_of(density, prior, np.random.default_rng(1)).first(None)
    assert (first.tuning is None) == bool(reason)


@pytest.mark.parametrize(("lower", "misses"), [(0.0, True), (9.0, False)])
def test_what_prior_draws_find_and_a_fit_misses(lower, misses):
    """A slab with three fifths of the posterior, and a spike in it where all climbs end."""
    rng = np.random.default_rng(4)
    prior, spike = rng.normal(0, 1, (256, 2)), round_fit(np.zeros(2), 0.01)
    thetas = spike.draw(128, rng)
    g = stats.norm.logpdf(thetas, 0, 0.01).sum(axis=1) - spike.log_density(thetas) + np.log(0.4)
    slab = Rows(lambda x: np.full(len(x), np.log(0.6) - lower), stats.norm(0, 1))
    found = fit_of(slab, prior, rng)._missed(spike, logsumexp(g) - np.log(128))
    assert found.startswith("weighted prior draws put") is misses


def test_without_a_finite_prior_draw_there_is_no_fit():
    nowhere = Rows(lambda x: np.zeros(len(x)))
    found = fit_of(nowhere, np.empty((0, 2)), np.random.default_rng(1)).first(None)
    assert found.tuning is None
    assert found.reason == "no prior draw is finite"


@pytest.mark.parametrize(("tails", "given", "found"), [(1e9, 10, 20), (1e9, 8, 8), (10, 10, 10)])
def test_a_normal_posterior_of_many_elements_gets_light_tails(tails, given, found):
    """Then weights are nearly even. Degrees of freedom that were chosen stay.

    So do those with which a posterior with heavy tails has the more even weights. Variances are
    estimated, so 88 % of seeds or more are right, and most of 20 but for 3e-5 (α).
    """
    wide = make_reference(np.zeros(20), unit(20, 1.3 if tails == 10 else 1.0), tails)

    def is_right(seed):
        density, rng = Rows(wide.log_density), np.random.default_rng(seed)
        drawn = adapt.draw_weighted(density, round_fit(np.zeros(20), dof=given), 128, rng)
        better = adapt.improved(density, drawn, rng)
        is_found = better.reference.degrees_of_freedom == found
        return drawn.variance > 0.3 and is_found and (found != 20 or better.variance < 0.3)

    assert sum(is_right(seed) for seed in range(20)) > 10


def test_few_draws_move_a_component_as_a_whole(monkeypatch):
    """They give no covariance of 30 elements. Twin: without a move weights stay uneven."""
    density, fit = Rows(lambda x: -((x - 0.3) ** 2).sum(axis=1) / 2), round_fit(np.zeros(30), 1, 30)
    drawn = adapt.draw_weighted(density, fit, 128, np.random.default_rng(1))
    found = adapt.improved(density, drawn, np.random.default_rng(2))
    assert found.variance < drawn.variance / 2
    assert np.linalg.norm(found.reference.locations[0] - 0.3) < 0.15 * np.sqrt(30)
    monkeypatch.setattr(adapt, "LEAST_DRAWS", np.inf)
    assert adapt.improved(density, drawn, np.random.default_rng(2)) is drawn


def test_the_price_of_an_evaluation_is_not_that_of_compiling(monkeypatch):
    density = skewed().on(skewed().density.data)
    clock = itertools.accumulate([0.0, 20.0] + 10 * [0.0, 1e-3])
    monkeypatch.setattr(problem.time, "thread_time", lambda: next(clock))
    for _ in range(5):
        density(np.zeros(1))
    assert density.seconds == pytest.approx(1e-3, abs=1e-9)


def test_a_fit_that_is_stopped(monkeypatch):
    monkeypatch.setattr(skewed(), "_stop", np.ones_like(skewed()._stop))
    seed = np.random.SeedSequence(1)
    assert skewed().fit(FitTask(skewed().density.data, seed)) is None


def test_a_thin_curved_ridge_is_not_weighed(monkeypatch):
    """A parabola whose arms are 60 times longer than wide: draws from a fit to its top agree, and
    miss its arms. Climbs came along these.

    So do rays: the components that they add are too uneven, and without these they refuse the fit.
    There are so few prior draws that none of them lies in the arms. Both seeds are of those, two
    in twelve, with which draws are weighed where nothing is checked.
    """
    with pm.Model() as model:
        x, y = pm.Uniform("x", -5, 5), pm.Uniform("y", -5, 5)
        pm.Potential("ridge", -((1 - x) ** 2 + 1000 * (y - x**2) ** 2))
    engine, seeds = CompiledEngine(TemperedDensity(model)), np.random.SeedSequence(3).spawn(12)

    def ridge_fits():
        """Reasons why draws are annealed."""
        fits = [engine.fit(FitTask(engine.density.data, seeds[i])) for i in (9, 11)]
        return [None if fit.tuning else fit.reason for fit in fits]

    monkeypatch.setattr(CompiledEngine, "_draws_for", lambda *_: 256)
    assert None not in ridge_fits()
    # With more components, weights show the arms.
    monkeypatch.setattr(fitting.Fitting, "_is_adapted", lambda *_: False)
    assert None not in ridge_fits()
    with monkeypatch.context() as alone:
        alone.setattr(limits, "SURPLUS", np.inf)
        assert None not in ridge_fits()
        alone.setattr(fitting, "MOST_WIDER", 0)
        assert any("rays from the fit" in (reason or "") for reason in ridge_fits())
    monkeypatch.setattr(fitting, "part_beyond", lambda *_: (0.0, None))
    reasons = ridge_fits()
    assert None not in reasons
    assert any("optimisations passed likely states" in reason for reason in reasons)
    monkeypatch.setattr(limits, "SURPLUS", np.inf)
    assert None in ridge_fits()


def test_a_fit_to_a_skewed_posterior_is_no_matter_of_luck(monkeypatch):
    """Two shares below a line, a mean and a scale: the weights of one t distribution are uneven.

    Of 3 seeds all are fitted, with a variance of .3 to .5. Twin: with one component one or two are.
    """
    with pm.Model() as model:
        a = pm.Uniform("a", 0, 1)
        b = pm.Uniform("b", 0, 1 - a)
        mean, scale = pm.Normal("mean", 0, 10), pm.HalfNormal("scale", 10)
        pm.Normal("y", mean + a - b, scale, observed=[0.1, 0.5, 2.0])
    engine = CompiledEngine(TemperedDensity(model))

    def variances():
        tasks = (FitTask(engine.density.data, np.random.SeedSequence(seed)) for seed in (1, 2, 3))
        return np.array([engine.fit(task).variance for task in tasks])

    assert (variances() < 0.8).all()
    monkeypatch.setattr(fitting.Fitting, "_evened", lambda self, drawn: drawn)
    assert np.isinf(variances()).any()
