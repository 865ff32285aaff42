"""Use private parts of PyTensor and PyMC, in this module only."""

import os
import threading
import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from io import BytesIO
from pickle import PicklingError
from typing import Any

import cloudpickle
import numpy as np
from pymc.distributions import mixture
from pymc.distributions.multivariate import LKJCorr, _LKJCholeskyCov
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pymc.step_methods.compound import BlockedStep
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Constant

DIVERGENCES = "_num_divs_sample"
"""Private attribute in which HMC and NUTS count divergences."""

HISTORY = "_history"
"""Attribute with the past states of a DEMetropolisZ."""

HURDLE = getattr(mixture, "_HurdleRV", mixture.MixtureRV)
"""Type of the operations that draw from hurdle models; older versions of PyMC make mixtures."""

LKJ = LKJ_CORR, LKJ_CHOLESKY = LKJCorr.rv_type, _LKJCholeskyCov.rv_type
"""Types of the operations that draw matrices from an LKJ prior."""

log_density_of = _logprob
"""Dispatch of PyMC from the type of a random variable's operation to its log density."""


class _Alone(ContextDecorator):
    """Lock that lets one thread at a time build and compile PyTensor's graphs.

    While PyTensor compiles, it changes settings of the whole process, such as the C compiler and
    the number of rewrites, and restores them at the end. If two threads compiled at once, the
    second would save and restore the changed settings of the first. All later compilations would
    then use different arithmetic, and the same seed would give different numbers.
    """

    def __init__(self):
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a child forked in between would never release it
            release = self._lock.release
            os.register_at_fork(
                before=self._lock.acquire, after_in_parent=release, after_in_child=release
            )

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc_info) -> None:
        self._lock.release()


alone = _Alone()


def copy_coordinates(source: Any, target: Any) -> None:
    """Give the graph of a model the coordinates of another one."""
    target._coords, target._dim_lengths = source._coords, source._dim_lengths


def default_transform(rv) -> Any:
    """Return the transform that PyMC gives to a free variable with this distribution, or None."""
    with warnings.catch_warnings():  # that a free variable of this kind has none
        warnings.simplefilter("ignore")
        return _default_transform(rv.owner.op, rv)


def jitted_function(function) -> Callable:
    """Return the function that the numba linker made of a compiled PyTensor function.

    Raises
    ------
    AttributeError
        If this version of PyTensor stores it elsewhere.
    """
    return function.vm.jit_fn


class _Pickler(cloudpickle.Pickler):
    """Pickler of operations made by `pytensor.wrap_py`, by value if necessary.

    PyTensor pickles them by the name of the function, which fails for functions that are local or
    defined in a notebook.
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
    """Pickle anything in a user's model for another process."""
    file = BytesIO()
    _Pickler(file).dump(thing)
    return file.getvalue()


def own_constants(function) -> None:
    """Give an interpreted function its own copies of constants that are views.

    PyTensor makes a constant read-only when it rewrites a graph with it. An earlier view of it is
    still marked as writeable, so SciPy's ``rvs``, which broadcasts it, raises an error.
    """
    for variable, storage in function.vm.storage_map.items():
        if isinstance(variable, Constant) and getattr(storage[0], "base", None) is not None:
            storage[0] = storage[0].copy()


def competence(cls: type[BlockedStep], rv, has_gradient: bool) -> list:
    """Return the competence of a step method class for a variable."""
    return cls._competence(rv, has_gradient)


def has_draws(op) -> bool:
    """Return whether a CustomDist has a `random`, in place of which PyMC puts one that raises."""
    return "default_not_implemented" not in getattr(op._random_fn, "__qualname__", "")


def has_numba(op) -> bool:
    """Return whether numba compiles an operation, instead of running it in Python."""
    from pytensor.link.numba.dispatch.basic import numba_funcify  # slow to import

    return numba_funcify.dispatch(type(op)) is not numba_funcify.dispatch(object)


def log_step_size_of(step) -> float:
    """Return the log of the averaged step size, which HMC and NUTS use after tuning."""
    return float(step.step_adapt._log_bar)


def set_log_step_size(step, log_step_size: float) -> None:
    """Set the averaged step size."""
    step.step_adapt._log_bar = log_step_size


def restart_step_size(step) -> None:
    """Restart the adaptation of the step size from the averaged one."""
    step.step_adapt._initial_step = np.exp(step.step_adapt._log_bar)
    step.step_adapt.reset()


def deviations_of(potential) -> np.ndarray:
    """Return the standard deviations of the metric of a QuadPotentialDiagAdapt."""
    return potential._stds.copy()


def set_deviations(potential, stds: np.ndarray) -> None:
    """Set the diagonal metric."""
    stds = stds.astype(potential.dtype)  # needed by the integrator in float32
    potential._stds = stds
    potential._var = stds * stds
    potential._inv_stds = 1.0 / stds


def history_of(step) -> Any:
    """Return the past states from which a DEMetropolisZ proposes."""
    return getattr(step, HISTORY)


def set_history(step, states) -> None:
    """Set the past states to any object with a length, items and ``append``."""
    setattr(step, HISTORY, states)
