"""Every family that the package takes as normalised is: by sums, quadrature or another formula."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.replace import vectorize_graph

from pymc_bdmc.density.graph import INTERPRETED, TemperedModel
from pymc_bdmc.density.structure import NORMALISED, distribution, unknown_family
from tests.density.families import ATOMS, CONTINUOUS, COUNTS, DISCRETE, LINE, OTHERS
from tests.models import interpreted

# PyMC's matrix normal calls a PyTensor function by its former name.
pytestmark = pytest.mark.filterwarnings(
    "ignore:pytensor.tensor.linalg.trace is deprecated:FutureWarning"
)
GRIDS = {
    "LKJCorr": (lambda: pm.LKJCorr.dist(n=3, eta=2.0), 3, 17, 2.5),
    "LKJCholeskyCov": (
        lambda: pm.LKJCholeskyCov.dist(
            n=2, eta=2.0, sd_dist=pm.LogNormal.dist(0, 0.3), compute_corr=False
        ),
        3, 31, 2.2,
    ),
    "StickBreakingWeights": (lambda: pm.StickBreakingWeights.dist(alpha=1.5, K=2), 2, 61, 4.0),
}  # fmt: skip
ELSEWHERE = [
    lambda: pm.CAR.dist(np.zeros(2), 1 - np.eye(2), 0.5, 1),
    lambda: pm.ICAR.dist(1 - np.eye(2)),
]
"""Fields whose densities test_corrected.py compares with another formula."""


@pytest.fixture(autouse=True)
def inner_graphs_are_interpreted():
    with interpreted():
        yield


def log_density(dist, values):
    """PyMC's log density at every value."""
    return pm.logp(dist, pt.as_tensor(values), warn_rvs=False).eval(mode=INTERPRETED)


def integral(dist, lower, upper):
    """Integral over an interval, by double exponential quadrature (Takahasi and Mori 1974)."""
    t, step = np.linspace(-3.6, 3.6, 7201, retstep=True)
    u, du = np.pi / 2 * np.sinh(t), np.pi / 2 * np.cosh(t) * step
    if np.isinf(lower):
        x, dx = np.sinh(u), np.cosh(u) * du
    elif np.isinf(upper):
        x, dx = lower + np.exp(u), np.exp(u) * du
    else:
        x, dx = lower + (upper - lower) / (1 + np.exp(-2 * u)), du * (upper - lower) / 2
        dx /= np.cosh(u) ** 2
    inside = (x > lower) & (x < upper)
    return np.sum(np.exp(log_density(dist, x[inside])) * dx[inside])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_densities_integrate_to_one(name):
    if name == "PolyaGamma":  # which needs a package that PyMC does not install
        pytest.importorskip("polyagamma")
    make, support = CONTINUOUS[name]
    assert integral(make(), *support) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("name", ATOMS)
def test_densities_with_atoms_add_up_to_one(name):
    make, support, atoms = ATOMS[name]
    mass = integral(make(), *support) + np.exp(log_density(make(), np.array(atoms))).sum()
    assert mass == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("name", [*DISCRETE, *COUNTS])
def test_probabilities_add_up_to_one(name):
    if name in DISCRETE:
        make, values = DISCRETE[name], np.arange(400)
    else:
        make, k = COUNTS[name]
        values = np.array([each for each in product(range(6), repeat=k) if sum(each) == 5])
    assert np.exp(log_density(make(), values)).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_densities_of_vectors_agree_with_another_formula(name):
    make, value, other = OTHERS[name]
    expected = other if isinstance(other, float) else other.logpdf(value)
    assert np.squeeze(log_density(make(), value)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", GRIDS)
def test_matrices_and_weights_integrate_to_one(name):
    """The trapezoidal rule on the unconstrained scale, with sinh-spaced nodes."""
    make, size, n, reach = GRIDS[name]
    with pm.Model() as model:
        model.register_rv(make(), "x")
    corrected = TemperedModel.from_model(model)
    u, step = np.linspace(-reach, reach, n, retstep=True)
    nodes = np.array(list(product(np.sinh(u), repeat=size)))
    weights = np.prod(list(product(np.cosh(u) * step, repeat=size)), axis=1)
    rows = vectorize_graph(corrected.logp(), {corrected.value_vars[0]: pt.as_tensor(nodes)})
    assert np.exp(rows.eval(mode=INTERPRETED)) @ weights == pytest.approx(1, abs=2e-3)


def test_no_family_is_taken_as_normalised_without_a_test():
    pairs = [*CONTINUOUS.values(), *ATOMS.values(), *COUNTS.values(), *OTHERS.values()]
    made = [*(make for make, *_ in [*pairs, *GRIDS.values()]), *DISCRETE.values(), *ELSEWHERE]
    tested, alone = set(), pm.Model()
    for make in made:
        tested |= {type(op) for op in distribution(make(), alone)}
        assert not unknown_family(make(), alone)
    assert set(NORMALISED) - tested == {PartialObservedRV}


@pytest.mark.parametrize("constant", [0.0, 0.5 * np.log(np.pi)])
def test_a_density_without_its_constant_is_found(constant):
    """The broken twin, and the same density with its constant."""
    dist = pm.CustomDist.dist(logp=lambda x: -(x**2) - constant)
    assert (integral(dist, *LINE) == pytest.approx(1, abs=1e-6)) == (constant > 0)
