"""Run independent tasks on an engine, in this process or in several, and survive Ctrl-C."""

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Protocol

import cloudpickle
import numpy as np
from threadpoolctl import threadpool_limits

__all__ = ["Task", "ThreadPool", "WorkerPool", "available_cores"]


class Task(Protocol):
    """A piece of work that needs an engine; its result depends on nothing else."""

    def run(self, engine: Any) -> Any:
        """Do the work."""


def available_cores() -> int:
    """CPUs that this process may use, hardware threads included: they pay here.

    Examples
    --------
    >>> from pymc_bdmc.annealing import available_cores
    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerPool:
    """Processes that each hold a copy of an engine.

    Where the platform forks, a worker inherits the compiled engine; elsewhere it receives a
    pickled copy and compiles again. With ``cores=1`` everything runs in this process.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of worker processes.

    Examples
    --------
    >>> from pymc_bdmc.annealing.pools import WorkerPool
    >>> class Double:
    ...     def __init__(self, x):
    ...         self.x = x
    ...     def run(self, engine):
    ...         return engine * self.x
    >>> with WorkerPool(10, cores=1) as pool:
    ...     sorted(pool.run([Double(1), Double(2)]))
    [(0, 10), (1, 20)]
    """

    def __init__(self, engine: Any, cores: int):
        self._engine = engine
        self._cores = cores
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> "WorkerPool":
        if self._cores > 1:
            context = multiprocessing.get_context()
            forks = context.get_start_method() == "fork"
            self._executor = ProcessPoolExecutor(
                self._cores,
                mp_context=context,
                initializer=_inherit if forks else _receive,
                initargs=(self._engine,) if forks else (cloudpickle.dumps(self._engine),),
            )
        return self

    def __exit__(self, *exc_info) -> None:
        if self._executor is not None:
            for process in (self._executor._processes or {}).values():
                process.terminate()  # unfinished chains are not wanted: nothing waits for them
            self._executor.shutdown(cancel_futures=True)

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish."""
        if self._executor is None:
            with threadpool_limits(1):
                for i, task in enumerate(tasks):
                    yield i, task.run(self._engine)
            return
        futures = {
            self._executor.submit(_run, cloudpickle.dumps(task)): i for i, task in enumerate(tasks)
        }
        for future in as_completed(futures):
            yield futures[future], future.result()


class ThreadPool:
    """Threads that share an engine whose work runs without the GIL.

    Parameters
    ----------
    engine : object
        Handed to every task.
    cores : int
        Number of threads.
    stop : ndarray of shape (1,)
        Set when the pool is left before its tasks are done: they then end early, with None.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.annealing.pools import ThreadPool
    >>> class Double:
    ...     def run(self, engine):
    ...         return engine * 2
    >>> with ThreadPool(10, 2, np.zeros(1)) as pool:
    ...     list(pool.run([Double()]))
    [(0, 20)]
    """

    def __init__(self, engine: Any, cores: int, stop: np.ndarray):
        self._engine = engine
        self._cores = cores
        self._stop = stop
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "ThreadPool":
        self._stop[0] = 0
        self._limits = threadpool_limits(1)
        return self

    def __exit__(self, *exc_info) -> None:
        self._stop[0] = 1
        for thread in self._threads:
            thread.join()
        self._limits.restore_original_limits()

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (index of the task, its result) as tasks finish."""
        # Queues of C code: unlike futures, they stay whole when Ctrl-C comes at any moment.
        waiting, done = deque(enumerate(tasks)), queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, args=(waiting, done)) for _ in range(self._cores)
        ]
        for thread in self._threads:
            thread.start()
        for _ in tasks:
            i, result, error = done.get()
            if error is not None:
                raise error
            yield i, result

    def _work(self, waiting: deque, done: queue.SimpleQueue) -> None:
        while not self._stop[0]:
            try:
                i, task = waiting.popleft()
            except IndexError:
                return
            try:
                done.put((i, task.run(self._engine), None))
            except BaseException as error:
                done.put((i, None, error))


_worker_engine: Any = None


def _inherit(engine) -> None:
    global _worker_engine
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    threadpool_limits(1)
    _worker_engine = engine


def _receive(pickled: bytes) -> None:
    _inherit(cloudpickle.loads(pickled))


def _run(pickled: bytes):
    return cloudpickle.loads(pickled).run(_worker_engine)
