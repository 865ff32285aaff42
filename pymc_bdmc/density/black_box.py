"""Call operations that only Python can run, such as a solver, from compiled densities."""

from collections.abc import Sequence

import numpy as np
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import applys_between, graph_inputs

from pymc_bdmc.base.upstream import has_numba


class Guarded(Op):
    """An operation that returns NaN in place of an exception.

    Numba would go on with the exception still set, and the next call of Python would fail.

    Parameters
    ----------
    op : Op
        The operation; the shapes of its outputs are kept as far as they are fixed.
    """

    __props__ = ("op",)

    def __init__(self, op: Op):
        self.op = op

    def make_node(self, *inputs) -> Apply:
        """Return a node with the inputs and the types of outputs of the operation."""
        node = self.op.make_node(*inputs)
        return Apply(self, node.inputs, [output.type() for output in node.outputs])

    def perform(self, node, inputs, output_storage) -> None:
        """Perform the operation, or fill its outputs with NaN."""
        try:
            self.op.perform(node, inputs, output_storage)
        except Exception:
            for output, storage in zip(node.outputs, output_storage, strict=True):
                shape = [1 if n is None else n for n in output.type.shape]
                storage[0] = np.full(shape, np.nan, dtype=output.type.dtype)


def guarded(outputs: Sequence[Variable]) -> list[Variable]:
    """Return a graph in which no operation that numba runs in Python raises an exception."""
    nodes = applys_between(list(graph_inputs(outputs)), outputs)
    replaced = {
        old: new
        for node in nodes
        if _is_black_box(node)
        for old, new in zip(
            node.outputs, Guarded(node.op).make_node(*node.inputs).outputs, strict=True
        )
    }
    return graph_replace(outputs, replaced) if replaced else list(outputs)


def _is_black_box(node: Apply) -> bool:
    """Return whether only Python can run an operation of the user's, with floats as outputs."""
    op = node.op
    own = not type(op).__module__.startswith(("pytensor.", "pymc."))
    wrapped = isinstance(op, FromFunctionOp) or (own and not has_numba(op))
    return wrapped and all(output.type.dtype in ("float32", "float64") for output in node.outputs)
