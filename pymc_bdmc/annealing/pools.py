"""Run independent tasks on an engine, in threads or processes, until they are done or Ctrl-C."""

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing.connection import wait
from typing import Any, Protocol

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

from pymc_bdmc.interrupts import nothing_to_keep

__all__ = ["Task", "ThreadPool", "WorkerPool"]


POLL = 0.1
"""Seconds between looks at the flag: a wait without end is deaf to Ctrl-C."""


class Task(Protocol):
    """A piece of work that needs an engine; its result depends on nothing else."""

    def run(self, engine: Any) -> Any:
        """Do the work; None if it was stopped."""


class WorkerPool:
    """Processes that each hold a copy of an engine.

    Where the platform forks, a worker inherits the compiled engine; elsewhere it receives a
    pickled copy and compiles again. With ``cores=1`` everything runs in this process. Workers end
    with the process that started them, however it ends.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of worker processes.
    stop : ndarray of shape (1,)
        From `interruptible`.

    Examples
    --------
    >>> from pymc_bdmc.annealing.pools import WorkerPool
    >>> from pymc_bdmc.interrupts import interruptible
    >>> class Double:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def run(self, engine):
    ...         return engine * self.x
    >>> with interruptible() as stop, WorkerPool(10, 1, stop) as pool:
    ...     sorted(pool.run([Double(1), Double(2)]))
    [(0, 10), (1, 20)]
    """

    def __init__(self, engine: Any, cores: int, stop: np.ndarray):
        self._engine = engine
        self._cores = cores
        self._stop = stop
        self._executor: ProcessPoolExecutor | None = None
        self._pickled: bytes | None = None

    def __enter__(self) -> "WorkerPool":
        if self._cores > 1:
            context = multiprocessing.get_context()
            inherited = self._engine
            if context.get_start_method() != "fork":
                # Sent with the tasks. As an argument of the initializer it could fill the pipe to
                # a process that Ctrl-C ends before it reads, and this one would wait for ever.
                inherited, self._pickled = None, cloudpickle.dumps(self._engine)
            self._executor = ProcessPoolExecutor(
                self._cores, mp_context=context, initializer=_prepare, initargs=(inherited,)
            )
        return self

    def __exit__(self, *exc_info) -> None:
        if self._executor is not None:
            for process in (self._executor._processes or {}).values():
                process.terminate()  # unfinished chains are not wanted: nothing waits for them
            self._executor.shutdown(cancel_futures=True)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more."""
        if self._executor is None:
            yield from self._run_here(tasks)
            return
        done: queue.SimpleQueue = queue.SimpleQueue()
        places = {}
        try:
            for i, task in enumerate(tasks):
                future = self._executor.submit(_run, cloudpickle.dumps(task), self._pickled)
                places[future] = i
                future.add_done_callback(done.put)
            for future in _until(self._stop, done, len(tasks)):
                yield places[future], future.result()
        except BrokenProcessPool:
            if not self._stop[0]:  # Ctrl-C ends processes that are only starting
                raise

    def _run_here(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        for i, task in enumerate(tasks):
            try:
                with threadpool_limits(1), nothing_to_keep():
                    result = task.run(self._engine)
            except KeyboardInterrupt:
                return
            if result is not None:
                yield i, result


class ThreadPool:
    """Threads that share an engine whose work runs without the GIL.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of threads; no more are started than there are tasks.
    stop : ndarray of shape (1,)
        From `interruptible`. Also set where the pool is left before its tasks are done. Tasks end
        early where it is set, with None.

    Examples
    --------
    >>> from pymc_bdmc.annealing.pools import ThreadPool
    >>> from pymc_bdmc.interrupts import interruptible
    >>> class Double:
    ...     def run(self, engine):
    ...         return engine * 2
    >>> with interruptible() as stop, ThreadPool(10, 2, stop) as pool:
    ...     list(pool.run([Double()]))
    [(0, 20)]
    """

    def __init__(self, engine: Any, cores: int, stop: np.ndarray):
        self._engine = engine
        self._cores = cores
        self._stop = stop
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def __enter__(self) -> "ThreadPool":
        self._limits = threadpool_limits(1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_) -> None:
        if self._unfinished:
            self._stop[0] = 1
        if kind is not KeyboardInterrupt:  # which must not wait for a thread that compiles, say
            for thread in self._threads:
                thread.join()
        self._limits.restore_original_limits()

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more."""
        # Queues of C code: unlike futures, they stay whole when Ctrl-C comes at any moment.
        waiting = deque(enumerate(tasks))
        done: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(waiting, done), daemon=True)
            for _ in range(min(self._cores, len(tasks)))
        ]
        self._unfinished = len(tasks)
        for thread in self._threads:
            thread.start()
        for i, result, error in _until(self._stop, done, len(tasks)):
            self._unfinished -= 1
            if error is not None:
                waiting.clear()
                raise error
            if result is not None:
                yield i, result

    def _work(self, waiting: deque, done: queue.SimpleQueue) -> None:
        threadpool_limits(1, user_api="openmp")  # which counts for each thread on its own
        while not self._stop[0]:
            try:
                i, task = waiting.popleft()
            except IndexError:
                return
            try:
                done.put((i, task.run(self._engine), None))
            except BaseException as error:
                done.put((i, None, error))


def _until(stop: np.ndarray, done: queue.SimpleQueue, n: int) -> Iterator[Any]:
    """Take n things out of a queue; once ``stop`` is set, those that are there."""
    while n:
        try:
            thing = done.get(timeout=0 if stop[0] else POLL)
        except queue.Empty:
            if stop[0]:
                return
        else:
            yield thing
            n -= 1


_worker_engine: Any = None


def _prepare(engine) -> None:
    global _worker_engine
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threadpool_limits(1)
    _worker_engine = engine


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "only workers call this"
    wait([parent.sentinel])
    os._exit(1)


def _run(task: bytes, engine: bytes | None):
    return cloudpickle.loads(task).run(_worker_engine if engine is None else _unpickled(engine))


@cache
def _unpickled(engine: bytes):
    return cloudpickle.loads(engine)
