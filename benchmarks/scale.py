"""What a run costs besides itself: bytes, a store, messages to an executor, and the reduction.

    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --docs

writes the tables of docs/scale.md, in five minutes. The scheduler is Dask's own, in a process of
this machine; what it hands out are tasks that sleep, so that two cores can play 16 workers.
"""

import gc
import pickle
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path

import cloudpickle
import numpy as np
from common import publish, shown, table, timed
from distributed import Client, LocalCluster

from pymc_bdmc.annealing import ExecutorPool, Recorder, ThreadPool, pools
from pymc_bdmc.annealing.engines import make_engine
from pymc_bdmc.annealing.rounds import Plan, Side, Tasks
from pymc_bdmc.annealing.store import Store, StoredPool
from pymc_bdmc.annealing.tasks import PilotTask
from pymc_bdmc.interrupts import interruptible
from pymc_bdmc.model.tempered import TemperedDensity
from tests.models import eight_schools

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
MADE = "Made by `OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --docs`."
RUN = 0.05
"""Seconds of the shortest runs that a store or an executor is meant for."""
PROCESSES, THREADS = 2, 8
RUNS, WORKERS = 10**6, 10**3


def real_tasks(n_temperatures: int, chains: int) -> tuple:
    """Engine and tasks of runs on the data of eight schools, 32 particles each."""
    density = TemperedDensity(eight_schools(centred=False))
    betas = np.linspace(0, 1, n_temperatures + 1) ** 4
    betas.flags.writeable = False
    engine = make_engine(density, betas, None)
    tuning = PilotTask(density.data, np.random.SeedSequence(1)).run(engine)
    side = Side("forward", 1, density.data, tuning)
    plan = Plan(chains, engine.default_particles, 1, None, 1, None, False)
    return engine, Tasks([side], plan, betas, 0)


class Sleeps:
    """Tasks that sleep and then return what a run has found."""

    def __init__(self, tasks: Tasks, seconds: float, run=None):
        self.tasks, self.pause = tasks, (seconds, run)

    def __len__(self):
        return len(self.tasks)

    def __getitem__(self, k):
        return Sleep(self.pause, vars(self.tasks[k]))


class Sleep:
    """One of them, with all that a real task carries."""

    def __init__(self, pause, fields):
        vars(self).update(fields, pause=pause)

    def run(self, engine):
        """What the real one found."""
        seconds, result = self.pause
        time.sleep(seconds)
        return result


class Counting(Executor):
    """Hands all on, and counts messages, and those with the engine."""

    def __init__(self, executor):
        self.executor, self.messages, self.large = executor, 0, 0

    def submit(self, function, keys, places, parts):
        """Count, and hand on."""
        self.messages += 1
        self.large += bool(parts)
        return self.executor.submit(function, keys, places, parts)


def sizes() -> tuple[float, list]:
    """Kilobytes of a stored run of T = 1000, and rows for the table."""
    rows, stored = [], 0.0
    for n in (100, 1000):
        engine, tasks = real_tasks(n, 2)
        run = tasks[0].run(engine)
        with tempfile.TemporaryDirectory() as folder:
            store = Store(Path(folder) / "run.zarr", {}, 1)
            store.write(tasks[0], "", run, 0.0)
            files = [file for file in store.path.glob("runs/3*/*") if file.is_file()]
            stored = sum(file.stat().st_size for file in files) / 1e3
        lengths = [
            len(pickle.dumps(run)),
            len(cloudpickle.dumps(engine)),
            len(cloudpickle.dumps(tasks)),
            len(pickle.dumps((["k" * 32] * 2, range(9), {}))),
        ]
        rows.append(shown([n, f"{stored:.1f}", *(f"{each / 1e3:.1f}" for each in lengths)]))
    return stored, rows


def overhead_of_a_store(tasks: Tasks, run) -> tuple[float, list]:
    """Seconds a run takes longer with a store, and a row."""
    sleeping = Sleeps(tasks, RUN, run)

    def all_of(pool):
        return timed(lambda: [result for _, result in pool.run(sleeping)])[0]

    without, with_one, again = [], [], []
    with interruptible() as stop, ThreadPool(None, 1, stop) as pool:
        for _ in range(3):
            without.append(all_of(pool))
            with tempfile.TemporaryDirectory() as folder:
                stored = StoredPool(pool, Store(Path(folder) / "run.zarr", {}, 1), stop)
                with_one.append(all_of(stored))
                again.append(all_of(stored))
    n = len(sleeping)
    commit, read = (np.median(with_one) - np.median(without)) / n, np.median(again) / n
    share = np.median(np.divide(with_one, without)) - 1
    return commit, [f"{1e3 * commit:.2f}", f"{100 * share:.1f} %", f"{1e3 * read:.2f}"]


def reduction(tasks: Tasks, run) -> float:
    """Seconds to add a run to the others."""
    recorder, n = Recorder(2000, tasks.betas), 2000
    gc.collect()
    seconds, _ = timed(lambda: [recorder.add(place, run) for place in range(n)])
    return seconds / n


def messages(executor: Executor, run) -> tuple[float, list]:
    """Seconds of the scheduler and this process for a message, and rows."""
    rows, a_message = [], 0.0
    slots = PROCESSES * THREADS
    for n, seconds, most in [
        (10**2, RUN, 10**4), (10**3, RUN, 10**4), (10**4, 0.0, 10**4), (10**4, 0.0, 10**3),
        (10**4, 0.0, 10**2),
    ]:  # fmt: skip
        _, tasks = real_tasks(100, n)
        counting, sleeping = Counting(executor), Sleeps(tasks, seconds, run)
        pools.MOST_MESSAGES = most
        with interruptible() as stop, ExecutorPool(None, counting, stop) as pool:
            taken, _ = timed(list, pool.run(sleeping))
        beyond = taken - seconds * n / slots
        if most == n == 10**4:
            a_message = beyond / counting.messages
        rows.append(shown([
            n, f"{1e3 * seconds:.0f}", -(-n // most), counting.messages, counting.large,
            f"{taken:.2f}", f"{1e3 * beyond / n:.2f}",
        ]))  # fmt: skip
    return a_message, rows


def main() -> None:
    kilobytes, size_rows = sizes()
    publish(
        "Bytes",
        f"{MADE} Eight schools, 32 particles; kilobytes. A run on the real data has its last "
        "states besides. Engine and tasks travel once a worker.",
        table(
            ["T", "run in a store", "run in a message", "engine", "all tasks", "a range"], size_rows
        ),
        page=PAGE,
    )
    engine, tasks = real_tasks(1000, 200)
    run = tasks[0].run(engine)
    commit, store_row = overhead_of_a_store(tasks, run)
    reduce = reduction(tasks, run)
    publish(
        "A store, and the reduction",
        f"{MADE} Runs of T = 1000 that take {1e3 * RUN:.0f} ms, 200 one after the other; "
        "milliseconds a run.",
        table(["commit", "share of the run", "read again", "reduce"],
              [shown([*store_row, f"{1e3 * reduce:.2f}"])]),
        page=PAGE,
    )  # fmt: skip
    engine, tasks = real_tasks(100, 2)
    run = tasks[0].run(engine)
    with (
        LocalCluster(PROCESSES, threads_per_worker=THREADS, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(lambda: __import__("pymc_bdmc.annealing"))
        a_message, rows = messages(client.get_executor(), run)
    publish(
        "Messages to a scheduler",
        f"{MADE} Dask, {PROCESSES} processes of {THREADS} threads. Sleeping tasks return a run of "
        "T = 100. Beyond: the time over that of the sleep, shared among all threads, a task.",
        table(["tasks", "sleep, ms", "tasks a range", "messages", "with engine and tasks",
               "seconds", "beyond, ms a task"], rows),
        page=PAGE,
    )  # fmt: skip
    n_messages = 10_000
    publish(
        f"{RUNS:,} runs on {WORKERS:,} workers",
        f"{MADE} The figures above, multiplied; T = 1000.",
        table(["", "a run", "in all"], [
            ["messages one by one", f"{1e3 * a_message:.2f} ms",
             f"{RUNS * a_message / 60:.0f} min"],
            ["in ranges of 100", f"{1e3 * a_message * n_messages / RUNS:.3f} ms",
             f"{n_messages * a_message:.0f} s"],
            ["commit", f"{1e3 * commit:.2f} ms", f"{RUNS * commit / 60:.0f} min"],
            ["reduce", f"{1e3 * reduce:.2f} ms", f"{RUNS * reduce / 60:.1f} min"],
            ["store", f"{kilobytes:.1f} kB", f"{RUNS * kilobytes / 1e6:.0f} GB"],
        ]),
        page=PAGE,
    )  # fmt: skip


if __name__ == "__main__":
    main()
