"""Ctrl-C in every phase: what is finished is kept, and before that nothing swallows it."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from _thread import interrupt_main
from contextlib import nullcontext, suppress

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.call import prepare, session, tree
from pymc_bdmc.engines import AnnealTask, PilotTask
from pymc_bdmc.run import workers
from pymc_bdmc.testbeds import tempering
from tests.call.test_sampling import normal_model

SMALL = dict(
    chains=2, temperatures=10, simulate=bdmc.FromPrior(1), random_seed=1, progressbar=False, cores=1
)


def press():
    signal.raise_signal(signal.SIGINT)


def pressing(function, times=1):
    """The function, before which Ctrl-C is pressed the first time it is called."""
    pressed = []

    def wrapped(*args, **kwargs):
        while len(pressed) < times:
            pressed.append(True)
            press()
        return function(*args, **kwargs)

    return wrapped


def test_the_first_is_a_flag_and_the_second_raises():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptible() as stop:  # noqa: PT012
        assert stop[0] == 0
        with interruptible() as inner:  # inside another it is the same flag
            press()
        assert inner is stop
        assert stop[0] == 1
        press()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("block", [interruptible, nothing_to_keep])
def test_who_ignores_ctrl_c_goes_on_ignoring_it(monkeypatch, block):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with block() as stop:
            press()
        assert stop is None or stop[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("block", [interruptible, nothing_to_keep])
def test_other_threads_leave_signals_alone(block):
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with block():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def swallowing():
    with suppress(BaseException):
        press()


def failing():
    try:
        press()
    finally:
        raise ValueError("Not enough samples to build a trace.")


@pytest.mark.parametrize("act", [press, swallowing, failing])
@pytest.mark.parametrize("around", [nullcontext, interruptible])
def test_with_nothing_to_keep_it_raises_whatever_the_code_makes_of_it(act, around):
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), around(), nothing_to_keep():
        act()
    assert signal.getsignal(signal.SIGINT) is before


class Signal(int):
    """Pressed by C code, so that Python's next look for signals is in the function called next."""

    press = property(interrupt_main)


@pytest.mark.parametrize("around", [nullcontext, interruptible])
def test_with_nothing_to_keep_it_raises_at_the_very_end(around):
    before = signal.getsignal(signal.SIGINT)
    sigint = Signal(signal.SIGINT)
    with around(), pytest.raises(KeyboardInterrupt), nothing_to_keep():
        sigint.press  # noqa: B018
    assert signal.getsignal(signal.SIGINT) is before


def test_with_nothing_to_keep_an_earlier_one_raises_at_once_and_later_ones_are_flags():
    with interruptible() as stop:
        with nothing_to_keep():
            pass
        press()
        assert stop[0] == 1
        with pytest.raises(KeyboardInterrupt), nothing_to_keep():
            pytest.fail("entered")


@pytest.mark.parametrize(
    ("module", "call"),
    [
        (session, lambda: pm.sample_bdmc(normal_model(), **SMALL)),
        (tempering, lambda: bdmc.temper(normal_model(), chains=2, temperatures=3, draws=3)),
    ],
    ids=["annealing", "tempering"],
)
def test_in_compilation(module, call, monkeypatch):
    make_engine = module.make_engine

    def deaf(*args):
        swallowing()
        return make_engine(*args)

    monkeypatch.setattr(module, "make_engine", deaf)
    with pytest.raises(KeyboardInterrupt):
        call()


def test_in_the_fit_of_the_hyperparameters(monkeypatch):
    """No further scout must be sent out; the finished ones are no runs of the result."""
    runs, run = [], AnnealTask.run

    def counted(self, engine):
        runs.append(True)
        if len(runs) == 2:
            press()
        end = time.monotonic() + 10  # the run may be quicker than the signal
        while len(runs) > 1 and not engine._stop[0] and time.monotonic() < end:
            time.sleep(0.001)
        return run(self, engine)

    monkeypatch.setattr(AnnealTask, "run", counted)
    with pytest.raises(KeyboardInterrupt, match="nothing to keep"):
        pm.sample_bdmc(normal_model(), **SMALL | {"simulate": "hyperparameters"})
    assert len(runs) < 4  # a thread may have begun the next one


@pytest.mark.parametrize("step", [None, pm.Metropolis])
@pytest.mark.parametrize("task", [PilotTask, AnnealTask])
def test_before_any_chain_is_finished(monkeypatch, task, step):
    monkeypatch.setattr(task, "run", pressing(task.run))
    with pytest.raises(KeyboardInterrupt, match="nothing to keep"):
        pm.sample_bdmc(
            normal_model(), step=step, **SMALL | {"chains": 100, "temperatures": 1_000_000}
        )


def test_in_the_conversion_of_the_result(monkeypatch):
    whole = pm.sample_bdmc(normal_model(), **SMALL)
    convert = tree.annealing_dataset
    monkeypatch.setattr(tree, "annealing_dataset", pressing(convert))
    dt = pm.sample_bdmc(normal_model(), **SMALL)
    assert dt["real"].equals(whole["real"])
    assert dt["posterior"].equals(whole["posterior"])
    assert dt.attrs["interrupted"] == 0
    monkeypatch.setattr(tree, "annealing_dataset", pressing(convert, times=2))
    with pytest.raises(KeyboardInterrupt):
        pm.sample_bdmc(normal_model(), **SMALL)


PHASES = {
    "make_engine": (session, 0.1), "_fit": (prepare.Sets, 0.1), "Annealing": (prepare, 0.1),
    "anneal_in_rounds": (tree, 0.7), "to_datatree": (tree, 0.03),
}  # fmt: skip
"""Module in which each phase is patched, and the most seconds before Ctrl-C."""


def outcome_of_ctrl_c(phase, step, seconds):
    """Press Ctrl-C so long after the phase begins; return whether the call kept runs or raised."""
    home, _ = PHASES[phase]
    function, finished = getattr(home, phase), ChainProgress.finished
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    n_finished = 0

    def begun(*args, **kwargs):
        timer.start()
        return function(*args, **kwargs)

    def count(self, group, *args):
        nonlocal n_finished
        n_finished += group != "scouts"
        finished(self, group, *args)

    endless = phase == "anneal_in_rounds"
    simulation = bdmc.FromHyperparameters if phase == "_fit" else bdmc.FromPrior
    with pytest.MonkeyPatch.context() as patch, pm.Model() as model:
        patch.setattr(home, phase, begun)
        patch.setattr(ChainProgress, "finished", count)
        pm.Normal("y", pm.Normal("x", shape=3), observed=np.ones(3))
        try:
            dt = pm.sample_bdmc(
                model, chains=4, temperatures=100, target_gap=1e-9 if endless else None, cores=2,
                simulate=simulation(datasets=2), step=step, random_seed=1, progressbar=False,
            )  # fmt: skip
            timer.cancel()
        except KeyboardInterrupt:
            assert n_finished == 0
            return f"{phase} raised"
    assert len(bdmc.summary(dt)) > 0
    is_whole = all(dt[group]["log_weight"].notnull().all() for group in ("forward", "reverse"))
    assert dt.attrs["interrupted"] or (is_whole and not endless)
    return f"{phase} kept"


def try_every_phase(seed, outcomes):
    """In a process of its own, with workers that are forks, too."""
    workers._context = lambda: multiprocessing.get_context("fork")
    rng = np.random.default_rng(seed)
    for phase in PHASES:
        outcomes.put(outcome_of_ctrl_c(phase, None, PHASES[phase][1] * rng.random()))
    for phase in ("Annealing", "anneal_in_rounds"):
        outcomes.put(outcome_of_ctrl_c(phase, pm.Metropolis, PHASES[phase][1] * rng.random()))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_at_random_moments_of_every_phase():
    """Pressed in each phase, a run ends: before a chain is finished, by raising. One is endless."""
    context = multiprocessing.get_context("fork")
    outcomes = context.SimpleQueue()
    child = context.Process(target=try_every_phase, args=[1, outcomes])
    child.start()
    child.join()
    assert child.exitcode == 0
    found = [outcomes.get() for _ in range(len(PHASES) + 2)]
    assert "make_engine raised" in found
    assert "to_datatree kept" in found
