"""Ctrl-C in every phase: what is finished is kept, and before that nothing swallows it."""

import signal
import threading
import time
from _thread import interrupt_main
from contextlib import ExitStack, nullcontext, suppress
from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.call import session, tree
from pymc_bdmc.engines import AnnealTask, PilotTask
from pymc_bdmc.testbeds import tempering
from tests.call.test_sampling import normal_model

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SMALL = {"chains": 2, "temperatures": 10, "simulate": bdmc.FromPrior(1)}
SMALL |= {"random_seed": 1, "progressbar": False, "cores": 1}


def press():
    signal.raise_signal(signal.SIGINT)


def pressing(function, times=1):
    """The function, before which Ctrl-C is pressed so often the first time it is called."""
    left = iter(range(times))

    def wrapped(*args, **kwargs):
        for _ in left:
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
def test_who_ignores_ctrl_c_goes_on_ignoring_it_and_other_threads_leave_signals_alone(block):
    before, seen = signal.signal(signal.SIGINT, signal.SIG_IGN), []

    def work():
        with block():
            seen.append(signal.getsignal(signal.SIGINT))

    try:
        with block() as stop:
            press()
        assert stop is None or stop[0] == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
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


@pytest.mark.parametrize(("task", "step"), [(PilotTask, pm.Metropolis), (AnnealTask, None)])
def test_before_any_chain_is_finished(monkeypatch, task, step):
    monkeypatch.setattr(task, "run", pressing(task.run))
    options = SMALL | {"chains": 100, "temperatures": 1_000_000, "step": step}
    with pytest.raises(KeyboardInterrupt, match="nothing to keep"):
        pm.sample_bdmc(normal_model(), **options)


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


@pytest.mark.parametrize(("step", "cores"), [(None, 2), (pm.Metropolis, 1)])
def test_an_endless_call_ends_with_what_is_finished(step, cores, ctrl_c_after):
    """Threads of compiled code end at once, too."""
    options = SMALL | {"step": step, "cores": cores, "particles": 1, "path": "prior"}
    with ExitStack() as stack:
        begun = cache(lambda: stack.enter_context(ctrl_c_after(2.0)))  # once a run has ended
        dt = pm.sample_bdmc(
            normal_model(), **options, target_gap=1e-15, callback=lambda dt: begun()
        )
    assert dt.attrs["interrupted"] == 1
    assert np.isfinite(bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"])
