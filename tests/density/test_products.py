"""Products of matrices and vectors that numba compiles quickly: the same numbers."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.math import Dot

from pymc_bdmc.density.fast import WITH_LIGHT_PRODUCTS

A = np.random.default_rng(1).normal(size=(4, 6))


def compiled(v, graph):
    """A function of v, and how many of PyTensor's products are in it."""
    function = pytensor.function([v], graph, mode=WITH_LIGHT_PRODUCTS)
    return function, sum(isinstance(node.op, Dot) for node in function.maker.fgraph.apply_nodes)


def gradient(v):
    return pt.grad(pt.sum(pt.exp(pt.constant(A) @ v)), v)


@pytest.mark.parametrize(
    ("graph", "shape", "expected"),
    [
        (lambda v: pt.constant(A) @ v, (6,), lambda v: A @ v),
        (lambda v: v @ pt.constant(A), (4,), lambda v: v @ A),
        (lambda v: pt.constant(A)[:, ::2] @ v[::2], (6,), lambda v: A[:, ::2] @ v[::2]),
        (lambda v: v @ pt.constant(A), (1, 4), lambda v: v @ A),
        (lambda v: v @ v.T, (3, 2), lambda v: v @ v.T),
        (gradient, (6,), lambda v: A.T @ np.exp(A @ v)),
    ],
    ids=["matrix vector", "vector matrix", "strided", "row", "matrices", "gradient"],
)
def test_all_products_are_ours(graph, shape, expected):
    v = pt.tensor("v", dtype="float64", shape=shape)
    function, others = compiled(v, graph(v))
    assert others == 0
    at = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    np.testing.assert_allclose(function(at), expected(at), rtol=1e-13)


def test_integers_are_left_to_pytensor():
    """BLAS does not know them."""
    v = pt.lvector("v", shape=(6,))
    function, others = compiled(v, pt.constant(np.arange(24).reshape(4, 6)) @ v)
    assert others == 1
    assert function(np.arange(6)).tolist() == [55, 145, 235, 325]
