"""Stores on disk: tasks of a call that a store holds are not computed again."""

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from filelock import FileLock, Timeout

from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.campaign.files import DamagedRecord, read_record, write_record
from pymc_bdmc.campaign.rounds import Report, Round
from pymc_bdmc.campaign.view import View
from pymc_bdmc.engines.tasks import AnnealTask, PilotTask
from pymc_bdmc.engines.workers import Pool
from pymc_bdmc.model.identity import digest

_log = logging.getLogger("pymc.bdmc")

Task = AnnealTask | PilotTask

FORMAT = 2
"""Version of the file format; stores of a later version are refused."""
RUNS = "runs"
"""Directory of the finished tasks in a store; the groups beside it are a view of them."""
ORIGIN = "origin"
"""File with hashes of everything that the finished tasks depend on."""
LOCK = "origin.lock"
"""File that the writing process locks; the system unlocks it when the process ends."""


class Store:
    """Finished tasks of a call, each committed at once, under the key of its random stream.

    As a context, it is locked: no other call can use it meanwhile.

    Parameters
    ----------
    path : path-like
        Of a local directory, which is made where it is not there.
    origin : mapping of str to (mapping of str to str)
        By kind and name, hashes of everything that results depend on; a store of another origin is
        refused.
    random_seed : int, sequence of int, SeedSequence, Generator or None
        None: that of the store.

    Attributes
    ----------
    path : Path
    entropy : int or sequence of int
        What the seed comes to.
    view : View
        The result so far.

    Raises
    ------
    ValueError
        For a store of another origin or of a newer version, by the name of what differs; for one
        whose origin is damaged or missing; and for any other file or directory.
    OSError
        If it cannot be written to, or another call is using it.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        origin: Mapping[str, Mapping[str, str]],
        random_seed: RandomSeed = None,
    ):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"store: the path of a directory is needed, got {path!r}.")
        if not importlib.util.find_spec("zarr"):
            raise ModuleNotFoundError("store: it needs zarr; pip install 'pymc-bdmc[store]'.")
        if "://" in str(path):
            raise ValueError(f"store: {path} is no directory of this machine, which is needed.")
        self.path = Path(path)
        self._runs = self.path / RUNS
        self._lock = FileLock(self._runs / LOCK)
        self._origin = origin
        self._takes_any_seed = random_seed is None
        self.entropy = entropy_of(random_seed)
        with self.locked():
            pass  # what is wrong with the store is said before anything is compiled

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other call away from the store inside the context."""
        marks = any((self._runs / name).exists() for name in (LOCK, ORIGIN))
        if self.path.is_file() or (not marks and any(map(Path.is_file, self.path.rglob("*")))):
            raise ValueError(
                f"store: {self.path} exists, but not as a store of sample_bdmc; choose another."
            )
        with self._writable():
            self._runs.mkdir(parents=True, exist_ok=True)
            lock = self._lock.acquire(blocking=False)
        with lock:
            self._begin()
            yield

    def _begin(self) -> None:
        """Bind the store to this call; refuse it if it has runs of another call."""
        if any(self._runs.glob("*.run")):
            self._check_origin()
        self._takes_any_seed = False
        self._call = digest([self._origin, self.entropy])
        with self._writable():
            write_record(self._runs / ORIGIN, self._origin, entropy=self.entropy, format=FORMAT)
            self.view = View(self.path)

    def _check_origin(self) -> None:
        """Refuse a call that differs from the one that began the store."""
        try:
            origin, begun = read_record(self._runs / ORIGIN)
        except DamagedRecord as error:
            raise ValueError(
                f"store: {error}. It names the call that made the runs beside it, which cannot "
                "be used without it. Restore it from a copy, or choose another store."
            ) from error
        if begun["format"] > FORMAT:
            raise ValueError(
                f"store: {self.path} was written by a newer version of pymc_bdmc; upgrade it, or "
                "choose another store."
            )
        changed = [
            f"{name} ({kind})"
            for kind in self._origin
            for name in sorted({*self._origin[kind], *origin[kind]})
            if self._origin[kind].get(name) != origin[kind].get(name)
        ]
        if self._takes_any_seed:
            self.entropy = begun["entropy"]
        elif self.entropy != begun["entropy"]:
            changed.append("random_seed (argument)")
        if changed:
            raise ValueError(
                f"store: {self.path} was begun with another {', '.join(changed)}. Call as it was "
                "begun, or choose another store."
            )

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

    def show(self, make: Callable[[], xr.DataTree]) -> None:
        """Show a result to readers of the store, in place of the last one."""
        with self._writable():
            self.view.write(make)

    def remember[T](self, name: str, make: Callable[[], T]) -> T:
        """Return the thing kept under this name; if there is none, make and keep it."""
        if found := self._read(name, name):
            return found[0]
        thing = make()
        self._write(name, name, thing)
        return thing

    def read(self, task: Task, inputs: str) -> tuple[Any, float] | None:
        """Return the result of a task, and the seconds that the call had taken; None without one.

        A damaged file counts as none, and so does a result of other inputs: those of a later round,
        for example, depend on the number of chains.
        """
        found = self._read(_name(task), inputs)
        return (found[0], found[1]["seconds"]) if found else None

    def write(self, task: Task, inputs: str, result: Any, seconds: float) -> None:
        """Commit the result of a task."""
        self._write(_name(task), inputs, result, seconds=seconds)

    def _read(self, name: str, inputs: str) -> tuple[Any, dict[str, Any]] | None:
        path = self._runs / f"{name}.run"
        if not path.exists():
            return None
        try:
            thing, attributes = read_record(path)
        except DamagedRecord as error:
            _log.warning(f"store: {error}; what it held is computed again, to the same result.")
            return None
        return (thing, attributes) if attributes["inputs"] == self._bound(inputs) else None

    def _write(self, name: str, inputs: str, thing: Any, **attributes: Any) -> None:
        path = self._runs / f"{name}.run"
        with self._writable():
            write_record(path, thing, inputs=self._bound(inputs), **attributes)

    def _bound(self, inputs: str) -> str:
        """Return a hash of inputs and call, by which files of other calls are recognised."""
        return digest(f"{self._call} {inputs}")


def _name(task: Task) -> str:
    return ".".join(map(str, task.seed.spawn_key))


class StoredPool:
    """A pool that takes results from a store if they are there, and stores every new one.

    Parameters
    ----------
    pool : Pool
        Where the tasks run that the store does not hold.
    store : Store
    stop : ndarray of shape (1,)
        From `interruptible`.

    Attributes
    ----------
    spent : float
        Seconds that earlier calls spent on the tasks of the last `run`.
    """

    def __init__(self, pool: Pool, store: Store, stop: np.ndarray):
        self._pool, self._store, self._stop = pool, store, stop
        self.spent = 0.0

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result): those in the store first, then the others."""
        self.spent, known, left = 0.0, _Inputs(), []
        for k, task in enumerate(tasks):
            if self._stop[0]:
                return
            found = self._store.read(task, known.digest(task))
            if found is None:
                left.append(k)
            else:
                self.spent = max(self.spent, found[1])
                yield k, found[0]
        if len(left) < len(tasks):
            _log.info(f"In the store: {len(tasks) - len(left)} of {len(tasks)} tasks")
        started = time.perf_counter() - self.spent
        for place, result in self._pool.run(Selected(tasks, left)):
            k, seconds = left[place], time.perf_counter() - started
            task = tasks[k]
            self._store.write(task, known.digest(task), result, seconds)
            yield k, result


def origin(arguments: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Return what finished runs depend on: hashes of arguments, and versions of packages."""
    packages = (np, pm, pytensor)
    return {
        "argument": {name: digest(value) for name, value in arguments.items()},
        "version": {"pymc_bdmc": VERSION} | {each.__name__: each.__version__ for each in packages},
    }


def reporter(
    result: Callable[[Sequence[Round]], xr.DataTree],
    kept: Store | None,
    callback: Callable[[xr.DataTree], object] | None,
    stop: np.ndarray,
) -> Report:
    """Return a function that shows the result so far to the store and to the callback."""

    def report(so_far: Callable[[], Sequence[Round]]) -> None:
        if kept and kept.view.is_due and (rounds := so_far())[-1].is_readable:
            kept.show(lambda: result(rounds))
        if callback:
            try:
                callback(result(so_far()))
            except KeyboardInterrupt:  # as in PyMC
                stop[0] = 1

    return report


@dataclass(frozen=True)
class Selected(Sequence[Task]):
    """A selection of tasks."""

    tasks: Sequence[Task]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place):
        return self.tasks[self.places[place]]


class _Inputs:
    """Hashes of the inputs of tasks; inputs that many tasks share are hashed once."""

    def __init__(self):
        self._known: dict[int, tuple[Any, str]] = {}
        """Hashes by identity; the thing is kept, so that no other can get the same identity."""

    def digest(self, task: Task) -> str:
        parts = [each for name, each in vars(task).items() if name != "seed"]
        for part in parts:
            if id(part) not in self._known:
                self._known[id(part)] = part, digest(part)
        hashes = [self._known[id(part)][1] for part in parts]
        return digest(f"{hashes} {task.seed.entropy} {task.seed.spawn_key}")
