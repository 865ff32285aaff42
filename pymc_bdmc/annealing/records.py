"""Results on disk: each is one file, a line of JSON and bytes, read without pickle."""

import json
import math
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from pymc_bdmc.annealing.compiled.loops import Table
from pymc_bdmc.annealing.compiled.pilot import PathTuning
from pymc_bdmc.kernels.metric import Metric
from pymc_bdmc.kernels.reference import Reference
from pymc_bdmc.kernels.tuning import StepTuning
from pymc_bdmc.model.simulation import Simulated
from pymc_bdmc.types import Population, Run

__all__ = ["read_record", "write_record"]

_TYPES: dict[str, Any] = {
    each.__name__: each
    for each in (Metric, PathTuning, Population, Reference, Run, Simulated, StepTuning, Table)
}
"""All that is ever made of what a file says, besides plain values and arrays."""


def write_record(path: Path, thing: Any, **attributes: Any) -> None:
    """Write what is made of plain values, arrays and the types above; all of it or nothing."""
    arrays: list[np.ndarray] = []
    outline = _outline(thing, arrays)
    content = b"".join(array.tobytes() for array in arrays)
    attributes |= {"outline": outline, "checksum": zlib.crc32(content)}
    unfinished = path.with_suffix(".part")
    try:
        unfinished.write_bytes(json.dumps(attributes).encode() + b"\n" + content)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read_record(path: Path) -> tuple[Any, dict[str, Any]]:
    """What was written, and its attributes.

    Raises
    ------
    ValueError
        If the file is damaged; names it and the remedy.
    """
    try:
        head, _, content = path.read_bytes().partition(b"\n")
        attributes = json.loads(head)
        if zlib.crc32(content) != attributes["checksum"]:
            raise ValueError("its checksum is wrong")
        return _filled(attributes["outline"], BytesIO(content)), attributes
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"store: {path} is damaged ({error}). Delete this file: what it held is computed anew, "
            "and everything else is kept."
        ) from error


def _outline(thing: Any, arrays: list[np.ndarray]) -> Any:
    """The thing as JSON, with the types and shapes of its arrays, which are added to ``arrays``."""
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
    """What an outline is of, with its arrays read in turn."""
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
