"""The exact evidence lies within the printed error, for every kind of model and kernel."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from tests import models
from tests.models import SIGMAS

pytestmark = pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning")


def evidence(model, **options):
    settings = {
        "chains": 32, "particles": 1, "temperatures": 100, "simulate": None, "random_seed": 11,
        "cores": 1, "progressbar": False,
    }  # fmt: skip
    dt = pm.sample_bdmc(model, **settings | options)
    assert np.isfinite(dt["real"]["log_weight"]).all()
    row = bdmc.summary(dt).loc[("real", "evidence")]
    return row["value"], row["error"]


def check(model, log_ml, max_error=0.25, **options):
    value, error = evidence(model, **options)
    assert error < max_error
    assert abs(value - log_ml) < SIGMAS * error
    return value, error


@pytest.mark.parametrize("step", [pm.NUTS, pm.HamiltonianMC, pm.Metropolis, pm.Slice])
def test_beta_bernoulli(step):
    model, log_ml = models.beta_bernoulli()
    assert log_ml == pytest.approx(-71.39896, abs=1e-5)
    check(model, log_ml, step=step)


@pytest.mark.parametrize(
    "step",
    [
        None,
        pytest.param(pm.Metropolis, marks=pytest.mark.slow),
        pytest.param(pm.Slice, marks=pytest.mark.slow),
        pm.DEMetropolisZ,
    ],
)
def test_unidentified_binomial(step):
    model, log_ml = models.unidentified_binomial()
    assert log_ml == pytest.approx(-4.97455, abs=1e-5)
    check(model, log_ml, step=step, chains=96)


@pytest.mark.parametrize(
    ("step", "temperatures"),
    [
        pytest.param(pm.NUTS, 1000, marks=pytest.mark.slow),
        pytest.param(pm.HamiltonianMC, 3000, marks=pytest.mark.slow),
        ("hmc", 8000),
        ("nuts", 2000),
        pytest.param(pm.Metropolis, 8000, marks=pytest.mark.slow),
        pytest.param(pm.Slice, 1000, marks=pytest.mark.slow),
    ],
)
def test_conjugate_regression(step, temperatures):
    model, log_ml = models.conjugate_regression()
    betas = bdmc.schedules.power(temperatures).betas
    check(model, log_ml, max_error=0.3, step=step, temperatures=betas, cores=2)


def test_small_conjugate_regression():
    """A quarter of the dimensions at a quarter of the temperatures, for PyMC's own NUTS."""
    model, log_ml = models.conjugate_regression(d=5, n=40)
    betas = bdmc.schedules.power(250).betas
    check(model, log_ml, max_error=0.3, step=pm.NUTS, temperatures=betas)


@pytest.mark.parametrize("step", [None, pm.CategoricalGibbsMetropolis, pm.Metropolis])
def test_discrete_mixture(step):
    model, log_ml = models.discrete_mixture()
    check(model, log_ml, step=step, chains=64)


@pytest.mark.parametrize("masked", [True, False])
def test_missing_values_are_as_good_as_absent(masked):
    model, log_ml = models.missing_values(masked)
    for step in (pm.NUTS, pm.Metropolis) if masked else (None,):
        check(model, log_ml, step=step)


@pytest.mark.slow
@pytest.mark.parametrize("step", [pm.HamiltonianMC, pm.Slice])
def test_missing_values_by_further_steps(step):
    check(*models.missing_values(masked=True), step=step)


def test_a_prior_that_depends_on_data():
    """x → y1 → z → y2: given y1 the two halves know nothing of each other."""
    with pm.Model() as model:
        y1 = pm.Normal("y1", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("y2", pm.Normal("z", y1, 1.0), 0.5, observed=1.0)

    def exact(y1, y2):
        return stats.norm.logpdf(y1, 0, np.sqrt(2)) + stats.norm.logpdf(y2, y1, np.sqrt(1.25))

    for step in (None, pm.Metropolis):
        check(model, exact(3.0, 1.0), step=step)
    options = {"chains": 32, "temperatures": 100, "real_data": False, "progressbar": False}
    dt = pm.sample_bdmc(model, simulate=bdmc.FromPrior(12), random_seed=1, cores=1, **options)
    table = bdmc.evidence(dt, "bar")
    z = (table["value"] - exact(dt["simulated"]["y1"], dt["simulated"]["y2"])) / table["error"]
    assert np.abs(z).max() < SIGMAS


@pytest.mark.parametrize("make", [models.random_trials, models.hard_constraint])
def test_hard_constraints(make):
    model, log_ml = make()
    check(model, log_ml, chains=128)


def test_eight_schools_against_quadrature():
    log_ml = models.eight_schools_log_ml()
    assert log_ml == pytest.approx(-31.311347, abs=1e-5)
    check(models.eight_schools(centred=False), log_ml, max_error=0.1, temperatures=300)


def test_a_wrong_likelihood_is_noticed():
    """Broken twin of them all: half the log likelihood of the same data."""
    y = np.repeat([0, 1], 50)
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Potential("half", 0.5 * pm.logp(pm.Bernoulli.dist(p), y).sum())
    value, error = evidence(model, step=pm.Slice)
    assert abs(value - models.beta_bernoulli()[1]) > SIGMAS * error


@pytest.mark.parametrize("simulate", ["prior", "hyperparameters"])
def test_the_sandwich_holds_and_centring_diverges(simulate):
    """The tail of tau makes E[ℓ] infinite at the prior, so the first steps must be tiny.

    The gap is checked to be positive within 4 standard errors. Divergences tell the
    parametrisations apart: four to thirty times as many on ten data sets, so two must hold.
    """
    options = {
        "chains": 16, "particles": 1, "path": "prior", "schedule": bdmc.schedules.power(100),
        "simulate": simulate, "real_data": False, "random_seed": 5, "cores": 1,
        "progressbar": False,
    }  # fmt: skip
    divergences = []
    for centred in (True, False):
        dt = pm.sample_bdmc(models.eight_schools(centred), **options)
        table = bdmc.summary(dt).loc["simulated"]
        assert not table["valid"]["lower bound"]
        assert not table["valid"]["jeffreys bound"]
        gap = dt["reverse"]["log_weight"].mean() - dt["forward"]["log_weight"].mean()
        spread = np.hypot(*(dt[g]["log_weight"].std(ddof=1) for g in ("forward", "reverse")))
        assert gap > -SIGMAS * spread / np.sqrt(16)
        divergences.append(sum(dt[group].attrs["divergences"] for group in ("forward", "reverse")))
    assert divergences[0] > 2 * divergences[1]


def burned_in(held, burn_in):
    """A sandwich with μ held at these values, and the exact log ML of its simulated data sets."""
    n, scale = 5, 0.5
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, scale)
        pm.Normal("y", pm.Normal("x", mu, shape=n), 1.0, observed=[1.0, 2.0, 0.5, -0.3, 1.4])
    draws = xr.Dataset({"mu": (("chain", "draw"), np.array([held]))})
    idata = xr.DataTree.from_dict({"posterior": draws})
    dt = pm.sample_bdmc(
        model, simulate=bdmc.FromHyperparameters(idata=idata, burn_in=burn_in, datasets=12),
        chains=40, particles=8, temperatures=40, path="prior", schedule="linear", step="metropolis",
        real_data=False, random_seed=1, cores=2, progressbar=False,
    )  # fmt: skip
    covariance = scale**2 + 2 * np.eye(n)
    return dt, stats.multivariate_normal.logpdf(dt["simulated"]["y"], np.zeros(n), covariance)


def bar_scores(dt, log_ml):
    """Errors of BAR on the data sets in units of the printed ones, and their sum in its own."""
    table = bdmc.evidence(dt, "bar")
    z = (table["value"].to_numpy() - log_ml) / table["error"].to_numpy()
    return z, z.sum() / np.sqrt(len(z))


def test_the_burned_in_start_against_the_simulated_data():
    """One start is plausible, the other far off the posterior, so that it needs the burn-in.

    The prior of μ has scale 0.5, and data simulated with μ = 2.5 put its posterior near 1. The
    kernel is slow, so without burn-in the same start must be seen to be off, and say so itself.
    """
    for held in ([0.5, 0.6, 0.7], [2.5]):
        dt, log_ml = burned_in(held, burn_in=200)
        assert dt.attrs["upper_bound"] == "burned-in"
        assert dt.attrs["hyperparameters"] == "mu"
        z, total = bar_scores(dt, log_ml)
        assert np.abs(z).max() < SIGMAS
        assert abs(total) < SIGMAS
        for group, side in (("forward", 1), ("reverse", -1)):
            excess = side * (dt[group]["log_weight"].values - log_ml[:, None])
            error = np.sqrt(excess.var(axis=1, ddof=1).sum() / excess.shape[1]) / len(log_ml)
            assert excess.mean() < -SIGMAS * error  # a bound, and not by chance
    dt, log_ml = burned_in([2.5], burn_in=0)
    assert dt.attrs["upper_bound"] == "heuristic"
    assert bar_scores(dt, log_ml)[1] > SIGMAS


def test_linear_regression_on_the_health_survey(reference_data):
    """Heavy-tailed inverse gamma priors; exact value by quadrature over the two variances."""
    table = np.genfromtxt(reference_data / "bread" / "nhefs.csv", delimiter=",", skip_header=1)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    x, y = table[:, :-1], table[:, -1]
    with pm.Model() as model:
        prior_variance = pm.InverseGamma("prior_variance", 1, 1)
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        intercept = pm.Normal("intercept", 0, pm.math.sqrt(prior_variance))
        slope = pm.Normal("slope", 0, pm.math.sqrt(prior_variance), shape=x.shape[1])
        pm.Normal("y", intercept + x @ slope, pm.math.sqrt(noise_variance), observed=y)
    dt = pm.sample_bdmc(
        model, chains=24, schedule=bdmc.schedules.power(100, exponent=6), simulate=None,
        random_seed=1, cores=2, progressbar=False,
    )  # fmt: skip
    value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
    assert error < 0.05
    assert abs(value - -2334.8363) < SIGMAS * error


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"path": "fitted", "simulate": None}])
def test_volatility_with_two_modes(options, reference_data):
    """Climbs end at the lesser mode, and runs from the prior find the other; α = 6e-5 each.

    Importance sampling, two ways: -672.419 ± 0.006.
    """
    y = np.genfromtxt(reference_data / "field" / "dax_returns.csv", delimiter=",", skip_header=1)
    y = y if y.ndim == 1 else y[:, -1]
    with pm.Model() as model:
        omega, alpha = pm.HalfNormal("omega", 1), pm.Uniform("alpha", 0, 1)
        beta, start = pm.Uniform("beta", 0, 1 - alpha), pm.HalfNormal("start", 2)
        pm.GARCH11("y", omega=omega, alpha_1=alpha, beta_1=beta, initial_vol=start, observed=y)
    dt = pm.sample_bdmc(model, random_seed=1, cores=2, progressbar=False, **options)
    found = bdmc.log_ml(dt)
    assert found.valid
    assert found.error < 0.1
    assert abs(found.value - -672.419) < SIGMAS * np.hypot(found.error, 0.006)
