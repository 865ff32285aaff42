"""Stores on disk: tasks of a call that a store has are not computed again."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout

from pymc_bdmc.base import logger
from pymc_bdmc.base.streams import Entropy, RandomSeed, entropy_of
from pymc_bdmc.base.types import Run, Tuning
from pymc_bdmc.density.identity import digest
from pymc_bdmc.fits.draws import DrawTuning
from pymc_bdmc.fits.fit import Fit
from pymc_bdmc.kernels.adaptations import StepParameters
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.blocks import BlockReference
from pymc_bdmc.reference.contract import Blocks, Defensive
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.reference.sparse import Combination, Sparsity
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.chain import Table
from pymc_bdmc.run.workers import Workers
from pymc_bdmc.simulations import Simulated

_log = logger(__name__)

Origin = Mapping[str, Mapping[str, str]]
"""Hashes of everything that finished tasks depend on, by kind and name."""

_TYPES: dict[str, Any] = {
    each.__name__: each for each in (
        AnnealedReference, BlockReference, Blocks, Combination, Defensive, DrawTuning, Fit, Metric,
        NestedReference, Reference, Run, Simulated, Sparsity, StepParameters, Table, Tuning,
    )
}  # fmt: skip
"""The only types that reading a file can create, besides plain values and arrays."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the path of a file that replaces another as a whole if the block succeeds."""
    # A killed process leaves this file, which the next one replaces: one is written at a time.
    unfinished = path.with_name("unfinished")
    try:
        yield unfinished
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def write_record(path: Path, thing: Any, **attributes: Any) -> None:
    """Write a thing made of plain values, arrays and `_TYPES`, and attributes, as an npz file."""
    arrays: list[np.ndarray] = []
    head = json.dumps(attributes | {"outline": _outline(thing, arrays)}).encode()
    with replacing(path) as new, open(new, "wb") as file:
        np.savez(file, *arrays, head=np.frombuffer(head, np.uint8))


def read_record(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return what a file has, and its attributes, without pickle; ValueError if it is damaged."""
    try:
        with open(path, "rb") as opened, np.load(opened) as file:
            if changed := file.zip.testzip():  # `np.load` does not read all of a changed array
                raise ValueError(f"the checksum of {changed} is wrong")
            attributes = json.loads(file["head"].tobytes())
            return _filled(attributes.pop("outline"), file), attributes
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror or error})") from error
    except Exception as error:  # zipfile, NumPy and json raise many
        raise ValueError(f"{path} is damaged ({error})") from error


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
        kind = _TYPES[name]
        names = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
        thing = [getattr(thing, field) for field in names]
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


def open_store(path: str | os.PathLike, origin: Origin, random_seed: RandomSeed) -> "Store":
    """Return the store in a local directory; refuse one of another call, and other directories."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"store: the path of a directory is needed, got {path!r}.")
    if "://" in str(path):
        raise ValueError(f"store: {path} is no directory of this machine, which is needed.")
    # Without a random seed, the store's own is taken.
    store = Store(Path(path), origin, None if random_seed is None else entropy_of(random_seed))
    with store.locked():
        return store


class Store:
    """Finished tasks of a call, each committed at once, under the key of its random stream.

    In its directory are a file for each finished task (``runs``), the origin of all of them, the
    result so far for readers, and a file that the writing process locks.
    """

    def __init__(self, path: Path, origin: Origin, entropy: Entropy | None):
        self.path, self._runs, self._result = path, path / "runs", path / "result.nc"
        self._origin_file, self._lock_file = path / "origin.npz", path / "lock"
        self._origin, self._entropy = origin, entropy
        self.spent = 0.0
        """Seconds that earlier calls spent on the tasks of the last `run`."""
        # A continued call replaces the result that is there only after a minute.
        self._next = time.perf_counter() + (60.0 if self._result.exists() else 0.0)

    @contextmanager
    def locked(self) -> Iterator[Entropy]:
        """Yield the seed of the call; keep every other call away from the store meanwhile."""
        marks = self._lock_file.exists() or self._origin_file.exists()
        if self.path.is_file() or (not marks and any(map(Path.is_file, self.path.rglob("*")))):
            raise ValueError(
                f"store: {self.path} exists, but not as a store of sample_bdmc; choose another."
            )
        with self._writable():
            self._runs.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._lock_file).acquire(blocking=False)
        with lock:  # the system unlocks it too if the process is killed
            if any(self._runs.glob("*.npz")):
                entropy = self._checked_entropy()
            else:
                entropy = entropy_of(self._entropy)
                with self._writable():
                    write_record(self._origin_file, self._origin, entropy=entropy)
            self._entropy, self._call = entropy, digest([self._origin, entropy])
            yield entropy

    def _checked_entropy(self) -> Entropy:
        """Return the seed of the call that began the store; refuse a call that differs from it."""
        try:
            origin, begun = read_record(self._origin_file)
        except ValueError as error:
            raise ValueError(
                f"store: {error}. It names the call that made the runs beside it, which cannot "
                "be used without it. Restore it from a copy, or choose another store."
            ) from error
        changed = [
            f"{name} ({kind})"
            for kind in self._origin
            for name in sorted({*self._origin[kind], *origin[kind]})
            if self._origin[kind].get(name) != origin[kind].get(name)
        ]
        if self._entropy is not None and self._entropy != begun["entropy"]:
            changed.append("random_seed (argument)")
        if changed:
            raise ValueError(
                f"store: {self.path} was begun with another {', '.join(changed)}. Call as it was "
                "begun, or choose another store."
            )
        return begun["entropy"]

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except Timeout as error:
            raise OSError(
                f"store: {self.path} is in use by another call. Wait until that ends, or choose "
                "another store."
            ) from error
        except OSError as error:
            raise OSError(
                f"store: {self.path} cannot be written to ({error.strerror or error}). Its "
                "runs are kept. Make it writable, and call again."
            ) from error

    @property
    def is_due(self) -> bool:
        """Whether the pause since the last result was long enough."""
        return time.perf_counter() >= self._next

    def show(self, make: Callable[[], xr.DataTree]) -> None:
        """Replace the result for readers of the store by the one that ``make`` returns."""
        started, dt = time.perf_counter(), make()
        encoding = {  # with checksums, so that damage is an error for readers
            node.path: {
                name: {"fletcher32": True}
                for name, each in node.to_dataset(inherit=False).variables.items()
                if each.dtype.kind in "bif"
            }
            for node in dt.subtree
        }
        with self._writable(), replacing(self._result) as new:
            dt.to_netcdf(new, engine="netcdf4", encoding=encoding)
        now = time.perf_counter()
        self._next = now + 100 * (now - started)  # writing takes 1 % of the time of a call

    def remember[T](self, name: str, make: Callable[[], T]) -> T:
        """Return the thing kept under this name; if there is none, make and keep it."""
        if found := self.read(name, name):
            return found[0]
        thing = make()
        self.write(name, name, thing)
        return thing

    def read(self, name: str, inputs: str) -> tuple[Any, float] | None:
        """Return what is kept under a name for these inputs, with its seconds; None if nothing."""
        path = self._runs / f"{name}.npz"
        if not path.exists():
            return None
        try:
            thing, attributes = read_record(path)
        except ValueError as error:
            _log.warning(f"store: {error}; what it held is computed again, to the same result.")
            return None
        same = attributes["inputs"] == self._bound(inputs)
        return (thing, attributes["seconds"]) if same else None

    def write(self, name: str, inputs: str, thing: Any, seconds: float = 0.0) -> None:
        """Commit a thing under a name."""
        with self._writable():
            path = self._runs / f"{name}.npz"
            write_record(path, thing, inputs=self._bound(inputs), seconds=seconds)

    def _bound(self, inputs: str) -> str:
        """Return a hash of inputs and call, by which files of other calls are recognised."""
        return digest(f"{self._call} {inputs}")

    def run(
        self, tasks: Sequence[Any], workers: Workers, stop: np.ndarray
    ) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result): what is kept first, then what workers make."""
        self.spent, left = 0.0, []
        for k, task in enumerate(tasks):
            if stop[0]:
                return
            found = self.read(*_key(task))
            if found is None:
                left.append(k)
            else:
                self.spent = max(self.spent, found[1])
                yield k, found[0]
        if len(left) < len(tasks):
            _log.info(f"In the store: {len(tasks) - len(left)} of {len(tasks)} tasks")
        started = time.perf_counter() - self.spent
        for k, result in workers.run(tasks, left):
            seconds = time.perf_counter() - started
            self.write(*_key(tasks[k]), result, seconds)
            yield k, result


def _key(task: Any) -> tuple[str, str]:
    """Return the name of a task in the store, and a hash of its inputs."""
    return ".".join(map(str, task.seed.spawn_key)), digest(task)
