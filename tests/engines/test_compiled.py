"""The compiled engine: identities of its loop, its pilot, and what it makes of odd densities."""

from functools import cache
from types import SimpleNamespace

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

import pymc_bdmc as bdmc
from pymc_bdmc.base.schedules import Schedule, thermodynamic_length
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, make_engine, runs
from pymc_bdmc.kernels import KERNELS
from pymc_bdmc.kernels.transition import SIGNATURE
from pymc_bdmc.pilots.pilot import MeanCurve, Trace, next_beta
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import make_reference, mix_references
from pymc_bdmc.run.chain import Plan, Table
from tests.engines import short_runs
from tests.engines.test_identities import (
    STANDARD_ERRORS,
    assert_identities,
    crooks_scores,
    reverse_score,
)
from tests.models import SIGMAS, centred_schools, interpreted, repeated_normal

FORWARD, REVERSE = Direction
N = 25_000
Y, NOISE, P, JUMP = 1.2, 0.7, 0.4, 2.0
BETAS = Schedule([0.0, 0.35, 1.0]).betas  # read-only, as the compiled loop has them
SUM_VARIANCE = 1 + NOISE**2
LOG_JOINT = np.log([1 - P, P]) + stats.norm.logpdf(Y, JUMP * np.arange(2), SUM_VARIANCE**0.5)
LOG_Z = logsumexp(LOG_JOINT)
SYSTEM = SimpleNamespace(log_z=LOG_Z)
TABLE = Table(  # along directions that are not the sum's
    np.array([0.35, 1.0]),
    np.array([0.9, 0.7]),
    np.array([[0.8, 0.6], [0.7, 0.6]]),
    np.array([[[0.6, 0.8]], [[0.8, 0.6]]]),
    np.array([[-0.4], [-0.7]]),
    np.zeros((2, 1)),
)
ISOTROPIC = Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0))


@cache
def mixed_model():
    """A jump of 2 with probability 0.4 and two normals, seen in the sum of all three."""
    with pm.Model() as model:
        b = pm.Bernoulli("b", P)
        x = pm.Normal("x", sigma=2**-0.5, shape=2)  # the sum has variance 1
        pm.Normal("y", x.sum() + JUMP * b, NOISE, observed=Y)
    return model


@cache
def mixed_engine():
    return CompiledEngine(TemperedDensity(mixed_model()))


def exact_starts(direction, rng):
    """Rows (x, b) of the prior or of the posterior."""
    x = rng.normal(size=(N, 2)) * 2**-0.5
    if direction is FORWARD:
        return np.column_stack([x, rng.random(N) < P]).astype(float)
    b = rng.random(N) < softmax(LOG_JOINT)[1]
    gain = np.linalg.cholesky(np.eye(2) - 1 / (2 * SUM_VARIANCE))
    mean = (Y - JUMP * b) / (2 * SUM_VARIANCE)
    return np.column_stack([mean[:, None] + x @ gain.T, b]).astype(float)


def log_weights(kernel, direction, backwards, n_fresh=0, table=TABLE):
    """Log weights of N chains from exact starts; on the way they may move to prior draws."""
    rng = np.random.default_rng(5)
    fresh = np.stack([exact_starts(FORWARD, rng) for _ in range(2)], axis=1)[:, :n_fresh]
    starts = exact_starts(direction, rng)[:, None]
    rows, fractions = np.array([0, 0, 0]), np.array([0.0, 0.0, 1.0])
    order = direction is REVERSE, 0, backwards, BETAS > 0
    plan = Plan(BETAS, table, rows, fractions, *order, fresh[0], 1, False)
    target = mixed_engine().on(mixed_engine().density.data).target
    return short_runs.run(target, kernel.compiled, plan, starts, fresh, rng)


@pytest.mark.parametrize(("step", "n_fresh"), [*((step, 0) for step in KERNELS), ("hmc", 2)])
def test_weights_and_crooks_relation(step, n_fresh):
    """At 25,000 chains, within 3 standard errors; with prior draws on the way, too."""
    forward = log_weights(KERNELS[step], FORWARD, False, n_fresh)
    assert_identities(SYSTEM, forward, log_weights(KERNELS[step], REVERSE, True, n_fresh))


def test_a_reverse_kernel_in_the_forward_order_is_exposed():
    """By Crooks' relation alone: unbiasedness does not notice."""
    table = TABLE._replace(excesses=np.array([[0.5], [0.5]]))  # where b and x move each other
    forward, twin = (log_weights(KERNELS["hmc"], d, False, table=table) for d in Direction)
    assert reverse_score(SYSTEM, twin) < STANDARD_ERRORS
    assert crooks_scores(SYSTEM, forward, twin).max() > STANDARD_ERRORS


def run(model=None, **options):
    """Chains from the prior on the real data."""
    defaults = {"chains": 100, "particles": 1, "temperatures": 30, "path": "prior"}
    defaults |= {"simulate": None, "random_seed": 3, "cores": 1, "progressbar": False}
    return pm.sample_bdmc(model or mixed_model(), **defaults | options)


def is_right(dt, exact):
    """Whether log ML is within 4 standard errors, α = 6e-5."""
    row = bdmc.summary(dt).loc[("real", "evidence")]
    return abs(row["value"] - exact) < SIGMAS * row["error"]


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (None, "compiled Metropolis(b) > HMC(x)"),
        ("nuts", "compiled Metropolis(b) > NUTS(x)"),
        ("metropolis", "compiled Metropolis(b) > Metropolis(x)"),
        ([pm.Metropolis, pm.BinaryGibbsMetropolis], "BinaryGibbsMetropolis(b) > Metropolis(x)"),
    ],
)
def test_same_answer_of_all_kernels_on_a_mixed_model(step, name):
    """Compiled moves are in the stated order; PyMC's move populations. Twin: half a nat off."""
    few = {"particles": 2, "chains": 16, "temperatures": 15} if isinstance(step, list) else {}
    dt = run(step=step, **few)
    assert dt.attrs["step"] == name
    assert is_right(dt, LOG_Z)
    assert not is_right(dt, LOG_Z + 0.5)
    assert (dt["real"].attrs["gradient_evaluations"] > 0) == (step in (None, "nuts"))
    assert_from_the_prior(dt["real"]["prior_log_likelihood"].values)


@pytest.mark.parametrize(("step", "diverges"), [("autostep", False), ("hmc", True)])
def test_local_steps_end_the_divergences_of_a_funnel(step, diverges):
    """More than 4 % of the transitions of HMC on centred eight schools, below 1 % of these."""
    dt = run(centred_schools(), step=step, chains=16, temperatures=200)
    share = float(dt["real"]["divergences"].mean()) / 16
    assert (share > 0.04) if diverges else (share < 0.01)


def test_chains_lost_in_the_tail_of_a_prior_return(monkeypatch):
    """No gradient leads back from a variance of 10^7; a fresh prior draw does, the twin's none.

    Over 12 seeds the deviation of ℓ was 2 to 17, and over 10^7 in the twin.
    """
    with pm.Model() as model:
        log_sds = pm.Normal("log_sds", 0, 4.5, shape=2)
        mean = pm.Normal("mean", 0, pm.math.exp(log_sds[0]))
        y = np.random.default_rng(0).normal(size=30)
        pm.Normal("y", mean, pm.math.exp(log_sds[1]), observed=y)

    def spread():
        dt = run(model, chains=30, temperatures=100)
        return float(dt["real"]["log_likelihood_sd"].sel(beta=1).squeeze())

    assert spread() < 100
    monkeypatch.setattr(runs, "FRESH_STRIDE", 10**9)
    assert spread() > 100


def test_a_model_that_numba_cannot_take_runs_with_step_methods(monkeypatch, caplog):
    """Why it cannot is said in one line."""

    def refuse(*args):
        raise numba.core.errors.TypingError("Failed in nopython mode pipeline\nNo such op\nAt: 1")

    monkeypatch.setattr("pymc_bdmc.density.compiled._cfuncs", {})
    monkeypatch.setattr("pymc_bdmc.density.compiled._make_cfunc", refuse)
    dt = run(chains=2, temperatures=3)
    said = "cannot be compiled (TypingError: No such op): PyMC's"
    (warning,) = [record for record in caplog.records if said in record.message]
    assert warning.levelname == "WARNING"
    assert "compiled" not in dt.attrs["step"]


def test_a_shared_variable_is_named_with_the_remedy(caplog):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x") * pytensor.shared(2.0, "covariate"), observed=1.0)
    with interpreted():
        make_engine(TemperedDensity(model), BETAS, None)
    assert "(covariate is a shared variable; use pm.Data in its place)" in caplog.text


def test_an_exception_in_the_density_makes_a_state_impossible():
    """Cholesky of a matrix that is not positive definite gives NaN, not a crash."""
    with pm.Model() as model:
        r = pm.Normal("r")
        root = pt.linalg.cholesky(pm.math.stack([[1.0, r], [r, 1.0]]))
        pm.Potential("height", pm.math.log(root[1, 1]))
    engine = CompiledEngine(TemperedDensity(model), "metropolis")
    found = engine.on(engine.density.data).log_likelihoods(np.array([[0.6], [1.2], [0.0]]))
    np.testing.assert_allclose(found, [np.log(0.8), -np.inf, 0.0])
    assert engine.meets_undefined


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
    reference = make_reference(np.zeros(1), ISOTROPIC)
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

    path = bdmc.ReferencePath({"x": 1}, {"x": 1})
    shape = Metric(np.ones(1), np.ones((1, 1)), np.ones(1))
    parts = [make_reference(np.ones(1), shape), make_reference(np.zeros(1), shape)]
    engine = CompiledEngine(TemperedDensity(repeated_normal()))
    for reference in (None, path.reference(engine, 0, None), mix_references(parts)):
        target = engine.on(engine.density.data, reference).target
        assert is_as_told(target)
        assert not is_as_told(target._replace(data=np.zeros(2, int)))
    in_turn = CompiledEngine(TemperedDensity(repeated_normal()), in_turn=True)
    for engine in (mixed_engine(), in_turn):
        assert is_as_told(engine.on(engine.density.data).target)


def test_a_model_without_elements():
    with pm.Model() as model:
        x = pm.Normal("x", shape=0)
        pm.Normal("y", x.sum(), 1.0, observed=2.0)
    weights = run(model, chains=2)["real"]["log_weight"]
    np.testing.assert_allclose(weights, stats.norm.logpdf(2.0))


def test_next_temperature_keeps_half_of_the_samples():
    """It is higher, too, where values of ℓ differ by rounding, so that β cannot take the step."""
    ells = np.random.default_rng(1).normal(size=500) * 100
    weights = softmax(next_beta(ells, 0.0) * ells)
    assert abs(1 / np.sum(weights**2) - 250) < 1
    assert next_beta(ells * 1e-6, 0.3) == 1.0
    assert next_beta(np.zeros(5), 0.0) == 1.0
    assert 0 < next_beta(-np.random.default_rng(2).pareto(0.2, size=500), 0.0) < 1

    ells = -3e50 * (1 + 1e-14 * np.arange(100))
    assert next_beta(ells, 1e-18) == 1e-18
    curve = MeanCurve(ells)
    curve.add(1e-18, ells)
    curve.add(curve.next_beta(), ells)
    assert (np.diff(curve.betas) > 0).all()
    assert np.isfinite(curve.mean_log_likelihood).all()


def piloted(engine):
    return engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))


def test_the_pilot_finds_the_mean_log_likelihood_and_the_scales():
    """Normal mean with normal observations: E_β[ℓ] and the posterior sd are known at every β."""
    engine = CompiledEngine(TemperedDensity(repeated_normal()))
    tuning, y = piloted(engine), engine.density.data["y"]
    np.testing.assert_allclose(
        tuning.kernels.scales[:, 0], (1 / 4 + 4 * tuning.kernels.betas) ** -0.5, rtol=0.2
    )
    betas = tuning.path_betas
    precision = 1 / 4 + 4 * betas
    ells = stats.norm.logpdf(y[:, None], betas * y.sum() / precision)
    exact = ells.sum(axis=0) - 2 / precision
    np.testing.assert_allclose(tuning.mean_log_likelihood, exact, rtol=0.25, atol=0.2)
    length = thermodynamic_length(betas, tuning.mean_log_likelihood)
    assert abs(length / thermodynamic_length(betas, exact) - 1) < 0.1
    assert tuning.acceptance.min() > 0.8


@cache
def hundred_dimensions():
    with pm.Model() as model:
        pm.Bernoulli("b", 1e-9)  # it does not move
        pm.Normal("y", pm.Normal("x", shape=100), 2.0, observed=np.zeros(100))
    return model


@pytest.mark.parametrize(
    ("step", "target"), [("hmc", 0.9), ("autostep", 0.9), ("nuts", 0.8), ("metropolis", 0.3)]
)
def test_the_pilot_meets_the_target_acceptance(step, target):
    """In 100 dimensions, where the step size decides about it, whatever a discrete one does."""
    tuning = piloted(CompiledEngine(TemperedDensity(hundred_dimensions()), step))
    assert abs(tuning.acceptance.mean() - target) < 0.03


def test_the_step_size_follows_the_members_that_move():
    """A quarter of the population is in a spike ten thousand times as narrow as the rest."""
    with pm.Model() as model:
        x = pm.NormalMixture("x", [0.5, 0.5], [0.0, 50.0], [1.0, 1e-4])
        pm.Normal("y", x, 1e3, observed=0.0)
    engine = CompiledEngine(TemperedDensity(model))
    parameters = piloted(engine).kernels.row(-1)._replace(metric=ISOTROPIC, step_size=0.5)
    rng = np.random.default_rng(2)
    move = engine._mover(engine.on(engine.density.data).target, rng)
    steps = []
    for n_stuck in (8, 24):  # of the twin's members three quarters are there, and it follows them
        population = np.where(np.arange(32) < n_stuck, 50.0, rng.normal(size=32))[:, None]
        trace = Trace(np.empty((24, 32)), np.empty((24, 32, 1)), np.empty((2, 24, 32, 1)))
        steps.append(move(1.0, parameters, population, trace)[0])
    assert steps[0] > 0.3 > 0.01 > steps[1]


def test_the_pilots_prior_draws_are_kept():
    dt = run(chains=2, temperatures=10, simulate=bdmc.FromPrior(1))
    for group in ("forward", "reverse", "real"):
        dims = ("prior_draw",) if group == "real" else ("dataset", "prior_draw")
        assert dt[group]["prior_log_likelihood"].dims == dims
        assert dt[group].sizes["prior_draw"] == 512
    assert_from_the_prior(dt["real"]["prior_log_likelihood"].values)


def assert_from_the_prior(ells):
    """Their mean is that of ℓ, within 4 standard errors; the twin's prior is another."""
    squares = 1 + (1 - P) * Y**2 + P * (Y - JUMP) ** 2
    exact = stats.norm.logpdf(0, 0, NOISE) - squares / (2 * NOISE**2)
    error = ells.std() / np.sqrt(ells.size)
    assert abs(ells.mean() - exact) < SIGMAS * error < abs(ells.mean() - (exact + 1.5))


@pytest.mark.parametrize("stopped", [True, False])
def test_a_pilot_cut_short_says_so(stopped):
    engine = CompiledEngine(TemperedDensity(mixed_model()))
    engine._stop[0] = stopped
    assert (piloted(engine) is None) == stopped


def test_dead_discrete_elements_are_not_masked_by_live_continuous_ones():
    """Twin: a model in which both move."""
    for model, is_dead in ((hundred_dimensions(), True), (mixed_model(), False)):
        dt = run(model, chains=6)
        assert float(dt["real"]["acceptance"][1:].mean()) > 0.4
        assert bool((dt["real"]["lowest_acceptance"] < 0.01).all()) == is_dead
        assert any("hardly moved" in message for message in bdmc.diagnose(dt)) == is_dead
