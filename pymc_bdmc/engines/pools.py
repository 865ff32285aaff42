"""Run independent tasks on an engine in threads, until Ctrl-C; the protocol of all pools."""

import queue
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

POLL = 0.1
"""Seconds between checks of the flag; an unlimited wait would ignore Ctrl-C."""


def one_thread(kind: str, libraries: ThreadpoolController | None = None) -> Any:
    """Limit the threads of one kind of library; the others are not restored afterwards."""
    return (libraries or ThreadpoolController()).select(user_api=kind).limit(limits=1)


class _OneBlasThread:
    """Limit BLAS to one thread until the last pool that needs this is closed.

    The number of threads belongs to the process, and the rounding of matrix products depends on it.
    So if two calls overlap, the first to end must not restore the number.
    """

    def __init__(self):
        self._lock, self._users = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._limits = one_thread("blas")
            self._users += 1

    def __exit__(self, *exc_info) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                self._limits.restore_original_limits()


ONE_BLAS_THREAD = _OneBlasThread()


class Task(Protocol):
    """Work for an engine; its result depends on nothing else."""

    def run(self, engine: Any) -> Any:
        """Do the work; None if it was stopped."""


class Pool(Protocol):
    """Pool that runs independent tasks."""

    spent: float
    """Seconds that earlier calls spent on the tasks of the last `run`."""

    def run(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more."""


class ThreadPool:
    """Pool of threads that share an engine, whose work runs without the GIL.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of threads; at most one per task is started.
    stop : ndarray of shape (1,)
        Flag from `interruptible`. It is also set if the pool is closed before its tasks are done.
        If it is set, tasks end early with None.

    Examples
    --------
    >>> from pymc_bdmc.engines.pools import ThreadPool
    >>> from pymc_bdmc.base.interrupts import interruptible
    >>> class Double:
    ...     def run(self, engine):
    ...         return engine * 2
    >>> with interruptible() as stop, ThreadPool(10, 2, stop) as pool:
    ...     list(pool.run([Double()]))
    [(0, 20)]
    """

    spent = 0.0

    def __init__(self, engine: Any, cores: int, stop: np.ndarray):
        self._engine = engine
        self._cores = cores
        self._stop = stop
        self._threads: list[threading.Thread] = []
        self._unfinished = 0

    def __enter__(self) -> "ThreadPool":
        self._libraries = ThreadpoolController()  # finding them takes milliseconds
        self._limits = one_thread("openmp", self._libraries)
        ONE_BLAS_THREAD.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_) -> None:
        if self._unfinished:
            self._stop[0] = 1
        if kind is not KeyboardInterrupt:  # Ctrl-C must not wait, e.g. for compilation
            for thread in self._threads:
                thread.join()
        ONE_BLAS_THREAD.__exit__()
        self._limits.restore_original_limits()

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish; after Ctrl-C no more."""
        # Queues in C: unlike futures, they remain valid if Ctrl-C comes at any moment.
        waiting = deque(range(len(tasks)))
        done: queue.SimpleQueue = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(tasks, waiting, done), daemon=True)
            for _ in range(min(self._cores, len(tasks)))
        ]
        self._unfinished = len(tasks)
        for thread in self._threads:
            thread.start()
        while self._unfinished and (found := next_result(self._stop, done)):
            i, result, error = found
            self._unfinished -= 1
            if error is not None:
                waiting.clear()
                raise error
            if result is not None:
                yield i, result

    def _work(self, tasks: Sequence[Task], waiting: deque, done: queue.SimpleQueue) -> None:
        # OpenMP has a limit for each thread.
        self._libraries.limit(limits=1, user_api="openmp")
        while not self._stop[0]:
            try:
                i = waiting.popleft()
            except IndexError:
                return
            try:
                done.put((i, tasks[i].run(self._engine), None))
            except BaseException as error:
                done.put((i, None, error))


def next_result(stop: np.ndarray, done: queue.SimpleQueue) -> Any:
    """Return the next item of a queue; once ``stop`` is set, None if it is empty."""
    while True:
        try:
            return done.get(timeout=0 if stop[0] else POLL)
        except queue.Empty:
            if stop[0]:
                return None
