"""Find what a graph computes from some of its inputs alone, to compute it once for many others."""

from collections.abc import Collection, Sequence
from math import prod

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.type import TensorType


def held_parts(outputs: Sequence[Variable], changing: Collection[Variable]) -> dict[Variable, int]:
    """Return variables that do not depend on changing inputs but enter what does, with their sizes.

    Views, such as a transposed matrix, are made again and not held; nor are inputs and constants.
    In place of a number that is no tensor, such as the condition of a check, its tensor is held.
    The result is empty if the shape of one is not known.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> from pymc_bdmc.density.held import held_parts
    >>> covariance, z = pt.matrix("covariance", shape=(2, 2)), pt.vector("z", shape=(2,))
    >>> root = pt.linalg.cholesky(covariance)
    >>> held_parts([root.T @ z], [z]) == {root: 4}
    True
    """
    nodes, depends = list(toposort(outputs)), set(changing)
    for node in nodes:
        if not depends.isdisjoint(node.inputs):
            depends.update(node.outputs)
    entering = [each for node in nodes if node.outputs[0] in depends for each in node.inputs]
    held = {}
    for each in [*entering, *outputs]:
        if each in depends:
            continue
        while each.owner and (each.owner.op.view_map or not isinstance(each.type, TensorType)):
            each = each.owner.inputs[0]
        if each.owner:
            held[each] = each.type.shape
    is_known = not any(None in shape for shape in held.values())
    return {each: prod(shape) for each, shape in held.items()} if is_known else {}
