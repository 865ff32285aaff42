"""Run independent tasks in threads, in processes or on a cluster, until Ctrl-C."""

import multiprocessing
import os
import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from multiprocessing import connection
from multiprocessing.context import BaseContext
from typing import Any
from uuid import uuid4

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from pymc_bdmc.base import logger
from pymc_bdmc.base.interrupts import nothing_to_keep, unbroken
from pymc_bdmc.base.upstream import dumps

_log = logger(__name__)

MOST_MESSAGES = 10_000
"""Most messages to an executor; more tasks than this are sent in ranges, since a scheduler spends a
millisecond or more on each message. Ten for each of a thousand workers still share the work
evenly."""


class Workers:
    """Workers of an executor, which share an engine or have a copy each; see `open_workers`.

    A message contains a range of tasks. If a worker of another process lacks the engine or the
    tasks, it says so and the message is sent again with them: once to each worker.
    """

    def __init__(self, engine: Any, key: str, executor: Executor | None, stop: np.ndarray, n: int):
        self._engine, self._key, self._executor, self._stop = engine, key, executor, stop
        self._n, self._unfinished = n, dict[Future, Sequence[int]]()

    def run(
        self, tasks: Sequence[Any], places: Sequence[int] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield (index, result) of the tasks at ``places``, by default all, until Ctrl-C."""
        places = range(len(tasks)) if places is None else places
        if self._executor is None:
            yield from self._run_here(tasks, places)
            return
        key = uuid4().hex
        _here[key] = tasks
        try:
            yield from self._run_by(self._executor, tasks, places, key)
        except BrokenExecutor as error:
            if not self._stop[0]:  # Ctrl-C also ends processes that are starting
                raise RuntimeError(
                    "A worker ended during a task: was it killed, or out of memory? Use fewer or "
                    "larger workers. Runs in a store are kept."
                ) from error
        finally:
            del _here[key]

    def _run_by(
        self, executor: Executor, tasks: Sequence[Any], places: Sequence[int], key: str
    ) -> Iterator[tuple[int, Any]]:
        size = max(1, -(-len(places) // MOST_MESSAGES))
        waiting = deque(places[first : first + size] for first in range(0, len(places), size))
        unfinished = self._unfinished = {}
        workers: set[tuple] = set()

        @cache
        def parts() -> dict[str, bytes]:
            return {self._key: dumps(self._engine), key: cloudpickle.dumps(tasks)}

        def send(places: Sequence[int], parts: Mapping[str, bytes]) -> None:
            with unbroken():  # the first one starts processes or threads
                unfinished[executor.submit(_run, (self._key, key), places, parts)] = places

        while waiting or unfinished:
            # One message waits for each worker. Workers without the engine would reject all further
            # ones before the first that contains it.
            most = 0 if self._stop[0] else self._n + 2 * len(workers)
            while waiting and len(unfinished) < most:
                send(waiting.popleft(), {})
            with unbroken():  # it holds locks that workers need
                done, _ = wait(unfinished, 0.1, FIRST_COMPLETED)  # without limit it ignores Ctrl-C
            if self._stop[0] and not done:
                return
            for future in done:
                sent, (worker, results) = unfinished.pop(future), future.result()
                workers.add(worker)
                if results is None:
                    send(sent, parts())
                    continue
                for place, result in zip(sent, results, strict=True):
                    if result is not None:
                        yield place, result

    def _run_here(self, tasks: Sequence[Any], places: Sequence[int]) -> Iterator[tuple[int, Any]]:
        for place in places:
            try:
                with nothing_to_keep():
                    result = tasks[place].run(self._engine)
            except KeyboardInterrupt:
                return
            if result is not None:
                yield place, result

    def end(self) -> None:
        """Cancel what waits, and set the flag for what runs."""
        for future in self._unfinished:
            future.cancel()
        if self._unfinished:
            self._stop[0] = 1


@contextmanager
def open_workers(
    engine: Any,
    cores: int,
    stop: np.ndarray,
    executor: Executor | None = None,
    in_processes: bool = False,
) -> Iterator[Workers]:
    """Yield workers for the tasks of an engine: those of an executor, or threads, or processes.

    Threads share the engine, whose work must not need the GIL. Processes end with the one that
    started them, however it ends. If the platform can fork, they inherit the compiled engine and
    start at once. Otherwise, or if a library with threads of its own such as JAX is loaded, they
    receive a pickled copy and compile again, which takes seconds. A single process is this one.

    ``stop`` is the flag from `interruptible`, with which tasks end early with None. It is also set
    if the block ends before its tasks are done.
    """
    kind: AbstractContextManager[Executor | None] = nullcontext(executor)
    if executor is None and not (in_processes and cores == 1):
        kind = _processes(cores) if in_processes else _threads(cores)
    key = uuid4().hex
    _here[key] = engine
    try:
        with ONE_BLAS_THREAD, threadpool_limits(1, "openmp"), kind as found:
            # At least four messages, until it is known how many workers an executor has.
            workers = Workers(engine, key, found, stop, max(cores, 4))
            try:
                yield workers
            finally:
                workers.end()
    finally:
        del _here[key]


@contextmanager
def _threads(cores: int) -> Iterator[Executor]:
    executor, waits = ThreadPoolExecutor(cores), True
    try:
        yield executor
    except KeyboardInterrupt:
        waits = False  # e.g. for compilation
        raise
    finally:
        executor.shutdown(waits, cancel_futures=True)


@contextmanager
def _processes(cores: int) -> Iterator[Executor]:
    # The arguments of a new process must be small. Otherwise they could fill the pipe to a process
    # that Ctrl-C ends before it reads, and this process would wait forever.
    executor = ProcessPoolExecutor(cores, _context(), initializer=_prepare)
    try:
        yield executor
    finally:
        for process in (executor._processes or {}).values():
            process.terminate()  # unfinished chains are discarded
        executor.shutdown(cancel_futures=True)


class _OneBlasThread:
    """Limit BLAS to one thread until the last call that needs this ends.

    The number of threads belongs to the process, and matrix products are rounded accordingly. So if
    two calls overlap, the first to end must not restore the number.
    """

    def __init__(self):
        self._lock, self._users = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._limits = threadpool_limits(1, "blas")
            self._users += 1

    def __exit__(self, *exc_info) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limits.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()

_here: dict[str, Any] = {}
"""Engines and tasks of this process and, if this is a fork, of its parent."""
_received: dict[str, Any] = {}
"""Engines and tasks that this worker received last."""
_receiving = threading.Lock()
_thread = threading.local()


def _run(
    keys: Sequence[str], places: Sequence[int], parts: Mapping[str, bytes]
) -> tuple[tuple, list | None]:
    """Return this worker's id and its results; None if it lacks the tasks or the engine."""
    worker = platform.node(), os.getpid(), threading.get_ident()
    if not hasattr(_thread, "limits"):  # OpenMP has a limit for each thread
        _thread.limits = threadpool_limits(1, "openmp")
    found = _find(keys, parts)
    return worker, found and [found[1][place].run(found[0]) for place in places]


def _find(keys: Sequence[str], parts: Mapping[str, bytes]) -> list | None:
    """Return the things of these keys, some of which may only come now; None if one is lacking."""
    if all(key in _here for key in keys):
        return [_here[key] for key in keys]
    with _receiving:
        for key, part in parts.items():
            if key not in _received:
                threadpool_limits(1)  # rounding of matrix products depends on it
                _received[key] = cloudpickle.loads(part)
        known = _received | _here
        if not all(key in known for key in keys):
            return None
        _received.update({key: _received.pop(key) for key in keys if key in _received})
        for key in list(_received)[:-8]:  # the most recent ones are last
            del _received[key]
        return [known[key] for key in keys]


def _context() -> BaseContext:
    """Return Python's default way to start processes, without forking if that is not safe."""
    context = multiprocessing.get_context()
    # Their threads may hold a lock for which a forked child waits forever.
    threaded = ("jax", "polars", "tensorflow", "torch")
    loaded = [name for name in threaded if name in sys.modules]
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
    connection.wait([parent.sentinel])
    os._exit(1)
