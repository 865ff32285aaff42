"""Data that cannot be drawn do not end a call by default: it goes on with the real data alone.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5, seeded).
"""

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_bdmc as bdmc
from tests.models import SIGMAS, hard_constraint

OPTIONS = {"random_seed": 1, "cores": 1, "progressbar": False}
Y = np.array([0.4, 1.7])
SHAPE = 1e-8


def near_zero():
    """Gamma data of so small a shape that draws are rounded to 0; log ML by conjugacy."""
    with pm.Model() as model:
        pm.Gamma("y", SHAPE, pm.Gamma("rate", 2, 1), observed=Y)
    terms = (SHAPE - 1) * np.log(Y) - special.gammaln(SHAPE)
    posterior = 2 + SHAPE * len(Y)
    return model, terms.sum() + special.gammaln(posterior) - posterior * np.log1p(Y.sum())


def failing():
    """Draws fail by an error of their own kind, as PyMC's truncated ones do."""

    def draw(mean, rng=None, size=None):
        raise pm.exceptions.TruncationError("no convergence")

    def log_p(value, mean):
        return pm.logp(pm.Normal.dist(mean, 1), value)

    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("mean"), logp=log_p, random=draw, observed=Y)
    return model, stats.multivariate_normal(np.zeros(2), np.eye(2) + 1).logpdf(Y)


CAUSES = {
    near_zero: "y: its draws are rounded",
    failing: "y: it cannot be drawn (no convergence)",
    hard_constraint: "the Potential constraint",
}


@pytest.mark.parametrize("build", CAUSES)
def test_the_default_goes_on_with_the_real_data(build, caplog):
    """Said once, with the variable and the cause. Twin: half a nat off.

    HMC may diverge at the hard constraint, so that log ML, though right, is not trusted.
    """
    model, truth = build()
    dt = pm.sample_bdmc(model, **OPTIONS)
    (told,) = [each for each in caplog.records if "No data are simulated" in each.message]
    assert told.levelname == "WARNING"
    assert CAUSES[build] in told.message
    assert dt.attrs["simulate"] == dt.attrs["upper_bound"] == "none"
    assert "simulated" not in dt.children
    value, error = bdmc.evidence(dt).iloc[0][["value", "error"]]
    assert abs(value - truth) < SIGMAS * error
    assert abs(value + 0.5 - truth) > SIGMAS * error


def test_a_call_that_needs_simulated_data_names_the_variable():
    with pytest.raises(ValueError, match=r"^y: it"):
        pm.sample_bdmc(near_zero()[0], **OPTIONS, target_gap=1.0)
