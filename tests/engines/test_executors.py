"""Executors: the same bits on any workers, whatever becomes of these, and few large messages."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytest
from dask import config
from distributed import Client, LocalCluster

import pymc_bdmc as bdmc
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.engines import AnnealTask
from pymc_bdmc.run import workers
from pymc_bdmc.run.workers import open_workers
from tests.call.test_sampling import normal_model
from tests.call.test_store import assert_same, committed

OPTIONS = dict(
    chains=2, particles=4, temperatures=20, path="prior",
    simulate=bdmc.FromPrior(1), random_seed=3,
    progressbar=False,
)  # fmt: skip


@pytest.fixture(scope="module")
def client():
    """Client of two workers, forked if possible from a process that has imported the package."""
    method = "spawn"
    if sys.platform != "win32":
        method = "forkserver"
        get_context(method).set_forkserver_preload(["distributed", "pymc_bdmc"])
    with (
        config.set({"distributed.worker.multiprocessing-method": method}),
        LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def executor(client):
    return client.get_executor()


FITTED = {"path": None, "simulate": bdmc.FromHyperparameters(datasets=2)}


@pytest.mark.parametrize("more", [{}, FITTED])
def test_same_bits_on_a_cluster(executor, more, tmp_path):
    """And every run is committed to a store."""
    options, path = OPTIONS | more, tmp_path / "run"
    expected = pm.sample_bdmc(normal_model(), **options, cores=1)
    there = pm.sample_bdmc(normal_model(), **options, executor=executor, store=path)
    assert_same(there, expected)
    n_runs = sum(expected[group]["log_weight"].size for group in ("forward", "reverse", "real"))
    assert len([name for name in committed(path) if name.startswith("3.")]) == n_runs


def test_same_bits_of_lattices_and_boltzmann_machines(executor):
    ising, rbm = bdmc.lattice.Ising(4), bdmc.rbm.RBM(np.zeros(4), np.zeros(3), np.eye(4, 3))
    for anneal, system in [(bdmc.lattice.anneal, ising), (bdmc.rbm.anneal, rbm)]:
        options = dict(chains=2100, temperatures=10, random_seed=1, progressbar=False)
        here, there = (anneal(system, **options, **how) for how in ({}, {"executor": executor}))
        assert_same(here, there)


class Noted:
    """Says which worker it runs in; all but the first do not end before they may."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name

    def run(self, engine):
        (self.folder / self.name).write_text(str(os.getpid()))
        while self.name != "0" and not (self.folder / "go").exists():
            time.sleep(0.05)
        return self.name


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_worker_killed_in_the_middle_loses_nothing(executor, tmp_path):
    """Dask runs its task elsewhere, and a worker that comes in its place is sent the engine."""
    unfinished, victim = [str(i) for i in range(8)], ""
    with interruptible() as stop, open_workers(None, 2, stop, executor) as pool:
        for _, name in pool.run([Noted(tmp_path, name) for name in unfinished]):
            unfinished.remove(name)
            while not victim:
                for file in tmp_path.glob("[1-7]"):
                    lost, victim = file, file.read_text()
            if name == "0":
                os.kill(int(victim), signal.SIGKILL)
                (tmp_path / "go").touch()
    assert not unfinished
    assert lost.read_text() != victim


class Engine:
    """Large, and it counts how often it was unpickled."""

    content = bytes(1_000_000)

    def __init__(self, folder):
        self.folder = folder

    def __setstate__(self, state):
        vars(self).update(state)
        (self.folder / str(time.time_ns())).touch()


class Task:
    def run(self, engine):
        time.sleep(0.01)
        return threading.get_ident()


class Counting(Executor):
    """Hands all on, and keeps the parts that are sent, and how many messages wait at once."""

    def __init__(self, executor):
        self.executor, self.sent, self.waiting, self.most = executor, [], 0, 0

    def submit(self, function, keys, places, parts):
        self.sent.append((places, parts))
        future = self.executor.submit(function, keys, places, parts)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        future.add_done_callback(self.done)
        return future

    def done(self, future):
        self.waiting -= 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_the_engine_travels_once_a_worker(tmp_path):
    """200 tasks on two processes, twice; the twin sends it with each of them."""
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as processes:
        executor = Counting(processes)
        with interruptible() as stop, open_workers(Engine(tmp_path), 2, stop, executor) as pool:
            for _ in range(2):
                assert sorted(i for i, _ in pool.run([Task()] * 200)) == list(range(200))
        assert len(list(tmp_path.iterdir())) == 2
        large = [parts for _, parts in executor.sent if parts]
        assert 2 <= len(large) <= 2 * 4 + 8
        assert executor.most <= 4 + 2 * 2


def test_many_tasks_are_sent_in_ranges(monkeypatch):
    monkeypatch.setattr(workers, "MOST_MESSAGES", 10)
    with ThreadPoolExecutor(2) as threads:
        executor = Counting(threads)
        with interruptible() as stop, open_workers(None, 2, stop, executor) as pool:
            assert sorted(i for i, _ in pool.run([Task()] * 95)) == list(range(95))
            assert not list(pool.run([]))
    places = [places for places, parts in executor.sent if not parts]
    assert [len(each) for each in places] == [10] * 9 + [5]


def test_ctrl_c_asks_for_no_more(monkeypatch):
    run, begun = AnnealTask.run, []

    def pressed(self, engine):
        begun.append(True)
        return run(self, engine)

    monkeypatch.setattr(AnnealTask, "run", pressed)
    with ThreadPoolExecutor(1) as threads:
        dt = pm.sample_bdmc(
            normal_model(), **OPTIONS | {"chains": 100}, executor=threads,
            callback=lambda dt: signal.raise_signal(signal.SIGINT),
        )  # fmt: skip
    assert dt.attrs["interrupted"] == 1
    assert len(begun) < 20


class End:
    def run(self, engine):
        os._exit(1)


def test_a_worker_that_is_not_replaced_is_an_error():
    with (
        ProcessPoolExecutor(1) as executor,
        interruptible() as stop,
        open_workers(None, 2, stop, executor) as pool,
        pytest.raises(RuntimeError, match="A worker ended during a task"),
    ):
        list(pool.run([End()]))
