"""Workers: who runs tasks, how they end, and that nothing outlives them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from types import ModuleType

import numpy as np
import pymc as pm
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.run import workers
from pymc_bdmc.run.workers import open_workers
from tests.call.test_sampling import normal_model


class Sleep:
    """Leaves a file, if one is named, when it has slept."""

    def __init__(self, seconds, file=None):
        self.seconds, self.file = seconds, file

    def run(self, engine):
        time.sleep(self.seconds)
        if self.file:
            self.file.touch()
        return self.seconds


def test_leaving_the_pool_does_not_wait_for_running_tasks(tmp_path):
    with interruptible() as stop, open_workers(None, 2, stop, in_processes=True) as pool:
        next(pool.run([Sleep(0), Sleep(60, tmp_path / "waited")]))  # one is free for the first
    assert not multiprocessing.active_children()
    assert not (tmp_path / "waited").exists()


class Fail:
    def run(self, engine):
        raise ValueError("from the worker")


@pytest.mark.parametrize(("cores", "in_processes"), [(2, False), (1, True), (2, True)])
def test_errors_of_workers_reach_the_caller(cores, in_processes):
    workers_of = open_workers(None, cores, np.zeros(1), in_processes=in_processes)
    with workers_of as pool, pytest.raises(ValueError, match="from the worker"):
        list(pool.run([Fail()]))


class Forked(Exception):
    pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.parametrize("loaded", [True, False])
def test_nothing_is_forked_where_jax_is_loaded(loaded, monkeypatch):
    """In the twin it is not."""

    def refused():
        raise Forked

    monkeypatch.setattr(os, "fork", refused)
    monkeypatch.setattr(multiprocessing, "get_context", by_fork)
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    if loaded:
        monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    with (
        interruptible() as stop,
        open_workers(None, 2, stop, in_processes=True) as pool,
        nullcontext() if loaded else pytest.raises(Forked),
    ):
        assert list(pool.run([Sleep(0)])) == [(0, 0)]


def by_fork(method=None, get_context=multiprocessing.get_context):
    """As on a platform that forks if nothing else is asked for."""
    return get_context(method or "fork")


def test_no_more_processes_than_chains(monkeypatch):
    asked, start = [], workers._processes

    def noted(cores):
        asked.append(cores)
        return start(1)

    monkeypatch.setattr(workers, "_processes", noted)
    options = {"chains": 3, "temperatures": 5, "step": pm.Metropolis, "simulate": None}
    pm.sample_bdmc(normal_model(), cores=50, progressbar=False, **options)
    assert asked == [3]


@pytest.mark.parametrize(("in_processes", "cores"), [(False, 2), (True, 1), (True, 2)])
def test_the_flag_ends_the_results(in_processes, cores):
    """What is finished when Ctrl-C comes is handed out, in any order; nothing else is begun."""
    found = []
    with (
        interruptible() as stop,
        open_workers(None, cores, stop, in_processes=in_processes) as pool,
    ):
        for i, _ in pool.run([Sleep(0), *(Sleep(0.5) for _ in range(100))]):
            if not found:
                signal.raise_signal(signal.SIGINT)
            found.append(i)
    assert 1 <= len(found) <= 2


@pytest.mark.parametrize("second", [True, False])
def test_the_second_ctrl_c_does_not_wait_for_threads(second):
    """A thread that compiles looks at no flag; without a second Ctrl-C its pool waits for it."""
    ended = threading.Event()

    class Deaf:
        def run(self, engine):
            ended.wait(20)

    with (
        pytest.raises(KeyboardInterrupt) if second else nullcontext(),
        interruptible() as stop,
        open_workers(None, 1, stop) as pool,
    ):
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        assert not list(pool.run([Deaf()]))
        if second:
            signal.raise_signal(signal.SIGINT)
        threading.Timer(0.5, ended.set).start()
    assert ended.is_set() != second
    ended.set()


PARENT = """
import multiprocessing, sys, time
from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.run.workers import open_workers

class Task:
    def __init__(self, seconds, word):
        self.seconds, self.word = seconds, word

    def run(self, engine):
        time.sleep(self.seconds)
        print(self.word, flush=True)

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    with interruptible() as stop, open_workers(None, 2, stop, in_processes=True) as pool:
        list(pool.run([Task(0, "at work"), Task(60, "outlived its parent")]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_end_with_a_killed_parent(tmp_path, method):
    """They hold its standard output open: it ends when the last of them is gone."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, script, method], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "at work\n"
    os.kill(parent.pid, signal.SIGKILL)
    assert parent.communicate() == ("", None)


STARTING = """
import multiprocessing, os, sys, time
from contextlib import suppress

def sleep():
    print("begun", flush=True)
    time.sleep(60)
    print("not heard", flush=True)

if __name__ == "__mp_main__":  # one of the two workers comes no farther
    with suppress(FileExistsError):
        os.mkdir(sys.argv[1])
        sleep()

from pymc_bdmc.run.workers import open_workers
from pymc_bdmc.base.interrupts import interruptible

def unpickled(large):
    sleep()

class Engine:
    def __reduce__(self):
        return unpickled, (bytes(1_000_000),)

class Task:
    def run(self, engine):
        return 0

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with interruptible() as stop, open_workers(Engine(), 2, stop, in_processes=True) as pool:
        assert not list(pool.run([Task(), Task()]))
        assert stop[0]
    print("ended")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups")
def test_ctrl_c_while_workers_start(tmp_path):
    """A terminal sends it to all processes: those that only start die of it, or do not.

    One worker begins to import, and the other to unpickle the engine.
    """
    script = tmp_path / "starting.py"
    script.write_text(STARTING)
    command = [sys.executable, script, tmp_path / "first"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        try:
            assert [parent.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
            os.killpg(parent.pid, signal.SIGINT)
            out, err = parent.communicate()
            assert out == "ended\n", err
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)


def blas_threads_of_two_calls():
    """How many threads BLAS has in the second of two pools, after the first, and after both."""

    def present():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    with threadpool_limits(2, "blas"), interruptible() as stop:
        first, second = (open_workers(None, 1, stop) for _ in range(2))
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        within = present()
        second.__exit__(None, None, None)
        return within, present()


class Each:
    """Limits of each call alone."""

    def __init__(self):
        self.limits = []

    def __enter__(self):
        self.limits.append(threadpool_limits(1, "blas"))

    def __exit__(self, *exc_info):
        self.limits.pop(0).restore_original_limits()


def test_blas_has_one_thread_until_the_last_of_two_calls_ends(monkeypatch):
    """The limits of the twin mix."""
    assert blas_threads_of_two_calls() == ({1}, {2})
    monkeypatch.setattr(workers, "ONE_BLAS_THREAD", Each())
    assert blas_threads_of_two_calls() == ({2}, {1})
