"""Constraints that are part of log ML are named, with the right probability."""

from math import factorial

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.density.refuse import constraints
from tests.models import SIGMAS


def mixture(**transform):
    """Mixture of three components with one observation: its log ML does not depend on labels."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=3, **transform, initval=[-1, 0, 1])
        pm.Mixture("y", np.ones(3) / 3, pm.Normal.dist(mu, 1), observed=[0.7])
    return model


FREE = stats.norm.logpdf(0.7, 0, np.sqrt(2))


def test_log_ml_of_ordered_components_includes_the_probability_of_the_order():
    """Within 4 standard errors of the exact value, α = 6e-5; the twin without −log 3! is not."""
    options = {"path": "prior", "chains": 64, "cores": 1, "progressbar": False}
    free, dt = (
        pm.sample_bdmc(model, simulate=None, random_seed=1, **options)
        for model in (mixture(), mixture(transform=ordered))
    )
    found = bdmc.log_ml(dt)
    assert abs(found.value - FREE + np.log(6)) < SIGMAS * found.error
    assert abs(found.value - FREE) > SIGMAS * found.error
    assert "mu is ordered" in found.notes
    assert "−log 3! = −1.79" in repr(found)
    told = found.notes.split("\n")[1]
    assert told.startswith("The likelihood is 0 at some prior draws")
    value, error = map(float, told.rstrip(".").split("of the others, ")[1].split(" ± "))
    assert abs(value + np.log(6)) < SIGMAS * error
    assert bdmc.log_ml(free).notes == ""
    assert "First model: mu is ordered" in repr(bdmc.bayes_factor(dt, free))
    assert "Caveats: mu is ordered" in bdmc.report(dt)


def test_the_order_has_the_stated_probability():
    """Share of independent normal pairs and triples in order, in 2·10^5 draws; 5 errors."""
    draws = np.random.default_rng(1).normal(size=(200_000, 3))
    share = np.mean(np.all(np.diff(draws) > 0, axis=1))
    assert share == pytest.approx(1 / factorial(3), abs=5 * np.sqrt(5 / 36 / 200_000))


def cuts(**kwargs):
    with pm.Model(coords={"row": range(2), "cut": range(4)}) as model:
        pm.Normal("cuts", transform=ordered, **kwargs)
    return constraints(model)["constraints"]


def test_only_exchangeable_elements_have_a_known_probability():
    start = np.arange(4.0)
    assert "−log 4! = −3.18." in cuts(mu=0, sigma=2, shape=4, initval=start)
    assert "−log 4! = −3.18." in cuts(mu=np.ones(4), dims="cut", initval=start)
    assert "−2 log 4! = −6.36." in cuts(dims=("row", "cut"), initval=np.tile(start, (2, 1)))
    told = cuts(mu=start, shape=4, initval=start)
    assert told == "cuts is ordered: log ML includes the log prior probability of that order."


def test_ordered_variables_with_bounds_and_potentials():
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", shape=2, transform=ordered, initval=[0.5, 1.0])
        pm.Potential("apart", pm.math.log(rate[1] - rate[0]))
        pm.Normal("free")
    first, second = constraints(model)["constraints"].split("\n")
    assert first.startswith("rate is ordered")
    assert "−log 2! = −0.69." in first
    assert second.startswith("The Potential apart is a part of the likelihood")


def test_an_observed_density_of_the_users_own_is_named():
    """Its constant cannot be known; one that PyMC derives from a distribution is normalised."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.CustomDist("mine", x, logp=lambda y, x: -((y - x) ** 2), observed=0.5)
        pm.CustomDist("derived", x, dist=lambda x, size: pm.Normal.dist(x, size=size), observed=0.5)
        pm.Normal("known", x, observed=0.5)
    (told,) = constraints(model)["constraints"].split("\n")
    assert told.startswith("The density of mine, a CustomDist, is taken to integrate to 1")
