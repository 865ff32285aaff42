"""A store on disk: what it holds of the tasks of a call is not computed again."""

import importlib.util
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import xarray as xr

from pymc_bdmc.annealing.pools import Pool
from pymc_bdmc.annealing.records import read_record, write_record
from pymc_bdmc.annealing.tasks import AnnealTask, PilotTask
from pymc_bdmc.annealing.view import View
from pymc_bdmc.model.fingerprint import digest
from pymc_bdmc.streams import Entropy, RandomSeed, entropy_of

__all__ = ["Store", "StoredPool"]

_log = logging.getLogger("pymc.bdmc")

Task = AnnealTask | PilotTask

FORMAT = 1
"""Of the files; a store of a higher one is refused."""
RUNS, ORIGIN = "runs", "origin.json"
"""Directory of the finished tasks in a store, of which the groups beside it are a view; and what
all of them depend on."""


class Store:
    """Finished tasks of a call, each committed at once, under the key of its random stream.

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
        For a store of another origin or of a newer version, by the name of what differs, and for
        any other file or directory.
    OSError
        If it cannot be written to.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        origin: Mapping[str, Mapping[str, str]],
        random_seed: RandomSeed = None,
    ):
        if not importlib.util.find_spec("zarr"):
            raise ModuleNotFoundError("store: it needs zarr; pip install 'pymc-bdmc[store]'.")
        if "://" in str(path):
            raise ValueError(f"store: {path} is no directory of this machine, which is needed.")
        self.path = Path(path)
        self._runs = self.path / RUNS
        if any(self._runs.glob("*.run")):
            self.entropy = self._entropy_of(origin, random_seed)
            with self._writable():
                TemporaryFile(dir=self._runs).close()
        else:
            self.entropy = entropy_of(random_seed)
            self._begin(origin)
        self.view = View(self.path)

    def _begin(self, origin: Mapping) -> None:
        is_ours = (self._runs / ORIGIN).exists()
        if self.path.is_file() or (self.path.exists() and any(self.path.iterdir()) and not is_ours):
            raise ValueError(
                f"store: {self.path} is there already and is none of sample_bdmc; choose another."
            )
        begun = {"format": FORMAT, "entropy": self.entropy, "origin": origin}
        with self._writable():
            self._runs.mkdir(parents=True, exist_ok=True)
            (self._runs / ORIGIN).write_text(json.dumps(begun))

    def _entropy_of(self, origin: Mapping, random_seed: RandomSeed) -> Entropy:
        """Of the seed that it was begun with, if it is the same call."""
        begun = json.loads((self._runs / ORIGIN).read_text())
        if begun["format"] > FORMAT:
            raise ValueError(
                f"store: {self.path} was written by a newer version of pymc_bdmc; upgrade it, or "
                "choose another store."
            )
        changed = [
            f"{name} ({kind})"
            for kind in origin
            for name in sorted({*origin[kind], *begun["origin"][kind]})
            if origin[kind].get(name) != begun["origin"][kind].get(name)
        ]
        if random_seed is not None and entropy_of(random_seed) != begun["entropy"]:
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
        except OSError as error:
            raise OSError(
                f"store: {self.path} cannot be written to ({error.strerror or error}). What is in "
                "it is kept: see to that, and call again."
            ) from error

    def show(self, make: Callable[[], xr.DataTree]) -> None:
        """Put a result in the place of the last one that readers saw."""
        with self._writable():
            self.view.write(make)

    def remember[T](self, name: str, make: Callable[[], T]) -> T:
        """What was kept under this name; if nothing was, make and keep it."""
        path = self._runs / f"{name}.run"
        if path.exists():
            return read_record(path)[0]
        thing = make()
        with self._writable():
            write_record(path, thing)
        return thing

    def read(self, task: Task, inputs: str) -> tuple[Any, float] | None:
        """The result of a task, and the seconds that had gone by then; None if there is none.

        So it is for a result from other inputs than these: those of a later round depend on the
        number of chains, say.
        """
        path = self._place(task)
        if not path.exists():
            return None
        result, attributes = read_record(path)
        return (result, attributes["seconds"]) if attributes["inputs"] == inputs else None

    def write(self, task: Task, inputs: str, result: Any, seconds: float) -> None:
        """Commit the result of a task."""
        with self._writable():
            write_record(self._place(task), result, inputs=inputs, seconds=seconds)

    def _place(self, task: Task) -> Path:
        return self._runs / f"{'.'.join(map(str, task.seed.spawn_key))}.run"


class StoredPool:
    """A pool that asks a store first, and hands it every result before anybody else sees it.

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
        """Yield (index of the task, its result): first what is there, then what finishes."""
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


@dataclass(frozen=True)
class Selected(Sequence[Task]):
    """Some of the tasks."""

    tasks: Sequence[Task]
    places: Sequence[int]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place):
        return self.tasks[self.places[place]]


class _Inputs:
    """Hashes of all that tasks depend on; what many of them share is hashed once."""

    def __init__(self):
        self._known: dict[int, tuple[Any, str]] = {}
        """By identity, with the thing itself, so that no other can have the same."""

    def digest(self, task: Task) -> str:
        parts = [each for name, each in vars(task).items() if name != "seed"]
        for part in parts:
            if id(part) not in self._known:
                self._known[id(part)] = part, digest(part)
        hashes = [self._known[id(part)][1] for part in parts]
        return digest(f"{hashes} {task.seed.entropy} {task.seed.spawn_key}")
