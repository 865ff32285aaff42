"""Rewrite a graph so that LLVM computes several elements of its loops at once.

Four things keep LLVM from it, and each has a rewrite here: calls of the C library, loops whose
innermost axis is short, arrays of unknown strides, and functions too large to be inlined. Without
one of them, a mixture or logistic regression takes 1.7 to 5.5 times as long (measured).
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import types
from numba.extending import intrinsic, overload
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import dfs_rewriter, in2out, node_rewriter
from pytensor.link.numba.cache import compile_numba_function_src
from pytensor.link.numba.dispatch.basic import (
    numba_funcify_and_cache_key,
    numba_njit,
    register_funcify_and_cache_key,
    register_funcify_default_op_cache_key,
)
from pytensor.scalar.basic import Composite, Exp, Log, Log1p, ScalarOp, upgrade_to_float
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor import special
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.type import TensorType

from pymc_bdmc.base import elementary
from pymc_bdmc.base.compiling import stamp


class Product(Op):
    """Product A B of a matrix with a matrix or vector, by numba's own call of BLAS.

    Numba has to compile PyTensor's call again for every product: the density of a linear regression
    then takes 7.5 s to compile in place of 5.5 s.
    """

    __props__ = ()

    def make_node(self, a: Variable, b: Variable) -> Apply:
        """Make the node for tensors with the same type of numbers."""
        shape = a.type.shape[:1] + b.type.shape[1:]
        return Apply(self, [a, b], [TensorType(a.dtype, shape=shape)()])

    def perform(self, node, inputs, outputs):
        """Compute the product without numba."""
        outputs[0][0] = np.dot(*inputs)


def contiguous(a):
    """Return an array whose elements lie side by side, copied if necessary (for numba)."""


@overload(contiguous)
def _contiguous_by_numba(a):
    if a.layout in "CF":
        return lambda a: a
    return lambda a: np.ascontiguousarray(a)


@register_funcify_default_op_cache_key(Product)
def _compiled_product(op, node, **kwargs):
    @numba_njit
    def product(a, b):
        return np.dot(contiguous(a), contiguous(b))

    return product


_product = Product()


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


LONG = 8
"""Number of elements from which on a loop is worth it; the vectors of today have two to eight."""


def _registered(kind: type[ScalarOp], function: Callable) -> ScalarOp:
    """Return an operation that differs from PyTensor's in what numba compiles for it."""
    fast = type(f"Fast{kind.__name__}", (kind,), {})
    key = sha256(f"{fast.__name__} {stamp(Path(__file__))}".encode()).hexdigest()

    @register_funcify_and_cache_key(fast)
    def _compiled(op, node, **kwargs):
        return function, key

    return fast(upgrade_to_float)


FAST = {
    Exp: _registered(Exp, elementary.exp),
    Log: _registered(Log, elementary.log),
    Log1p: _registered(Log1p, elementary.log1p),
    Sigmoid: _registered(Sigmoid, elementary.sigmoid),
    Softplus: _registered(Softplus, elementary.softplus),
}
"""Operations without branches, by those of PyTensor that they replace."""


@intrinsic
def _inline_this(typing_context):
    """Have LLVM inline the function that calls this, whatever its size."""

    def generate(context, builder, signature, arguments):
        builder.function.attributes.add("alwaysinline")
        return context.get_dummy_value()

    return types.none(), generate


class FastComposite(Composite):
    """Fused operations of which one is fast, so that they are worth inlining."""


@register_funcify_and_cache_key(FastComposite)
def _inlined(op, node, **kwargs):
    """Compile fused operations as PyTensor does, but inline them."""
    function, key = numba_funcify_and_cache_key.dispatch(Composite)(op, node, **kwargs)
    names = ", ".join(f"x{i}" for i in range(len(op.fgraph.inputs)))
    wrapper = compile_numba_function_src(
        f"def composite({names}):\n    _inline_this()\n    return function({names})\n",
        "composite",
        {
            "_inline_this": _inline_this,
            "function": numba_njit(function.py_func, forceinline=True),
        },
    )
    return numba_njit(wrapper, inline="always"), key


@node_rewriter([Elemwise])
def _inline_fused(fgraph, node):
    """Mark fused operations that are to be inlined."""
    fused = node.op.scalar_op
    if type(fused) is not Composite:
        return None
    if not any(each.op in FAST.values() for each in fused.fgraph.apply_nodes):
        return None
    inlined = FastComposite(fused.inputs, fused.outputs)
    return Elemwise(inlined, node.op.inplace_pattern).make_node(*node.inputs).outputs


def _lengths(variable: Variable) -> list[int]:
    """Return the lengths of the axes; unknown ones are taken to be long."""
    return [LONG if n is None else n for n in variable.type.shape]


def _is_long(variable: Variable) -> bool:
    return prod(_lengths(variable)) >= LONG


@node_rewriter([Elemwise])
def _use_fast(fgraph, node):
    """Replace exponentials and logarithms of many elements."""
    fast = FAST.get(type(node.op.scalar_op))
    if fast is None or not _is_long(node.out):
        return None
    [x] = node.inputs
    return [Elemwise(fast)(x)] if x.dtype == node.out.dtype == "float64" else None


_LogSumExp: Any = getattr(special, "LogSumExp", ())  # PyTensor 3.2 has none


@node_rewriter([OpFromGraph])
def _share_exponentials(fgraph, node):
    """Rewrite logsumexp and its gradient, the softmax, to share maxima and exponentials."""
    if len(node.inputs) != 3:
        return None
    x, out, gradient = node.inputs
    op = getattr(out.owner, "op", None)
    if not isinstance(op, _LogSumExp) or out.owner.inputs != [x]:
        return None
    if op.pullback([x], [out], [gradient])[0].owner.op != node.op:
        return None
    top = x.max(axis=op.axis, keepdims=True, initial=-np.inf)
    top = pt.switch(pt.isinf(top), 0.0, top)
    e = pt.exp(x - top)
    total = e.sum(axis=op.axis, keepdims=True)
    softmax = pt.expand_dims(gradient, op.axis) / total * e
    return {out: (pt.log(total) + top).squeeze(op.axis), node.outputs[0]: softmax}


def _shuffled(x: Variable, order: Sequence) -> Variable:
    """Return x with its axes in an order, where "x" is a new axis; shuffles are merged."""
    if x.owner and isinstance(x.owner.op, DimShuffle):
        inner = x.owner.op.new_order
        return _shuffled(x.owner.inputs[0], ["x" if d == "x" else inner[d] for d in order])
    if list(order) == list(range(x.type.ndim)):
        return x
    if isinstance(x, Constant):
        kept = [d for d in order if d != "x"]
        dropped = [d for d in range(x.type.ndim) if d not in kept]
        shape = [1 if d == "x" else x.data.shape[d] for d in order]
        return pt.constant(np.ascontiguousarray(x.data.transpose(kept + dropped).reshape(shape)))
    return x.dimshuffle(order)


def _order_of(node: Apply) -> list[int]:
    """Return the axes over which to loop, the innermost last."""
    lengths = _lengths(node.out)
    axes = [d for d, n in enumerate(lengths) if n != 1]
    longest = max(axes, key=lengths.__getitem__)
    if lengths[axes[-1]] >= LONG or lengths[longest] < LONG:
        return axes

    def is_turned(x: Variable) -> bool:
        """Whether it is read as well in another order."""
        computed = x.owner and isinstance(x.owner.op, DimShuffle)
        return isinstance(x, Constant) or computed or any(x.type.broadcastable[d] for d in axes)

    if not all(map(is_turned, node.inputs)):
        return axes
    return [*(d for d in axes if d != longest), longest]


@node_rewriter([Elemwise])
def _turn_loop(fgraph, node):
    """Loop over the longest axis innermost, and over no axis of length one."""
    if len(node.outputs) != 1 or not _is_long(node.out):
        return None
    order = _order_of(node)
    if order == list(range(node.out.type.ndim)):
        return None
    turned = node.op(*(_shuffled(x, order) for x in node.inputs))
    back = [order.index(d) if d in order else "x" for d in range(node.out.type.ndim)]
    return [_shuffled(turned, back)]


@node_rewriter([CAReduce])
def _turn_reduction(fgraph, node):
    """Reduce what a loop has computed in the order of that loop."""
    shuffle = node.inputs[0].owner
    if not (shuffle and isinstance(shuffle.op, DimShuffle)) or shuffle.op.drop:
        return None
    [x], order = shuffle.inputs, shuffle.op.new_order
    if not (x.owner and isinstance(x.owner.op, Elemwise)):
        return None
    reduced = range(len(order)) if node.op.axis is None else node.op.axis
    axes = sorted(order[d] for d in reduced if order[d] != "x")
    if not axes:
        return None
    left = [d for d in range(x.type.ndim) if d not in axes]
    kept = [order[d] for d in range(len(order)) if d not in reduced]
    result = node.op.clone(axis=tuple(axes))(x)
    return [_shuffled(result, ["x" if d == "x" else left.index(d) for d in kept])]


@node_rewriter([DimShuffle])
def _merge_shuffles(fgraph, node):
    """Rewrite a shuffle of a shuffle to one or none."""
    [x] = node.inputs
    if not (x.owner and isinstance(x.owner.op, DimShuffle)):
        return None
    return [_shuffled(x, node.op.new_order)]


class Contiguous(Op):
    """View of an array whose elements, as numba then knows, lie side by side; else a copy."""

    __props__ = ()
    view_map = {0: [0]}  # noqa: RUF012  as in PyTensor

    def make_node(self, x: Variable) -> Apply:
        """Make the node for a tensor."""
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        """Compute it without numba."""
        outputs[0][0] = np.ascontiguousarray(inputs[0])


@register_funcify_default_op_cache_key(Contiguous)
def _compiled_contiguous(op, node, **kwargs):
    @numba_njit
    def side_by_side(a):
        return contiguous(a)

    return side_by_side


_contiguous = Contiguous()


@node_rewriter([CAReduce])
def _keep_contiguous(fgraph, node):
    """Say that sums over some axes are contiguous, which PyTensor forgets."""
    if node.out.type.ndim == 0 or not _is_long(node.out):
        return None
    users = [user.op for user, _ in fgraph.clients[node.out]]
    return None if _contiguous in users else [_contiguous(node.op(*node.inputs))]


WITH_LIGHT_PRODUCTS = get_mode("NUMBA").register((dfs_rewriter(_lighten), 1.6))
"""PyTensor's mode with this rewriting after products are gathered (at 1.5) and before
specialization (at 2)."""
WITH_FAST_LOOPS = WITH_LIGHT_PRODUCTS.register(
    (in2out(_share_exponentials), 1.61),
    (in2out(_turn_loop, _turn_reduction, _merge_shuffles), 47.1),
    (in2out(_keep_contiguous), 47.2),
    (in2out(_use_fast), 47.3),
    (in2out(_inline_fused), 49.2),
)
"""PyTensor's mode with these rewrites: the first while it still sees logsumexp (until 2), others
after it has simplified the graph (from 0 to 10) and before it fuses operations (at 49), the last
after that and before it chooses what to overwrite (at 50.5)."""
