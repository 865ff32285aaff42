"""Variables fixed at values: the run and the draws agree with exact Bayes factors."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.integrate import quad

import pymc_bdmc as bdmc
from pymc_bdmc.estimators import Estimate
from pymc_bdmc.results.reweighting import Reweighting
from pymc_bdmc.studies import point_null
from pymc_bdmc.studies.point_null import PointNull
from tests.models import SIGMAS
from tests.results.trees import exact_result, result

pytestmark = pytest.mark.usefixtures("quickly_compiled")

X = np.linspace(-1, 1, 12)
Y = 0.4 + 0.6 * X + np.resize([0.5, -0.8, 0.1, 0.9], 12)
OPTIONS = {"random_seed": 1, "cores": 1, "progressbar": False}


def regression():
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", pm.Normal("level", 0, 2) + slope * X, 1, observed=Y)
    return model


def of_slope(variance):
    """Log ML with a slope of this prior variance."""
    cov = np.eye(12) + 4 + variance * np.outer(X, X)
    return stats.multivariate_normal(np.zeros(12), cov).logpdf(Y)


@cache
def shrunk():
    """The scale of the slope is unknown: its prior is not that given slope = 0."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, pm.Uniform("scale", 0.5, 2))
        pm.Normal("y", pm.Normal("level", 0, 2) + slope * X, 1, observed=Y)
    return model


LOG_ML = np.log(quad(lambda scale: np.exp(of_slope(scale**2)) / 1.5, 0.5, 2)[0])


@pytest.fixture(scope="module")
def of_shrunk():
    """By exact draws: of the scale on a grid, then of a normal slope and level."""
    rng, grid = np.random.default_rng(1), np.linspace(0.5, 2, 4001)
    p = np.exp([of_slope(scale**2) for scale in grid])
    scale = rng.choice(grid, 1024, p=p / p.sum())
    precision = X @ X + scale**-2.0
    slope = rng.normal(X @ Y / precision, precision**-0.5)
    level = rng.normal(Y.sum() / 12.25, 12.25**-0.5, 1024)
    return exact_result(shrunk(), LOG_ML, scale=scale, slope=slope, level=level)


def test_both_ways_are_right(of_shrunk):
    """Within 4 standard errors, α = 1.3e-4; the twin is off by 0.1."""
    exact = of_slope(0) - LOG_ML
    found = bdmc.point_null(of_shrunk, {"slope": 0}, model=shrunk(), **OPTIONS)
    assert found.factor.valid
    assert found.of_draws.valid
    assert abs(found.factor.value - exact) < SIGMAS * found.factor.error
    assert abs(found.of_draws.value - exact) < SIGMAS * found.of_draws.error
    assert abs(found.of_draws.value - exact - 0.1) > SIGMAS * found.of_draws.error
    assert "which agrees; believe the run" in repr(found)


def test_draws_of_a_variable_whose_prior_has_an_unknown_scale_are_not_believed(monkeypatch):
    """The weights contain 1/p(effect | mean, scale), and no draw lies where the scale is small.

    The run is within 4 standard errors, α = 6e-5. The twin is believed and lies too low by 0.05 or
    more in 25 of 30 seeds, so in one of 8 but for 1e-6.
    """
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mean"), pm.HalfNormal("scale"))
        pm.Normal("y", effect, 1, observed=(data := [0.3, -0.4, 0.9, 0.6]))

    def log_ml(effect_variance):
        return stats.multivariate_normal(np.zeros(4), np.eye(4) + effect_variance).logpdf(data)

    def integrand(scale):
        return np.exp(log_ml(1 + scale**2)) * stats.halfnorm.pdf(scale)

    full, grid = np.log(quad(integrand, 0, np.inf)[0]), np.linspace(0, 5, 5001)[1:]
    p = np.array([integrand(scale) for scale in grid])

    def drawn(seed):
        """Exact draws: of the scale on a grid, then of the effect, then of its mean."""
        rng = np.random.default_rng(seed)
        variance = 1 + (scale := rng.choice(grid, 1024, p=p / p.sum())) ** 2
        effect = rng.normal(sum(data) / (4 + 1 / variance), (4 + 1 / variance) ** -0.5)
        mean = rng.normal(effect / variance, scale / variance**0.5)
        return exact_result(model, full, effect=effect, mean=mean, scale=scale)

    def is_too_low(dt):
        particles, null = Reweighting(dt, model, "point_null"), pm.do(model, {"effect": 0.0})
        twin = point_null._of_draws(particles, model, null, found.result)
        return twin.valid and twin.value < log_ml(0) - full - 0.05

    found = bdmc.point_null(drawn(1), {"effect": 0}, model=model, **OPTIONS)
    assert abs(found.factor.value - log_ml(0) + full) < SIGMAS * found.factor.error
    assert not found.of_draws.valid
    assert repr(found).endswith("; believe the run.")
    monkeypatch.setattr(point_null, "shape_by_states", lambda log_weights: (0.0, 0.7))
    assert any(is_too_low(drawn(seed)) for seed in range(1, 9))


def test_nothing_is_left_free():
    model, design = regression(), np.column_stack([np.ones(12), X])
    covariance = np.linalg.inv(design.T @ design + np.diag([0.25, 1]))
    law = stats.multivariate_normal(covariance @ design.T @ Y, covariance)
    level, slope = law.rvs(1024, random_state=1).T
    dt = exact_result(model, of_slope(1), level=level, slope=slope)
    found = bdmc.point_null(dt, {"slope": 0.5, "level": 0.3}, model=model, **OPTIONS)
    log_p = stats.norm(0.3 + 0.5 * X, 1).logpdf(Y).sum()
    assert found.result.attrs["log_ml"] == pytest.approx(log_p)
    exact = log_p - of_slope(1)
    for each in (found.factor, found.of_draws):
        assert abs(each.value - exact) < SIGMAS * each.error


def test_bounded_variables_have_the_run_alone(of_shrunk):
    found = bdmc.point_null(
        of_shrunk, {"scale": 1, "slope": 0, "level": 0}, model=shrunk(), **OPTIONS
    )
    assert found.factor.valid
    assert "scale is bounded or discrete" in repr(found)
    with pytest.raises(ValueError, match=r"fixed: a mapping of some of the free variables \['sc"):
        bdmc.point_null(of_shrunk, {"x": 0}, model=shrunk())


@pytest.mark.parametrize(
    ("value", "valid", "told"),
    [
        (0.02, True, "which agrees; believe the run"),
        (1.0, True, "higher beyond chance, so the run of the null model missed"),
        (-1.0, True, "lower beyond chance, so the draws missed part; believe the run"),
        (np.nan, False, "do not show it (few); believe the run."),
    ],
)
def test_which_to_believe(value, valid, told):
    """A log Bayes factor of 0 with an error of 0.02."""
    factor = bdmc.bayes_factor(result(), result())
    found = PointNull(factor, Estimate(value, 0.02, "draws", valid, "few"), None)
    assert told in repr(found)
