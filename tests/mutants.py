"""The compiled kernels and loops, built anew from their source with a fault in it."""

import inspect
import re
from types import SimpleNamespace

from pymc_bdmc.annealing.compiled import loops
from pymc_bdmc.kernels import (
    discrete,
    hamiltonian,
    hmc,
    metric,
    metropolis,
    nuts,
    prior_move,
    state,
    transition,
)

MODULES = (
    metric, state, hamiltonian, hmc, nuts, metropolis, discrete, prior_move, transition, loops,
)  # fmt: skip
NAMES = "|".join(module.__name__.split(".")[-1] for module in MODULES)
IMPORT = re.compile(rf"^from pymc_bdmc\.kernels\.({NAMES}) import (\([^)]*\)|.*)\n", re.MULTILINE)


def compile_kernels(*mutations: tuple[str, str]) -> SimpleNamespace:
    """Everything in these modules, with one text replaced by another in each mutation."""
    source = IMPORT.sub("", "\n".join(map(inspect.getsource, MODULES)))
    for old, new in mutations:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    namespace = {"__name__": "twin"}
    exec(compile(source.replace("cache=True", "cache=False"), "<twin>", "exec"), namespace)
    return SimpleNamespace(**namespace)
