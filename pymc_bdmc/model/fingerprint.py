"""Hashes by content, the same in every process: what tells models and arguments apart."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from numba.core.dispatcher import Dispatcher
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.type import Type
from pytensor.tensor.type import TensorType

from pymc_bdmc.base.upstream import alone
from pymc_bdmc.model.structure import structure

__all__ = ["digest", "fingerprint"]


def digest(thing: Any) -> str:
    """Hash of anything by its content; of a user's code by how it would be sent to a process.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.model.fingerprint import digest
    >>> digest([np.ones(3), {"a": 1}]) == digest([np.ones(3), {"a": 1}])
    True
    >>> digest(np.ones(3)) == digest(np.ones(3, int))
    False
    """
    return sha256(_bytes(thing)).hexdigest()


@alone
def fingerprint(model: pm.Model) -> dict[str, str]:
    """Hash of what makes each variable of a model: its distribution, its transform, its data.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.model.fingerprint import fingerprint
    >>> def normal(observed):
    ...     with pm.Model() as model:
    ...         y = pm.Normal("y", pm.Normal("x"), observed=observed)
    ...     return fingerprint(model)
    >>> first, second = normal(0.5), normal(0.6)
    >>> [name for name in first if first[name] != second[name]]
    ['y']
    """
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
    """Equal for equal content; the parts of a whole are hashed, so that none runs into the next."""
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
    """What the thing is made of, if that can be seen."""
    match thing:
        case np.random.SeedSequence():
            return thing.entropy, thing.spawn_key
        case xr.DataTree():
            return [(node.path, node.to_dataset()) for node in thing.subtree]
        case xr.Dataset():
            return {name: (each.dims, each.values) for name, each in thing.variables.items()}
        case Dispatcher():
            return _source(thing)
        case partial():
            return thing.func, thing.args, thing.keywords
        case Op() if hasattr(thing, "__props__"):
            return [getattr(thing, name) for name in thing.__props__]
        case Op() | Type():
            return [str(thing)]
        case SharedVariable() if isinstance(thing.type, TensorType):
            return thing.get_value(borrow=True), thing.type
        case Variable():  # of a random stream, or of another variable's state
            return [thing.type]
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing) if field.compare}
    return thing


def _source(function: Dispatcher) -> list:
    """Return what makes a function of numba, which sends itself under another name each time."""
    code, known = function.py_func.__code__, function.py_func.__globals__
    used = [known[name] for name in code.co_names if name in known]
    plain = int | float | str | Dispatcher
    return [
        function.py_func.__module__,
        function.py_func.__qualname__,
        code.co_code,
        [each for each in (*code.co_consts, *used) if isinstance(each, plain)],
    ]
