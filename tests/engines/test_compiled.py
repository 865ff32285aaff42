"""The compiled engine: identities of its loop, its pilot, threads, interruption and fallback."""

import os
import signal
import threading
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numba
import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

import pymc_bdmc as bdmc
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule, thermodynamic_length
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.compiled import JittedDensity, NotJittable
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, make_engine, runs
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.kernels.transition import SIGNATURE
from pymc_bdmc.pilots.pilot import MeanCurve, Trace, next_beta
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import (
    make_reference,
    mix_references,
)
from pymc_bdmc.run.chain import Plan, Table
from tests.engines import short_runs
from tests.engines.test_identities import (
    STANDARD_ERRORS,
    assert_identities,
    crooks_scores,
    reverse_score,
)
from tests.models import eight_schools
from tests.mutants import broken_kernels, slow_but

FORWARD, REVERSE = Direction
N = 100_000
Y, NOISE, P, JUMP = 1.2, 0.7, 0.4, 2.0
BETAS = Schedule([0.0, 0.35, 1.0]).betas  # read-only, as the compiled loop has them


@cache
def mixed_model(n=1):
    """A jump of 2 with probability 0.4 and n normals, seen in the sum of them all."""
    with pm.Model() as model:
        b = pm.Bernoulli("b", P)
        x = pm.Normal("x", sigma=n**-0.5, shape=n)  # the sum has variance 1
        pm.Normal("y", x.sum() + JUMP * b, NOISE, observed=Y)
    return model


SUM_VARIANCE = 1 + NOISE**2
LOG_JOINT = np.log([1 - P, P]) + stats.norm.logpdf(Y, JUMP * np.arange(2), SUM_VARIANCE**0.5)
LOG_Z = logsumexp(LOG_JOINT)
SYSTEM = SimpleNamespace(log_z=LOG_Z)


def exact_starts(direction, n, rng):
    """Rows (x, b) of the prior or of the posterior."""
    x = rng.normal(size=(N, n)) * n**-0.5
    if direction is FORWARD:
        return np.column_stack([x, rng.random(N) < P]).astype(float)
    b = rng.random(N) < softmax(LOG_JOINT)[1]
    gain = np.linalg.cholesky(np.eye(n) - 1 / (n * SUM_VARIANCE))
    mean = (Y - JUMP * b) / (n * SUM_VARIANCE)
    return np.column_stack([mean[:, None] + x @ gain.T, b]).astype(float)


STAGES, STEP_SIZES = np.array([0.35, 1.0]), np.array([0.9, 0.7])
TABLES = {
    1: Table(
        STAGES,
        STEP_SIZES,
        np.array([[0.9], [0.6]]),
        *(np.zeros(shape) for shape in ((2, 0, 1), (2, 0), (2, 1))),
    ),
    2: Table(  # along directions that are not the sum's
        STAGES,
        STEP_SIZES,
        np.array([[0.8, 0.6], [0.7, 0.6]]),
        np.array([[[0.6, 0.8]], [[0.8, 0.6]]]),
        np.array([[-0.4], [-0.7]]),
        np.zeros((2, 1)),
    ),
}


def log_weights(kernel, direction, backwards, n_fresh=0, n=1):
    """Of N chains from exact starts, with a few prior draws to move to on the way."""
    engine = mixed_engine(n)
    rng = np.random.default_rng(5)
    fresh = np.stack([exact_starts(FORWARD, n, rng) for _ in range(2)], axis=1)[:, :n_fresh]
    starts = exact_starts(direction, n, rng)[:, None]
    rows, fractions = np.array([0, 0, 0]), np.array([0.0, 0.0, 1.0])
    plan = Plan(
        BETAS, TABLES[n], rows, fractions, direction is REVERSE, 0, backwards, BETAS > 0, fresh[0],
        1, False,
    )  # fmt: skip
    target = engine.on(engine.density.data).target
    return short_runs.run(target, kernel.compiled, plan, starts, fresh, rng)


@cache
def mixed_engine(n):
    return CompiledEngine(TemperedDensity(mixed_model(n)))


@pytest.mark.parametrize(
    ("step", "n_fresh", "n"),
    [
        ("hmc", 2, 1),
        ("hmc", 0, 2),
        ("autostep", 0, 2),
        ("nuts", 0, 2),
        ("metropolis", 0, 2),
    ],
)
def test_weights_and_crooks_relation(step, n_fresh, n):
    """At 10^5 chains, within 3 standard errors; with prior draws on the way, and directions."""
    forward = log_weights(KERNELS[step], FORWARD, False, n_fresh, n)
    reverse = log_weights(KERNELS[step], REVERSE, True, n_fresh, n)
    assert_identities(SYSTEM, forward, reverse)


def test_a_reverse_kernel_in_the_forward_order_is_exposed():
    """By the Crooks relation alone: unbiasedness does not notice."""
    forward, twin = (log_weights(KERNELS["hmc"], each, False) for each in Direction)
    assert reverse_score(SYSTEM, twin) < STANDARD_ERRORS
    assert crooks_scores(SYSTEM, forward, twin).max() > STANDARD_ERRORS


@pytest.mark.parametrize("step", slow_but("hmc", of=KERNELS))
def test_faults_of_the_kernels_are_exposed(step):
    """Momenta drawn with the metric in the place of its inverse; a lenient random walk."""
    twin = broken_kernels()
    kernel = replace(KERNELS[step], transitions=getattr(twin, f"{step}_transitions"))
    with twin.having("metric not inverted" if kernel.needs_gradient else "lenient walk"):
        forward = log_weights(kernel, FORWARD, False, n=2)
        reverse = log_weights(kernel, REVERSE, True, n=2)
    assert crooks_scores(SYSTEM, forward, reverse).max() > STANDARD_ERRORS


def same(a, b):
    groups = ("forward", "reverse", "real", "posterior")
    return all(a[group].dataset.equals(b[group].dataset) for group in groups)


def run(**options):
    """Chains from the prior."""
    defaults = dict(
        chains=6, particles=1, temperatures=30, path="prior",
        simulate=bdmc.FromPrior(1), random_seed=3,
        progressbar=False,
    )  # fmt: skip
    return pm.sample_bdmc(options.pop("model", None) or mixed_model(), **defaults | options)


def test_results_do_not_depend_on_the_number_of_threads():
    first, second = run(cores=1), run(cores=2)
    assert same(first, second)
    assert not same(first, run(cores=2, random_seed=4))


def test_same_answer_as_the_step_methods_on_a_mixed_model():
    """Both within 4 standard errors of the exact value; compiled moves in the stated order."""
    options = dict(chains=200, temperatures=20, simulate=None, cores=2)
    default = run(**options)
    assert default.attrs["step"] == "compiled Metropolis(b) > HMC(x)"
    steps = run(step=[pm.Metropolis, pm.BinaryGibbsMetropolis], **options)
    for dt in (default, steps):
        row = bdmc.summary(dt).loc[("real", "evidence")]
        assert abs(row["value"] - LOG_Z) < 4 * row["error"]


@pytest.mark.parametrize("step", ["nuts", "metropolis"])
def test_kernels_by_name(step):
    dt = run(step=step, chains=100, simulate=None)
    row = bdmc.summary(dt).loc[("real", "evidence")]
    assert abs(row["value"] - LOG_Z) < 4 * row["error"]
    assert (dt["real"].attrs["gradient_evaluations"] > 0) == (step == "nuts")


@pytest.mark.parametrize(("step", "diverges"), [("autostep", False), ("hmc", True)])
def test_local_steps_end_the_divergences_of_a_funnel(step, diverges):
    """More than 4 % of the transitions of HMC on centred eight schools, below 1 % of these."""
    dt = run(model=eight_schools(True), step=step, simulate=None, chains=16, temperatures=200)
    share = float(dt["real"]["divergences"].mean()) / 16
    assert (share > 0.04) if diverges else (share < 0.01)


def test_an_unlimited_discrete_variable():
    """Poisson prior and Gaussian observation, by enumeration."""
    with pm.Model() as model:
        k = pm.Poisson("k", 30.0)
        pm.Normal("y", k, 4.0, observed=41.0)
    ks = np.arange(200)
    exact = logsumexp(stats.poisson.logpmf(ks, 30) + stats.norm.logpdf(41.0, ks, 4))
    dt = run(model=model, chains=100, temperatures=100)
    assert dt.attrs["step"] == "compiled Metropolis(k)"
    row = bdmc.summary(dt).loc[("real", "evidence")]
    assert abs(row["value"] - exact) < 4 * row["error"]


def test_heavy_tailed_priors_leave_no_dead_chain():
    dt = run(model=eight_schools(False), chains=64, temperatures=300, schedule="adaptive")
    for group in ("forward", "reverse", "real"):
        assert dt[group]["lowest_acceptance"].min() > 0.01
        assert np.isfinite(dt[group]["log_weight"]).all()


@pytest.mark.parametrize(("stride", "lost"), [(runs.FRESH_STRIDE, False), (10**9, True)])
def test_chains_lost_in_the_tail_of_a_prior_return(monkeypatch, stride, lost):
    """No gradient leads back from a variance of 10^9; a fresh prior draw does, the twin's none."""
    monkeypatch.setattr(runs, "FRESH_STRIDE", stride)
    with pm.Model() as model:
        variances = pm.InverseGamma("variances", 0.2, 1.0, shape=2)
        mean = pm.Normal("mean", 0, pm.math.sqrt(variances[0]))
        y = np.random.default_rng(0).normal(size=30)
        pm.Normal("y", mean, pm.math.sqrt(variances[1]), observed=y)
    dt = run(model=model, chains=200, temperatures=200, simulate=None)
    spread = float(dt["real"]["log_likelihood_sd"].sel(beta=1).squeeze())
    assert spread > 1000 if lost else spread < 2


def test_ctrl_c_stops_the_threads(monkeypatch):
    """Chains of minutes end at once, and those that were finished are kept."""
    counted, finished = [], ChainProgress.finished

    def press_after_the_third(self, group, log_weight):
        counted.append(group)
        if len(counted) == 3:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        finished(self, group, log_weight)

    monkeypatch.setattr(ChainProgress, "finished", press_after_the_third)
    dt = run(chains=1000, temperatures=3000, cores=2)
    assert dt.attrs["interrupted"] == 1
    kept = sum(int(dt[g]["log_weight"].notnull().sum()) for g in ("forward", "reverse", "real"))
    assert kept - len(counted) in (0, 1)  # the last one may be recorded and not yet shown
    assert kept < 3 * 1000


def test_a_model_that_numba_cannot_take_runs_with_step_methods(monkeypatch, caplog):
    def refuse(self, gradient):
        raise NotJittable("no such function")

    monkeypatch.setattr(JittedDensity, "_compile", refuse)
    dt = run(model=mixed_model(3), simulate=None)  # no other test has compiled it
    (warning,) = [record for record in caplog.records if "no such function" in record.message]
    assert warning.levelname == "WARNING"
    assert "compiled" not in dt.attrs["step"]


def test_a_shared_variable_is_named_with_the_remedy(caplog):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x") * pytensor.shared(2.0, "covariate"), observed=1.0)
    make_engine(TemperedDensity(model), BETAS, None)
    assert "(covariate is a shared variable; use pm.Data in its place)" in caplog.text


def test_why_numba_cannot_is_said_in_one_line(monkeypatch, caplog):
    def refuse(*args):
        raise numba.core.errors.TypingError("Failed in nopython mode pipeline\nNo such op\nAt: 1")

    monkeypatch.setattr("pymc_bdmc.density.compiled._cfuncs", {})
    monkeypatch.setattr("pymc_bdmc.density.compiled._make_cfunc", refuse)
    make_engine(TemperedDensity(mixed_model()), BETAS, None)
    assert "cannot be compiled (TypingError: No such op): PyMC's" in caplog.text


def test_an_exception_in_the_density_refuses_the_proposal():
    """Cholesky of a matrix that is not positive definite gives NaN, not a crash."""
    with pm.Model() as model:
        r = pm.Uniform("r", -1.5, 1.5)
        cov = pm.math.stack([[1.0, r], [r, 1.0]])
        pm.MvNormal("y", np.zeros(2), cov, observed=[0.5, 0.4])
    dt = run(model=model, simulate=None, chains=200, step="metropolis")  # a gradient takes 20 s
    grid = np.linspace(-1, 1, 20_001)[1:-1]
    pdf = [stats.multivariate_normal.pdf([0.5, 0.4], cov=[[1, r], [r, 1]]) for r in grid]
    row = bdmc.summary(dt).loc[("real", "evidence")]
    assert abs(row["value"] - np.log(np.sum(pdf) * (grid[1] - grid[0]) / 3)) < 4 * row["error"]


def test_draws_are_evaluated_together_as_one_by_one(monkeypatch):
    """ℓ and g of many θ, with what the density itself gives; −∞ outside the support is legal."""
    with pm.Model() as model:
        x = pm.Normal("x", 3.1, 1.0)
        pm.Normal("y", pm.math.switch(x > 2.0, x, np.nan), 1.0, observed=1.0)
        pm.Potential("inside", pm.math.switch(x < 4.0, 0.0, -np.inf))
    engine = CompiledEngine(TemperedDensity(model))
    density, thetas = engine.density, np.array([[2.5], [3.0], [4.5]])
    expected = np.array([density({"x": x}) for (x,) in thetas])
    assert np.isneginf(expected[2, 1])
    reference = make_reference(np.zeros(1), Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0)))
    monkeypatch.setattr(density, "terms", None)  # not one call from Python a row
    found = engine.on(density.data).log_likelihoods(thetas)
    np.testing.assert_allclose(found, expected[:, 1], rtol=1e-12)
    found = engine.on(density.data, reference).log_likelihoods(thetas)
    g = expected.sum(axis=1) - reference.log_density(thetas)
    np.testing.assert_allclose(found, g, rtol=1e-12)
    assert not engine.meets_undefined
    lost = engine.on(density.data, reference).log_likelihoods(np.array([[3.0], [1.0]]))
    assert np.array_equal(lost == -np.inf, [False, True])  # y is NaN there
    assert engine.meets_undefined


def test_targets_are_of_the_type_that_numba_is_told():
    """It does not look at them, and would misread other numbers. Twin: of whole ones."""

    def is_as_told(target):
        told = SIGNATURE.args[0].types
        return all(numba.typeof(field) == of for field, of in zip(target, told, strict=True))

    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("x", shape=2)), observed=[1, 2])
    path = bdmc.ReferencePath({"x": [1, 2]}, {"x": [1, 1]})
    shape = Metric(np.ones(2), np.eye(2)[:1], np.ones(1))
    parts = [make_reference(np.ones(2), shape), make_reference(np.zeros(2), shape)]
    engine = CompiledEngine(TemperedDensity(model))
    for reference in (None, path.reference(engine, 0, None), mix_references(parts)):
        target = engine.on(engine.density.data, reference).target
        assert is_as_told(target)
        assert not is_as_told(target._replace(data=target.data.astype(int)))
    for engine in (CompiledEngine(TemperedDensity(mixed_model())),
                   CompiledEngine(TemperedDensity(model), in_turn=True)):  # fmt: skip
        assert is_as_told(engine.on(engine.density.data).target)


@pytest.mark.parametrize("step", [None, "nuts", "autostep", "metropolis"])
def test_kernels_stay_where_the_density_is_a_number(step):
    """Log ML by quadrature, α = 6e-5 each. Half of the prior has no density; none is near 0."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", pm.math.log(x), 1.0, observed=0.0)
    dt = run(model=model, simulate=None, chains=100, step=step)
    assert (dt["particles"]["x"] > 0).all()
    grid = np.linspace(0, 10, 100_001)[1:]
    density = stats.norm.pdf(grid) * stats.norm.pdf(np.log(grid))
    row = bdmc.summary(dt).loc[("real", "evidence")]
    assert row["valid"]
    assert abs(row["value"] - np.log(density.sum() * grid[0])) < 4 * row["error"]


def test_a_model_without_elements():
    with pm.Model() as model:
        x = pm.Normal("x", shape=0)
        pm.Normal("y", x.sum(), 1.0, observed=2.0)
    dt = run(model=model, simulate=None)
    np.testing.assert_allclose(dt["real"]["log_weight"], stats.norm.logpdf(2.0))


def test_next_temperature_keeps_half_of_the_samples():
    ells = np.random.default_rng(1).normal(size=500) * 100
    beta = next_beta(ells, 0.0)
    weights = softmax(beta * ells)
    assert abs(1 / np.sum(weights**2) - 250) < 1
    assert next_beta(ells * 1e-6, 0.3) == 1.0
    assert next_beta(np.zeros(5), 0.0) == 1.0
    assert 0 < next_beta(-np.random.default_rng(2).pareto(0.2, size=500), 0.0) < 1


def test_the_next_temperature_is_higher_where_values_of_l_differ_by_rounding_only():
    """The effective sample size alone would ask for a step that β cannot take."""
    ells = -3e50 * (1 + 1e-14 * np.arange(100))
    assert next_beta(ells, 1e-18) == 1e-18
    curve = MeanCurve(ells)
    curve.add(1e-18, ells)
    curve.add(curve.next_beta(), ells)
    assert (np.diff(curve.betas) > 0).all()
    assert np.isfinite(curve.mean_log_likelihood).all()


def test_the_pilot_finds_the_mean_log_likelihood_and_the_scales():
    """Normal mean with a normal observation: E_β[ℓ] and the posterior sd are known at every β."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3.0)
        pm.Normal("y", x, 0.5, observed=4.0)
    engine = CompiledEngine(TemperedDensity(model))
    tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    precision = 1 / 9 + tuning.kernels.betas / 0.25
    np.testing.assert_allclose(tuning.kernels.scales[:, 0], precision**-0.5, rtol=0.2)
    betas = tuning.path_betas
    precision = 1 / 9 + betas / 0.25
    mean = betas * 4.0 / 0.25 / precision
    exact = stats.norm.logpdf(4.0, mean, 0.5) - 0.5 / precision / 0.25
    np.testing.assert_allclose(tuning.mean_log_likelihood, exact, rtol=0.25, atol=0.2)
    length = thermodynamic_length(betas, tuning.mean_log_likelihood)
    assert abs(length / thermodynamic_length(betas, exact) - 1) < 0.1
    assert tuning.acceptance.min() > 0.8


@pytest.mark.parametrize("stuck", [False, True])
@pytest.mark.parametrize(
    ("step", "target"), [("hmc", 0.9), ("autostep", 0.9), ("nuts", 0.8), ("metropolis", 0.3)]
)
def test_the_pilot_meets_the_target_acceptance(step, target, stuck):
    """In 100 dimensions, where the step size decides about it, whatever a discrete one does."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=100)
        if stuck:
            pm.Bernoulli("b", 0.01)
        pm.Normal("y", x, 2.0, observed=np.zeros(100))
    engine = CompiledEngine(TemperedDensity(model), step)
    tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    assert abs(tuning.acceptance.mean() - target) < 0.03


def test_the_step_size_follows_the_members_that_move():
    """A quarter of the population is in a spike ten thousand times as narrow as the rest."""
    with pm.Model() as model:
        x = pm.NormalMixture("x", [0.5, 0.5], [0.0, 50.0], [1.0, 1e-4])
        pm.Normal("y", x, 1e3, observed=0.0)
    engine = CompiledEngine(TemperedDensity(model))
    tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    metric = Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0))
    parameters = tuning.kernels.row(-1)._replace(metric=metric, step_size=0.5)
    rng = np.random.default_rng(2)
    move = engine._mover(engine.on(engine.density.data).target, rng)
    steps = []
    for n_stuck in (8, 24):  # of the twin's members three quarters are there, and it follows them
        population = np.where(np.arange(32) < n_stuck, 50.0, rng.normal(size=32))[:, None]
        trace = Trace(np.empty((24, 32)), np.empty((24, 32, 1)), np.empty((2, 24, 32, 1)))
        step_size, *_ = move(1.0, parameters, population, trace)
        steps.append(step_size)
    assert steps[0] > 0.3 > 0.01 > steps[1]


@pytest.mark.parametrize("step", [None, pm.Metropolis])
def test_the_pilots_prior_draws_are_kept(step):
    """Moments of ℓ under the prior, within 4 standard errors; the twin's prior is another."""
    with pm.Model() as model:
        x = pm.Normal("x", 1.0, 2.0)
        pm.Normal("y", x, 1.0, observed=0.0)
    dt = run(model=model, step=step, chains=2, temperatures=10, cores=1)
    for group in ("forward", "reverse", "real"):
        dims = ("prior_draw",) if group == "real" else ("dataset", "prior_draw")
        assert dt[group]["prior_log_likelihood"].dims == dims
        assert dt[group].sizes["prior_draw"] == 512
    ells = dt["real"]["prior_log_likelihood"].values
    error = ells.std() / np.sqrt(ells.size)
    exact = -0.5 * np.log(2 * np.pi) - 0.5 * (1 + 4)
    assert abs(ells.mean() - exact) < 4 * error < abs(ells.mean() - (exact + 1.5))


@pytest.mark.parametrize("stopped", [True, False])
def test_a_pilot_cut_short_says_so(stopped):
    engine = CompiledEngine(TemperedDensity(mixed_model()))
    engine._stop[0] = stopped
    tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    assert (tuning is None) == stopped


@pytest.mark.parametrize(("probability", "dead"), [(1e-9, True), (0.4, False)])
def test_dead_discrete_elements_are_not_masked_by_live_continuous_ones(probability, dead):
    with pm.Model() as model:
        b = pm.Bernoulli("b", probability)
        x = pm.Normal("x")
        pm.Normal("y", x + b, 1.0, observed=0.3)
    real = run(model=model, simulate=None, cores=1)["real"]
    assert float(real["acceptance"][1:].mean()) > 0.4
    assert bool((real["lowest_acceptance"] < 0.01).all()) == dead
    assert any("hardly moved" in message for message in bdmc.diagnose(real.parent)) == dead
