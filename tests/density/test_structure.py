"""Which variables of a model are hard to sample, latent, or better summed out."""

import logging

import numpy as np
import pymc as pm
import pytest
from pytensor.tensor import einsum
from scipy.special import logsumexp
from scipy.stats import norm

import pymc_bdmc as bdmc
from pymc_bdmc.density.structure import hard_variables, latent_variables, sum_out
from tests.models import SIGMAS

START, N = pm.Normal.dist(), pm.Normal.dist


def normal(scale, size):
    return pm.Normal.dist(0, scale, size=size)


def shifted(scale, location, size):
    return pm.Normal.dist(location, scale, size=size)


def exploding(rate, size):
    """The scale is 1, but e⁴ or more for half of the half-normal rates."""
    return pm.Normal.dist(0, pm.math.exp(20 * pm.math.maximum(rate - 0.45, 0)), size=size)


def diffusing(sde, parameter):
    return pm.EulerMaruyama("x", 1.0, sde, [parameter], init_dist=START, shape=9)


CENTRED = {
    "heavy tails": lambda scale: pm.StudentT("x", nu=3, sigma=scale),
    "effects of sum zero": lambda scale: pm.ZeroSumNormal("x", scale, shape=3),
    "correlated effects": lambda scale: pm.MvNormal("x", np.zeros(2), scale * np.eye(2)),
    "walk": lambda scale: pm.GaussianRandomWalk("x", 0, scale, init_dist=START, steps=3),
    "autoregression": lambda scale: pm.AR("x", rho=[0.5], sigma=scale, init_dist=START, steps=3),
    "diffusion": lambda scale: diffusing(lambda x, sd: (-x, sd * (1 + x**2)), scale),
    "by draws": lambda scale: pm.CustomDist("x", scale, dist=normal, shape=3),
    "one component": lambda scale: pm.Mixture("x", [0.5, 0.5], [N(), N(0, scale)], shape=3),
    "frailties": lambda scale: pm.Gamma("x", scale**-2, scale**-2, shape=3),
    "without draws": lambda scale: pm.CustomDist(
        "x", scale, logp=lambda value, sd: pm.logp(N(0, sd), value)
    ),
}
OTHERS = {
    "location": lambda scale: pm.Normal("x", scale, 1.0),
    "coefficients": lambda scale: pm.AR("ar", pm.Normal("x", shape=1), init_dist=START, steps=3),
    "walk of known scale": lambda scale: pm.GaussianRandomWalk("x", init_dist=START, steps=3),
    "diffusion of known scale": lambda scale: diffusing(lambda x, rate: (rate * x, 0.5), scale),
    "explosion": lambda scale: pm.CustomDist("x", scale, dist=exploding, shape=3),
    "no scale": lambda scale: pm.Beta("x", scale, 1),
    "location by draws": lambda scale: pm.CustomDist("x", 1, scale, dist=shifted, shape=3),
    "rates": lambda scale: pm.Gamma("x", pm.Exponential("shape", 1), scale, shape=3),
}


@pytest.mark.parametrize("name", [*CENTRED, *OTHERS])
def test_centred_effects(name):
    with pm.Model() as model:
        (CENTRED | OTHERS)[name](pm.HalfNormal("scale"))
    assert hard_variables(model)["centred_effects"] == ("x" if name in CENTRED else "")


def test_discrete_variables():
    with pm.Model() as model:
        k = pm.Bernoulli("k", 0.5, shape=2)
        pm.Poisson("y", 1.0 + pm.Poisson("n", 3.0) + k.sum(), observed=2)
    found = hard_variables(model)
    assert (found["discrete_variables"], found["finite_variables"]) == ("k, n", "k")
    assert found["centred_effects"] == ""


def errors_in_variables():
    return pm.Normal("slope") * pm.Normal("x", 0, pm.HalfNormal("spread"), shape=5)


def item_response():
    """The variable with the most products is no larger than another one."""
    logs, places = pm.Normal("logs", shape=4), pm.Normal("places", shape=4)
    return pm.math.exp(logs) * (pm.Normal("ability", shape=(9, 1)) - places)


def factors():
    return pm.Normal("loadings", shape=(2, 3)) @ pm.Normal("scores", shape=(3, 8))


def factors_by_einsum():
    loadings, scores = pm.Normal("loadings", shape=(2, 3)), pm.Normal("scores", shape=(8, 3))
    return einsum("ij,kj->ik", loadings, scores)


def autoregression():
    return pm.AR("x", pm.Normal("rho"), pm.HalfNormal("spread"), init_dist=START, shape=9)


def not_centred():
    return pm.Normal("mean") + pm.HalfNormal("spread") * pm.Normal("z", shape=8)


def regression():
    weights, effects = pm.Normal("weights", shape=3), pm.Normal("effects", shape=4)
    return np.ones((4, 3)) @ weights + effects / 2


def mean_by_volatility():
    walk = pm.GaussianRandomWalk("walk", init_dist=START, shape=5)
    return pm.Normal("mean") + pm.Normal("premium") * pm.math.exp(walk)


@pytest.mark.parametrize(
    ("mean_of_y", "names"),
    [
        (errors_in_variables, ("x",)),
        (item_response, ("places", "ability")),
        (factors, ("scores",)),
        (factors_by_einsum, ("scores",)),
        (autoregression, ("x",)),
        (not_centred, ("mean", "z")),
        (regression, ("weights", "effects")),
        (mean_by_volatility, ("walk", "mean")),
    ],
)
def test_smaller_factors_are_not_latent(mean_of_y, names):
    with pm.Model() as model:
        mean = mean_of_y()
        pm.Normal("y", mean, 1, observed=np.zeros(mean.shape.eval()))
    assert latent_variables(model) == names


@pytest.mark.parametrize(
    ("sde", "names"),
    [(lambda x, rate: (-rate * x, 0.5), ("x",)), (lambda x, rate: (rate, 0.5 * x), ("rate",))],
)
def test_states_of_a_diffusion_are_latent(sde, names):
    """If its scale does not depend on them; what multiplies them is not."""
    with pm.Model() as model:
        x = diffusing(sde, pm.Normal("rate"))
        pm.Normal("y", x, 1, observed=np.zeros(9))
    assert latent_variables(model) == names


def test_states_of_a_linear_diffusion_are_weighed():
    """Exactly normal given the rate; α = 6e-5. Answer by quadrature over it.

    Twin: the likelihood of the best rate.
    """
    y = np.array([0.9, 1.3, 0.4, 0.2, -0.3, 0.1, 0.2, -0.6, 0.0])
    with pm.Model() as model:
        x = diffusing(lambda x, rate: (-rate * x, 0.5), pm.Normal("rate"))
        pm.Normal("y", x, 0.3, observed=y)
    rates = np.linspace(-6, 6, 2001)
    logs, mean, variance = np.zeros(2001), np.zeros(2001), np.ones(2001)
    for k, each in enumerate(y):  # Kalman's filter
        if k > 0:
            mean, variance = (1 - rates) * mean, (1 - rates) ** 2 * variance + 0.5**2
        logs += norm.logpdf(each, mean, np.sqrt(variance + 0.3**2))
        gain = variance / (variance + 0.3**2)
        mean, variance = mean + gain * (each - mean), (1 - gain) * variance
    best, logs = logs.max(), logs + norm.logpdf(rates)
    log_ml = logsumexp(logs) + np.log(rates[1] - rates[0])
    found = bdmc.log_ml(pm.sample_bdmc(model, simulate=None, random_seed=1, progressbar=False))
    assert abs(found.value - log_ml) < SIGMAS * found.error < 0.1
    assert abs(found.value - best) > SIGMAS * found.error


@pytest.mark.parametrize(
    ("prior", "is_latent"),
    [
        (lambda: pm.Gamma("x", pm.Exponential("a"), 1, shape=4), True),
        (lambda: pm.Beta("x", 1, pm.Exponential("a"), shape=4), True),
        (lambda: pm.StudentT("x", 3, shape=(2, 2)), True),
        (lambda: pm.LogNormal("x", 0, pm.HalfNormal("a"), shape=4), True),
        (lambda: pm.Gamma("x", 2, 1), False),  # a scalar
        (lambda: pm.Dirichlet("x", np.ones(4)), False),  # elements depend on each other
        (lambda: pm.Normal("z", 0, pm.HalfNormal("x", shape=4), shape=4), False),  # scales
    ],
)
def test_latent_variables_of_any_family(prior, is_latent):
    """They have several elements, on which only data depend."""
    with pm.Model() as model:
        mean = prior()
        pm.Normal("y", mean, 1, observed=np.zeros(mean.shape.eval()))
    assert "x" not in latent_variables(model)
    assert ("x" in latent_variables(model, of_any_family=True)) == is_latent


def indicators(n):
    with pm.Model() as model:
        k = pm.Bernoulli("k", pm.Beta("share", 1, 1), shape=n)
        pm.Normal("y", k, observed=np.arange(n) % 3)
    return model


def test_many_indicators_are_told_to_be_summed_out(caplog):
    remedy = sum_out("k")
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        dt = bdmc.sample_bdmc(
            indicators(40), temperatures=5, chains=40, particles=1, simulate=None,
            random_seed=1, cores=1, progressbar=False,
        )  # fmt: skip
    assert f"40 discrete elements mix slowly. For short runs {remedy}" in caplog.text
    found = bdmc.log_ml(dt)
    assert not found.valid
    assert remedy in found.reason
    assert remedy in bdmc.verdict(dt).text
    assert any(remedy in doubt for doubt in bdmc.diagnose(dt))
