"""Compare models, graphs and arguments by their content."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from types import CodeType
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from numba.core.dispatcher import Dispatcher
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.logprob.transforms import Transform
from pytensor.compile.ops import FromFunctionOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import io_toposort
from pytensor.graph.type import Type
from pytensor.tensor.type import TensorType

from pymc_bdmc.base.upstream import alone


def structure(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> tuple:
    """Return operations, their order, and constants by content, to compare or hash.

    Variables that are neither computed nor inputs, such as shared ones, are compared by identity.
    """
    places: dict[Variable, int] = {variable: place for place, variable in enumerate(inputs)}

    def identity(variable):
        if isinstance(variable, Constant):
            return _content(variable)
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


def _content(constant: Constant) -> tuple:
    """Return a comparable value of a constant, unaffected by later changes of its array."""
    if not isinstance(constant.data, np.ndarray):
        return (constant.signature(),)
    digest = sha256(np.ascontiguousarray(constant.data)).digest()
    return constant.type, constant.data.shape, digest


def digest(thing: Any) -> str:
    """Return a hash of any object by its content; a user's code is hashed by its pickle."""
    return sha256(_bytes(thing)).hexdigest()


@alone
def fingerprint(model: pm.Model) -> dict[str, str]:
    """Return a hash of each variable of a model: its distribution, its transform, its data."""
    found = {}
    for rv in model.basic_RVs + model.potentials:
        computed = [rv]
        if rv in model.observed_RVs:
            computed.append(model.rvs_to_values[rv])
        if (transform := model.rvs_to_transforms.get(rv)) is not None:
            computed.append(transform.forward(rv, *rv.owner.inputs))
        found[rv.name] = digest(structure([], computed))
    return found


def _bytes(thing: Any) -> bytes:
    """Return bytes that are equal for equal content; each part is hashed to separate the parts."""
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}".encode()
    kind = _bytes(type(thing))
    if thing is None or isinstance(thing, bool | int | float | str | bytes):
        return kind + repr(thing).encode()
    if isinstance(thing, np.ndarray | np.generic) and thing.dtype != object:
        array = np.ascontiguousarray(thing)
        return f"{array.dtype.str}{array.shape}".encode() + array.tobytes()
    parts = _parts(thing)
    if isinstance(parts, Mapping):
        parts = sorted(digest(key) + digest(value) for key, value in parts.items())
    elif isinstance(parts, Set):
        parts = sorted(map(digest, parts))
    elif isinstance(parts, Sequence | np.ndarray):
        parts = list(map(digest, parts))
    else:
        return kind + cloudpickle.dumps(parts)
    return kind + "".join(parts).encode()


def _parts(thing: Any) -> Any:
    match thing:
        case np.random.SeedSequence():
            return thing.entropy, thing.spawn_key
        case xr.DataTree():
            return [(node.path, node.to_dataset()) for node in thing.subtree]
        case xr.Dataset():
            return {name: (each.dims, each.values) for name, each in thing.variables.items()}
        case Dispatcher():
            return _code(thing.py_func.__code__, thing.py_func.__globals__)
        case partial():
            return thing.func, thing.args, thing.keywords
        case Op() if hasattr(thing, "__props__"):
            return [getattr(thing, name) for name in thing.__props__]
        case Op() | Type():
            return [str(thing)]
        case SharedVariable() if isinstance(thing.type, TensorType):
            return thing.get_value(borrow=True), thing.type
        case Variable():  # a random stream, or the state of another variable
            return [thing.type]
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing) if field.compare}
    if type(thing).__module__ == "__main__":  # cloudpickle gives its class a new name each time
        return [_written(type(thing)), getattr(thing, "__dict__", {})]
    return thing


def _written(kind: type) -> dict[str, Any]:
    """Return the code and the values in a class of a script, and in those that it inherits from."""
    classes = [each for each in reversed(kind.__mro__) if each.__module__ == "__main__"]
    found = {name: value for each in classes for name, value in vars(each).items()}
    methods = {name: _code(v.__code__, {}) for name, v in found.items() if hasattr(v, "__code__")}
    values = {name: value for name, value in found.items() if not name.startswith("__")}
    return values | methods


def _code(code: CodeType, known: Mapping[str, Any]) -> list:
    """Return what a function does with the values that it knows, without the place where it stands.

    Its pickle would not do: numba's functions are pickled differently in every process.
    """
    consts = [_code(each, known) if isinstance(each, CodeType) else each for each in code.co_consts]
    used = [known[name] for name in code.co_names if name in known]
    values = [each for each in used if isinstance(each, int | float | str | Dispatcher)]
    return [code.co_code, code.co_names, consts, values]


def comparable_fingerprint(model: pm.Model) -> dict[str, str]:
    """Return the `fingerprint`, or nothing for a model with user code, hashed by its pickle."""
    transforms = {rv: model.rvs_to_transforms[rv] for rv in model.free_RVs}
    computed = [*model.basic_RVs, *model.potentials, *model.deterministics]
    computed += [t.forward(rv, *rv.owner.inputs) for rv, t in transforms.items() if t]
    parts = [*operations(computed), *_nested(list(transforms.values()))]
    return fingerprint(model) if all(map(_is_known, parts)) else {}


def _is_known(thing: Op | Transform) -> bool:
    """Return whether an operation or transform is determined by its attributes (no user code)."""
    library = type(thing).__module__.split(".")[0]
    users = (FromFunctionOp, CustomDistRV, CustomSymbolicDistRV)
    return library in ("pymc", "pytensor") and not isinstance(thing, users)


def _nested(transforms: Sequence[Transform | None]) -> Iterator[Transform]:
    for transform in filter(None, transforms):
        yield transform
        yield from _nested(getattr(transform, "transform_list", ()))


def operations(outputs: Sequence[Variable]) -> Iterator[Op]:
    """Yield all operations of a graph, including inner ones."""
    for node in io_toposort([], outputs):
        yield node.op
        parts = (getattr(node.op, name, None) for name in ("core_op", "scalar_op"))
        yield from filter(None, parts)
        if isinstance(node.op, HasInnerGraph):
            yield from operations(node.op.fgraph.outputs)
