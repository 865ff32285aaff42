"""Stores on disk: tasks of a call that a store holds are not computed again."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from filelock import FileLock, Timeout

from pymc_bdmc.base.streams import RandomSeed, entropy_of
from pymc_bdmc.base.version import VERSION
from pymc_bdmc.call.files import DamagedRecord, read_record, replacing, write_record
from pymc_bdmc.call.rounds import Report, Round
from pymc_bdmc.density.identity import digest
from pymc_bdmc.run.tasks import AnnealTask, PilotTask
from pymc_bdmc.run.workers import Workers

_log = logging.getLogger("pymc.bdmc")

Task = AnnealTask | PilotTask

FORMAT = 3
"""Version of the files; stores of a later version are refused, and of an earlier one."""
RESULT = "result.nc"
"""File of the result so far, for readers."""
RUNS = "runs"
"""Directory of the finished tasks, a file each."""
ORIGIN = "origin.npz"
"""File with hashes of everything that the finished tasks depend on."""
LOCK = "lock"
"""File that the writing process locks; the system unlocks it when the process ends."""
STRIDE = 100
"""Least pause between two results, as a multiple of the time that it takes to write one. Chosen."""
PAUSE = 60.0
"""Seconds until a continued call replaces the result that is there. Chosen."""


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

    Raises
    ------
    ValueError
        For a store of another origin or of another format, by the name of what differs; for one
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
        if "://" in str(path):
            raise ValueError(f"store: {path} is no directory of this machine, which is needed.")
        self.path = Path(path)
        self._runs = self.path / RUNS
        self._lock = FileLock(self.path / LOCK)
        self._origin = origin
        self._takes_any_seed = random_seed is None
        self.entropy = entropy_of(random_seed)
        self._next = time.perf_counter() + (PAUSE if (self.path / RESULT).exists() else 0.0)
        with self.locked():
            pass  # what is wrong with the store is said before anything is compiled

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other call away from the store inside the context."""
        if (self._runs / "origin").exists():  # format 2 and before
            raise ValueError(
                f"store: {self.path} was written by an older version of pymc_bdmc, and this "
                "version cannot read it. Call that version again, or choose another store."
            )
        marks = any((self.path / name).exists() for name in (LOCK, ORIGIN))
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
        if any(self._runs.glob("*.npz")):
            self._check_origin()
        else:
            with self._writable():
                write_record(self.path / ORIGIN, self._origin, entropy=self.entropy, format=FORMAT)
        self._takes_any_seed = False
        self._call = digest([self._origin, self.entropy])

    def _check_origin(self) -> None:
        """Refuse a call that differs from the one that began the store."""
        try:
            origin, begun = read_record(self.path / ORIGIN)
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
        with self._writable(), replacing(self.path / RESULT) as new:
            dt.to_netcdf(new, engine="netcdf4", encoding=encoding)
        now = time.perf_counter()
        self._next = now + STRIDE * (now - started)

    def remember[T](self, name: str, make: Callable[[], T]) -> T:
        """Return the thing kept under this name; if there is none, make and keep it."""
        if found := self.read(name, name):
            return found[0]
        thing = make()
        self.write(name, name, thing)
        return thing

    def read(self, name: str, inputs: str) -> tuple[Any, float] | None:
        """Return what is kept under a name, and the seconds that it had taken; None if nothing is.

        A damaged file counts as none, and so does a result of other inputs: those of a later round,
        for example, depend on the number of chains.
        """
        path = self._runs / f"{name}.npz"
        if not path.exists():
            return None
        try:
            thing, attributes = read_record(path)
        except DamagedRecord as error:
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


def _name(task: Task) -> str:
    return ".".join(map(str, task.seed.spawn_key))


class StoredPool:
    """A pool that takes results from a store if they are there, and stores every new one.

    Parameters
    ----------
    workers : Workers
        Who run the tasks that the store does not hold.
    store : Store
    stop : ndarray of shape (1,)
        From `interruptible`.

    Attributes
    ----------
    spent : float
        Seconds that earlier calls spent on the tasks of the last `run`.
    """

    def __init__(self, workers: Workers, store: Store, stop: np.ndarray):
        self._workers, self._store, self._stop = workers, store, stop
        self.spent = 0.0

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result): those in the store first, then the others."""
        self.spent, left = 0.0, []
        for k, task in enumerate(tasks):
            if self._stop[0]:
                return
            found = self._store.read(_name(task), digest(task))
            if found is None:
                left.append(k)
            else:
                self.spent = max(self.spent, found[1])
                yield k, found[0]
        if len(left) < len(tasks):
            _log.info(f"In the store: {len(tasks) - len(left)} of {len(tasks)} tasks")
        started = time.perf_counter() - self.spent
        for k, result in self._workers.run(tasks, left):
            task, seconds = tasks[k], time.perf_counter() - started
            self._store.write(_name(task), digest(task), result, seconds)
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
        if kept and kept.is_due and (rounds := so_far())[-1].is_readable:
            kept.show(lambda: result(rounds))
        if callback:
            try:
                callback(result(so_far()))
            except KeyboardInterrupt:  # as in PyMC
                stop[0] = 1

    return report
