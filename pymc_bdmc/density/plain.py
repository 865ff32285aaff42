"""Convert models of `pymc.dims` to plain tensors, with the same names, dims and coords."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.dims.distributions import transforms as labelled
from pymc.distributions import transforms
from pymc.logprob.transforms import ChainedTransform, Transform
from pymc.model.fgraph import ModelFreeRV, ModelVar, fgraph_from_model, model_from_fgraph
from pymc.model.transform.optimization import freeze_dims_and_data
from pytensor.compile import optdb
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.xtensor.basic import XTensorFromTensor, xtensor_from_tensor
from pytensor.xtensor.shape import Transpose
from pytensor.xtensor.type import XTensorConstant, XTensorType
from pytensor.xtensor.vectorization import XRV

from pymc_bdmc.base.upstream import alone, copy_coordinates
from pymc_bdmc.density.graph import keep_order, without_initial_values


@alone
def plain_model(model: pm.Model) -> pm.Model:
    """Return a copy of a model of labelled tensors (`pymc.dims`) with plain ones.

    The order of dimensions stays. Data and lengths of dimensions are constants in the copy.
    """
    with without_initial_values(model):
        graph, _ = fgraph_from_model(freeze_dims_and_data(model))
    for node in graph.toposort():
        if isinstance(node.op, ModelVar) and isinstance(node.outputs[0].type, XTensorType):
            (old,) = node.outputs
            new = xtensor_from_tensor(_plain(node), dims=old.type.dims)
            graph.replace(old, new, import_missing=True)
    for constant in [each for each in graph.variables if isinstance(each, XTensorConstant)]:
        new = xtensor_from_tensor(pt.constant(constant.data), dims=constant.type.dims)
        graph.replace(constant, new, import_missing=True)
    optdb.query("+lower_xtensor").rewrite(graph)
    outputs = [
        each.owner.inputs[0] if isinstance(each.owner.op, XTensorFromTensor) else each
        for each in graph.outputs
    ]
    plain = FunctionGraph(outputs=outputs, clone=False)
    copy_coordinates(graph, plain)
    copy = model_from_fgraph(plain, mutate_fgraph=True)
    copy.check_bounds = model.check_bounds
    keep_order(copy, model)
    return copy


def _plain(node: Apply) -> Variable:
    """Return a variable of a model, given as PyMC's node for it, as a plain tensor."""
    op, (variable, *values) = node.op, node.inputs
    if not values:  # a Deterministic, a Potential or data
        return op(variable.values)
    dims, (value,) = variable.type.dims, values
    if isinstance(variable.owner.op, Transpose) and isinstance(
        variable.owner.inputs[0].owner.op, XRV
    ):
        variable = _in_order(op.name, variable.owner.inputs[0], dims)
    if isinstance(op, ModelFreeRV):
        plain_value = value.values.type(name=value.name)
    else:
        plain_value = value.values
    transform = _plain_transform(op.name, op.transform, dims)
    return type(op)(op.name, op.dims, transform)(variable.values, plain_value)


def _in_order(name: str, rv: Variable, dims: Sequence[str]) -> Variable:
    """Return a random variable whose dimensions are in order by themselves, without a transpose.

    Their order is that of the first parameter, so this gets all dimensions.
    """
    op, (rng, *rest) = rv.owner.op, rv.owner.inputs
    of_vectors = op.core_dims[1]
    n = len(dims) - len(of_vectors)
    if tuple(dims[n:]) != of_vectors:
        raise ValueError(
            f"{name}: the dimensions of its vectors must be the last ones. Write dims=(..., "
            f"{', '.join(map(repr, of_vectors))}); PyMC aligns dimensions by name."
        )
    lengths = dict(zip(op.extra_dims, rest, strict=False))
    first, *others = rest[len(lengths) :]
    for parameter in others:
        lengths |= parameter.sizes
    new = {dim: lengths[dim] for dim in dims[:n] if dim not in first.type.dims}
    first = first.expand_dims(new).transpose(*dims[:n], ...)
    return XRV(op.core_op, op.core_dims, extra_dims=(), name=op.name)(rng, first, *others)


def _plain_transform(name: str, transform: Transform | None, dims: Sequence[str]):
    """Return the transform of plain tensors that does the same as one of `pymc.dims`."""
    match transform:
        case None:
            return None
        case ChainedTransform():
            return ChainedTransform(
                [_plain_transform(name, part, dims) for part in transform.transform_list]
            )
        case labelled.LogTransform():
            return transforms.log
        case labelled.LogOddsTransform():
            return transforms.logodds
        case labelled.CircularTransform():
            return transforms.circular
        case labelled.IntervalTransform():
            bounds = tuple(_bound(each, dims) for each in (transform.lower, transform.upper))
            return transforms.Interval(bounds_fn=lambda *inputs: bounds)
        case labelled.SimplexTransform() if transform.core_dim == dims[-1]:
            return transforms.simplex
        case labelled.ZeroSumTransform():
            return transforms.ZeroSumTransform([dims.index(d) - len(dims) for d in transform.dims])
    raise ValueError(
        f"{name}: its transform, {type(transform).__name__}, has no counterpart for plain tensors. "
        "Use one of pymc.dims.distributions.transforms."
    )


def _bound(bound: XTensorConstant, dims: Sequence[str]) -> np.ndarray | None:
    """Return a bound as an array that is aligned with the dimensions, or None if it is infinite."""
    own = bound.type.dims
    array = bound.data.transpose([own.index(dim) for dim in dims if dim in own])
    array = np.expand_dims(array, tuple(i for i, dim in enumerate(dims) if dim not in own))
    return None if np.isinf(array).all() else array
