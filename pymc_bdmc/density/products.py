"""Multiply matrices and vectors in a way that numba compiles in two thirds of the time."""

import numpy as np
from numba.extending import overload
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
from pytensor.tensor.math import Dot
from pytensor.tensor.type import TensorType


class Product(Op):
    """Product A B of a matrix with a matrix or vector, by numba's own call of BLAS.

    PyTensor calls BLAS by its own code, which numba has to compile again for every product.
    """

    __props__ = ()

    def make_node(self, a: Variable, b: Variable) -> Apply:
        """Make the node for tensors with the same type of numbers."""
        shape = a.type.shape[:1] + b.type.shape[1:]
        return Apply(self, [a, b], [TensorType(a.dtype, shape=shape)()])

    def perform(self, node, inputs, outputs):
        """Compute the product without numba."""
        outputs[0][0] = np.dot(*inputs)


@register_funcify_default_op_cache_key(Product)
def _compiled(op, node, **kwargs):
    @numba_njit
    def product(a, b):
        return np.dot(contiguous(a), contiguous(b))

    return product


def contiguous(a):
    """Return an array that BLAS can read, copied if necessary (for numba)."""


@overload(contiguous)
def _contiguous(a):
    if a.layout in "CF":
        return lambda a: a
    return lambda a: np.ascontiguousarray(a)


@node_rewriter([Dot])
def _lighten(fgraph, node):
    """Replace products of matrices; a matrix with one row or column becomes a vector."""
    a, b = node.inputs
    if not a.dtype == b.dtype == "float64":
        return None
    if b.type.broadcastable[1]:
        return [_product(a, b[:, 0])[:, None]]
    if a.type.broadcastable[0]:
        return [_product(b.T, a[0])[None]]
    return [_product(a, b)]


_product = Product()

WITH_LIGHT_PRODUCTS = get_mode("NUMBA").register((dfs_rewriter(_lighten), 1.6))
"""PyTensor's mode with this rewriting after products are gathered (at 1.5) and before
specialization (at 2)."""
