"""Files of results: a checksum, JSON and the bytes of arrays, which are read without pickle."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from pymc_bdmc.base.types import Population, Run
from pymc_bdmc.engines.compiled.draws import DrawTuning
from pymc_bdmc.engines.compiled.loops import Table
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.tasks import Fit
from pymc_bdmc.kernels.annealed import AnnealedReference
from pymc_bdmc.kernels.combined import Combination
from pymc_bdmc.kernels.defensive import Defensive
from pymc_bdmc.kernels.metric import Metric
from pymc_bdmc.kernels.nested import NestedReference
from pymc_bdmc.kernels.reference import Reference
from pymc_bdmc.kernels.sparse import Sparsity
from pymc_bdmc.kernels.tuning import StepTuning
from pymc_bdmc.model.simulations import Simulated

_TYPES: dict[str, Any] = {
    each.__name__: each for each in (
        AnnealedReference, Combination, Defensive, DrawTuning, Fit, Metric, NestedReference,
        PathTuning, Population, Reference, Run, Simulated, Sparsity, StepTuning, Table,
    )
}  # fmt: skip
"""The only types that reading a file can create, besides plain values and arrays."""


class DamagedRecord(ValueError):
    """A file differs from what was written; the message names it."""


def write_record(path: Path, thing: Any, **attributes: Any) -> None:
    """Write a thing made of plain values, arrays and the types above; all of it or nothing.

    One record of a directory is written at a time.
    """
    arrays: list[np.ndarray] = []
    head = json.dumps(attributes | {"outline": _outline(thing, arrays)}).encode()
    content = b"".join([head, b"\n", *(array.tobytes() for array in arrays)])
    replace_file(path, _checksum(content) + b"\n" + content)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole; only one file of a directory may be written at a time."""
    unfinished = path.with_name("unfinished")  # what a killed process leaves, the next one replaces
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return what a file holds, and its attributes.

    Raises
    ------
    DamagedRecord
        If any bit of the file is another, or the file cannot be read.
    """
    try:
        checksum, _, content = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise DamagedRecord(f"{path} cannot be read ({error.strerror or error})") from error
    if checksum != _checksum(content):
        raise DamagedRecord(f"{path} is damaged (its checksum is wrong)")
    head, _, arrays = content.partition(b"\n")
    attributes = json.loads(head)
    return _filled(attributes.pop("outline"), BytesIO(arrays)), attributes


def _checksum(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()


def _outline(thing: Any, arrays: list[np.ndarray]) -> Any:
    """Return a thing as JSON with types and shapes of its arrays; append these to ``arrays``."""
    if isinstance(thing, np.ndarray | np.generic):
        array = np.asarray(thing)
        if array.dtype.hasobject:
            raise TypeError("an array of Python objects has no bytes to keep")
        arrays.append(array)
        return {"array": [array.dtype.str, array.shape, isinstance(thing, np.generic)]}
    if isinstance(thing, Mapping):
        return {"dict": {key: _outline(each, arrays) for key, each in thing.items()}}
    name = type(thing).__name__
    if name in _TYPES:
        values = [getattr(thing, field) for field in _fields(_TYPES[name])]
        return {name: [_outline(each, arrays) for each in values]}
    if isinstance(thing, list | tuple):
        return {name: [_outline(each, arrays) for each in thing]}
    return thing


def _filled(outline: Any, stream: BytesIO) -> Any:
    """Return the thing that an outline describes; its arrays are read from the stream."""
    if not isinstance(outline, dict):
        return outline
    ((name, parts),) = outline.items()
    if name == "array":
        dtype, shape, is_scalar = parts
        n_bytes = np.dtype(dtype).itemsize * math.prod(shape)
        array = np.frombuffer(bytearray(stream.read(n_bytes)), dtype).reshape(shape)
        return array[()] if is_scalar else array
    if name == "dict":
        return {key: _filled(each, stream) for key, each in parts.items()}
    found = [_filled(each, stream) for each in parts]
    if name in _TYPES:
        return _TYPES[name](*found)
    return {"list": list, "tuple": tuple}[name](found)


def _fields(kind: Any) -> list[str]:
    return getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
