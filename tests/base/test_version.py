"""What is known before a call: versions, and where progress is shown."""

import builtins
import logging
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Semaphore
from unittest.mock import Mock

import pytest

import pymc_bdmc as bdmc
from pymc_bdmc import base
from pymc_bdmc.base import progress as module
from pymc_bdmc.base.progress import ChainProgress

ROOT = Path(__file__).parents[2]


def test_versions(monkeypatch):
    assert bdmc.__version__ == version("pymc-bdmc")
    assert f"version: {bdmc.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["pymc_bdmc"]["newest_tested_pymc"] == base.NEWEST_PYMC
    monkeypatch.setattr(base, "version", Mock(side_effect=PackageNotFoundError))
    assert base._installed() == "unknown"  # in a copy that is not installed


@pytest.mark.parametrize(
    ("found", "is_told"),
    [("6.4.9", 0), ("6.5.0.dev0+g1", 1), ("6.10.0", 1), ("7.0.0", 1), ("0+x", 0)],
)
def test_a_newer_minor_of_pymc_is_told_once(caplog, found, is_told):
    base.warn_if_newer.cache_clear()
    with caplog.at_level(logging.WARNING, "pymc.bdmc"):
        for _ in range(2):
            base.warn_if_newer(found)
    texts = [each.message for each in caplog.records]
    assert len(texts) == is_told
    assert all(f"PyMC {found}" in each and 'Install "pymc<6.5"' in each for each in texts)


class ZMQInteractiveShell:
    """Name of the shell by which rich knows a notebook."""


def shown(capsys, visible=True):
    with ChainProgress({"real": 16, "forward": 40}, visible) as progress:
        progress.finished("real", -3.0, -2.0)
        progress.complete("real")
    return capsys.readouterr().out


@pytest.mark.parametrize("place", ["notebook", "terminal"])
def test_the_line_of_progress_is_replaced(place, monkeypatch, capsys, recwarn):
    """Every update begins where the line begins, and none is longer than it may be."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    assert not shown(capsys)  # in a file
    if place == "terminal":
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("COLUMNS", "60")
    else:
        monkeypatch.setattr(builtins, "get_ipython", lambda: ZMQInteractiveShell(), raising=False)
    out = shown(capsys)
    assert out.count("\n") == 1
    first, *lines = out.removesuffix("\n").split("\r")
    assert not first
    assert len(lines) == 3
    assert lines[-1].startswith("Runs (mean log weight): real 2/2 (-2.50), forward 0/40. ")
    assert max(map(len, lines)) < (60 if place == "terminal" else 116)
    assert not recwarn
    assert not shown(capsys, visible=False)


def test_the_line_of_a_preparation_moves_and_vanishes(monkeypatch, capsys):
    """Its clock shows the line while the one task is not finished."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(module, "TICK", 0.01)
    ticks, show = Semaphore(0), ChainProgress._show
    monkeypatch.setattr(ChainProgress, "_show", lambda self: [show(self), ticks.release()])
    with ChainProgress({"fit": 2}, True, "Preparation", "") as progress:
        for _ in range(3):  # of which the first is at the start
            assert ticks.acquire(timeout=60)
        progress.advance("fit", 1)
    first, *lines, blank, last = capsys.readouterr().out.split("\r")
    assert (first, blank.strip(), last) == ("", "", "")
    assert lines[1].startswith("Preparation: fit 0/2. ")
    assert lines[-1].startswith("Preparation: fit 1/2. ")
