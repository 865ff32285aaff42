"""Which variables of a model are hard to sample."""

import numpy as np
import pymc as pm
import pytest

from pymc_bdmc.density.structure import hard_variables

START = pm.Normal.dist()


def normal(scale, size):
    return pm.Normal.dist(0, scale, size=size)


def shifted(scale, location, size):
    return pm.Normal.dist(location, scale, size=size)


CENTRED = {
    "group effects": lambda scale: pm.Normal("x", 1, scale, shape=3),
    "heavy tails": lambda scale: pm.StudentT("x", nu=3, sigma=scale),
    "shrunk scales": lambda scale: pm.HalfCauchy("x", scale),
    "effects of sum zero": lambda scale: pm.ZeroSumNormal("x", scale, shape=3),
    "correlated effects": lambda scale: pm.MvNormal("x", np.zeros(2), scale * np.eye(2)),
    "walk": lambda scale: pm.GaussianRandomWalk("x", 0, scale, init_dist=START, steps=3),
    "autoregression": lambda scale: pm.AR("x", rho=[0.5], sigma=scale, init_dist=START, steps=3),
    "by draws": lambda scale: pm.CustomDist("x", scale, dist=normal, shape=3),
    "bounded": lambda scale: pm.TruncatedNormal("x", 0, scale, lower=-1, shape=3),
    "truncated": lambda scale: pm.Truncated("x", pm.Normal.dist(0, scale), lower=-1, shape=3),
    "skewed": lambda scale: pm.SkewNormal("x", mu=0, sigma=scale, shape=3),
    "mixture": lambda scale: pm.NormalMixture("x", [0.3, 0.7], 0, [scale, 3 * scale]),
    "one component": lambda scale: pm.Mixture(
        "x", [0.5, 0.5], [pm.Normal.dist(), pm.Normal.dist(0, scale)], shape=3
    ),
    "frailties": lambda scale: pm.Gamma("x", scale**-2, scale**-2, shape=3),
    "without draws": lambda scale: pm.CustomDist(
        "x", scale, logp=lambda value, sd: pm.logp(pm.Normal.dist(0, sd), value)
    ),
    "walk with skewed steps": lambda scale: pm.RandomWalk(
        "x", innovation_dist=pm.SkewNormal.dist(mu=0, sigma=scale), init_dist=START, steps=3
    ),
}
OTHERS = {
    "non-centred": lambda scale: scale * pm.Normal("x", shape=3),
    "location": lambda scale: pm.Normal("x", scale, 1.0),
    "coefficients": lambda scale: pm.AR(
        "ar", pm.Normal("x", 0, 0.5, shape=1), sigma=1.0, init_dist=START, steps=3
    ),
    "walk of known scale": lambda scale: pm.GaussianRandomWalk(
        "x", 0, 0.2, init_dist=START, steps=3
    ),
    "no scale": lambda scale: pm.Beta("x", scale, 1),
    "location by draws": lambda scale: pm.CustomDist("x", 1, scale, dist=shifted, shape=3),
    "skewed, location": lambda scale: pm.SkewNormal("x", mu=scale, sigma=1.0, shape=3),
    "skewed, known": lambda scale: pm.SkewNormal("x", mu=0, sigma=1.0, shape=3),
    "mixture of locations": lambda scale: pm.NormalMixture("x", [0.3, 0.7], [0, scale], 1.0),
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
    assert found == {
        "discrete_variables": "k, n", "finite_variables": "k", "centred_effects": ""
    }  # fmt: skip
