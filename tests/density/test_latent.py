"""Latent variables of a model: normal given the others, and not multiplied with each other."""

import numpy as np
import pymc as pm
import pytest
from pytensor.tensor import einsum

from pymc_bdmc.density.structure import latent_variables


def errors_in_variables():
    x = pm.Normal("x", 0, pm.HalfNormal("spread"), shape=5)
    return pm.Normal("slope") * x


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
    start = pm.Normal.dist(0, 1)
    return pm.AR("x", pm.Normal("rho"), pm.HalfNormal("spread"), init_dist=start, shape=9)


def not_centred():
    mean, z = pm.Normal("mean"), pm.Normal("z", shape=8)
    return mean + pm.HalfNormal("spread") * z


def regression():
    weights, effects = pm.Normal("weights", shape=3), pm.Normal("effects", shape=4)
    return np.ones((4, 3)) @ weights + effects / 2


def mean_by_volatility():
    walk = pm.GaussianRandomWalk("walk", 0, 1, init_dist=pm.Normal.dist(0, 1), shape=5)
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
