"""A call in a notebook shows its progress in one line, the agreed log lines, and nothing else."""

import re
import subprocess
import sys

CELLS = [
    """
import pymc as pm
import pymc_bdmc as bdmc
from tests.models import eight_schools

schools = eight_schools(centred=False)
""",
    "dt = pm.sample_bdmc(schools, random_seed=1)",
    "print(bdmc.log_ml(dt))",
]

LOGGED = [
    r"Compiling the \w.*",
    r"Path: fitted, .*",
    r"Ahead: 104 runs \(temperatures: 1; particles: 64\), about \S+ s of one core",
]
"""All that a default call logs, line by line, but for what is compiled once after installation."""

SHELL = """
import builtins

class ZMQInteractiveShell:
    pass

builtins.get_ipython = ZMQInteractiveShell
"""
"""Code that makes a process a notebook for rich; warnings that a user sees are lines of stderr."""


def check_log(lines):
    lines = [line for line in lines if not line.endswith("kept for later calls and processes")]
    assert len(lines) <= len(LOGGED)
    for line in lines:
        assert any(re.fullmatch(known, line) for known in LOGGED), line
    assert any(line.startswith("Ahead: ") for line in lines)


def check_progress(text):
    line = text.split("\r")[-1].rstrip()
    assert line.startswith("Runs (mean log weight): real 24/24 (-31."), text


def test_a_process_that_looks_like_a_notebook():
    child = subprocess.run(
        [sys.executable, "-c", SHELL + "\n".join(CELLS)], capture_output=True, check=True
    )
    check_log(child.stderr.decode().splitlines())
    progress, answer = child.stdout.decode().removesuffix("\n").split("\n")
    check_progress(progress)
    assert answer.startswith("Log ML is -31.3")
