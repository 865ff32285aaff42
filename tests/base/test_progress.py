"""Progress is one line, in terminals and notebooks only."""

import builtins

import pytest

from pymc_bdmc.base import progress as module
from pymc_bdmc.base.progress import ChainProgress


class ZMQInteractiveShell:
    """Name of the shell by which rich knows a notebook."""


def shown(capsys, runs, visible=True):
    with ChainProgress(runs, visible) as progress:
        progress.finished("real", -3.0, -2.0)
        progress.complete("real")
    return capsys.readouterr().out


@pytest.mark.parametrize("place", ["notebook", "terminal"])
def test_the_line_is_replaced(place, monkeypatch, capsys, recwarn):
    """Every update begins where the line begins, and none is longer than it may be."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    if place == "terminal":
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("COLUMNS", "60")
    else:
        monkeypatch.setattr(builtins, "get_ipython", lambda: ZMQInteractiveShell(), raising=False)
    out = shown(capsys, {"real": 16, "forward": 40})
    assert out.count("\n") == 1
    first, *lines = out.removesuffix("\n").split("\r")
    assert not first
    assert len(lines) == 3
    assert lines[-1].startswith("Runs (mean log weight): real 2/2 (-2.50), forward 0/40. ")
    assert max(map(len, lines)) < (60 if place == "terminal" else 116)
    assert not recwarn
    assert not shown(capsys, {"real": 16}, visible=False)


def test_a_file_gets_nothing(capsys):
    assert not shown(capsys, {"real": 16})
