"""What a run costs besides itself: bytes, a store, messages to an executor, and the reduction.

    OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --docs

writes a section of docs/performance.md, in some five minutes. Seconds are those of a processor. The
scheduler is Dask's own; it hands out tasks that sleep, so that two cores can play 16 workers.
"""

import os
import pickle
import tempfile
import time
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
from common import publish, shown, table
from distributed import Client, LocalCluster

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.call.rounds import Side, Tasks
from pymc_bdmc.call.store import open_store
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import make_engine
from pymc_bdmc.run import workers
from pymc_bdmc.run.recorder import Recorder
from pymc_bdmc.run.tasks import PilotTask
from pymc_bdmc.run.workers import open_workers
from tests.models import eight_schools

COMMAND = "OPENBLAS_NUM_THREADS=1 python benchmarks/scale.py --docs"
PAUSE = 0.01
"""Seconds that a task sleeps."""
PROCESSES, THREADS = 2, 8
RUNS, WORKERS = 10**6, 10**3


def real_tasks(n_temperatures: int, chains: int) -> tuple:
    """Engine and tasks of runs on the data of eight schools, 32 particles each."""
    density = TemperedDensity(eight_schools(centred=False))
    betas = np.linspace(0, 1, n_temperatures + 1) ** 4
    betas.flags.writeable = False
    engine = make_engine(density, betas, None)
    tuning = PilotTask(density.data, np.random.SeedSequence(1)).run(engine)
    side = Side("forward", 1, density.data, tuning, chains, engine.default_particles)
    return engine, Tasks([side], 1, betas, 0)


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
            store = open_store(Path(folder) / "run", {}, 1)
            store.write("3.0", "", run)
            stored = sum(file.stat().st_size for file in store.path.glob("runs/3*")) / 1e3
        lengths = [
            len(pickle.dumps(run)),
            len(cloudpickle.dumps(engine)),
            len(cloudpickle.dumps(tasks)),
            len(pickle.dumps((["k" * 32] * 2, range(9), {}))),
        ]
        rows.append(shown([n, f"{stored:.1f}", *(f"{each / 1e3:.1f}" for each in lengths)]))
    return stored, rows


def cpu(function, *arguments) -> tuple[float, object]:
    """Seconds of the processor, of this process, and what the function returned."""
    started = time.process_time()
    result = function(*arguments)
    return time.process_time() - started, result


def overhead_of_a_store(engine, tasks: Tasks) -> tuple[float, list]:
    """Seconds that a run costs with a store, beside those in which it runs, and a row."""

    def each(run) -> tuple[float, float]:
        """Seconds a task of this thread, and of the one that runs them."""
        started, whole = time.thread_time(), time.process_time()
        for _ in run(tasks):
            pass
        here = time.thread_time() - started
        return here / len(tasks), (time.process_time() - whole - here) / len(tasks)

    found = []
    with interruptible() as stop, engine.pool(1, stop) as pool:
        for _ in range(5):
            with tempfile.TemporaryDirectory() as folder:
                store = open_store(Path(folder) / "run", {}, 1)
                stored = partial(store.run, workers=pool, stop=stop)
                without, run = each(pool.run)
                commit, read = each(stored)[0] - without, each(stored)[0]
                found.append([1e3 * run, 1e3 * commit, 100 * commit / run, 1e3 * read])
    run, commit, share, read = np.median(found, axis=0)
    row = [f"{run:.0f}", f"{commit:.2f}", f"{share:.1f} %", f"{read:.2f}"]
    return commit / 1e3, row


def reduction(tasks: Tasks, run) -> float:
    """Seconds to add a run to the others."""
    recorder, n = Recorder(2000, tasks.betas), 2000
    return cpu(lambda: [recorder.add(place, run) for place in range(n)])[0] / n


def messages(client: Client, run) -> tuple[dict[int, float], list]:
    """Seconds a task of this process, in which the scheduler is too, by length of a range; rows."""
    rows, a_task = [], {}
    processes = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

    def theirs() -> float:
        return sum(sum(worker.cpu_times()[:2]) for worker in processes)

    for n, most in [(10**2, 10**4), (10**3, 10**4), (10**4, 10**4), (10**4, 10**3), (10**4, 10**2)]:
        _, tasks = real_tasks(100, n)
        counting, sleeping = Counting(client.get_executor()), Sleeps(tasks, PAUSE, run)
        workers.MOST_MESSAGES = most
        before = theirs()
        with interruptible() as stop, open_workers(None, 4, stop, counting) as pool:
            here, _ = cpu(list, pool.run(sleeping))
        there = theirs() - before
        a_task[-(-n // most)] = here / n
        each = (f"{1e3 * seconds / n:.2f}" for seconds in (here, there))
        rows.append(shown([n, -(-n // most), counting.messages, counting.large, *each]))
    return a_task, rows


def main() -> None:
    kilobytes, size_rows = sizes()
    engine, tasks = real_tasks(1000, 50)
    run = tasks[0].run(engine)
    commit, store_row = overhead_of_a_store(engine, tasks)
    reduce = reduction(tasks, run)
    store_rows = [shown([*store_row, f"{1e3 * reduce:.2f}"])]
    engine, tasks = real_tasks(100, 2)
    run = tasks[0].run(engine)
    with (
        LocalCluster(PROCESSES, threads_per_worker=THREADS, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.run(lambda: __import__("pymc_bdmc.engines"))
        a_task, rows = messages(client, run)
    in_all = [
        *([f"messages, {n} in a range", f"{1e3 * a_task[n]:.2f} ms",
           f"{RUNS * a_task[n] / 60:.0f} min"] for n in (1, 100)),
        ["commit to a store", f"{1e3 * commit:.2f} ms", f"{RUNS * commit / 60:.0f} min"],
        ["reduce", f"{1e3 * reduce:.2f} ms", f"{RUNS * reduce / 60:.1f} min"],
        ["size of a store", f"{kilobytes:.1f} kB", f"{RUNS * kilobytes / 1e6:.0f} GB"],
    ]  # fmt: skip
    publish("Clusters and stores", TEXT, table(["", "a run", "in all"], in_all), command=COMMAND)
    print(table(SIZES, size_rows), table(STORE, store_rows), table(MESSAGES, rows), sep="\n\n")


TEXT = (
    f"What {RUNS:,} runs with T = 1000 and 32 particles cost the caller, besides themselves, if "
    f"they run on {WORKERS:,} workers: figures of one run, multiplied. The model is eight schools. "
    f"Messages are those of Dask, with {PROCESSES} processes of {THREADS} threads."
)
SIZES = ["T", "run in a store", "run in a message", "engine", "all tasks", "a range"]
"""Kilobytes."""
STORE = ["run", "commit", "share of the run", "read again", "reduce"]
"""CPU milliseconds."""
MESSAGES = ["tasks", "in a range", "messages", "with engine and tasks", "here", "there"]
"""Milliseconds a task in the caller, which has the scheduler too, and on the workers."""


if __name__ == "__main__":
    main()
