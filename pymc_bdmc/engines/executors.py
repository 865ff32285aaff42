"""Run independent tasks on copies of an engine, in processes or on a cluster, until Ctrl-C."""

import logging
import multiprocessing
import os
import platform
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from functools import cache, cached_property
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any
from uuid import uuid4

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from pymc_bdmc.base.interrupts import nothing_to_keep, unbroken
from pymc_bdmc.base.upstream import dumps
from pymc_bdmc.engines.pools import ONE_BLAS_THREAD, Task, next_result, one_thread

_log = logging.getLogger("pymc.bdmc")

MOST_MESSAGES = 10_000
"""Most messages to an executor; more tasks than this are sent in ranges, since a scheduler spends a
millisecond or more on each message. Ten for each of a thousand workers still share the work
evenly."""
FIRST_MESSAGES = 4
"""Number of messages sent before any worker has answered."""
UNFORKABLE = ("jax", "polars", "tensorflow", "torch")
"""Libraries that prevent forking: their threads may hold a lock for which the child waits
forever."""
MOST_KEPT = 8
"""Number of engines and tasks that a worker keeps, over all calls."""


class ExecutorPool:
    """Pool of the workers of any executor, such as those of a cluster.

    A message contains a range of tasks. A worker that lacks the engine or the tasks says so, and
    the message is sent again with them, so that they are sent once to each worker.

    Parameters
    ----------
    engine : object
        Engine passed to every task; pickled for workers that lack it.
    executor : concurrent.futures.Executor
        Executor, such as that of Dask's `Client.get_executor`.
    stop : ndarray of shape (1,)
        Flag from `interruptible`.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from pymc_bdmc.engines.executors import ExecutorPool
    >>> from pymc_bdmc.base.interrupts import interruptible
    >>> class Double:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def run(self, engine):
    ...         return engine * self.x
    >>> with (
    ...     ThreadPoolExecutor(2) as executor,
    ...     interruptible() as stop,
    ...     ExecutorPool(10, executor, stop) as pool,
    ... ):
    ...     sorted(pool.run([Double(1), Double(2)]))
    [(0, 10), (1, 20)]
    """

    spent = 0.0

    def __init__(self, engine: Any, executor: Executor, stop: np.ndarray):
        self.key = uuid4().hex
        """Key under which workers keep the engine."""
        self._engine = engine
        self._executor = executor
        self._stop = stop
        self._unfinished: dict[Future, range] = {}

    def __enter__(self) -> "ExecutorPool":
        return self

    def __exit__(self, *exc_info) -> None:
        for future in self._unfinished:
            future.cancel()

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more.

        Raises
        ------
        RuntimeError
            If workers end early and the executor does not replace them.
        """
        keys = self.key, uuid4().hex
        done: queue.SimpleQueue = queue.SimpleQueue()
        everything, size = range(len(tasks)), max(1, -(-len(tasks) // MOST_MESSAGES))
        waiting = deque(everything[first : first + size] for first in everything[::size])
        workers: set[tuple] = set()

        @cache
        def parts() -> Mapping[str, bytes]:
            return dict(zip(keys, (self._pickled, cloudpickle.dumps(tasks)), strict=True))

        def send(places: range, parts: Mapping[str, bytes]) -> None:
            with unbroken():  # the first one starts processes and threads
                future = self._executor.submit(_run, keys, places, parts)
                self._unfinished[future] = places
            future.add_done_callback(done.put)

        try:
            while waiting or self._unfinished:
                # One message waits for each worker. Workers without the engine would reject all
                # further ones before the first that contains it.
                most = 0 if self._stop[0] else FIRST_MESSAGES + 2 * len(workers)
                while waiting and len(self._unfinished) < most:
                    send(waiting.popleft(), {})
                if not (future := next_result(self._stop, done)):
                    return
                places, (worker, results) = self._unfinished.pop(future), future.result()
                workers.add(worker)
                if results is None:
                    send(places, parts())
                    continue
                for place, result in zip(places, results, strict=True):
                    if result is not None:
                        yield place, result
        except BrokenExecutor as error:
            if not self._stop[0]:  # Ctrl-C also ends processes that are starting
                raise RuntimeError(
                    "A worker ended during a task: was it killed, or out of memory? Use fewer or "
                    "larger workers. Runs in a store are kept."
                ) from error

    @cached_property
    def _pickled(self) -> bytes:
        return dumps(self._engine)


class WorkerPool:
    """Pool of processes of this machine, each with a copy of an engine.

    If the platform can fork, a worker inherits the compiled engine and starts at once. Otherwise,
    or if JAX or another library of `UNFORKABLE` is loaded, it starts as a new process, receives a
    pickled copy and compiles again, which takes seconds. With ``cores=1`` everything runs in this
    process. Workers end with the process that started them, however it ends.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of worker processes.
    stop : ndarray of shape (1,)
        Flag from `interruptible`.

    Examples
    --------
    >>> from pymc_bdmc.engines.executors import WorkerPool
    >>> from pymc_bdmc.base.interrupts import interruptible
    >>> class Double:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def run(self, engine):
    ...         return engine * self.x
    >>> with interruptible() as stop, WorkerPool(10, 1, stop) as pool:
    ...     sorted(pool.run([Double(1), Double(2)]))
    [(0, 10), (1, 20)]
    """

    spent = 0.0

    def __init__(self, engine: Any, cores: int, stop: np.ndarray):
        self._engine = engine
        self._cores = cores
        self._stop = stop
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> "WorkerPool":
        if self._cores > 1:
            # The arguments of a new process must be small. Otherwise they could fill the pipe to a
            # process that Ctrl-C ends before it reads, and this process would wait forever.
            self._executor = ProcessPoolExecutor(self._cores, _context(), initializer=_prepare)
            self._pool = ExecutorPool(self._engine, self._executor, self._stop)
            _kept[self._pool.key] = self._engine  # for forked workers
        return self

    def __exit__(self, *exc_info) -> None:
        if self._executor is not None:
            del _kept[self._pool.key]
            for process in (self._executor._processes or {}).values():
                process.terminate()  # unfinished chains are discarded
            self._executor.shutdown(cancel_futures=True)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more.

        Raises
        ------
        RuntimeError
            If a process ends during a task.
        """
        return self._run_here(tasks) if self._executor is None else self._pool.run(tasks)

    def _run_here(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        for i, task in enumerate(tasks):
            try:
                with ONE_BLAS_THREAD, one_thread("openmp"), nothing_to_keep():
                    result = task.run(self._engine)
            except KeyboardInterrupt:
                return
            if result is not None:
                yield i, result


_kept: dict[str, Any] = {}
"""Engines and tasks that a worker received last."""
_keeping = threading.Lock()


def _run(
    keys: Sequence[str], places: range, parts: Mapping[str, bytes]
) -> tuple[tuple, list | None]:
    """Return this worker's id and its results; None if it lacks the tasks or the engine."""
    worker = platform.node(), os.getpid(), threading.get_ident()
    with _keeping:
        for key, part in parts.items():
            if key not in _kept:
                threadpool_limits(1)  # rounding of matrix products depends on it
                _kept[key] = cloudpickle.loads(part)
        if not all(key in _kept for key in keys):
            return worker, None
        _kept.update({key: _kept.pop(key) for key in keys})  # most recent last
        for key in list(_kept)[:-MOST_KEPT]:
            del _kept[key]
        engine, tasks = (_kept[key] for key in keys)
    return worker, [tasks[place].run(engine) for place in places]


def _context() -> BaseContext:
    """Return Python's default way to start processes, without forking if that is not safe."""
    context = multiprocessing.get_context()
    loaded = [name for name in UNFORKABLE if name in sys.modules]
    if context.get_start_method() != "fork" or not loaded:
        return context
    _log.info(
        f"Workers start as new processes, which takes seconds, since {loaded[0]} cannot be forked. "
        'A script needs `if __name__ == "__main__":` around what it calls.'
    )
    return multiprocessing.get_context("forkserver")


def _prepare() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only workers call this"
    wait([parent.sentinel])
    os._exit(1)
