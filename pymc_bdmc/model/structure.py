"""What a graph computes, by content: equal for all graphs of the same computation."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import io_toposort

__all__ = ["content", "structure"]


def structure(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> tuple:
    """Operations, their order, and constants by `content`; to be compared or hashed.

    Variables that are neither computed nor among the inputs, as shared ones, stand for themselves.

    Examples
    --------
    >>> import numpy as np
    >>> import pytensor.tensor as pt
    >>> from pymc_bdmc.model.structure import structure
    >>> def sum_with(array):
    ...     x = pt.vector("x")
    ...     return structure([x], [x + pt.constant(np.array(array))])
    >>> sum_with([1.0, 2.0]) == sum_with([1.0, 2.0]), sum_with([1.0, 2.0]) == sum_with([1.0, 3.0])
    (True, False)
    """
    places: dict[Variable, int] = {variable: place for place, variable in enumerate(inputs)}

    def identity(variable):
        if isinstance(variable, Constant):
            return content(variable)
        return places.get(variable, variable)

    nodes = []
    for node in io_toposort(inputs, outputs):
        inner = node.op.fgraph if isinstance(node.op, HasInnerGraph) else None
        within = structure(inner.inputs, inner.outputs) if inner else ()
        nodes.append((node.op, within, *map(identity, node.inputs)))
        for variable in node.outputs:
            places[variable] = len(places)
    types = [variable.type for variable in inputs]
    return (*types, *nodes, *map(identity, outputs))


def content(constant: Constant) -> tuple:
    """What tells constants apart; an array that its owner changes later is another one then."""
    if not isinstance(constant.data, np.ndarray):
        return (constant.signature(),)
    digest = sha256(np.ascontiguousarray(constant.data)).digest()
    return constant.type, constant.data.shape, digest
