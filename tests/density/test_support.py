"""Free variables and supports of two models, as reweighting needs them."""

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import Interval, Ordered, ordered

from pymc_bdmc.density.support import different_variables, support_beyond
from pymc_bdmc.density.tempered import TemperedDensity
from tests.density.short import QUICK


def model(make):
    with pm.Model() as found:
        x = make("x")
        pm.Normal("y", x.sum() if x.ndim else x, 1, observed=0.5)
    return found


SAME = {
    "scales of one type or another": (lambda n: pm.Normal(n, 0, 1), lambda n: pm.Normal(n, 0, 2.5)),
    "ordered": (
        lambda n: pm.Normal(n, 0, 1, shape=3, transform=ordered),
        lambda n: pm.Normal(n, 0, 2, shape=3, transform=Ordered()),
    ),
    "shrinking": (lambda n: pm.Binomial(n, 5, 0.5), lambda n: pm.Binomial(n, 4, 0.5)),
}
GROWING = {
    "interval": (lambda n: pm.Uniform(n, 0, 1), lambda n: pm.Uniform(n, 0, 1.00001)),
    "truncated": (
        lambda n: pm.Truncated(n, pm.Normal.dist(), lower=0),
        lambda n: pm.Truncated(n, pm.Normal.dist(), lower=-0.001),
    ),
    "counts": (lambda n: pm.Binomial(n, 5, 0.01), lambda n: pm.Binomial(n, 6, 0.01)),
}
OTHER = {
    "order": (
        lambda n: pm.Normal(n, shape=3, transform=ordered),
        lambda n: pm.Normal(n, shape=3, transform=Ordered(ascending=False)),
    ),
    "bounds of a transform": (
        lambda n: pm.Normal(n, transform=Interval(0, 1)),
        lambda n: pm.Normal(n, transform=Interval(0, 2)),
    ),
    "custom": (
        lambda n: pm.CustomDist(n, logp=lambda x: -(x**2) / 2, random=np.zeros_like),
        lambda n: pm.Normal(n),
    ),
}


def beyond(pair):
    old, new = (TemperedDensity(model(make), QUICK) for make in pair)
    return support_beyond(old, new, np.random.default_rng(0))


@pytest.mark.parametrize("name", [*SAME, *GROWING])
def test_a_support_that_grows(name):
    pair = (SAME | GROWING)[name]
    assert not different_variables(*map(model, pair))
    assert ("the support grows: x = " in beyond(pair)) == (name in GROWING)


@pytest.mark.parametrize("pair", OTHER.values(), ids=OTHER)
def test_other_variables(pair):
    assert "x" in different_variables(*map(model, pair))


def test_a_support_that_no_draw_finds():
    """One order in 20! of the components is allowed."""
    pair = [lambda n: pm.Normal(n, shape=20, transform=ordered)] * 2
    assert "cannot be tested" in beyond(pair)
