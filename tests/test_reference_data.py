"""Known evidences on published data, which lie in a folder beside the checkout if at all."""

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from tests.models import SIGMAS


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
        model, chains=24, schedule=bdmc.schedules.power(1000, exponent=6), simulate=None,
        random_seed=1, cores=2, progressbar=False,
    )  # fmt: skip
    value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
    assert error < 0.3
    assert abs(value - -2334.8363) < SIGMAS * error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:After .* initial iterations")
def test_machine_trained_on_mnist(reference_data):
    """784 × 500 units; published estimates of log Z are about 451.3-451.4."""
    rbm = bdmc.rbm.RBM.load(reference_data / "rbm" / "mnistvh_CD25.npz")
    samples = rbm.draw_posterior(100, np.random.default_rng(1), burn_in=4000)
    base = rbm.with_base_rate(samples.visible)
    dt = bdmc.rbm.anneal(base, temperatures=2000, burn_in=4000, random_seed=1, progressbar=False)
    annealed = bdmc.evidence(dt, "bar").iloc[0]
    tempered = bdmc.evidence(
        bdmc.temper(base, chains=100, temperatures=100, draws=2000, random_seed=1)
    ).droplevel(["data", "dataset"])
    found = [annealed, *(tempered.loc[name] for name in ("RTS", "TI-RB corrected", "MBAR"))]
    for each in found:
        assert each["error"] < 0.6
        assert abs(each["value"] - 451.35) < SIGMAS * each["error"]
        error = np.hypot(each["error"], annealed["error"])
        assert abs(each["value"] - annealed["value"]) < SIGMAS * error
