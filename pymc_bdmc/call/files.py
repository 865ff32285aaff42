"""Records: npz files of plain values and arrays, written as a whole and read without pickle."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from pymc_bdmc.base.types import Run, Tuning
from pymc_bdmc.engines.compiled.draws import DrawTuning
from pymc_bdmc.kernels.adaptations import StepParameters
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.combined import Combination
from pymc_bdmc.reference.defensive import Defensive
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.reference.sparse import Sparsity
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.chain import Table
from pymc_bdmc.run.tasks import Fit
from pymc_bdmc.simulations import Simulated

_TYPES: dict[str, Any] = {
    each.__name__: each for each in (
        AnnealedReference, Combination, Defensive, DrawTuning, Fit, Metric, NestedReference,
        Reference, Run, Simulated, Sparsity, StepParameters, Table, Tuning,
    )
}  # fmt: skip
"""The only types that reading a file can create, besides plain values and arrays."""


class DamagedRecord(ValueError):
    """A file differs from what was written; the message names it."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file that replaces another as a whole if the block succeeds.

    Only one file of a directory may be written at a time.
    """
    unfinished = path.with_name("unfinished")  # what a killed process leaves, the next one replaces
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_record(path: Path, thing: Any, **attributes: Any) -> None:
    """Write a thing made of plain values, arrays and the types above, and attributes."""
    arrays: list[np.ndarray] = []
    head = json.dumps(attributes | {"outline": _outline(thing, arrays)}).encode()
    with replacing(path) as new, open(new, "wb") as file:
        np.savez(file, *arrays, head=np.frombuffer(head, np.uint8))


def read_record(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return what a file holds, and its attributes.

    Raises
    ------
    DamagedRecord
        If what it holds was changed, or the file cannot be read.
    """
    try:
        with open(path, "rb") as opened, np.load(opened) as file:
            if changed := file.zip.testzip():  # `np.load` does not read all of a changed array
                raise ValueError(f"the checksum of {changed} is wrong")
            attributes = json.loads(file["head"].tobytes())
            return _filled(attributes.pop("outline"), file), attributes
    except OSError as error:
        raise DamagedRecord(f"{path} cannot be read ({error.strerror or error})") from error
    except Exception as error:  # zipfile, NumPy and json raise many
        raise DamagedRecord(f"{path} is damaged ({error})") from error


def _outline(thing: Any, arrays: list[np.ndarray]) -> Any:
    """Return a thing as JSON with the numbers of its arrays; append these to ``arrays``."""
    if isinstance(thing, np.ndarray | np.generic):
        if thing.dtype.hasobject:
            raise TypeError("an array of Python objects has no bytes to keep")
        arrays.append(np.asarray(thing))
        return {"scalar" if isinstance(thing, np.generic) else "array": len(arrays) - 1}
    if isinstance(thing, Mapping):
        return {"dict": {key: _outline(each, arrays) for key, each in thing.items()}}
    name = type(thing).__name__
    if name in _TYPES:
        thing = [getattr(thing, field) for field in _fields(_TYPES[name])]
    elif not isinstance(thing, list | tuple):
        return thing
    return {name: [_outline(each, arrays) for each in thing]}


def _filled(outline: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the thing that an outline describes."""
    if not isinstance(outline, dict):
        return outline
    ((name, parts),) = outline.items()
    match name:
        case "array":
            return arrays[f"arr_{parts}"]
        case "scalar":
            return arrays[f"arr_{parts}"][()]
        case "dict":
            return {key: _filled(each, arrays) for key, each in parts.items()}
    found = [_filled(each, arrays) for each in parts]
    return _TYPES[name](*found) if name in _TYPES else {"list": list, "tuple": tuple}[name](found)


def _fields(kind: Any) -> list[str]:
    return getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
