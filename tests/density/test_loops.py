"""Loops of several elements at once: the densities of PyMC, by vector instructions."""

import os
import platform
import re
import subprocess
import sys

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.scalar import Composite, Exp
from pytensor.tensor.elemwise import CAReduce, Elemwise
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.upstream import jitted_function
from pymc_bdmc.density.compiled import JittedDensity, call_density
from pymc_bdmc.density.fast import FAST, WITH_FAST_LOOPS, WITH_LIGHT_PRODUCTS
from pymc_bdmc.density.tempered import TemperedDensity
from tests.models import eight_schools

BY_PYTHON = Mode(linker="py", optimizer="fast_compile")
RNG = np.random.default_rng(1)
WHOLE = np.array([0.0, 1.0])
X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=60)


def logistic():
    pm.Bernoulli("y", logit_p=X @ pm.Normal("w", shape=3), observed=Y > 0)


def log_link():
    pm.Poisson("y", pm.math.exp(X @ pm.Normal("w", shape=3)), observed=np.arange(60) % 4)


def student():
    """With log1p."""
    nu = pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu=nu, mu=X @ pm.Normal("w", shape=3), sigma=1.0, observed=Y)


def scales():
    """With the logarithm of a vector, and groups."""
    group = np.arange(60) % 9
    sigma = pm.HalfNormal("sigma", 1.0, shape=9)
    pm.Normal(
        "y", pm.Normal("mu", 0, sigma, shape=9)[group], sigma[group] + X[:, 0] ** 2, observed=Y
    )


def mixture():
    w = pm.Dirichlet("w", np.ones(3))
    mu = pm.Normal("mu", shape=3)
    pm.NormalMixture("y", w, mu, pm.HalfNormal("s", shape=3), observed=Y)


def different_mixture():
    """With a scale for each observation, and a constant matrix of locations."""
    parts = pm.Normal.dist(pm.Normal("mu", shape=2) + X[:, :2], pm.HalfNormal("s", shape=(60, 1)))
    pm.Mixture("y", pm.Dirichlet("w", np.ones(2)), parts, observed=Y)


def zero_inflated():
    pm.ZeroInflatedPoisson(
        "y",
        pm.Beta("p", 1, 1),
        pm.math.exp(X @ pm.Normal("w", shape=3)),
        observed=np.arange(60) % 4,
    )


def rows_and_columns():
    """Sums over either axis, and a loop over three elements of a matrix that is not turned."""
    z = pm.Normal("z", shape=(40, 3))
    pm.Potential(
        "p", -pm.math.logsumexp(z, axis=0).sum() - (pm.math.log1pexp(z).sum(axis=1) ** 2).sum()
    )
    pm.Normal("y", (z * X[:40]).sum(axis=1), 1.0, observed=Y[:40])


MODELS = {
    "logistic": logistic,
    "log link": log_link,
    "student": student,
    "scales": scales,
    "mixture": mixture,
    "different mixture": different_mixture,
    "zero-inflated": zero_inflated,
    "rows and columns": rows_and_columns,
}


LONG_TO_COMPILE = ["zero-inflated", "mixture"]
"""Up to ten seconds, for the operations of the log link and of different mixtures."""


def made(name: str) -> pm.Model:
    with pm.Model() as model:
        MODELS[name]()
    return model


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG_TO_COMPILE)) for name in MODELS],
)
def test_density_and_gradient_equal_those_of_pymc(name):
    model = made(name)
    density = TemperedDensity(model)
    flat = JittedDensity(density)
    terms = [model.varlogp, model.datalogp]
    values = model.value_vars
    slopes = [pt.grad(t, values, disconnected_inputs="ignore") for t in terms]
    outputs = [*terms, *(pt.concatenate([g.ravel() for g in each]) for each in slopes)]
    with pytensor.config.change_flags(cxx=""):  # for the inner graphs as well
        reference = model.compile_fn(outputs, inputs=values, mode=BY_PYTHON, point_fn=False)
    data, rng = flat.ravel_data(density.data), np.random.default_rng(2)
    for _ in range(3):
        point = {v.name: rng.normal(size=v.type.shape) for v in values}
        found = np.empty((2, flat.size))
        both = call_density(flat.with_gradient, flat.ravel(point), data, WHOLE, *found)
        expected = reference(*(point[v.name] for v in values))
        np.testing.assert_allclose(both, expected[:2], rtol=1e-13)
        for mine, its in zip(found, expected[2:], strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-13, atol=1e-13 * np.abs(its).max())


def test_what_is_impossible_stays_so():
    """Both components rule out an observation: −∞, not NaN."""
    with pm.Model() as model:
        low = pm.Normal("low", shape=2)
        parts = pm.Uniform.dist(low, low + 1)
        pm.Mixture("y", [0.5, 0.5], parts, observed=np.linspace(0, 0.5, 20))
    density = TemperedDensity(model)
    flat = density.jitted
    gradients = np.empty((2, 2))
    data = flat.ravel_data(density.data)
    _, ell = call_density(flat.with_gradient, np.array([3.0, 4.0]), data, WHOLE, *gradients)
    assert ell == -np.inf


def scalar_operations(nodes) -> list:
    """Scalar operations of some nodes, those of inner graphs and fused loops one by one."""
    found = []
    for op in (node.op for node in nodes):
        if isinstance(op, Elemwise):
            fused = isinstance(op.scalar_op, Composite)
            found += [n.op for n in op.scalar_op.fgraph.apply_nodes] if fused else [op.scalar_op]
        elif hasattr(op, "fgraph"):
            found += scalar_operations(op.fgraph.apply_nodes)
    return found


def compiled(inputs, graph, mode=WITH_FAST_LOOPS):
    """A function, and the scalar operations in it."""
    function = pytensor.function(inputs, graph, mode=mode)
    return function, scalar_operations(function.maker.fgraph.toposort())


@pytest.mark.parametrize(("n", "is_fast"), [(1, False), (7, False), (8, True), (None, True)])
def test_only_long_loops_are_fast(n, is_fast):
    x = pt.tensor("x", dtype="float64", shape=(n,))
    function, operations = compiled([x], pt.exp(x) + 1)
    assert (FAST[Exp] in operations) == is_fast
    assert (Exp() in [type(each)() for each in operations if type(each) is Exp]) != is_fast
    at = np.linspace(-1, 1, n or 20)
    np.testing.assert_allclose(function(at), np.exp(at) + 1, rtol=1e-15)


def test_other_numbers_are_left_to_pytensor():
    x = pt.fvector("x")
    assert FAST[Exp] not in compiled([x], pt.exp(x))[1]


def test_small_models_keep_their_bits():
    """Eight schools have no loop of eight exponentials."""
    flat = TemperedDensity(eight_schools(centred=True)).jitted
    inputs, outputs = flat._graph(gradient=True)
    data = flat.ravel_data(TemperedDensity(eight_schools(True)).data)
    at = np.linspace(-1, 1, flat.size), data, WHOLE
    functions = [
        pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
        for mode in (WITH_FAST_LOOPS, WITH_LIGHT_PRODUCTS)
    ]
    for mine, its in zip(*(each(*at) for each in functions), strict=True):
        np.testing.assert_array_equal(mine, its)


def shapes(function) -> set:
    """Shapes over which it loops."""
    loops = (Elemwise, CAReduce)
    nodes = function.maker.fgraph.apply_nodes
    return {node.inputs[0].type.shape for node in nodes if isinstance(node.op, loops)}


@pytest.mark.parametrize("axis", [0, 1, None])
def test_the_longest_axis_is_innermost(axis):
    x, mu = pt.dvector("x"), pt.dvector("mu")
    x, mu = pt.specify_shape(x, 50), pt.specify_shape(mu, 2)
    graph = pt.exp(x[:, None] - mu + np.arange(100.0).reshape(50, 2)).sum(axis=axis)
    inputs = x.owner.inputs[0], mu.owner.inputs[0]
    at = np.linspace(-1, 1, 50), np.array([0.3, -0.2])
    expected = np.exp(at[0][:, None] - at[1] + np.arange(100.0).reshape(50, 2)).sum(axis=axis)
    turned = pytensor.function(inputs, graph, mode=WITH_FAST_LOOPS.excluding("fusion"))
    np.testing.assert_allclose(turned(*at), expected, rtol=1e-13)
    assert (50, 2) not in shapes(turned)


def test_no_loop_over_an_axis_of_length_one():
    x = pt.tensor("x", dtype="float64", shape=(50, 1))
    function = pytensor.function([x], pt.exp(x) + 1, mode=WITH_FAST_LOOPS.excluding("fusion"))
    assert (50,) in shapes(function)
    assert (50, 1) not in shapes(function)
    np.testing.assert_allclose(function(np.ones((50, 1))), np.full((50, 1), np.e + 1), rtol=1e-15)


def test_the_gradient_of_logsumexp_shares_the_exponentials():
    x = pt.tensor("x", dtype="float64", shape=(3, 50))
    total = pm.math.logsumexp(x, axis=0).sum()
    graph = [total, pt.grad(total, x)]
    function, operations = compiled([x], graph)
    assert [op for op in operations if isinstance(op, Exp)] == [FAST[Exp]]
    at = np.random.default_rng(1).normal(size=(3, 50))
    expected = logsumexp(at, axis=0).sum(), softmax(at, axis=0)
    for mine, its in zip(function(at), expected, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names of instructions differ")
def test_fused_loops_are_compiled_to_vectors():
    """A scalar among the inputs puts a function between the loop and the fused operations."""
    x, scale = pt.dvector("x"), pt.dscalar("scale")
    y = pt.softplus(x) * pt.sigmoid(x - 1) / pt.exp(scale)

    def has_packed_divisions(mode) -> bool:
        with pytensor.config.change_flags(numba__cache=False):  # numba shows no code from a cache
            function = pytensor.function([x, scale], y.sum(), mode=mode)
            function(np.ones(20), 0.0)
        [assembly] = jitted_function(function).inspect_asm().values()
        return bool(re.search(r"\bv?divpd\b", assembly))

    assert has_packed_divisions(WITH_FAST_LOOPS)
    assert not has_packed_divisions("NUMBA")


def test_graphs_of_others_are_compiled_as_before():
    """PyTensor's own mode knows none of these operations."""
    x = pt.dvector("x")
    _, operations = compiled([x], pt.exp(x) * 2 + 1, "NUMBA")
    assert not set(operations) & set(FAST.values())


def test_other_processes_find_the_compiled_code(tmp_path):
    """The second one writes nothing."""
    program = (
        "import numpy as np, pytensor, pytensor.tensor as pt\n"
        "from pymc_bdmc.density.fast import WITH_FAST_LOOPS\n"
        "x, s = pt.dvector('x'), pt.dscalar('s')\n"
        "y = (pt.softplus(x) * s + pt.exp(x)).sum()\n"
        "print(pytensor.function([x, s], y, mode=WITH_FAST_LOOPS)(np.arange(20.0), 1.0))"
    )
    environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={tmp_path}"}

    def files():
        run = [sys.executable, "-c", program]
        said = subprocess.run(run, env=environment, capture_output=True, check=True).stdout
        return said, {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb*")}

    first = files()
    assert first[1]
    assert files() == first
