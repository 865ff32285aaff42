"""PyMC's choice of samplers and the compiled kernels, on models of every kind; α = 1e-5 a check."""

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import transforms

from pymc_bdmc.testing import check_invariance, check_sampler

pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
]

PAIR = np.array([[1.0, 0.8], [0.8, 1.0]])
GAPS = np.ma.masked_invalid([0.2, np.nan, 1.0])

# Each returns the mean of the data y, or observes variables itself.
ZOO = {
    "log": lambda: pm.Normal("mu") * pm.HalfNormal("sigma"),
    "log-odds": lambda: pm.Beta("p", 2, 1, shape=2).sum(),
    "interval": lambda: pm.Uniform("u", -1, 3) + pm.TruncatedNormal("t", lower=0, upper=2),
    "one-sided": lambda: pm.Exponential("a", 1) - pm.TruncatedNormal("b", lower=1),
    "simplex": lambda: pm.Dirichlet("w", np.array([1.0, 2.0, 3.0])) @ np.array([-1.0, 0.0, 2.0]),
    "zero sum": lambda: pm.ZeroSumNormal("z", shape=3)[0],
    "circular": lambda: pm.math.sin(pm.VonMises("angle", 0.5, 2)),
    "ordered": lambda: pm.Normal("o", [-1, 0, 1], transform=transforms.ordered, shape=3).sum(),
    "cholesky": lambda: pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.Exponential.dist(1))[0][1, 0],
    "correlated": lambda: pm.MvNormal("pair", np.zeros(2), PAIR)[0],
    "heavy tails": lambda: pm.StudentT("t", nu=3),
    "hierarchy": lambda: pm.Normal("x", pm.Normal("mu"), pm.HalfNormal("tau"), shape=2).sum(),
    "missing values": lambda: pm.Normal("z", pm.Normal("mu"), 1.0, observed=GAPS).sum(),
    "binary": lambda: pm.Bernoulli("k", 0.3, shape=3).sum(),
    "categories": lambda: pm.math.constant([-1.0, 0.0, 2.0])[pm.Categorical("k", [0.2, 0.5, 0.3])],
    "counts": lambda: pm.Poisson("n", 2).astype("float64"),
    "mixture": lambda: pm.Normal("mu", shape=2)[pm.Bernoulli("k", 0.4)],
    "random trials": lambda: pm.Binomial("k", pm.Poisson("n", 4), pm.Beta("p", 2, 2)).astype(
        "float64"
    ),
}


def build(name: str) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("y", ZOO[name](), 0.7, observed=np.zeros(2))
    return model


@pytest.mark.parametrize("check", [check_invariance, check_sampler])
@pytest.mark.parametrize("step", [None, "hmc", "nuts", "autostep", "metropolis"])
@pytest.mark.parametrize("name", ZOO)
def test_passes(check, step, name):
    check(step, build(name), budget=4_000, random_seed=1).raise_if_failed()
