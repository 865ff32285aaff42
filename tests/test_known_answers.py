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
ONE_CORE = {"random_seed": 1, "cores": 1, "progressbar": False}


def evidence(model, **options):
    """Log ML and its error."""
    settings = {"chains": 32, "particles": 1, "temperatures": 100, "simulate": None}
    dt = pm.sample_bdmc(model, **ONE_CORE | settings | options)
    assert np.isfinite(dt["real"]["log_weight"]).all()
    return bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]


def schools():
    return models.eight_schools(centred=False), models.eight_schools_log_ml()


FINE = {"temperatures": bdmc.schedules.power(500).betas, "chains": 64}


@pytest.mark.parametrize(
    ("make", "log_ml", "options"),
    [
        (models.beta_bernoulli, -71.39896, {"temperatures": 30, "step": pm.NUTS}),
        (models.small_regression, None, FINE | {"step": "hmc"}),
        (models.small_regression, None, FINE | {"step": "nuts"}),
        (models.discrete_mixture, None, {"chains": 64}),
        (models.missing_values, None, {}),
        (models.random_trials, None, {"chains": 128}),
        (models.hard_constraint, None, {"chains": 128}),
        (schools, -31.311347, {"temperatures": 300}),
    ],
)
def test_log_ml_is_right(make, log_ml, options):
    """The answer itself agrees with the known one."""
    model, exact = make()
    assert log_ml is None or exact == pytest.approx(log_ml, abs=1e-5)
    value, error = evidence(model, **options)
    assert error < (0.1 if make is schools else 0.3)
    assert abs(value - exact) < SIGMAS * error


def test_a_wrong_likelihood_is_noticed():
    """Broken twin of them all: regressors that are a tenth smaller."""
    model, exact = models.conjugate_regression(d=5, n=40)
    model.set_data("x", 0.9 * model["x"].get_value())
    value, error = evidence(model, **FINE)
    assert abs(value - exact) > SIGMAS * error


def test_a_prior_that_depends_on_data():
    """x → y1 → z → y2: given y1 the two halves know nothing of each other."""
    with pm.Model() as model:
        y1 = pm.Normal("y1", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("y2", pm.Normal("z", y1, 1.0), 0.5, observed=1.0)

    def exact(y1, y2):
        return stats.norm.logpdf(y1, 0, np.sqrt(2)) + stats.norm.logpdf(y2, y1, np.sqrt(1.25))

    options = {"chains": 16, "temperatures": 50, "simulate": bdmc.FromPrior(6)}
    dt = pm.sample_bdmc(model, **ONE_CORE | options)
    found = bdmc.log_ml(dt)
    assert abs(found.value - exact(3.0, 1.0)) < SIGMAS * found.error
    table = bdmc.evidence(dt, "bar").loc["simulated"]
    z = (table["value"] - exact(dt["simulated"]["y1"], dt["simulated"]["y2"])) / table["error"]
    assert np.abs(z).max() < SIGMAS


def test_the_sandwich_holds_and_centring_diverges():
    """The tail of tau makes E[ℓ] infinite at the prior, so the first steps must be tiny.

    The gap is checked to be positive within 4 standard errors. Divergences tell the
    parametrisations apart: four to thirty times as many on ten data sets, so two must hold.
    """
    options = {
        "chains": 8, "particles": 1, "path": "prior", "schedule": bdmc.schedules.power(100),
        "simulate": bdmc.FromPrior(10), "real_data": False,
    }  # fmt: skip
    divergences = []
    for model in (models.centred_schools(), models.eight_schools(centred=False)):
        dt = pm.sample_bdmc(model, **ONE_CORE | options)
        table = bdmc.summary(dt).loc["simulated"]
        assert not table["valid"]["lower bound"]
        assert not table["valid"]["jeffreys bound"]
        gap = dt["reverse"]["log_weight"].mean() - dt["forward"]["log_weight"].mean()
        spread = np.hypot(*(dt[g]["log_weight"].std(ddof=1) for g in ("forward", "reverse")))
        assert gap > -SIGMAS * spread / np.sqrt(8)
        divergences.append(sum(dt[group].attrs["divergences"] for group in ("forward", "reverse")))
    assert divergences[0] > 2 * divergences[1]


def test_the_burned_in_start_against_the_simulated_data():
    """The start is far off the posterior, so that it needs the burn-in.

    The prior of μ has scale 0.5, and data simulated with μ = 4 put its posterior near 1.5. The
    kernel is slow, so without burn-in the same start must be seen to be off, and say so itself.
    """
    n, scale, scores = 5, 0.5, []
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, scale)
        pm.Normal("y", pm.Normal("x", mu, shape=n), 1.0, observed=[1.0, 2.0, 0.5, -0.3, 1.4])
    idata = xr.Dataset({"mu": (("chain", "draw"), [[4.0]])})
    options = {
        "chains": 24, "particles": 8, "temperatures": 40, "path": "prior", "schedule": "linear",
        "step": "metropolis", "real_data": False,
    }  # fmt: skip
    for burn_in, bound in ((200, "burned-in"), (0, "heuristic")):
        simulate = bdmc.FromHyperparameters(idata=idata, burn_in=burn_in, datasets=12)
        dt = pm.sample_bdmc(model, simulate=simulate, **ONE_CORE | options)
        assert (dt.attrs["upper_bound"], dt.attrs["hyperparameters"]) == (bound, "mu")
        law = stats.multivariate_normal(np.zeros(n), scale**2 + 2 * np.eye(n))
        exact, table = law.logpdf(dt["simulated"]["y"]), bdmc.evidence(dt, "bar")
        scores.append(((table["value"] - exact) / table["error"]).to_numpy())
        for group, side in (("forward", 1), ("reverse", -1)) if burn_in else ():
            excess = side * (dt[group]["log_weight"].values - exact[:, None])
            error = np.sqrt(excess.var(axis=1, ddof=1).sum() / excess.shape[1]) / len(exact)
            assert excess.mean() < -SIGMAS * error  # a bound, and not by chance
    assert np.abs(scores[0]).max() < SIGMAS
    assert abs(scores[0].sum()) < SIGMAS * np.sqrt(12)
    assert scores[1].sum() > SIGMAS * np.sqrt(12)


@pytest.mark.slow
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
    schedule = bdmc.schedules.power(100, exponent=6)
    dt = pm.sample_bdmc(model, chains=24, schedule=schedule, simulate=None, **ONE_CORE)
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
    found = bdmc.log_ml(pm.sample_bdmc(model, **ONE_CORE | {"cores": 2}, **options))
    assert found.valid
    assert found.error < 0.1
    assert abs(found.value - -672.419) < SIGMAS * np.hypot(found.error, 0.006)
