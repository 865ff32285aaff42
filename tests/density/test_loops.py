"""Loops of several elements at once: the densities of PyMC, by vector instructions."""

import platform
import re

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.scalar import Composite, Exp
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.math import Dot
from scipy.special import logsumexp, softmax

from pymc_bdmc.base.upstream import jitted_function
from pymc_bdmc.density.compiled import JittedDensity, call_density
from pymc_bdmc.density.fast import FAST, WITH_FAST_LOOPS, WITH_LIGHT_PRODUCTS
from pymc_bdmc.density.tempered import TemperedDensity

BY_PYTHON = Mode(linker="py", optimizer="fast_compile")
UNFUSED = WITH_FAST_LOOPS.excluding("fusion").provided_optimizer
RNG = np.random.default_rng(1)
WHOLE = np.array([0.0, 1.0])
X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=60)
GROUP = np.arange(60) % 9


def several():
    """Log link, log1p, groups with scales, discrete variables, and a mixture of many scales."""
    k, c = pm.Poisson("k", 3.0), pm.Categorical("c", [0.2, 0.3, 0.5], shape=2)
    sigma, line = pm.HalfNormal("sigma", shape=9), X @ pm.Normal("w", shape=3)
    mu = pm.Normal("mu", k + c.sum(), sigma, shape=9)[GROUP] + pm.math.exp(line)
    pm.Bernoulli("bit", logit_p=line, observed=Y > 0)
    scale = pm.math.log1p(sigma)[GROUP]
    parts = pm.Normal.dist(pm.Normal("m", shape=2) + mu[:, None], scale[:, None])
    pm.Mixture("y", [0.3, 0.7], parts, observed=Y)


def test_density_and_gradient_equal_those_of_pymc():
    with pm.Model() as model:
        several()
    density = TemperedDensity(model)
    flat = JittedDensity(density)
    terms, inputs = [model.varlogp, model.datalogp], model.value_vars
    values = model.continuous_value_vars
    slopes = [pt.grad(t, values, disconnected_inputs="ignore") for t in terms]
    outputs = [*terms, *(pt.concatenate([g.ravel() for g in each]) for each in slopes)]
    with pytensor.config.change_flags(cxx=""):  # for the inner graphs as well
        reference = model.compile_fn(outputs, inputs=inputs, mode=BY_PYTHON, point_fn=False)
    data, rng = flat.ravel_data(density.data), np.random.default_rng(2)
    for k, c in ((2, [0, 2]), (5, [1, 0])):
        point = {v.name: rng.normal(size=v.type.shape) for v in values}
        point |= {"k": np.array(k), "c": np.array(c)}
        found = np.empty((2, flat.n_continuous))
        both = call_density(flat.with_gradient, flat.ravel(point), data, WHOLE, *found)
        expected = reference(*(point[v.name] for v in inputs))
        np.testing.assert_allclose(both, expected[:2], rtol=1e-13)
        for mine, its in zip(found, expected[2:], strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-13, atol=1e-13 * np.abs(its).max())


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


@pytest.mark.parametrize(
    ("n", "mode", "is_fast"),
    [
        (7, WITH_FAST_LOOPS, False),
        (8, WITH_FAST_LOOPS, True),
        (None, WITH_FAST_LOOPS, True),
        (8, "NUMBA", False),  # PyTensor's own mode knows none of these operations
    ],
)
def test_only_long_loops_are_fast(n, mode, is_fast):
    x = pt.tensor("x", dtype="float64", shape=(n,))
    function, operations = compiled([x], pt.exp(x) + 1, mode)
    assert (FAST[Exp] in operations) == is_fast
    assert (Exp in map(type, operations)) != is_fast
    at = np.linspace(-1, 1, n or 20)
    np.testing.assert_allclose(function(at), np.exp(at) + 1, rtol=1e-15)


def test_other_numbers_are_left_to_pytensor():
    x = pt.fvector("x")
    assert FAST[Exp] not in compiled([x], pt.exp(x))[1]


def rewritten(inputs, graphs):
    """A function with the rewrites of loops, which runs in Python."""
    with pytensor.config.change_flags(cxx=""):
        return pytensor.function(inputs, graphs, mode=Mode("py", UNFUSED))


def shapes(function) -> set:
    """Shapes over which it loops."""
    loops = (Elemwise, CAReduce)
    nodes = function.maker.fgraph.apply_nodes
    return {node.inputs[0].type.shape for node in nodes if isinstance(node.op, loops)}


@pytest.mark.parametrize("axis", [0, 1, None])
def test_the_longest_axis_is_innermost(axis):
    x, mu = pt.vector("x", shape=(50,)), pt.vector("mu", shape=(2,))
    constant = np.arange(100.0).reshape(50, 2)
    graph = pt.exp(x[:, None] - mu + constant).sum(axis=axis)
    turned = rewritten([x, mu], graph)
    at = np.linspace(-1, 1, 50), np.array([0.3, -0.2])
    expected = np.exp(at[0][:, None] - at[1] + constant).sum(axis=axis)
    np.testing.assert_allclose(turned(*at), expected, rtol=1e-13)
    assert (50, 2) not in shapes(turned)


def test_a_matrix_may_be_read_in_both_orders():
    x = pt.tensor("x", dtype="float64", shape=(50, 2))
    graphs, at = [pt.exp(x).sum(axis=1), x.T.sum(axis=0)], RNG.normal(size=(50, 2))
    function = rewritten([x], graphs)
    for found, expected in zip(function(at), (np.exp(at), at), strict=True):
        np.testing.assert_allclose(found, expected.sum(axis=1), rtol=1e-13)


def test_no_loop_over_an_axis_of_length_one():
    x = pt.tensor("x", dtype="float64", shape=(50, 1))
    function = rewritten([x], pt.exp(x) + 1)
    assert (50,) in shapes(function)
    assert (50, 1) not in shapes(function)
    np.testing.assert_allclose(function(np.ones((50, 1))), np.full((50, 1), np.e + 1), rtol=1e-15)


def test_the_gradient_of_logsumexp_shares_the_exponentials():
    """If all components of a mixture rule out an observation, it is −∞, not NaN."""
    x = pt.tensor("x", dtype="float64", shape=(3, 50))
    total = pm.math.logsumexp(-x, axis=0).sum()  # numba compiles a maximum of inputs for seconds
    function, operations = compiled([x], [total, pt.grad(total, x)])
    assert [op for op in operations if isinstance(op, Exp)] == [FAST[Exp]]
    at = RNG.normal(size=(3, 50))
    expected = logsumexp(-at, axis=0).sum(), -softmax(-at, axis=0)
    for mine, its in zip(function(at), expected, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13)
    at[:, 0] = np.inf
    assert function(at)[0] == -np.inf


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the names of instructions differ")
def test_fused_loops_are_compiled_to_vectors():
    """A scalar among the inputs puts a function between the loop and the fused operations."""
    x, scale = pt.dvector("x"), pt.dscalar("scale")
    y = pt.sigmoid(x - 1) * pt.exp(scale)

    def has_packed_divisions(mode) -> bool:
        with pytensor.config.change_flags(numba__cache=False):  # numba shows no code from a cache
            function = pytensor.function([x, scale], y.sum(), mode=mode)
            function(np.ones(20), 0.0)
        [assembly] = jitted_function(function).inspect_asm().values()
        return bool(re.search(r"\bv?divpd\b", assembly))

    assert has_packed_divisions(WITH_FAST_LOOPS)
    assert not has_packed_divisions("NUMBA")


A = np.random.default_rng(1).normal(size=(4, 6))


@pytest.mark.parametrize(
    ("graph", "shape", "expected"),
    [
        (lambda v: pt.constant(A) @ v, (6,), lambda v: A @ v),
        (lambda v: v @ pt.constant(A), (4,), lambda v: v @ A),
        (lambda v: pt.constant(A)[:, ::2] @ v[::2], (6,), lambda v: A[:, ::2] @ v[::2]),
        (lambda v: v @ v.T, (3, 2), lambda v: v @ v.T),
        (
            lambda v: pt.grad(pt.sum(pt.exp(pt.constant(A) @ v)), v),
            (6,),
            lambda v: A.T @ np.exp(A @ v),
        ),
    ],
    ids=["matrix vector", "vector matrix", "strided", "matrices", "gradient"],
)
def test_all_products_are_ours(graph, shape, expected):
    """Which numba compiles quickly, to the same numbers."""
    v = pt.tensor("v", dtype="float64", shape=shape)
    function = pytensor.function([v], graph(v), mode=WITH_LIGHT_PRODUCTS)
    assert not any(isinstance(node.op, Dot) for node in function.maker.fgraph.apply_nodes)
    at = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    np.testing.assert_allclose(function(at), expected(at), rtol=1e-13)


def test_integers_are_left_to_pytensor():
    """BLAS does not know them."""
    v, matrix = pt.lvector("v", shape=(6,)), np.arange(24).reshape(4, 6)
    function = pytensor.function([v], pt.constant(matrix) @ v, mode=WITH_LIGHT_PRODUCTS)
    assert any(isinstance(node.op, Dot) for node in function.maker.fgraph.apply_nodes)
