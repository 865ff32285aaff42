"""The compiled kernels and loops, built anew from their source with a fault in it."""

import inspect
import re
from itertools import count
from types import SimpleNamespace

import pytest

from pymc_bdmc.engines.compiled import loops
from pymc_bdmc.kernels import (
    autostep,
    discrete,
    hamiltonian,
    hmc,
    metric,
    metropolis,
    nuts,
    prior_move,
    reference,
    resampling,
    state,
    transition,
)

MODULES = (
    metric, reference, state, hamiltonian, discrete, prior_move, transition, hmc, autostep, nuts,
    metropolis, resampling, loops,
)  # fmt: skip
LOOPS = (resampling, loops)
MOVES = tuple(each for each in MODULES if each not in (reference, state, *LOOPS))
"""The others are then those of the package, and compiled already."""

_numbers = count()


def slow_but(*quick, of):
    """Parameters of a test: the quick ones, and slow ones that take as long to compile."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in of]


def compile_kernels(*mutations: tuple[str, str], modules=MODULES) -> SimpleNamespace:
    """Everything in these modules, with one text replaced by another in each mutation."""
    names = "|".join(module.__name__.split(".")[-1] for module in modules)
    imports = rf"^from pymc_bdmc\.kernels\.({names}) import (\([^)]*\)|.*)\n"
    source = "\n".join(map(inspect.getsource, modules))
    source = re.sub(imports, "", source, flags=re.MULTILINE)
    for old, new in mutations:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    if state in modules:  # Numba tells types of functions apart by what they print.
        renamed = f"Target.__name__ += '{next(_numbers)}'\nSIGNATURE ="
        source = source.replace("SIGNATURE =", renamed)
    namespace = {"__name__": "twin"}
    exec(compile(source.replace("cache=True", "cache=False"), "<twin>", "exec"), namespace)
    return SimpleNamespace(**namespace)
