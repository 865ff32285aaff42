"""Compile graphs of a density to numba functions that all have the same signature."""

import logging
import warnings
from collections.abc import Callable
from functools import cache, partial
from pickle import UnpicklingError

import numba
import numpy as np
import pymc as pm
import pytensor
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.mode import Mode, get_mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.basic import scalar_from_tensor

from pymc_bdmc.base.compiling import DENSITY, in_a_line, njit, quickest
from pymc_bdmc.base.upstream import jitted_function
from pymc_bdmc.density.black_box import guarded
from pymc_bdmc.density.identity import structure
from pymc_bdmc.density.loops import WITH_FAST_LOOPS

_log = logging.getLogger("pymc.bdmc")

MOST_KEPT = 64
"""Largest number of compiled densities kept; the oldest is dropped first."""

MODES = WITH_FAST_LOOPS, get_mode("NUMBA")
"""PyTensor's mode with the rewrites of this package, and without them if these fail."""

_cfuncs: dict[tuple, Callable] = {}


class NotJittable(Exception):
    """Error that says why a model's density cannot be compiled by numba with its gradient."""


class Graph:
    """Graph of log p, ℓ, and gradients perhaps, as functions of flat θ and data."""

    def __init__(self, inputs: list[Variable], outputs: list[Variable], title: str):
        outputs = guarded(outputs)
        scalars = [scalar_from_tensor(each) for each in outputs[:2]]  # scalars need no allocation
        self.inputs, self.outputs = inputs, [*scalars, *outputs[2:]]
        self.title = title
        self.structure = structure(inputs, self.outputs)
        """Key that is equal for graphs of the same computation."""


def compiled(graph: Graph, check_bounds: bool):
    """Return the cfunc of a graph, shared by equal graphs since numba never frees its code.

    Raises
    ------
    NotJittable
        If PyTensor's numba linker cannot compile it.
    RuntimeError
        If PyTensor's cache is damaged.
    """
    for variable in graph_inputs(graph.outputs):
        if isinstance(variable, SharedVariable):
            raise NotJittable(f"{variable} is a shared variable; use pm.Data in its place")
    key = graph.structure, check_bounds
    if key in _cfuncs:
        return _cfuncs[key]
    if len(_cfuncs) == MOST_KEPT:
        del _cfuncs[next(iter(_cfuncs))]  # the oldest
    _log.info(f"Compiling {graph.title}")
    forms = [partial(_make_cfunc, graph, check_bounds, mode) for mode in MODES]
    try:
        _cfuncs[key] = quickest(graph.title, *forms)
    except (EOFError, UnpicklingError) as error:
        raise RuntimeError(
            f"A file of PyTensor's cache is damaged ({error}). Delete the directory "
            f"{pytensor.config.base_compiledir / 'numba'}; it will be filled again."
        ) from error
    except Exception as error:
        raise NotJittable(f"{type(error).__name__}: {in_a_line(error)}") from error
    return _cfuncs[key]


def _make_cfunc(graph: Graph, check_bounds: bool, mode: Mode):
    with warnings.catch_warnings(), pm.Model(check_bounds=check_bounds, model=None):
        warnings.filterwarnings("ignore", "Numba will use object mode")  # as `guarded` expects
        function = compile_graph(graph.inputs, graph.outputs, mode=mode, on_unused_input="ignore")
    has_gradient, length = len(graph.outputs) > 2, graph.inputs[1].type.shape[0]
    return _as_cfunc(jitted_function(function), has_gradient, length)


def _as_cfunc(jitted, gradient: bool, length: int):
    """Return a cfunc with the same signature for every model, so kernels are compiled once.

    Such a function cannot raise an exception; it returns NaN instead, and the proposal is rejected.
    Every data set has ``length`` numbers.
    """
    if gradient:

        def function(theta, data, log_prior_gradient, log_likelihood_gradient):
            try:
                log_prior, ell, first, second = jitted(theta, data[:length])
                for i in range(first.size):  # numba needs seconds to compile assignments of slices
                    log_prior_gradient[i] = first[i]
                    log_likelihood_gradient[i] = second[i]
                for start in range(length, data.size, max(length, 1)):
                    _, more, _, second = jitted(theta, data[start : start + length])
                    ell += more
                    for i in range(second.size):
                        log_likelihood_gradient[i] += second[i]
            except Exception:
                return np.nan, np.nan
            return log_prior, ell

    else:

        def function(theta, data, log_prior_gradient, log_likelihood_gradient):
            try:
                log_prior, ell = jitted(theta, data[:length])
                for start in range(length, data.size, max(length, 1)):
                    ell += jitted(theta, data[start : start + length])[1]
            except Exception:
                return np.nan, np.nan
            return log_prior, ell

    return numba.cfunc(DENSITY)(function)


@cache
def caller():
    """Return a function that calls a cfunc with arrays, which ctypes cannot."""

    @njit(cache=True)
    def call(function, theta, data, log_prior_gradient, log_likelihood_gradient):
        return function(theta, data, log_prior_gradient, log_likelihood_gradient)

    return call
