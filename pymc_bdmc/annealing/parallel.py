"""Run independent tasks on an engine, in this process or in several, and survive Ctrl-C."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Protocol

import cloudpickle
from threadpoolctl import threadpool_limits

__all__ = ["Task", "WorkerPool"]


class Task(Protocol):
    """A piece of work that needs an engine; its result depends on nothing else."""

    def run(self, engine: Any) -> Any:
        """Do the work."""


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
    >>> from pymc_bdmc.annealing.parallel import WorkerPool
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
