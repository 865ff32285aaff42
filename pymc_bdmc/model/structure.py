"""What a graph computes, by content, and which variables of a model are hard to sample."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pymc as pm
from pymc.distributions.timeseries import AutoRegressiveRV, RandomWalkRV
from pymc.vartypes import discrete_types
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors, io_toposort

__all__ = ["content", "hard_variables", "structure"]

SCALE_LAST = {
    "cauchy", "exponential", "gumbel", "halfcauchy", "halfnormal", "laplace", "logistic",
    "lognormal", "multivariate_normal", "normal", "t", "zerosumnormal",
}  # fmt: skip
"""Families whose members are a shift and scale of one, whose last or only parameter scales it."""


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


def hard_variables(model: pm.Model) -> dict[str, str]:
    """Names of the free variables that moves find hard, by reason; as attributes of a result.

    Returns
    -------
    dict of str to str
        ``discrete_variables``, and ``centred_effects``: those whose scale is a free variable, as
        that of group effects, random walks and autoregressive processes may be.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.model.structure import hard_variables
    >>> with pm.Model() as model:
    ...     effect = pm.Normal("effect", 0, pm.HalfNormal("scale"), shape=3)
    ...     y = pm.Normal("y", effect + pm.Bernoulli("shifted", 0.5), observed=[0.1, 0.5, 0.3])
    >>> hard_variables(model)
    {'discrete_variables': 'shifted', 'centred_effects': 'effect'}
    """
    free = set(model.free_RVs)
    centred = [
        rv.name
        for rv in model.free_RVs
        if (scale := _scale(rv)) is not None and free.intersection(ancestors([scale]))
    ]
    discrete = [rv.name for rv in model.free_RVs if rv.dtype in discrete_types]
    return {"discrete_variables": ", ".join(discrete), "centred_effects": ", ".join(centred)}


def _scale(rv: Variable) -> Variable | None:
    """The parameter that scales a variable, or the steps of a process; None without one."""
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return _scale(inputs[1]) if inputs[1].owner else None
    if isinstance(op, AutoRegressiveRV):
        return inputs[1]
    name = str(getattr(op, "name", None)).lower()
    if name not in SCALE_LAST:
        return None
    # The last parameter of a variable whose sum is zero is its shape.
    return op.dist_params(rv.owner)[0 if name == "zerosumnormal" else -1]
