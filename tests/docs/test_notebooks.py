"""A call in a notebook shows its progress in one line, the agreed log lines, and nothing else."""

import builtins
import re

import pymc_bdmc as bdmc
from tests.models import eight_schools

LOGGED = [
    r"Compiling the \w.*",
    r"Path: fitted, .*",
    r"Ahead: 104 runs \(temperatures: 1; particles: 64\), about \S+ s of one core",
]
"""All that a default call logs, line by line, but for what is compiled once after installation."""


class ZMQInteractiveShell:
    """What makes a process a notebook for rich."""


def check_log(lines):
    lines = [line for line in lines if not line.endswith("kept for later calls and processes")]
    assert len(lines) <= len(LOGGED)
    for line in lines:
        assert any(re.fullmatch(known, line) for known in LOGGED), line
    assert any(line.startswith("Ahead: ") for line in lines)


def check_progress(text):
    line = text.split("\r")[-1].rstrip()
    assert line.startswith("Runs (mean log weight): real 24/24 (-31."), text


def test_a_process_that_looks_like_a_notebook(monkeypatch, caplog, capsys):
    """A warning would be an error here, and PyMC shows what its loggers are told."""
    caplog.set_level("INFO", "pymc")
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    print(bdmc.log_ml(bdmc.sample_bdmc(eight_schools(centred=False), random_seed=1)))
    check_log(caplog.messages)
    printed, told = capsys.readouterr()
    progress, answer = printed.removesuffix("\n").split("\n")
    check_progress(progress)
    assert answer.startswith("Log ML is -31.3")
    assert not told
