"""Paths of the data: what lies on them, the identities with broken twins, and known answers.

Identities at 25,000 runs; a test passes within 3 standard errors (α = 2.7e-3
a comparison, seeded). Its twins run in plain Python, with faults of the loops.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.compiled import JittedDensity, call_density
from pymc_bdmc.density.tempered import TemperedDensity
from tests.engines.test_identities import assert_identities
from tests.engines.test_populations import Enumerable, Transformed, log_weights
from tests.models import interpreted, repeated_normal

FORWARD, REVERSE = Direction


class Rows(Enumerable):
    """Three observations of two discrete variables; a step adds some and a part of another."""

    in_turn, y = True, np.array([3.0, 0.5, 2.5])


class Counts(Transformed):
    """Three Poisson counts of one Gamma rate."""

    in_turn, y = True, np.array([6, 1, 3])

    def __init__(self):
        super().__init__()
        a, b, total = self.a, self.b, self.y.sum()
        rates = stats.gamma(a, scale=1 / b)

        def joint(rate):
            return rates.pdf(rate) * np.prod(stats.poisson.pmf(self.y, rate))

        self.log_z = np.log(integrate.quad(joint, 0, 60, points=[total / 3])[0])

    def posterior(self, rng, *shape):
        n = len(self.y)
        rates = rng.gamma(self.a + self.y.sum(), 1 / (n + self.b), size=(*shape, 1))
        return np.log(rates)


rows, counts = cache(Rows), cache(Counts)


@pytest.mark.parametrize(("make", "particles"), [(rows, 1), (rows, 3), (counts, 3)])
def test_identities(make, particles):
    system = make()
    assert_identities(system, *(log_weights(system, d, particles) for d in Direction))


def test_what_lies_on_the_path():
    """Rows of two variables, one of them with vectors for rows."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Dirichlet("y", pm.math.exp(x), observed=[[0.3, 0.7], [0.1, 0.9], [0.6, 0.4]])
        pm.Normal("z", x.sum(), 2.0, observed=[1.0, -1.0, 0.5])
    density = TemperedDensity(model)
    flat = JittedDensity(density, in_turn=True)
    theta, data = np.array([0.3, -1.2]), flat.ravel_data(density.data)
    nothing = np.empty((2, 2))
    y, z = density.data["y"], density.data["z"]
    apart = stats.dirichlet.logpdf(y.T, np.exp(theta)) + stats.norm.logpdf(z, theta.sum(), 2.0)
    prior = stats.norm.logpdf(theta).sum()
    for now, then in [(0, 1), (0, 0.2), (0.2, 0.5), (0.5, 0.6), (2 / 3, 1)]:
        interval = np.array([now, then], float)
        first, slope = call_density(flat.without_gradient, theta, data, interval, *nothing)
        for beta in (now, then):
            share = np.clip(3 * beta - np.arange(3), 0, 1)
            assert first + beta * slope == pytest.approx(prior + share @ apart)


def test_known_answers():
    """α = 6e-5 each: within 4 of its errors. The second prior is ruled out in part."""
    shifted = repeated_normal()
    exact = stats.multivariate_normal.logpdf([1, 2.5, 0.3, 1.1], np.zeros(4), np.eye(4) + 4)
    with pm.Model() as bounded:
        pm.Uniform("y", 0, pm.Exponential("x", 1), observed=[0.5, 1.2, 0.1])
    area, _ = integrate.quad(lambda x: np.exp(-x) * x**-3, 1.2, np.inf)
    for model, expected, size in ((shifted, exact, 101), (bounded, np.log(area), 103)):
        simulated = bdmc.FromPrior(1) if model is shifted else None
        dt = pm.sample_bdmc(
            model, path="data", simulate=simulated, step="hmc" if simulated else "metropolis",
            random_seed=1, cores=1, progressbar=False,
        )  # fmt: skip
        assert (dt.attrs["path"], dt.attrs["path_reason"]) == ("data", "as asked for")
        assert (dt.attrs["schedule"], dt["real"].sizes["beta"]) == ("linear", size)
        row = bdmc.evidence(dt).query("data == 'real'").iloc[0]
        assert abs(row["value"] - expected) < 4 * row["error"] < 1
        assert "ideal gap" not in bdmc.summary(dt).index.get_level_values("quantity")
        if simulated:
            assert not np.isnan(bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"])


def with_potential(x):
    pm.Normal("y", x, observed=[0.1, 0.2])
    pm.Potential("more", -(x**2))


def walk(x):
    pm.GaussianRandomWalk("y", x, init_dist=pm.Normal.dist(), observed=[0.1, 0.2])


def unequal(x):
    pm.Normal("y", x, observed=[0.1, 0.2])
    pm.Normal("z", x, observed=[0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("likelihood", "options", "told"),
    [
        (with_potential, {"simulate": None}, "more is a Potential"),
        (walk, {}, "y has one density"),
        (unequal, {}, "y 2, z 3"),
        (lambda x: pm.Normal("y", x, observed=0.5), {}, "y has one density"),
        (lambda x: pm.Normal("y", x, observed=[0.5]), {"step": pm.NUTS}, "step methods"),
    ],
)
@interpreted()
def test_what_has_no_rows_is_refused(likelihood, options, told):
    with pm.Model() as model:
        likelihood(pm.Normal("x"))
    with pytest.raises(ValueError, match=rf"^path: 'data' .*{told}"):
        pm.sample_bdmc(model, path="data", progressbar=False, **options)
