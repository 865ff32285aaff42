"""The compiled engine: identities of its loop, its pilot, threads, interruption and fallback."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import numba
import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp, softmax

import pymc_bdmc as bdmc
from pymc_bdmc.annealing import CompiledEngine, PathTuning
from pymc_bdmc.annealing.compiled import engine as compiled
from pymc_bdmc.annealing.compiled.loops import FINISHED, anneal_chain
from pymc_bdmc.annealing.compiled.pilot import next_beta
from pymc_bdmc.model.jitted import JittedDensity, NotJittable
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.progress import ChainProgress
from pymc_bdmc.schedules import thermodynamic_length
from pymc_bdmc.types import Direction
from tests.annealing.test_identities import (
    STANDARD_ERRORS,
    crooks_scores,
    forward_score,
    reverse_score,
)
from tests.models import eight_schools

FORWARD, REVERSE = Direction
N = 100_000
Y, NOISE, P, JUMP = 1.2, 0.6, 0.4, 2.0
BETAS = np.array([0.0, 0.2, 1.0])


def mixed_model():
    """A jump of 2 with probability 0.4 and a standard normal x, both seen in one observation."""
    with pm.Model() as model:
        b = pm.Bernoulli("b", P)
        x = pm.Normal("x")
        pm.Normal("y", x + JUMP * b, NOISE, observed=Y)
    return model


@pytest.fixture(scope="module")
def engine():
    return CompiledEngine(TemperedDensity(mixed_model()), "hmc")


LOG_JOINT = np.log([1 - P, P]) + stats.norm.logpdf(Y, JUMP * np.arange(2), np.hypot(1, NOISE))
LOG_Z = logsumexp(LOG_JOINT)


def exact_starts(direction, rng):
    """Rows (x, b) of the prior or of the posterior."""
    if direction is FORWARD:
        return np.stack([rng.normal(size=N), rng.random(N) < P], axis=1).astype(float)
    b = rng.random(N) < softmax(LOG_JOINT)[1]
    precision = 1 + NOISE**-2
    mean = (Y - JUMP * b) / NOISE**2 / precision
    return np.stack([mean + rng.normal(size=N) / np.sqrt(precision), b], axis=1).astype(float)


def log_weights(engine, direction, backwards, n_fresh=0):
    jitted = engine.jitted
    tuning = PathTuning(
        BETAS[1:],
        np.array([0.9, 0.7]),
        np.array([[0.9], [0.6]]),
        *(np.zeros(shape) for shape in ((2, 0, 1), (2, 0), (2, 1))),
        *[None] * 3,
        0,
    )
    rng = np.random.default_rng(5)
    data = jitted.ravel_data(engine.density.data)
    arguments = (
        engine._kind, *engine._functions, data, BETAS, *tuning.places(BETAS), 3, tuning.step_sizes,
        tuning.scales, tuning.directions, tuning.excesses, tuning.widths, jitted.categories,
    )  # fmt: skip
    fresh = np.stack([exact_starts(FORWARD, rng) for _ in range(2)], axis=1)[:, :n_fresh]
    starts = exact_starts(direction, rng)
    return anneal_chains(arguments, starts, direction is REVERSE, backwards, fresh, rng)


@numba.njit
def anneal_chains(arguments, starts, descending, backwards, fresh, rng):
    """Log weights of many short chains."""
    path, acceptance, diverging = np.empty(3), np.empty(3), np.empty(3, dtype=np.bool_)
    weights, stop = np.empty(len(starts)), np.zeros(1, np.uint8)
    for j in range(len(starts)):
        status = anneal_chain(
            *arguments, starts[j], descending, backwards, 0, fresh[j], 1, rng, stop, path,
            acceptance, diverging,
        )[2]  # fmt: skip
        weights[j] = np.sum(np.diff(BETAS) * path[:-1]) if status == FINISHED else np.nan
    return weights


@pytest.mark.parametrize("n_fresh", [0, 2])
def test_weights_and_crooks_relation(engine, n_fresh):
    """At 10^5 chains, within 3 standard errors, without and with prior draws on the way."""
    forward = log_weights(engine, FORWARD, False, n_fresh)
    reverse = log_weights(engine, REVERSE, True, n_fresh)
    system = SimpleNamespace(log_z=LOG_Z)
    assert forward_score(system, forward) < STANDARD_ERRORS
    assert reverse_score(system, reverse) < STANDARD_ERRORS
    assert crooks_scores(system, forward, reverse).max() < STANDARD_ERRORS


def test_a_reverse_kernel_in_the_forward_order_is_exposed(engine):
    """By the Crooks relation alone: unbiasedness does not notice."""
    forward, twin = log_weights(engine, FORWARD, False), log_weights(engine, REVERSE, False)
    system = SimpleNamespace(log_z=LOG_Z)
    assert reverse_score(system, twin) < STANDARD_ERRORS
    assert crooks_scores(system, forward, twin).max() > STANDARD_ERRORS


def same(a, b):
    groups = ("forward", "reverse", "real", "posterior")
    return all(a[group].dataset.equals(b[group].dataset) for group in groups)


def run(**options):
    defaults = dict(chains=6, temperatures=30, simulate="prior", random_seed=3, progressbar=False)
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


@pytest.mark.parametrize(("stride", "lost"), [(compiled.FRESH_STRIDE, False), (10**9, True)])
def test_chains_lost_in_the_tail_of_a_prior_return(monkeypatch, stride, lost):
    """No gradient leads back from a variance of 10^9; a fresh prior draw does, the twin's none."""
    monkeypatch.setattr(compiled, "FRESH_STRIDE", stride)
    with pm.Model() as model:
        variances = pm.InverseGamma("variances", 0.3, 1.0, shape=2)
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
    started = time.perf_counter()
    dt = run(chains=20_000, temperatures=3000, cores=2)
    assert time.perf_counter() - started < 60
    assert dt.attrs["interrupted"] == 1
    kept = sum(int(dt[g]["log_weight"].notnull().sum()) for g in ("forward", "reverse", "real"))
    assert kept - len(counted) in (0, 1)  # the last one may be recorded and not yet shown


def test_a_model_that_numba_cannot_take_runs_with_step_methods(monkeypatch, caplog):
    def refuse(self, gradient):
        raise NotJittable("no such function")

    monkeypatch.setattr(JittedDensity, "_compile", refuse)
    dt = run(simulate=None)
    assert "no such function" in caplog.text
    assert "compiled" not in dt.attrs["step"]


def test_an_exception_in_the_density_refuses_the_proposal():
    """Cholesky of a matrix that is not positive definite gives NaN, not a crash."""
    with pm.Model() as model:
        r = pm.Uniform("r", -1.5, 1.5)
        cov = pm.math.stack([[1.0, r], [r, 1.0]])
        pm.MvNormal("y", np.zeros(2), cov, observed=[0.5, 0.4])
    dt = run(model=model, simulate=None, chains=200)
    grid = np.linspace(-1, 1, 20_001)[1:-1]
    pdf = [stats.multivariate_normal.pdf([0.5, 0.4], cov=[[1, r], [r, 1]]) for r in grid]
    row = bdmc.summary(dt).loc[("real", "evidence")]
    assert abs(row["value"] - np.log(np.sum(pdf) * (grid[1] - grid[0]) / 3)) < 4 * row["error"]


@pytest.mark.parametrize("seed", range(3))
def test_nan_anywhere_in_the_prior_raises(seed):
    """One prior draw in 1000 has it; chains alone would hardly ever start there."""
    with pm.Model() as model:
        x = pm.Normal("x", 3.1, 1.0)
        pm.Normal("broken", pm.math.sqrt(x), 1.0, observed=1.0)
    with pytest.raises(FloatingPointError, match=r"log p of broken is NaN.*at beta=0.*x=-"):
        run(model=model, simulate=None, chains=64, temperatures=400, random_seed=seed)


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


def test_the_pilot_finds_the_mean_log_likelihood_and_the_scales():
    """Normal mean with a normal observation: E_β[ℓ] and the posterior sd are known at every β."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 3.0)
        pm.Normal("y", x, 0.5, observed=4.0)
    engine = CompiledEngine(TemperedDensity(model))
    task = SimpleNamespace(data=engine.density.data, seed=np.random.SeedSequence(1))
    tuning = engine.run_pilot(task)
    precision = 1 / 9 + tuning.betas / 0.25
    np.testing.assert_allclose(tuning.scales[:, 0], precision**-0.5, rtol=0.2)
    betas = tuning.path_betas
    precision = 1 / 9 + betas / 0.25
    mean = betas * 4.0 / 0.25 / precision
    exact = stats.norm.logpdf(4.0, mean, 0.5) - 0.5 / precision / 0.25
    np.testing.assert_allclose(tuning.mean_log_likelihood, exact, rtol=0.25, atol=0.2)
    length = thermodynamic_length(betas, tuning.mean_log_likelihood)
    assert abs(length / thermodynamic_length(betas, exact) - 1) < 0.1
    assert tuning.acceptance.min() > 0.8


@pytest.mark.parametrize("stuck", [False, True])
@pytest.mark.parametrize(("step", "target"), [("hmc", 0.9), ("nuts", 0.8), ("metropolis", 0.3)])
def test_the_pilot_meets_the_target_acceptance(step, target, stuck):
    """In 100 dimensions, where the step size decides about it, whatever a discrete one does."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=100)
        if stuck:
            pm.Bernoulli("b", 0.01)
        pm.Normal("y", x, 2.0, observed=np.zeros(100))
    engine = CompiledEngine(TemperedDensity(model), step)
    tuning = engine.run_pilot(
        SimpleNamespace(data=engine.density.data, seed=np.random.SeedSequence(1))
    )
    assert abs(tuning.acceptance.mean() - target) < 0.03
