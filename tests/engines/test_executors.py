"""Executors: the same bits on any workers, whatever becomes of these, and few large messages."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from dask import config
from distributed import Client, LocalCluster

import pymc_bdmc as bdmc
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.engines import AnnealTask
from pymc_bdmc.run import workers
from pymc_bdmc.run.workers import open_workers
from tests.call.test_store import assert_same, committed
from tests.models import conjugate_regression

OPTIONS = dict(
    chains=4, particles=4, temperatures=100, path="prior",
    simulate=bdmc.FromPrior(1), random_seed=3,
    progressbar=False,
)  # fmt: skip
STEPS = dict(step=pm.Metropolis, particles=1, temperatures=20)


@pytest.fixture(scope="module")
def model():
    return conjugate_regression(d=3, n=20)[0]


@pytest.fixture(
    scope="module", params=[2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))]
)
def client(request):
    """Client of workers, forked if possible from a process that has imported the package."""
    method = "spawn"
    if sys.platform != "win32":
        method = "forkserver"
        get_context(method).set_forkserver_preload(["distributed", "pymc_bdmc"])
    with (
        config.set({"distributed.worker.multiprocessing-method": method}),
        LocalCluster(request.param, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def executor(client):
    return client.get_executor()


@pytest.mark.parametrize("more", [{}, {"path": None, "simulate": "hyperparameters"}, STEPS])
def test_same_bits_on_a_cluster(model, executor, more):
    options = OPTIONS | more
    expected = pm.sample_bdmc(model, **options, cores=1)
    assert_same(pm.sample_bdmc(model, **options, cores=2), expected)
    assert_same(pm.sample_bdmc(model, **options, executor=executor), expected)


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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_worker_and_a_store(model, client, tmp_path):
    """The result has the same bits, and every run was committed."""
    expected = pm.sample_bdmc(model, **OPTIONS)
    workers = list(client.run(os.getpid).values())

    def kill(dt):
        if workers:
            os.kill(workers.pop(), signal.SIGKILL)
            workers.clear()

    path = tmp_path / "run"
    dt = pm.sample_bdmc(model, **OPTIONS, executor=client.get_executor(), store=path, callback=kill)
    assert_same(dt, expected)
    assert len([name for name in committed(path) if name.startswith("3.")]) == 3 * 4


LONGER = OPTIONS | dict(temperatures=1000, particles=32, chains=40)
CALLER = """
import sys
import pymc as pm
from distributed import Client
from tests.engines.test_executors import LONGER
from tests.models import conjugate_regression

with Client(sys.argv[1]) as client:
    model = conjugate_regression(d=3, n=20)[0]
    pm.sample_bdmc(model, **LONGER, executor=client.get_executor(), store=sys.argv[2])
"""


@pytest.mark.slow
def test_a_caller_killed_at_random_moments(model, client, tmp_path):
    """Every record stays the file that it was; the cluster serves the next caller."""
    path, rng = tmp_path / "run", np.random.default_rng(1)
    command = [sys.executable, "-c", CALLER, client.scheduler.address, str(path)]

    def times():
        records = committed(path) if path.exists() else ()
        return {name: (path / "runs" / f"{name}.npz").stat().st_mtime_ns for name in records}

    numbers = []
    for kill in range(20):
        before = times()
        caller = subprocess.Popen(command)
        while kill % 4 and caller.poll() is None and len(times()) == len(before):
            time.sleep(0.05)  # three of four come when runs are finished
        with suppress(subprocess.TimeoutExpired):
            caller.wait(rng.random())
        caller.kill()
        caller.wait()
        numbers.append(len(times()))
        assert before.items() <= times().items()
    assert len(set(numbers)) > 5
    before = times()
    assert subprocess.run(command).returncode == 0
    assert before.items() <= times().items()
    assert_same(xr.open_datatree(path / "result.nc"), pm.sample_bdmc(model, **LONGER))


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


def test_ctrl_c_asks_for_no_more(model):
    run, begun = AnnealTask.run, []

    def pressed(self, engine):
        begun.append(True)
        return run(self, engine)

    with ThreadPoolExecutor(1) as threads, pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnnealTask, "run", pressed)
        dt = pm.sample_bdmc(
            model, **OPTIONS | dict(chains=100), executor=threads,
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


def test_cores_beside_an_executor_and_what_is_no_executor_are_refused(model):
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(ValueError, match="cores: the executor has its own workers"):
            pm.sample_bdmc(model, executor=threads, cores=2)
        with pytest.raises(TypeError, match=r"executor: a concurrent\.futures\.Executor is needed"):
            bdmc.lattice.anneal(bdmc.lattice.Ising(4), executor=threads.submit)
