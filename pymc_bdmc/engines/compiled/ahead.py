"""Compile the annealing loop in a second process, while the first call prepares its model.

It is the largest of the compiled functions, and the last that a call needs.
"""

import functools
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
from filelock import FileLock

from pymc_bdmc.base.arguments import available_cores
from pymc_bdmc.base.compiling import is_missing, load_numba
from pymc_bdmc.engines.compiled.loops import (
    PathParameters,
    RunPlan,
    RunRecord,
    Table,
    anneal_run,
)
from pymc_bdmc.kernels.hmc import HMC
from pymc_bdmc.kernels.transition import SIGNATURE


def argument_types() -> tuple:
    """Return numba's types of the arguments of `anneal_run`, the same for all models."""
    load_numba()
    vector, matrix, cube, flags = np.ones(1), np.ones((1, 1)), np.ones((1, 1, 1)), np.ones(1, bool)
    counts = np.ones(1, dtype=int)
    table = Table(vector, matrix, cube, matrix, matrix)
    betas = np.ones(1)
    betas.flags.writeable = False  # as those of a `Schedule`
    tuning = PathParameters(table, counts, vector)
    plan = RunPlan(betas, tuning, matrix, False, 0, False, flags, matrix, 1, False)
    record = RunRecord(vector, vector, vector, matrix, counts, vector, flags)
    known = [numba.typeof(value) for value in (HMC.compiled, plan)]
    rest = [numba.typeof(value) for value in (np.ones(1, np.uint8), record)]
    return SIGNATURE.args[0], *known, SIGNATURE.args[-1], *rest


@functools.cache
def begin() -> subprocess.Popen | None:
    """Start to compile the loop, unless it is compiled already or no core is free."""
    if available_cores() < 2 or not sys.executable or not is_missing(anneal_run, argument_types()):
        return None
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import make; make()"],
        stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True,
    )  # fmt: skip


def make() -> None:
    """Compile the loop, and keep it on disk; or take it from there if another process did first."""
    place = Path(anneal_run.stats.cache_path)
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(place / "anneal_run.lock"):
        anneal_run.compile(argument_types())


def wait() -> None:
    """Wait for the second process. If it failed, the first call of the loop compiles it."""
    if child := begin():
        child.wait()
