"""Fits to the tops of posteriors, and runs that weigh draws from them.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5 a comparison, seeded),
and their twins must exceed them.
"""

import dataclasses
import itertools
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
from pymc_bdmc.reference.metric import Metric, metric_of, root_of
from pymc_bdmc.reference.student import (
    make_reference,
    mix_references,
)
from pymc_bdmc.run.tasks import FitTask
from tests.models import SIGMAS

FORWARD, REVERSE = Direction
BETAS = np.array([0.0, 1.0])
RUNS, N = 3_000, 3


def unit(n, scale=1.0):
    return Metric(np.full(n, float(scale)), np.zeros((0, n)), np.zeros(0))


class Skewed:
    """A Gamma rate on the log scale with a Poisson count, and a reference that lies beside it."""

    a, b, y = 2.0, 0.5, 3

    def __init__(self):
        with pm.Model() as model:
            pm.Poisson("y", pm.Gamma("rate", self.a, self.b), observed=self.y)
        self.engine = CompiledEngine(TemperedDensity(model))
        self.log_z = stats.nbinom.logpmf(self.y, self.a, self.b / (1 + self.b))
        reference = make_reference(np.array([0.9]), unit(1, 0.9), 10.0)
        self.tuning = draws.DrawTuning(reference, np.zeros(2), np.zeros(1), 0)

    def density(self):
        return self.engine.on(self.engine.density.data)

    def posterior(self, rng, n):
        return np.log(rng.gamma(self.a + self.y, 1 / (self.b + 1), size=n))

    def log_weights(self, direction, starts=None):
        data = self.engine.density.data
        found = np.empty(RUNS)
        for k, seed in enumerate(np.random.SeedSequence([7, direction is REVERSE]).spawn(RUNS)):
            start = None if starts is None else {"rate_log__": np.array(starts[k])}
            task = AnnealTask(
                direction, data, BETAS, self.tuning, seed, start, 0, N, keeps_ends=False
            )
            found[k] = self.engine.run(task).log_weight
        return found


@pytest.fixture(scope="module")
def skewed():
    return Skewed()


def score(values, expected):
    """Standard errors by which a mean differs."""
    return (np.mean(values) - expected) / (np.std(values) / np.sqrt(len(values)))


def test_forward_and_reverse_runs_are_unbiased(skewed):
    """E_f[Ẑ] = Z and E_r[1/Ẑ] = 1/Z; and the means of a function of Ẑ agree by Crooks' relation.

    Twin: reverse runs that do not start at a sample of the posterior.
    """
    forward = np.exp(skewed.log_weights(FORWARD) - skewed.log_z)
    assert abs(score(forward, 1)) < SIGMAS
    starts = skewed.posterior(np.random.default_rng(1), RUNS)
    reverse = np.exp(skewed.log_z - skewed.log_weights(REVERSE, starts))
    assert abs(score(reverse, 1)) < SIGMAS
    first, second = np.minimum(forward, 1), np.minimum(1 / reverse, 1) * reverse
    apart = first.mean() - second.mean()
    assert abs(apart) < SIGMAS * np.hypot(first.std(), second.std()) / np.sqrt(RUNS)
    wrong = skewed.tuning.reference.draw(RUNS, np.random.default_rng(1))[:, 0]
    twin = np.exp(skewed.log_z - skewed.log_weights(REVERSE, wrong))
    assert abs(score(twin, 1)) > SIGMAS


class Accepting:
    """A density with which every proposal is accepted."""

    def __init__(self, reference):
        self.reference = reference

    def terms(self, thetas):
        return np.stack([self.reference.log_density(thetas), np.zeros(len(thetas))], axis=1)


def test_burn_in_leaves_the_posterior_as_it_is(skewed):
    """Means and squares after some moves from exact samples. Twin: every proposal is accepted."""
    starts = skewed.posterior(np.random.default_rng(2), RUNS)
    sound = skewed.density()
    reference = skewed.tuning.reference
    # log Gamma(5, 1.5): its mean and variance are polygamma functions
    mean, variance = digamma(5) - np.log(1.5), polygamma(1, 5)
    for density, is_sound in ((sound, True), (Accepting(reference), False)):
        rng = np.random.default_rng(3)
        moved = [draws.metropolis(t[None], reference, density, 4, rng)[0] for t in starts]
        ends = np.array(moved)[:, 0]
        scores = score(ends, mean), score((ends - mean) ** 2, variance)
        assert (max(np.abs(scores)) < SIGMAS) == is_sound


def test_a_bad_start_is_forgotten(skewed):
    """After the burn-in ℓ is as under the posterior; two-sided α = 6e-5. Twin: without it."""
    density = skewed.density()
    rng, reference = np.random.default_rng(3), skewed.tuning.reference
    exact = skewed.posterior(np.random.default_rng(4), RUNS)
    for n, lasts in ((100, False), (0, True)):
        start = np.array([3.5])
        ends = [draws.metropolis(start, reference, density, n, rng)[0][0] for _ in range(2000)]
        spread = np.std(exact)
        apart = abs(np.mean(ends) - exact.mean()) / (spread / np.sqrt(len(ends)))
        assert (apart > SIGMAS) == lasts


def distances(log_weights, moves):
    """Total variation from the posterior after Metropolis moves among a few states, by start."""
    weights, n = np.exp(log_weights), len(log_weights)
    kernel = np.minimum(1, weights / weights[:, None]) / n
    np.fill_diagonal(kernel, 0)
    np.fill_diagonal(kernel, 1 - kernel.sum(axis=1))
    law = np.linalg.matrix_power(kernel, moves)
    return np.abs(law - weights / weights.sum()).sum(axis=1) / 2


@pytest.mark.parametrize("spread", [0.2, 0.4])
def test_a_burn_in_is_shortened_as_far_as_it_forgets(skewed, spread):
    """Exact, by matrices. Twin: a fifth of the moves."""
    g = spread * stats.norm.ppf((np.arange(60) + 0.5) / 60)
    tuning = dataclasses.replace(skewed.tuning, prior_log_likelihood=g)
    moves = tuning.shortened(100)
    assert moves < 40
    after = [distances(g, n).max() for n in (moves, moves // 5)]
    assert after[0] < draws.REMEMBERED < after[1]
    assert tuning.shortened(3) == 3


@pytest.mark.parametrize("moves", [1, 10])
@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
def test_the_distance_of_a_burned_in_start_is_bounded(spread, moves):
    """Exact, by matrices. The twin only asks for how long the start itself stays."""
    g = spread * np.random.default_rng(1).normal(size=60)
    exact, shares = distances(g, moves), softmax(g)
    # The start is among the draws too, so its weight counts twice.
    bound = [draws.distance_after(moves, start, g) for start in g] * (1 + shares)
    assert (exact <= bound + 1e-12).all()
    stays = (1 - np.exp(np.minimum(g - g[:, None], 0)).mean(axis=1)) ** moves
    assert (exact > stays + 1e-12).any()


def test_a_burn_in_with_uneven_weights_is_as_long_as_asked_for(skewed):
    """The twin's weights are even."""
    for largest, is_shortened in ((1.5, False), (0.5, True)):
        g = np.append(np.zeros(59), largest)
        tuning = dataclasses.replace(skewed.tuning, prior_log_likelihood=g)
        assert (tuning.shortened(100) < 100) == is_shortened


class Constrained(Accepting):
    """A density that is impossible below a bound."""

    def __init__(self, reference, bound):
        super().__init__(reference)
        self.bound = bound

    def terms(self, thetas):
        terms = super().terms(thetas)
        terms[thetas[:, 0] < self.bound, 1] = -np.inf
        return terms


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("bound", "leaves"), [(0.5, True), (np.inf, False)])
def test_an_impossible_start_is_left_at_the_first_possible_draw(bound, leaves):
    """Comparing an impossible state with an impossible proposal gives no warning of NumPy."""
    reference = make_reference(np.zeros(1), unit(1))
    density, start = Constrained(reference, bound), np.array([-3.0])
    end, distance = draws.metropolis(start, reference, density, 50, np.random.default_rng(1))
    assert (distance < 1e-3) == leaves
    assert (end >= bound if leaves else end == start).all()


def test_a_mixture_is_not_adapted_to_a_single_draw(skewed):
    thetas = np.array([[0.0], [1.0], [2.0]])
    reference = skewed.tuning.reference
    for ahead in (2000.0, 730.0):  # the others have no weight, and a subnormal one
        weights = adapt._truncated(np.array([ahead, 0.0, 0.0]))
        assert adapt._em(thetas, weights, reference) is reference
    even = adapt._em(np.repeat(thetas, 2, axis=0), np.full(6, 1 / 6), reference)
    assert even.locations[0, 0] == pytest.approx(1)


def test_components_of_an_adapted_mixture_have_draws_enough(monkeypatch):
    """Mean log variance of weights for six logarithms of Gamma variables; twin: any draws do.

    By 24 fits with other seeds it is −0.05 ± 0.06, and 0.59 ± 0.08 of the twin. So the limit, 0.26,
    is 4 standard deviations or more from both: α = 3e-5.
    """
    density = SimpleNamespace(
        evaluations=0,
        terms=lambda thetas: np.stack(
            [np.zeros(len(thetas)), (2 * thetas - np.exp(np.minimum(thetas, 500))).sum(axis=1)], 1
        ),
    )
    start = make_reference(np.full(6, np.log(2)), unit(6, 0.7))

    def log_variance(seed):
        rng = np.random.default_rng(seed)
        fitted = adapt.adapted(density, start, 128, rng, lambda mixture: mixture).reference
        return np.log(adapt.draw_weighted(density, fitted, 5000, rng).variance)

    assert np.mean([log_variance(seed) for seed in range(24)]) < 0.26
    monkeypatch.setattr(adapt, "LEAST_DRAWS", 0)
    assert np.mean([log_variance(seed) for seed in range(24)]) > 0.26


@pytest.mark.filterwarnings("error")
def test_a_component_without_draws_is_dropped_in_silence():
    """It lies so far off that no draw has any weight in it."""
    rng = np.random.default_rng(1)
    parts = [make_reference(np.array([place]), unit(1, scale), 1e6)
             for place, scale in ((0.0, 1.0), (1e4, 1e-3))]  # fmt: skip
    thetas, weights = rng.normal(size=(40, 1)), np.full(40, 1 / 40)
    adapted = adapt._em(thetas, weights, mix_references(parts))
    assert len(adapted.locations) == 1
    assert abs(adapted.locations[0, 0]) < 1


def normal_mixture(places, sd, shares):
    """log density of a mixture of round normals, with its gradient."""
    places = np.asarray(places, dtype=float)

    def log_density(theta):
        distances = theta - places
        logs = np.log(shares) - (distances**2).sum(axis=1) / 2 / sd**2
        value = logsumexp(logs)
        return value, -np.exp(logs - value) @ distances / sd**2

    return log_density


def test_climbs_find_every_top_and_its_share():
    rng = np.random.default_rng(1)
    density = normal_mixture([[-3, 0], [3, 0], [0, 4]], 0.5, [0.5, 0.3, 0.2])
    found = find_modes(density, rng.normal(0, 3, (64, 2)), unit(2, 3.0), searches=16)
    assert found.is_all
    assert found.reason.endswith("optimisations found 3 modes")
    assert np.allclose(sorted(found.reference.locations[:, 0]), [-3, 0, 3], atol=0.05)
    assert np.allclose(found.reference.scales, 0.5, rtol=1e-2)


def test_a_top_that_one_climb_came_to_is_a_sign_of_others():
    density = normal_mixture([[-9.0], [9.0]], 1.0, [0.5, 0.5])
    starts = np.array([[-8.0], [-7.0], [-10.0], [8.0]])
    found = find_modes(density, starts, unit(1), searches=4)
    assert found.is_unfinished
    assert "4 optimisations ended at 2 modes, 1 of which a single one found" in found.reason
    again = find_modes(density, [*starts, [9.5]], unit(1), searches=4)
    assert again.is_all


@pytest.mark.parametrize("low", [True, False])
def test_a_search_that_keeps_finding_low_tops_is_not_finished(low):
    """One top has all of the posterior, but how many higher ones are unseen nobody knows."""
    places = np.array([[0.0], *([[4.0 * i] for i in range(1, 60)] if low else [])])
    shares = np.where(places[:, 0] > 0, 1e-6, 1.0)
    density = normal_mixture(places, 0.5, shares)
    starts = np.random.default_rng(1).uniform(-2, 240 if low else 2, (64, 1))
    found = find_modes(density, [np.zeros(1), *starts], unit(1), searches=16)
    assert len(found.reference.locations) == 1
    assert found.is_unfinished is low
    assert found.is_all is not low


@pytest.mark.parametrize(("n", "share"), [(5, 0.1), (30, 0.3), (30, 0.0)])
def test_rays_find_a_wider_shell_that_has_no_top(n, share):
    """A posterior ten times as wide around the mode of the other: quadrature, no chance but r."""
    rng, shell = np.random.default_rng(1), normal_mixture(np.zeros((1, n)), 1.0, [1.0])
    normal = -n / 2 * np.log(2 * np.pi)

    def log_density(theta):
        narrow = normal - n * np.log(0.1) - 50 * theta @ theta + np.log1p(-share)
        with np.errstate(divide="ignore"):
            return np.logaddexp(narrow, normal + shell(theta)[0] + np.log(share)), None

    reference = make_reference(np.zeros(n), unit(n, 0.1), float(n))
    prior = rng.normal(0, 3, (256, n))
    found, wider = part_beyond(reference, Mixture(log_density), prior, 0.0, 16, rng)
    assert abs(found - share) < 0.02
    assert (wider is None) is (share == 0.0)
    if wider:  # as wide as the shell, in each direction
        assert np.allclose(wider.scales, 1.0, rtol=0.1)


def test_none_of_six_tops_that_are_alike_is_overlooked():
    """As of three labels that are switched: 20 seeds, α = 0.02. Good's rule overlooks some."""
    angles = np.arange(6) * np.pi / 3
    density = normal_mixture(
        9 * np.column_stack([np.cos(angles), np.sin(angles)]), 0.7, [1 / 6] * 6
    )

    def claims_fewer(seed, overlooked):
        starts = np.random.default_rng(seed).normal(0, 9, (64, 2))
        found = find_modes(density, starts, unit(2, 3.0), 16, None, overlooked)
        return found.is_all and len(found.reference.locations) < 6

    assert not any(claims_fewer(seed, limits.OVERLOOKED) for seed in range(20))
    assert any(claims_fewer(seed, 1.0) for seed in range(20))


@pytest.mark.filterwarnings("error")
def test_an_infinite_slope_has_no_curvature_and_no_warning():
    """As where a scale goes to zero; a newcomer would read a warning of NumPy as a fault."""
    slope = np.full(2, np.inf)
    assert modes._curvature(lambda theta: (0.0, slope), np.zeros(2), slope, np.ones(2)) is None


def test_a_search_on_further_data_knows_nothing_of_the_first(monkeypatch):
    """Twin: one that begins where the known mode is ends there."""
    density = Mixture(normal_mixture([[-5.0], [5.0]], 0.5, [0.5, 0.5]))
    prior = np.random.default_rng(0).normal(0, 5, (256, 1))

    def found(place):
        known = tuning_at(make_reference(np.array([place]), unit(1, 0.5)))
        fit = fit_of(density, prior, np.random.default_rng(1)).further(known)
        return fit.tuning.reference.locations

    assert len(found(5.0)) == 2
    assert np.array_equal(found(5.0), found(-5.0))
    with monkeypatch.context() as told:
        told.setattr(fitting.Fitting, "_starts", lambda self, n: iter([np.full(1, 5.0)] * n))
        told.setattr(fitting, "MOST_WIDER", 0)  # rays find the other mode
        assert len(found(5.0)) == 1


def test_the_price_of_an_evaluation_is_not_that_of_compiling(skewed, monkeypatch):
    density, theta = skewed.density(), np.zeros(1)
    clock = itertools.accumulate([0.0, 20.0] + 10 * [0.0, 1e-3])
    monkeypatch.setattr(problem.time, "thread_time", lambda: next(clock))
    for _ in range(5):
        density(theta)
    assert density.seconds == pytest.approx(1e-3, abs=1e-9)


def test_curvature_where_scales_differ_by_ten_orders():
    """The reference of a normal density is that density, whatever the units are."""
    rng = np.random.default_rng(2)
    root = np.diag([1e-5, 1.0, 1e5]) @ np.linalg.cholesky(np.eye(3) + 0.5)
    centre = np.array([1e-3, -20.0, 3e6])
    inverse = np.linalg.inv(root @ root.T)

    def log_density(theta):
        slope = -inverse @ (theta - centre)
        return slope @ (theta - centre) / 2, slope

    metric = Metric(np.array([1e-3, 3.0, 1e4]), np.zeros((0, 3)), np.zeros(0))
    starts = centre + rng.normal(size=(4, 3)) * metric.scale
    found = find_modes(log_density, starts, metric, searches=2)
    own = Metric(
        *(getattr(found.reference, name)[0] for name in ("scales", "directions", "excesses"))
    )
    covariance = root_of(own) @ root_of(own).T
    units = np.sqrt(np.diag(root @ root.T))
    assert np.allclose(
        covariance / np.outer(units, units), root @ root.T / np.outer(units, units), atol=1e-3
    )


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


@pytest.mark.parametrize(("often", "is_all"), [(0, True), (8, True), (2, False)])
def test_lost_climbs_count_by_their_share(often, is_all):
    """Two of the first four end on a plateau, and then one of so many, or none."""

    def log_density(theta):
        if abs(theta[0]) > 9:
            return -40.5, np.zeros(1)
        return -(theta[0] ** 2) / 2, -theta

    starts = [10.0, 1.0, 10.0, 1.0] + [10.0 if often and i % often == 0 else 1.0 for i in range(60)]
    found = find_modes(log_density, [np.array([x]) for x in starts], unit(1), searches=4)
    assert found.is_all is is_all


@pytest.mark.parametrize("n_possible", [3, 4])
def test_no_climb_starts_where_the_density_is_not_finite(n_possible):
    """As where data underflow at most prior draws: these are no sign that a mode is missed."""

    def log_density(theta):
        if abs(theta[0]) > 9:
            return -np.inf, np.full(1, np.nan)
        return -(theta[0] ** 2) / 2, -theta

    starts = [np.array([x]) for x in (*(n_possible * [1.0]), *(20 * [10.0]))]
    assert find_modes(log_density, starts, unit(1), searches=4).is_all is (n_possible == 4)
    assert find_modes(log_density, starts[n_possible:], unit(1), searches=4).reference is None


def test_metric_of_a_covariance_and_its_root():
    covariance = np.array([[4.0, 1.8], [1.8, 1.0]])
    root = root_of(metric_of(covariance))
    assert np.allclose(root @ root.T, covariance)


def test_what_prior_draws_find_and_a_fit_misses():
    """A slab with three fifths of the posterior, and a spike in it where all climbs end."""
    rng = np.random.default_rng(4)
    prior = rng.normal(0, 1, (256, 2))
    log_prior = stats.norm.logpdf(prior).sum(axis=1)
    spike = make_reference(np.zeros(2), unit(2, 0.01))
    thetas = spike.draw(128, rng)
    g = stats.norm.logpdf(thetas, 0, 0.01).sum(axis=1) - spike.log_density(thetas) + np.log(0.4)
    log_ml = logsumexp(g) - np.log(128)

    class Slab:
        shift, has_gradient = 0.0, False

        def terms(self, thetas):
            return np.stack([log_prior, np.full(256, np.log(0.6) - self.shift)], axis=1)

    slab, lower = Slab(), Slab()
    lower.shift = 9.0
    found = fit_of(slab, prior, rng)._missed(spike, log_ml)
    assert found.startswith("weighted prior draws put")
    assert not fit_of(lower, prior, rng)._missed(spike, log_ml)


def fit_of(density, prior, rng):
    n = prior.shape[1]
    plain = fitting.Structure(np.zeros(n, dtype=bool), np.full(n, -1), False, False, False)
    return fitting.Fitting(density, prior, plain, rng)


class Nowhere:
    """A density that is +∞ at one prior draw of many."""

    evaluations = 0

    def terms(self, thetas):
        terms = np.zeros((len(thetas), 2))
        terms[3, 1] = np.inf
        return terms


def test_a_density_that_is_infinite_has_no_fit():
    """It is left to annealing, which names the variable."""
    rng = np.random.default_rng(1)
    found = fit_of(Nowhere(), rng.normal(size=(256, 2)), rng).first(None)
    assert found.tuning is None
    assert "+∞ at some prior draws" in found.reason


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


def heavy(theta):
    """A wide round t distribution with ten degrees of freedom, without its gradient."""
    return -(10 + len(theta)) / 2 * np.log1p(theta @ theta / 17), None


@pytest.mark.parametrize(("chosen", "degrees"), [(None, 20), (8.0, 8)])
def test_a_normal_posterior_of_many_elements_gets_light_tails(chosen, degrees):
    """Then weights are nearly even; degrees of freedom that were chosen stay."""
    density, rng = Mixture(normal_mixture(np.zeros((1, 20)), 0.1, [1.0])), np.random.default_rng(2)
    fit = fit_of(density, rng.normal(size=(256, 20)), rng).first(None, chosen)
    assert fit.tuning.reference.degrees_of_freedom == degrees
    assert (fit.variance < 0.3) == (chosen is None)


def test_few_draws_move_a_component_as_a_whole(monkeypatch):
    """They give no covariance of 30 elements. Twin: without a move weights stay uneven."""
    density = Mixture(normal_mixture([np.full(30, 0.3)], 1.0, [1.0]))
    drawn = adapt.draw_weighted(
        density, make_reference(np.zeros(30), unit(30), 30.0), 128, np.random.default_rng(1)
    )
    found = adapt.improved(density, drawn, np.random.default_rng(2))
    assert found.variance < drawn.variance / 2
    assert np.linalg.norm(found.reference.locations[0] - 0.3) < np.linalg.norm(np.full(30, 0.3)) / 2
    monkeypatch.setattr(adapt, "LEAST_DRAWS", np.inf)
    assert adapt.improved(density, drawn, np.random.default_rng(2)) is drawn


def test_a_posterior_with_heavy_tails_keeps_them():
    """Light ones make weights more uneven, in ten seeds of ten."""
    density, rng = Mixture(heavy), np.random.default_rng(2)
    drawn = adapt.draw_weighted(density, make_reference(np.zeros(20), unit(20)), 128, rng)
    assert drawn.variance > 0.3
    assert adapt.improved(density, drawn, rng).reference.degrees_of_freedom == 10


def tuning_at(reference):
    """Return the tuning of draws from a fit to other data."""
    return draws.DrawTuning(reference, np.zeros(2), np.zeros(1), 0)


def plane(theta):
    """A density that is the same everywhere, with its gradient."""
    return 0.0, np.zeros(1)


@pytest.mark.parametrize(
    ("places", "shares", "found", "reason"),
    [
        ([[1.0]], [1.0], [1.0], ""),
        ([[-9.0], [1.0], [9.0]], [0.5, 0.3, 0.2], [-9.0, 1.0, 9.0], ""),
        ([[-9.0], [1.0], [40.0]], [0.4, 0.3, 0.3], [-9.0, 1.0, 40.0], "may miss others"),
        (None, None, [0.5], "the fit to other data, since no mode was found"),
    ],
)
def test_no_fit_to_further_data_is_refused(places, shares, found, reason):
    """The mode at 40 is reached from one prior draw alone; a plane has no mode.

    Twin: as first data, the last two are refused.
    """
    density = Mixture(normal_mixture(places, 1, shares) if places else plane)
    prior = np.array([[40.0], [-9.0], [9.0]] + 61 * [[-9.0], [9.0], [1.0]])
    known = tuning_at(make_reference(np.array([0.5]), unit(1)))
    fit = fit_of(density, prior, np.random.default_rng(1)).further(known)
    assert np.allclose(np.sort(fit.tuning.reference.locations.ravel()), found, atol=0.5)
    assert reason in fit.reason
    first = fit_of(density, prior, np.random.default_rng(1)).first(None)
    assert (first.tuning is None) == bool(reason)


def test_a_fit_that_is_stopped(skewed):
    skewed.engine._stop[0] = 1
    try:
        seed = np.random.SeedSequence(1)
        assert skewed.engine.fit(FitTask(skewed.engine.density.data, seed)) is None
    finally:
        skewed.engine._stop[0] = 0


RIDGE_FITS = 12
"""Fits of a thin curved ridge; without the check of what climbs passed, 2 of 12 weigh draws."""


def ridge_fits():
    """Reasons why draws are annealed, for a parabola whose arms are 60 times longer than wide."""
    with pm.Model() as model:
        x, y = pm.Uniform("x", -5, 5), pm.Uniform("y", -5, 5)
        pm.Potential("ridge", -((1 - x) ** 2 + 1000 * (y - x**2) ** 2))
    engine = CompiledEngine(TemperedDensity(model))
    seeds = np.random.SeedSequence(3).spawn(RIDGE_FITS)
    fits = [engine.fit(FitTask(engine.density.data, seed)) for seed in seeds]
    return [None if fit.tuning else fit.reason for fit in fits]


def test_a_thin_curved_ridge_is_not_weighed(monkeypatch):
    """Draws from a fit to its top all agree, and miss its arms; climbs came along these.

    So do rays: the components that they add are too uneven, and without these they refuse the fit.
    There are so few prior draws that none of them lies in the arms.
    """
    monkeypatch.setattr(CompiledEngine, "_draws_for", lambda *_: 256)
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
