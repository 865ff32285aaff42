"""Long validations against published data and numbers; α = 6e-5 each unless said otherwise."""

import importlib
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats
from scipy.special import gammaln, logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import Ising, anneal
from tests.models import SIGMAS

QUIET = {"random_seed": 1, "progressbar": False}
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def survival(shape, sd, exposure, counts, x):
    """A hazard for every interval of time, in proportion to exp(b x)."""
    with pm.Model() as model:
        b = pm.Normal("b", 0, sd)
        rate = pm.Gamma("rate", shape, shape, shape=exposure.shape[1])
        pm.Poisson("y", exposure * pm.math.exp(b * x)[:, None] * rate, observed=counts)
    return model


def log_ml_of_survival(shape, sd, exposure, counts, x):
    """Log ML: the rates are integrated in closed form, b on a grid."""
    b = np.linspace(-30, 600, 200_001)
    log_time = np.log(np.exp(np.multiply.outer(b, x)) @ exposure + shape)
    n = counts.sum(axis=0)
    constant = shape * np.log(shape) - gammaln(shape) + gammaln(shape + n)
    log_f = (constant - (shape + n) * log_time).sum(axis=1) + b * (counts.sum(axis=1) @ x)
    log_f += (counts * np.log(np.where(counts, exposure, 1)) - gammaln(counts + 1)).sum()
    return logsumexp(log_f + stats.norm.logpdf(b, 0, sd)) + np.log(b[1] - b[0])


@pytest.fixture
def patients(reference_data):
    """Exposures and deaths after mastectomy in intervals of three months, and a covariate."""
    file = reference_data / "field" / "mastectomy.csv"
    time, event, x = np.loadtxt(file, delimiter=",", skiprows=1).T
    starts = np.arange(0, time.max() + 1, 3)
    last = np.floor((time - 0.01) / 3).astype(int)
    exposure = 3.0 * (time[:, None] >= starts)
    exposure[np.arange(time.size), last] = time - starts[last]
    return exposure, event[:, None].astype(int) * (np.arange(starts.size) == last[:, None]), x


@pytest.mark.slow
def test_survival(patients):
    """Twin: half a nat beside."""
    right = log_ml_of_survival(1, 1, *patients)
    assert right == pytest.approx(-357.2477, abs=1e-3)
    found = bdmc.log_ml(pm.sample_bdmc(survival(1, 1, *patients), cores=1, **QUIET))
    assert found.valid
    assert abs(found.value - right) < SIGMAS * found.error < abs(found.value + 0.5 - right)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "sd", "log_ml"), [(1, 1, -357.2477), (0.01, 1000, -209.8284)])
def test_no_number_on_survival_is_wrong_without_simulated_data(patients, shape, sd, log_ml):
    """The rates of intervals without a death have tails that a fit lacks.

    Of vague priors likelihoods at draws are as low as exp(−1e300), and 76 rates may be nearly 0.
    """
    right = log_ml_of_survival(shape, sd, *patients)
    assert right == pytest.approx(log_ml, abs=1e-3)
    model = survival(shape, sd, *patients)
    found = bdmc.log_ml(pm.sample_bdmc(model, simulate=None, cores=1, **QUIET))
    assert not found.valid or abs(found.value - right) < SIGMAS * found.error
    assert found.certified_lower < right


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"simulate": None}], ids=str)
def test_a_hurdle_model(options):
    """Prior draws of its counts fail, those of the posterior do not. Quadrature over three axes.

    Twin: half a nat off.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=60)
    mean = np.exp(0.5 + 0.6 * x)
    counts = np.maximum(1, rng.negative_binomial(2, 2 / (2 + mean)))
    y = np.where(rng.random(60) < 0.6, counts, 0)
    with pm.Model() as model:
        psi, alpha = pm.Beta("psi", 1, 1), pm.Exponential("alpha", 1)
        a, b = pm.Normal("a", 0, 2), pm.Normal("b", 0, 2)
        pm.HurdleNegativeBinomial("y", psi, pm.math.exp(a + b * x), alpha, observed=y)
    found = bdmc.log_ml(pm.sample_bdmc(model, cores=1, **QUIET, **options))
    positive = y > 0
    x, y = x[positive], y[positive]
    axes = np.linspace(-6, 3, 80), np.linspace(-1.5, 2.5, 60), np.linspace(-7, 3, 80)
    a, b, u = (each[..., None] for each in np.meshgrid(*axes))
    mean, alpha = np.exp(a + b * x), np.exp(u)
    terms = (
        special.gammaln(y + alpha) - special.gammaln(alpha) - special.gammaln(y + 1)
        - alpha * np.log1p(mean / alpha) + y * np.log(mean / (mean + alpha))
        - np.log(-np.expm1(-alpha * np.log1p(mean / alpha)))
    )  # fmt: skip
    prior = stats.norm(0, 2).logpdf(a) + stats.norm(0, 2).logpdf(b) + u - alpha
    right = logsumexp(terms.sum(axis=-1) + prior[..., 0])
    right += sum(np.log(axis[1] - axis[0]) for axis in axes)
    right += special.betaln(positive.sum() + 1, (~positive).sum() + 1)
    assert abs(found.value - right) < SIGMAS * found.error < abs(found.value + 0.5 - right)


@pytest.mark.slow
def test_potts_across_the_transition(monkeypatch):
    """Annealing through β_c agrees with small lattices; the published 1742 and 1745 do not."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    routes = importlib.import_module("lattice")
    betas = routes.dense_near_transition(routes.POTTS)
    options = {"kernel": "heat bath", "temperatures": betas, "updates": 30 * 1024, "chains": 256}
    dt = anneal(routes.POTTS, **options, **QUIET)
    value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    assert error < 0.2
    assert abs(value - routes.from_small_lattice(5)) < SIGMAS * error
    assert min(abs(value - 1742), abs(value - 1745)) > SIGMAS * error


@pytest.mark.slow
def test_long_runs_on_an_ising_model_close_the_sandwich():
    """With an error of a few hundredths of a nat, only the exact value fits."""
    dt = anneal(Ising(32), temperatures=20_000, chains=2048, **QUIET)
    value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    assert error < 0.03
    assert abs(value - Ising(32).log_z()) < SIGMAS * error


RATING = "43 63 71 61 81 43 58 71 72 67 64 67 69 68 77 81 74 65 65 50 50 64 53 40 63 66 78 48 85 82"
COMPLAINTS = (
    "51 64 70 63 78 55 67 75 82 61 53 60 62 83 77 90 85 60 70 58 40 61 66 37 54 77 75 57 85 82"
)
LEARNING = (
    "39 54 69 47 66 44 56 55 67 47 58 39 42 45 72 72 69 75 57 54 34 62 50 58 48 63 74 45 71 59"
)


def attitude(*covariates):
    """Ratings of supervisors (Chatterjee and Price 1977), with the priors of R's BayesFactor.

    Flat priors in place of improper ones are wide enough for all of the likelihood, and cancel.
    """
    y = np.array(RATING.split(), float)
    with pm.Model() as model:
        log_sigma, mean = pm.Uniform("log_sigma", 0, 5), pm.Uniform("mean", 0, 150)
        if covariates:
            x = np.array([each.split() for each in covariates], float).T
            x -= x.mean(axis=0)
            g = pm.InverseGamma("g", 0.5, y.size / 16)  # scale √2/4
            root = np.linalg.cholesky(np.linalg.inv(x.T @ x))
            z = pm.Normal("z", shape=len(covariates))
            mean = mean + x @ (root @ z) * pm.math.sqrt(g) * pm.math.exp(log_sigma)
        pm.Normal("y", mean, pm.math.exp(log_sigma), observed=y)
    return model


def log_ml_from_nuts(model):
    idata = pm.sample(2000, model=model, chains=4, cores=1, target_accept=0.95, **QUIET)
    return bdmc.log_ml(idata, model, random_seed=1)


@pytest.mark.slow
def test_bayes_factors_of_attitude_by_draws_of_nuts():
    """BayesFactor prints 417,938.6 and 207,271.9. Twin: one for the other."""
    null, *others = (
        log_ml_from_nuts(attitude(*each)) for each in ([], [COMPLAINTS], [COMPLAINTS, LEARNING])
    )
    for found, right in zip(others, (417_938.6, 207_271.9), strict=True):
        factor, error = found.value - null.value, np.hypot(found.error, null.error)
        assert abs(factor - np.log(right)) < SIGMAS * error < 0.2
    assert others[0].value - others[1].value > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["hierarchical normal, μ = 0", "hierarchical normal", "turtles", "turtles, clutches"]
)
def test_examples_of_bridgesampling_by_draws_of_nuts(name, reference_data, monkeypatch):
    """Twin: half a nat off."""
    monkeypatch.setenv("BDMC_ANCHORS", str(reference_data / "anchors"))
    monkeypatch.syspath_prepend(BENCHMARKS)
    anchors = importlib.import_module("anchors")
    found = log_ml_from_nuts(anchors.ANCHORS[name]())
    right = anchors.LOG_ML[name]
    assert abs(found.value - right) < SIGMAS * found.error < abs(found.value + 0.5 - right)
