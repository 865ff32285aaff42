"""Compare graphs by content, and find the variables of a model that are hard to sample."""

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
"""Location-scale families whose last or only parameter is the scale."""


def structure(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> tuple:
    """Return operations, their order, and constants by `content`, to compare or hash.

    Variables that are neither computed nor among the inputs, such as shared ones, are compared by
    identity.

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
    """Return a comparable value of a constant, unaffected by later changes of its array."""
    if not isinstance(constant.data, np.ndarray):
        return (constant.signature(),)
    digest = sha256(np.ascontiguousarray(constant.data)).digest()
    return constant.type, constant.data.shape, digest


def hard_variables(model: pm.Model) -> dict[str, str]:
    """Return the names of free variables that are hard to sample, by reason, as attributes.

    Returns
    -------
    dict of str to str
        ``discrete_variables``, and ``centred_effects``: variables whose scale is a free variable,
        such as group effects, random walks and autoregressive processes.

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
    """Return the parameter that scales a variable, or the steps of a process, or None."""
    op, inputs = rv.owner.op, rv.owner.inputs
    if isinstance(op, RandomWalkRV):
        return _scale(inputs[1]) if inputs[1].owner else None
    if isinstance(op, AutoRegressiveRV):
        return inputs[1]
    name = str(getattr(op, "name", None)).lower()
    if name not in SCALE_LAST:
        return None
    # The last parameter of a zero-sum variable is its shape.
    return op.dist_params(rv.owner)[0 if name == "zerosumnormal" else -1]
