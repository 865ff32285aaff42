"""E_f[Ẑ] = Z, E_r[1/Ẑ] = 1/Z and Crooks' relation of populations, with broken twins.

At 25,000 runs; a test passes within 3 standard errors (α = 2.7e-3 a comparison, seeded), and its
twins must exceed them.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

import pymc_bdmc as bdmc
from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.run.chain import Plan, Table
from pymc_bdmc.run.resampling import MAX_PLACES, effective_size, places, resample, update_weights
from tests.engines.short_runs import run
from tests.engines.test_identities import (
    STANDARD_ERRORS,
    assert_identities,
    crooks_scores,
)

FORWARD, REVERSE = Direction
RUNS = 25_000
BETAS = Schedule([0.0, 0.15, 0.5, 1.0]).betas  # read-only, as the compiled loop has them


class Enumerable:
    """Two coupled discrete variables, which Metropolis moves one after the other."""

    p_b, p_c, y, sd = [0.7, 0.3], [0.4, 0.3, 0.2, 0.1], 3.5, 0.8
    kernel, width, reference = "metropolis", 0, None

    def __init__(self):
        with pm.Model() as model:
            b = pm.Bernoulli("b", self.p_b[1])
            c = pm.Categorical("c", self.p_c)
            pm.Normal("y", b + c, self.sd, observed=self.y)
        self.model = model
        self.states = np.array(
            [(i, j) for i in range(2) for j in range(len(self.p_c))], dtype=float
        )
        self.log_prior = np.log([self.p_b[int(i)] * self.p_c[int(j)] for i, j in self.states])
        apart = stats.norm.logpdf(np.reshape(self.y, (-1, 1)), self.states.sum(axis=1), self.sd)
        self.log_joint = self.log_prior + apart.sum(axis=0)
        self.log_z = logsumexp(self.log_joint)

    def prior(self, rng, *shape):
        return self.states[rng.choice(len(self.states), shape, p=softmax(self.log_prior))]

    def posterior(self, rng, *shape):
        return self.states[rng.choice(len(self.states), shape, p=softmax(self.log_joint))]


class Coupled(Enumerable):
    """A posterior with which the order of the two moves matters."""

    y = 6.0


class Transformed:
    """A Gamma rate on the log scale with a Poisson count: the evidence is negative binomial."""

    a, b, y = 2.0, 0.5, 9
    kernel, width, reference = "hmc", 1, None

    def __init__(self):
        with pm.Model() as model:
            pm.Poisson("y", pm.Gamma("rate", self.a, self.b), observed=self.y)
        self.model = model
        self.log_z = stats.nbinom.logpmf(self.y, self.a, self.b / (1 + self.b))

    def prior(self, rng, *shape):
        return np.log(rng.gamma(self.a, 1 / self.b, size=(*shape, 1)))

    def posterior(self, rng, *shape):
        return np.log(rng.gamma(self.a + self.y, 1 / (1 + self.b), size=(*shape, 1)))


@cache
def enumerable():
    return Enumerable()


@cache
def transformed():
    return Transformed()


@cache
def engine(system):
    return CompiledEngine(TemperedDensity(system.model), system.kernel, in_turn(system))


def in_turn(system):
    """Whether it is on a path of the data."""
    return getattr(system, "in_turn", False)


@cache
def log_weights(system, direction, particles, reversal=True):
    starts, rng = starts_of(system, direction, particles, RUNS)
    return short_runs(system, direction, starts, system.reference, rng, reversal=reversal)


def starts_of(system, direction, particles, n):
    """States in which runs begin, and the generator that drew them."""
    rng = np.random.default_rng([particles, direction is REVERSE])
    starts = system.prior(rng, n, particles)
    if direction is REVERSE:
        starts[:, 0] = system.posterior(rng, n)
    return starts, rng


def plan_of(system, direction, starts, reversal=True):
    n, reverse = system.width, direction is REVERSE
    table = Table(np.array([0.5, 1.0]), np.full(2, 0.6), np.ones((2, n)), np.zeros((2, 0, n)),
                  np.zeros((2, 0)), np.ones((2, starts.shape[2] - n)))  # fmt: skip
    rows, fractions = np.zeros(len(BETAS), dtype=int), np.zeros(len(BETAS))
    return Plan(
        BETAS, table, rows, fractions, reverse, 0, reverse and reversal, BETAS > 0,
        np.empty((0, starts.shape[2])), 1, in_turn(system),
    )  # fmt: skip


def short_runs(system, direction, starts, reference, rng, reversal=True):
    """Log weights of runs from these starts."""
    compiled, plan = engine(system), plan_of(system, direction, starts, reversal)
    draws = np.empty((len(starts), *plan.draws.shape))
    target = compiled.on(compiled.density.data, reference).target
    return run(target, KERNELS[system.kernel].compiled, plan, starts, draws, rng)


@pytest.mark.parametrize(
    ("make", "particles"),
    [(enumerable, 1), (enumerable, 2), (enumerable, 8), (transformed, 3)],
)
def test_identities(make, particles):
    system = make()
    assert_identities(system, *(log_weights(system, d, particles) for d in Direction))


def test_more_particles_close_the_gap():
    """Eight at least to an eighth, within 3 standard errors; two are too few for that."""

    def gap(particles):
        forward, reverse = (log_weights(enumerable(), d, particles) for d in Direction)
        return reverse.mean() - forward.mean(), (forward.var() + reverse.var()) / RUNS

    (one, variance), (two, _), (eight, its) = (gap(n) for n in (1, 2, 8))
    assert eight < one / 8 + STANDARD_ERRORS * np.sqrt(variance / 64 + its) < two


def test_a_path_found_by_unreversed_kernels_is_exposed():
    system = Coupled()
    forward, reverse = (log_weights(system, d, 2) for d in Direction)
    assert crooks_scores(system, forward, reverse).max() < STANDARD_ERRORS
    twin = log_weights(system, REVERSE, 2, reversal=False)
    assert crooks_scores(system, forward, twin).max() > STANDARD_ERRORS


def law(rows):
    """The share of each row."""
    values, counts = np.unique(rows, axis=0, return_counts=True)
    return dict(zip(map(tuple, values.tolist()), counts / counts.sum(), strict=True))


@pytest.mark.parametrize("weights", [[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.45, 0.54, 0.01]])
def test_the_law_of_resampling(weights):
    """Copies are in proportion to weights, and given that 0 is kept the law is that by Bayes' rule.

    As if it had had any of the places of 0, from which the others follow on a circle. At 10,000
    phases; twins keep 0 without asking how likely that was, or leave the others in their order.
    """
    weights, phases = np.array(weights), (np.arange(10_000) + 0.5) / 10_000
    free, kept = (np.array([resample(weights, k, p) for p in phases]) for k in (False, True))
    np.testing.assert_allclose([np.mean(free == i) for i in range(3)], weights, atol=1e-3)
    turned = [np.roll(row, -place) for row in free for place in np.flatnonzero(row == 0)]
    exact = pytest.approx(law(turned), abs=1e-3)
    assert law(kept) == exact
    assert law(free * [0, 1, 1]) != exact
    assert (law(np.sort(kept, axis=1)) == exact) == (weights[0] < 1 / 3)  # at most one copy of 0


def test_weights_of_a_population():
    """log of the mean of exp(β ℓ) in parts, where they underflow and digits would cancel."""
    ells = np.array([-1e30, -5000.0, -3.0, -2.0, -np.inf])
    weights, total = np.full(5, 0.2), 0.0
    for increment in (0.3, 0.7):
        highest, rest = update_weights(weights, ells, increment)
        total += increment * highest + rest
    assert total == pytest.approx(logsumexp(ells) - np.log(5), rel=1e-14)
    np.testing.assert_allclose(weights, softmax(ells), rtol=1e-12)
    assert effective_size(weights) == pytest.approx(1 / np.sum(softmax(ells) ** 2))
    assert update_weights(np.ones(1), np.array([-np.inf]), 0.1)[1] == -np.inf


def test_places_are_few_and_the_same_for_every_run():
    assert places(10).tolist() == [False] + [True] * 10
    assert places(100_000).sum() == MAX_PLACES
    assert places(100_000)[[1, -1]].all()


def sample(model, **options):
    defaults = {"chains": 50, "particles": 6, "temperatures": 20, "simulate": None, "path": "prior"}
    return pm.sample_bdmc(model, **defaults | options, random_seed=3, cores=1, progressbar=False)


def test_the_posterior_has_equal_weights_and_the_result_says_how_populations_fared():
    """Its mean is that of a Gamma variable to 4 standard errors, and so is the weighted one."""
    system = transformed()
    dt = sample(system.model, temperatures=5)
    particles, posterior = dt["particles"], dt["posterior"]
    assert particles["rate"].dims == ("chain", "particle")
    assert particles["bdmc_weight"].sum() == pytest.approx(1)
    weights = particles["bdmc_weight"].values
    assert posterior["rate"].dims == ("chain", "draw")
    assert 50 < posterior["rate"].size <= 1 / np.sum(weights**2)
    assert "bdmc_weight" not in posterior.coords
    exact = stats.gamma(system.a + system.y, scale=1 / (1 + system.b))
    draws = posterior["rate"].values
    assert abs(draws.mean() - exact.mean()) < 4 * exact.std() / np.sqrt(draws.size)
    found = bdmc.expectation(dt, "rate")
    assert abs(found["mean"] - exact.mean()) < 4 * found["error"]
    assert np.isin(draws, particles["rate"].values).all()

    real = dt["real"]
    assert real["effective_size"].dims == real["resamplings"].dims == ("beta",)
    assert dt.attrs["particles"] == real["effective_size"][0] == 6
    assert (real["least_effective_size"] >= 1).all()
    assert ((real["ancestors"] >= 1) & (real["ancestors"] <= 6)).all()
    assert 0 < real["resamplings"].max() <= 50
    assert "ancestors" not in sample(system.model, particles=1)["real"]


def test_the_best_of_several_prior_draws_has_a_lighter_tail():
    """ℓ of a Cauchy location has no mean, but that of the best of many draws has."""
    with pm.Model() as model:
        pm.Normal("y", pm.Cauchy("x", 0, 1), 1.0, observed=0.5)
    kinds = []
    for n in (1, 16):
        dt = sample(model, chains=8, particles=n, simulate=bdmc.FromPrior(1), real_data=False)
        kinds.append(bdmc.summary(dt).loc[("simulated", "lower bound"), "kind"])
    assert "−∞" in kinds[0] or "not resolved" in kinds[0]
    assert "−∞" not in kinds[1]
    assert "not resolved" not in kinds[1]
