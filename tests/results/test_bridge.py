"""Log ML from given draws, by bridge sampling; α = 6e-5 for a known answer."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.results import bridge
from pymc_bdmc.results.bridge import _variance_of_mean
from pymc_bdmc.results.labels import one_labelling
from pymc_bdmc.results.particles import Unconstrained
from pymc_bdmc.results.score import ScoreTest
from tests.models import SIGMAS, interpreted, rates, repeated_normal, small_regression

MEAN, SD = 4.9 / 4.25, 4.25**-0.5
LOG_ML = stats.multivariate_normal.logpdf([1.0, 2.5, 0.3, 1.1], np.zeros(4), np.eye(4) + 4)
"""Posterior of the mean of `repeated_normal`, and log ML."""


def of(name, draws):
    """Draws of one variable by chain and draw."""
    dims = ("chain", "draw", "place")[: draws.ndim]
    return xr.DataTree.from_dict({"posterior": xr.Dataset({name: (dims, draws)})})


def autocorrelated(rho, seed, shape=(500, 4)):
    """Four chains of standard normal draws."""
    z = np.random.default_rng(seed).normal(size=shape)
    for i in range(1, len(z)):
        z[i] = rho * z[i - 1] + np.sqrt(1 - rho**2) * z[i]
    return z.T


def test_errors_are_those_of_repetitions():
    """Σ z² of 12 calls is χ², α = 1e-4; twin: a bias of four errors."""
    calls = [
        bdmc.log_ml(of("x", MEAN + SD * autocorrelated(0, s)), repeated_normal(), random_seed=s)
        for s in range(12)
    ]
    assert all(each.valid for each in calls)
    squares = sum(((each.value - LOG_ML) / each.error) ** 2 for each in calls)
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], 12)
    assert low < squares < high
    assert sum(((each.value - LOG_ML) / each.error + 4) ** 2 for each in calls) > high


@pytest.mark.parametrize("rho", [0.0, 0.7])
def test_autocorrelation_counts(rho):
    """The variance of a mean of 4 × 500 values of an AR(1) process, within 10 %.

    Ten standard errors of 100 repetitions; twin: independent values.
    """
    found = np.mean(
        [_variance_of_mean(np.log(20 + autocorrelated(rho, s).ravel()))[0] for s in range(100)]
    )
    right = (1 + rho) / (1 - rho) / 2000 / 20**2
    assert found == pytest.approx(right, rel=0.1)
    if rho:
        assert found != pytest.approx(1 / 2000 / 20**2, rel=1)


def test_draws_of_another_distribution_are_seen():
    """Twins: draws that are too wide, and the halves of two distributions."""
    z = np.random.default_rng(1).normal(size=(4, 500))
    wide = bdmc.log_ml(of("x", MEAN + 2 * SD * z), repeated_normal(), random_seed=1)
    assert not wide.valid
    assert wide.reason.startswith("These draws are not of this posterior: the score")
    z[:, 250:] += 3
    apart = bdmc.log_ml(of("x", MEAN + SD * z), repeated_normal(), random_seed=1)
    assert not apart.valid
    assert np.isnan(apart.value)


def test_importance_sampling_must_not_contradict(monkeypatch):
    """It finds what the score does not look at here; twin: right draws."""
    monkeypatch.setattr(bridge, "score_of_states", lambda *_: ScoreTest("open", ""))
    z = np.random.default_rng(1).normal(size=(4, 1000))
    assert bdmc.log_ml(of("x", MEAN + SD * z), repeated_normal(), random_seed=1).valid
    narrow = bdmc.log_ml(of("x", MEAN + 0.7 * SD * z), repeated_normal(), random_seed=1)
    assert "importance sampling" in narrow.reason


def test_repeated_draws_count_once():
    """Twins: rejections, which repeat draws in a row, and as many draws that differ."""
    rng = np.random.default_rng(1)
    z = MEAN + SD * rng.normal(size=4000)
    copied = rng.permutation(np.repeat(z[:300], 10))
    few = bdmc.log_ml(of("x", copied.reshape(4, -1)), repeated_normal(), random_seed=1)
    assert "effective sample size" in few.reason
    rejected = np.repeat(z, rng.geometric(0.5, 4000))[:4000].reshape(4, 1000)
    for draws in (rejected, z.reshape(4, 1000)):
        found = bdmc.log_ml(of("x", draws), repeated_normal(), random_seed=1)
        assert abs(found.value - LOG_ML) < SIGMAS * found.error


def test_components_that_keep_their_order_are_named():
    """Twins: draws in both orders, and data that tell the components apart."""
    rng = np.random.default_rng(1)
    z = rng.normal([-3, 3], 0.1, (4, 500, 2))
    both = np.where(rng.random((4, 500, 1)) < 0.5, z, z[..., ::-1])
    for weights, draws, number in ((0.5, z, 1), (0.5, both, 0), (0.4, z, 0)):
        with interpreted(), pm.Model() as model:
            x = pm.Normal("x", 0, 5, shape=2)
            pm.NormalMixture("y", [weights, 1 - weights], x, 1, observed=[-3.0, 3.0])
        space = Unconstrained(TemperedDensity(model))
        said = list(one_labelling(space, {"x": draws.reshape(-1, 2)}))
        assert len(said) == number
        assert all("2 components of x can change places" in text for text in said)
        assert all("log 2! = 0.69" in text for text in said)


def test_several_elements():
    model, log_ml = small_regression()
    x, y = model["x"].get_value(), model.rvs_to_values[model["y"]].eval()
    covariance = np.linalg.inv(np.eye(5) + x.T @ x)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(covariance @ x.T @ y, covariance, (4, 500))
    found = bdmc.log_ml(of("beta", draws), model, random_seed=1)
    assert found.valid
    assert abs(found.value - log_ml) < SIGMAS * found.error < 0.2


def test_a_skewed_posterior_on_a_transformed_scale():
    """Twin: another number of counts."""
    model, posterior, log_ml = rates()
    draws = posterior.rvs((4, 500), random_state=np.random.default_rng(1))
    found = bdmc.log_ml(of("rate", draws), model, random_seed=1)
    assert abs(found.value - log_ml) < SIGMAS * found.error < abs(found.value - log_ml - 0.5)
    assert "rests on these 2000 draws alone" in repr(found)
    assert "posterior=idata" in found.notes


def test_a_mode_that_no_draw_is_in_is_missed():
    """So the text says that log ML rests on the draws: half of it is missing, log 2."""
    with interpreted(), pm.Model() as model:
        x = pm.Normal("x", 0, 10)
        pm.Normal("y", pm.math.abs(x), 0.1, observed=5.0)
    draws = 5 + 0.1 * np.random.default_rng(1).normal(size=(4, 500))
    with interpreted():
        found = bdmc.log_ml(of("x", draws), model, random_seed=1)
    exact = stats.norm.logpdf(5, 0, np.hypot(10, 0.1))
    assert abs(found.value - exact) < SIGMAS * found.error


def funnel():
    v = pm.Normal("v", 0, 1)
    return [v, pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)]


def curved_ridge():
    a = pm.Normal("a")
    return [a, pm.Normal("b", 3 * a**2, 0.3)]


SHAPES = {
    "funnel": funnel,
    "curved ridge": curved_ridge,
    "Cauchy": lambda: [pm.StudentT("x", nu=1, mu=0, sigma=1, shape=2)],
    "gamma near 0": lambda: [pm.Gamma("x", 0.05, 1, shape=3)],
    "modes apart": lambda: [pm.NormalMixture("x", [0.02, 0.98], [-50, 5], sigma=1)],
    "spike": lambda: [pm.NormalMixture("x", [0.5, 0.5], 0, sigma=[0.01, 1], shape=5)],
    "many elements": lambda: [pm.Normal("x", shape=100)],
}


@pytest.mark.slow
def test_errors_hold_on_posteriors_that_are_hard_to_bridge():
    """With a likelihood of 1, prior draws are exact, and log ML is 0: Σ z² is χ², α = 1e-4.

    Most estimates are valid. Twin: errors that are half as large.
    """
    found = []
    for shape in SHAPES.values():
        with pm.Model() as model:
            variables = shape()
            pm.Potential("nothing", 0.0 * variables[0].sum())
        for seed in range(12):
            drawn = pm.draw(variables, draws=2000, random_seed=seed)
            parts = [
                of(rv.name, each.reshape(4, 500, *each.shape[1:]))["posterior"].dataset
                for rv, each in zip(variables, drawn, strict=True)
            ]
            found.append(bdmc.log_ml(xr.merge(parts), model, random_seed=seed))
    z = np.array([each.value / each.error for each in found if each.valid])
    assert len(z) > 0.8 * len(found)
    limit = stats.chi2.ppf(1 - 1e-4, len(z))
    assert (z**2).sum() < limit < (4 * z**2).sum()


def test_few_effective_draws_are_not_believed():
    found = bdmc.log_ml(of("x", MEAN + SD * autocorrelated(0.99, 1)), repeated_normal())
    assert not found.valid
    assert "400 are needed" in found.reason


def discrete():
    with pm.Model() as model:
        pm.Normal("y", pm.Poisson("n", 3), observed=2.0)
    return model, of("n", np.ones((4, 500), int))


def on_a_circle():
    with pm.Model() as model:
        pm.Normal("y", pm.VonMises("angle", 0, 1), observed=2.0)
    return model, of("angle", np.zeros((4, 500)))


def constant():
    return repeated_normal(), of("x", np.ones((4, 500)))


def few():
    return repeated_normal(), of("x", np.zeros((4, 10)))


def of_other_data():
    draws = of("x", np.zeros((4, 500)))
    draws["observed_data"] = xr.DataTree(xr.Dataset({"y": ("row", np.zeros(4))}))
    return repeated_normal(), draws


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (discrete, "n is discrete, .*sample_bdmc"),
        (on_a_circle, "angle lies on a circle.*sample_bdmc"),
        (constant, "x is the same in 250 successive draws"),
        (few, "40 draws are too few .* 400 are needed"),
        (of_other_data, "fit to other data"),
    ],
)
def test_bad_input(make, message):
    model, idata = make()
    with pytest.raises(ValueError, match=message):
        bdmc.log_ml(idata, model)


def test_results_and_draws_are_told_apart():
    draws = of("x", np.zeros((4, 500)))
    with pytest.raises(ValueError, match=r"bdmc\.log_ml\(idata, model\)"):
        bdmc.log_ml(draws)
    with pytest.raises(ValueError, match="random_seed"):
        bdmc.log_ml(draws, random_seed=1)
    result = xr.DataTree.from_dict({"real": xr.Dataset()})
    with pytest.raises(ValueError, match=r"bdmc\.log_ml\(dt\)"):
        bdmc.log_ml(result, repeated_normal())
