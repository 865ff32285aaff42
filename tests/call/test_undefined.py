"""A log density that is NaN or +∞ counts as −∞; next to the posterior no number is valid."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pytensor.compile.mode import Mode
from pytensor.raise_op import Assert
from scipy import integrate, stats
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.density import support
from pymc_bdmc.density.draws import posterior_states
from pymc_bdmc.density.support import MOVES, undefined
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.simulations import joint_draw
from tests.models import SIGMAS

pytestmark = pytest.mark.usefixtures("quickly_compiled")
QUIET = {"random_seed": 1, "cores": 1, "progressbar": False}
PYTHON = {"mode": Mode("py", "fast_run")}
RNG = np.random.default_rng(3)
EXPOSURE, COUNTS = np.array([3.0, 3, 2]), np.array([0, 1, 2])


def hazards():
    """A piecewise exponential model, whose rates overflow at large coefficients b."""
    with pm.Model() as model:
        b, rate = pm.Normal("b", 0, 1000), pm.Gamma("rate", 1, 1, shape=3)
        pm.Poisson("y", EXPOSURE * pm.math.exp(b) * rate, observed=COUNTS)
    return model


def log_ml_of_hazards(sd):
    """Log ML if b has this deviation: the rates are integrated in closed form, b on a grid."""
    b = np.linspace(-30, 600, 20_001)
    log_time = np.log(np.multiply.outer(np.exp(b), EXPOSURE) + 1)
    log_f = b * COUNTS.sum() - log_time @ (1 + COUNTS)
    log_f += COUNTS @ np.log(np.where(COUNTS, EXPOSURE, 1))
    return logsumexp(log_f + stats.norm.logpdf(b, 0, sd)) + np.log(b[1] - b[0])


def found(model, **options):
    dt = pm.sample_bdmc(model, **QUIET | options)
    return dt, bdmc.log_ml(dt)


def test_overflow_far_from_the_posterior_does_no_harm():
    """α = 2e-4 over three comparisons. Twin: log ML of another prior.

    The density is NaN at prior draws with infinite exp(b), a quarter of them, and 1 in 2000 others.
    """
    assert log_ml_of_hazards(1000) == pytest.approx(-11.457, abs=5e-4)
    dt, log_ml = found(hazards(), simulate=None)
    assert log_ml.valid
    assert abs(log_ml.value - log_ml_of_hazards(1000)) < SIGMAS * log_ml.error
    assert abs(log_ml.value - log_ml_of_hazards(1)) > SIGMAS * log_ml.error
    assert "The log density of y is NaN or +∞ at " in log_ml.notes
    assert dt.attrs["undefined"] == "y"
    share = stats.norm.sf(np.log(np.finfo(float).max), 0, 1000)
    error = np.sqrt(share * (1 - share) / 1000)
    assert abs(dt.attrs["undefined_prior"] - share) < SIGMAS * error
    assert dt.attrs["undefined_posterior"] == 0


@cache
def seen_through(function):
    with pm.Model() as model:
        pm.Normal("y", function(pm.Normal("x", 1, 1)), 1.0, observed=0.3)
    return model


def test_infinity_by_rounding_far_from_the_posterior_does_no_harm():
    """Quadrature, α = 6e-5. Twin: log ML of half as wide a prior.

    A count above zero has the probability 1 − P(0), which rounds to 0 at small means.
    """
    x, y = np.arange(20.0), np.tile([1, 2, 0, 3], 5)

    with pm.Model() as model:
        rate = pm.math.exp(0.5 + pm.Normal("b", 0, 4) * x)
        pm.HurdlePoisson("y", 0.75, rate, observed=y)
    b = np.linspace(-1, 1, 4001)
    rates = np.exp(0.5 + np.multiply.outer(b, x))
    counts = stats.poisson.logpmf(y, rates) - np.log(-np.expm1(-rates)) + np.log(0.75)
    ells = np.where(y > 0, counts, np.log(0.25)).sum(axis=1)
    right, other = (
        logsumexp(ells + stats.norm.logpdf(b, 0, sd)) + np.log(b[1] - b[0]) for sd in (4, 2)
    )
    dt, log_ml = found(model, simulate=None)
    assert log_ml.valid
    assert abs(log_ml.value - right) < SIGMAS * log_ml.error
    assert abs(log_ml.value - other) > SIGMAS * log_ml.error
    assert dt.attrs["undefined_prior"] > 0.1


@cache
def infinite_beyond(edge):
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("broken", pm.math.switch(x > edge, np.inf, 0.0))
    return model


@pytest.mark.parametrize(("edge", "is_near"), [(1.5, True), (4.5, False)])
def test_nothing_is_valid_next_to_infinity(edge, is_near):
    """The evidence is infinite. Twin: infinity beyond 4.5 deviations takes 3e-6 of the prior."""
    dt, log_ml = found(infinite_beyond(edge), simulate=None)
    assert log_ml.valid is not is_near
    assert (dt.attrs.get("undefined_posterior", 0.0) > 1e-3) is is_near


def test_nothing_is_valid_where_the_posterior_ends_at_nan(monkeypatch):
    """A root: the posterior is high where it ends. Twin: a logarithm, at which it vanishes."""
    monkeypatch.setattr(support, "MOVES", 400)
    for function, is_near in ((pm.math.sqrt, True), (pm.math.log, False)):
        options = {"path": "prior", "temperatures": 30, "chains": 16, "simulate": None}
        dt, log_ml = found(seen_through(function), **options)
        assert log_ml.valid is not is_near
        assert abs(dt.attrs["undefined_prior"] - stats.norm.cdf(-1)) < 0.06  # five errors
        told = [each for each in bdmc.diagnose(dt) if "log density of y is NaN or +∞" in each]
        assert bool(told) is is_near
        assert ("posterior is far from such values" in log_ml.notes) is not is_near


def test_step_methods_stay_where_the_density_is_a_number():
    """They count no evaluations, so the end of a call always looks for NaN."""
    options = {"step": pm.Metropolis, "simulate": None, "temperatures": 3, "chains": 2}
    dt, _ = found(seen_through(pm.math.log), **options)
    assert dt.attrs["undefined"] == "y"
    assert (dt["particles"]["x"] > 0).all()


def test_the_share_that_is_lost_is_that_of_accepted_moves():
    """By quadrature, α = 6e-5; it is below what is lost. Twin: all moves that end there."""
    states = {"x": stats.norm.rvs(size=4000, random_state=1)}
    states = {"x": states["x"][states["x"] < 1]}
    kept = stats.norm.cdf(1)

    def share(of_moves):
        flow = lambda x: stats.norm.pdf(x) / kept * stats.norm.sf((1 - x) / spread) * of_moves(x)  # noqa: E731
        return integrate.quad(flow, -8, 1)[0]

    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("known", pm.math.switch(x < 1, 0.0, np.nan))
    density, weights = TemperedDensity(model, PYTHON), np.full(len(states["x"]), 1.0)
    spread = np.sqrt(2) * stats.truncnorm(-np.inf, 1).std()
    seen = undefined(density, states, weights / weights.sum(), RNG)
    accepted = share(lambda x: np.minimum(1, stats.norm.pdf(1) / stats.norm.pdf(x)))
    assert seen.names == ["known"]
    assert abs(seen.prior - (1 - kept)) < SIGMAS * np.sqrt(kept * (1 - kept) / 1000)
    error = np.sqrt(accepted / MOVES)
    assert abs(seen.posterior - accepted) < SIGMAS * error
    assert seen.posterior < 1 - kept
    assert abs(share(np.ones_like) - seen.posterior) > SIGMAS * error


def test_a_log_density_that_raises_an_exception_is_nan():
    """As in compiled code. Twin: an exception that is to be raised."""
    positive = Assert("negative")
    density = TemperedDensity(seen_through(lambda x: pm.math.log(positive(x, x > 0))), PYTHON)
    point = {"x": np.array(-1.0)}
    assert [(name, np.isnan(each).all()) for name, each in density.factors(point)] == [
        ("x", False), ("y", True),
    ]  # fmt: skip
    with pytest.raises(AssertionError, match="negative"):
        density.factors(point, raising=(AssertionError,))


def test_pairs_have_a_density():
    """Twin: without that, the density is NaN at half of them."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=0.0)
        pm.Potential("root", pm.math.sqrt(x))
    density = TemperedDensity(model, PYTHON)
    pairs = [joint_draw(density, 1, place, {}) for place in range(20)]
    assert all(point["x"] > 0 for point, _ in pairs)
    sampler = density.joint()
    sampler.seed(RNG)
    assert not all(sampler.draw()[0]["x"] > 0 for _ in range(20))


def test_draws_at_the_edge_of_the_support_are_left_out(caplog):
    """An underflow to 0. Twin: a negative value is an error, which shows few numbers."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.01, 0.01, shape=10)
        pm.Poisson("y", rate, observed=np.zeros(10, dtype=int))
    drawn = stats.gamma(0.01, scale=1 / 1.01).rvs((2, 300, 10), random_state=1)
    posterior = xr.Dataset({"rate": (("chain", "draw", "i"), drawn)})
    idata = xr.DataTree.from_dict({"posterior": posterior})
    density = TemperedDensity(model, PYTHON)
    lost = (idata["posterior"]["rate"] == 0).any("i")
    assert lost.any()
    states = posterior_states("posterior", idata, 10, density, most=600)
    assert len(states) == (~lost).sum()
    assert all(np.isfinite(each["rate_log__"]).all() for each in states)
    assert f"{int(lost.sum())} of 600 draws are left out, since rate" in caplog.text
    idata["posterior"]["rate"][:] = -1.0
    with pytest.raises(ValueError, match=r"rate=.* lies outside its support") as raised:
        posterior_states("posterior", idata, 10, density)
    assert str(raised.value).count("-1.") < 9
