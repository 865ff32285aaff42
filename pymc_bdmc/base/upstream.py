"""What PyTensor and PyMC keep to themselves, or share too widely: touched here and nowhere else."""

import os
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from io import BytesIO
from pickle import PicklingError
from typing import Any

import cloudpickle
import numpy as np
from pymc.step_methods.compound import BlockedStep
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Constant

__all__ = [
    "DIVERGENCES",
    "HISTORY",
    "alone",
    "competence",
    "deviations_of",
    "dumps",
    "has_draws",
    "history_of",
    "jitted_function",
    "log_step_size_of",
    "own_constants",
    "restart_step_size",
    "set_deviations",
    "set_history",
    "set_log_step_size",
]

DIVERGENCES = "_num_divs_sample"
"""Attribute in which HMC and NUTS count divergences, beside the public one."""

HISTORY = "_history"
"""Attribute with the past states of a DEMetropolisZ."""


class _Alone(ContextDecorator):
    """Lets one thread at a time build and compile PyTensor's graphs.

    While PyTensor does that it changes settings of the whole process, such as the C compiler and
    the number of rewrites, and puts back what it found at the end. Of two threads at once, the
    second finds the settings of the first and puts those back, for good: both threads and every
    later call would compile other arithmetic, so that one seed gave other numbers.
    """

    def __init__(self):
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # no fork in the middle: the child would never be done
            release = self._lock.release
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=release, after_in_child=release
            )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc_info) -> None:
        self._lock.release()


alone = _Alone()


def jitted_function(function) -> Callable:
    """The one function that the numba linker made of a compiled PyTensor function.

    Raises
    ------
    AttributeError
        If this PyTensor keeps it elsewhere.
    """
    return function.vm.jit_fn


class _Pickler(cloudpickle.Pickler):
    """Sends functions that `pytensor.wrap_py` made into operations by value where need be.

    PyTensor sends them by the name of the function, so one that is local to another function, or to
    a notebook, could not be sent at all.
    """

    def reducer_override(self, thing):
        if isinstance(thing, FromFunctionOp):
            try:
                return thing.__reduce__()
            except PicklingError:
                hidden = ("_FromFunctionOp__fn", "itypes", "otypes", "_FromFunctionOp__infer_shape")
                return FromFunctionOp, tuple(getattr(thing, name) for name in hidden)
        return super().reducer_override(thing)


def dumps(thing: Any) -> bytes:
    """Pickle anything that a user's model may hold, for another process."""
    file = BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


def own_constants(function) -> None:
    """Give an interpreted function copies of those of its constants that are views of others.

    PyTensor makes a constant read-only when it rewrites any graph with it. A view that was made
    before still claims to be writeable, and SciPy's ``rvs``, which broadcasts it, believes that and
    raises.
    """
    for variable, storage in function.vm.storage_map.items():
        if isinstance(variable, Constant) and getattr(storage[0], "base", None) is not None:
            storage[0] = storage[0].copy()


def competence(cls: type[BlockedStep], rv, has_gradient: bool) -> list:
    """What a step method class says of a variable, whether or not it asks for a gradient."""
    return cls._competence(rv, has_gradient)


def has_draws(op) -> bool:
    """Whether a CustomDist was given a `random`; PyMC puts a function that raises in its place."""
    return "default_not_implemented" not in getattr(op._random_fn, "__qualname__", "")


def log_step_size_of(step) -> float:
    """Log of the averaged step size, which PyMC's HMC and NUTS use once tuning has stopped."""
    return float(step.step_adapt._log_bar)


def set_log_step_size(step, log_step_size: float) -> None:
    """Put another step size in its place."""
    step.step_adapt._log_bar = log_step_size


def restart_step_size(step) -> None:
    """Adapt the step size anew, starting from the averaged one."""
    step.step_adapt._initial_step = np.exp(step.step_adapt._log_bar)
    step.step_adapt.reset()


def deviations_of(potential) -> np.ndarray:
    """Standard deviations that make the metric of a QuadPotentialDiagAdapt."""
    return potential._stds.copy()


def set_deviations(potential, stds: np.ndarray) -> None:
    """Put another diagonal metric in its place."""
    stds = stds.astype(potential.dtype)  # in float32 the integrator needs it
    potential._stds = stds
    potential._var = stds * stds
    potential._inv_stds = 1.0 / stds


def history_of(step) -> Any:
    """Past states from which a DEMetropolisZ proposes."""
    return getattr(step, HISTORY)


def set_history(step, states) -> None:
    """Put other states in their place: anything with a length, items and ``append``."""
    setattr(step, HISTORY, states)
