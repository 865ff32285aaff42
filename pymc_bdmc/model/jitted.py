"""The tempered density as one numba function of flat vectors, compiled once for all of a run."""

import logging
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pickle import UnpicklingError
from typing import TYPE_CHECKING

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.discrete import Bernoulli, Categorical
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import rewrite_pregrad
from pymc.vartypes import continuous_types
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import EquilibriumGraphRewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.scalar import Switch
from pytensor.tensor.basic import scalar_from_tensor
from pytensor.tensor.elemwise import Elemwise

from pymc_bdmc.base.compiling import DENSITY, load_numba, njit
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone, jitted_function
from pymc_bdmc.model.identity import structure
from pymc_bdmc.model.products import WITH_LIGHT_PRODUCTS
from pymc_bdmc.model.rows import number_of_rows, terms_in_turn

if TYPE_CHECKING:
    from pymc_bdmc.model.tempered import TemperedDensity

__all__ = ["JittedDensity", "NotJittable"]

_log = logging.getLogger("pymc.bdmc")


class NotJittable(Exception):
    """The model's density cannot be had as one numba function with a gradient; says why."""


class JittedDensity:
    """log p(θ) and ℓ(θ) with their gradients, callable from other numba functions.

    β does not enter: log f_β and its gradient are sums of what is returned, so that a change of
    temperature costs nothing.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities.
    in_turn : bool, default False
        Whether observations come one after the other: at β the first βN of N. Then the data end
        with β and a later β', ℓ is the slope of log f between them, and log p what is left of
        log f_β: with ℓ it makes f_β and f_β', and the usual f between 0 and 1.

    Attributes
    ----------
    with_gradient, without_gradient : numba cfunc
        ``(theta, data, log_prior_gradient, log_likelihood_gradient) -> (log_prior, ell)`` with
        float64 vectors of the flat θ, continuous variables first, and of the flat observed data.
        The gradients, with respect to the continuous part, are written to the last two.
    n_continuous : int
        Length of the continuous part of θ.
    categories : ndarray of int, shape (number of discrete elements,)
        Number of values that an element takes, 0 where it is unlimited.
    rows : int
        Number of observations that come in turn, 0 where they come together.

    Raises
    ------
    NotJittable
        If PyTensor's numba linker cannot give such a function.
    ValueError
        If a variable has no rows that could come in turn.
    """

    def __init__(self, density: "TemperedDensity", in_turn: bool = False):
        self._model = density.model
        self.rows = number_of_rows(density.model) if in_turn else 0
        self._observed = list(density.data)
        sizes = self._model.initial_point()
        by_kind = sorted(
            self._model.value_vars, key=lambda value: value.dtype not in continuous_types
        )
        self._layout = []
        """(name, slice of the flat vector, shape, dtype), continuous variables first."""
        end = 0
        for value in by_kind:
            start, end = end, end + sizes[value.name].size
            self._layout.append(
                (value.name, slice(start, end), sizes[value.name].shape, value.dtype)
            )
        self.size = end
        self.n_continuous = sum(
            part.stop - part.start
            for _, part, _, dtype in self._layout
            if dtype in continuous_types
        )
        self.categories = np.concatenate(
            [np.zeros(0, int)]
            + [
                np.full(part.stop - part.start, _n_categories(self._model, name))
                for name, part, _, dtype in self._layout
                if dtype not in continuous_types
            ]
        )

    @cached_property
    def with_gradient(self) -> Callable:
        """Compiled when first asked for."""
        return self._compile(gradient=True)

    @cached_property
    def without_gradient(self) -> Callable:
        """Compiled when first asked for; leaves the gradients alone."""
        return self._compile(gradient=False)

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of the continuous and of the discrete variables."""
        model = self._model
        parts: tuple[list[str], list[str]] = ([], [])
        for value in model.value_vars:
            parts[value.dtype not in continuous_types].append(model.values_to_rvs[value].name)
        return parts

    def terms(self, function: Callable) -> Callable[..., tuple[float, float]]:
        """Log p and ℓ of the variables in the model's order, for the data that the model holds."""
        names = [value.name for value in self._model.value_vars]
        gradients = np.empty((2, self.n_continuous))
        call = _caller()

        def terms(*values):
            data = {name: self._model.observed[name].get_value() for name in self._observed}
            theta = self.ravel(dict(zip(names, values, strict=True)))
            return call(function, theta, self.ravel_data(data), *gradients)

        return terms

    def ravel(self, point: Point) -> np.ndarray:
        """θ as one vector."""
        return np.concatenate(
            [np.asarray(point[name], float).ravel() for name, *_ in self._layout] or [np.zeros(0)]
        )

    def ravel_many(self, points: Mapping[str, np.ndarray]) -> np.ndarray:
        """Many θ, one a row, from arrays with one point a row."""
        n = len(next(iter(points.values())))
        return np.concatenate(
            [np.asarray(points[name], float).reshape(n, -1) for name, *_ in self._layout], axis=1
        )

    def unravel(self, theta: np.ndarray) -> Point:
        """The variables of a flat θ, or of one a row, by name and in the model's order."""
        parts = {
            name: theta[..., part].reshape((*theta.shape[:-1], *shape)).astype(dtype)
            for name, part, shape, dtype in self._layout
        }
        return {value.name: parts[value.name] for value in self._model.value_vars}

    def ravel_data(self, data: Mapping[str, np.ndarray]) -> np.ndarray:
        """Observed data as one vector."""
        flat = [np.asarray(data[name], float).ravel() for name in self._observed]
        return np.concatenate([np.zeros(0), *flat, [0.0, 1.0] if self.rows else []])

    @cached_property
    def _terms(self) -> list[Variable]:
        """Graphs of log p and ℓ."""
        return _simplified([self._model.varlogp, self._model.datalogp])

    def _graph(self, gradient: bool) -> "_Graph":
        """Log p, ℓ and their gradients as functions of flat inputs."""
        model = self._model
        values = {value.name: value for value in model.value_vars}
        now, then = pt.scalars("now", "then")
        terms = outputs = (
            _simplified(terms_in_turn(model, self.rows, now, then)) if self.rows else self._terms
        )
        if gradient:
            wrt = [values[name] for name, *_, dtype in self._layout if dtype in continuous_types]
            for term in terms:
                parts = pt.grad(term, wrt, disconnected_inputs="ignore")
                outputs = [*outputs, pt.concatenate([part.ravel() for part in parts])]
        lengths = [int(np.prod(model.observed[name].type.shape)) for name in self._observed]
        theta = pt.vector("theta", shape=(self.size,))
        data = pt.vector("data", shape=(sum(lengths) + (2 if self.rows else 0),))
        flat = {
            values[name]: theta[part].reshape(shape).astype(dtype)
            for name, part, shape, dtype in self._layout
        }
        end = 0
        for name, length in zip(self._observed, lengths, strict=True):
            shared = model.observed[name]
            start, end = end, end + length
            flat[shared] = data[start:end].reshape(shared.type.shape).astype(shared.dtype)
        if self.rows:
            flat |= {now: data[end], then: data[end + 1]}
        outputs = graph_replace(outputs, flat, strict=False)
        scalars = [scalar_from_tensor(each) for each in outputs[:2]]  # that are not allocated
        return _Graph([theta, data], [*scalars, *outputs[2:]])

    @alone
    def _compile(self, gradient: bool):
        load_numba()
        try:
            graph = self._graph(gradient)
        except Exception as error:  # PyTensor has many classes for a missing gradient
            raise NotJittable(f"its gradient is not implemented: {_in_a_line(error)}") from error
        for variable in graph_inputs(graph.outputs):
            if isinstance(variable, SharedVariable):
                raise NotJittable(f"{variable} is a shared variable; use pm.Data in its place")
        try:
            return _compiled(graph, gradient, self._model.check_bounds)
        except (NotImplementedError, numba.core.errors.NumbaError) as error:
            raise NotJittable(f"{type(error).__name__}: {_in_a_line(error)}") from error
        except (EOFError, UnpicklingError) as error:
            raise RuntimeError(
                f"A file of PyTensor's cache is damaged ({error}). Delete the directory "
                f"{pytensor.config.base_compiledir / 'numba'}; it is filled anew."
            ) from error


def _in_a_line(error: Exception) -> str:
    """What an error says first, but not where numba was, which tells a user nothing."""
    lines = [line for line in str(error).splitlines() if not line.startswith("Failed in")]
    return lines[0] if lines else ""


MOST_KEPT = 64
"""Compiled densities; of more models than that the oldest are compiled anew when they return."""

_cfuncs: dict[tuple, Callable] = {}


class _Graph:
    """Outputs as functions of inputs."""

    def __init__(self, inputs: list[Variable], outputs: list[Variable]):
        self.inputs, self.outputs = inputs, outputs
        self.structure = structure(inputs, outputs)
        """Equal to that of every graph of the same computation."""


def _compiled(graph: _Graph, gradient: bool, check_bounds: bool):
    """The cfunc of a graph; one for all of a model's copies, since numba never frees its code."""
    key = graph.structure, gradient, check_bounds
    if key not in _cfuncs:
        if len(_cfuncs) == MOST_KEPT:
            del _cfuncs[next(iter(_cfuncs))]  # the oldest
        _log.info(f"Compiling the log density{' with its gradient' if gradient else ''}")
        _cfuncs[key] = _make_cfunc(graph, gradient, check_bounds)
    return _cfuncs[key]


def _make_cfunc(graph: _Graph, gradient: bool, check_bounds: bool):
    with pm.Model(check_bounds=check_bounds, model=None):  # PyMC reads it there
        function = compile_graph(
            graph.inputs, graph.outputs, mode=WITH_LIGHT_PRODUCTS, on_unused_input="ignore"
        )
    try:
        jitted = jitted_function(function)
    except AttributeError as error:
        raise NotJittable(f"this PyTensor keeps its numba functions elsewhere: {error}") from error
    return _as_cfunc(jitted, gradient)


@node_rewriter([Elemwise])
def _evaluate_once(fgraph, node):
    """switch(c, f(a), f(b)) → f(switch(c, a, b)), as in the density of a Bernoulli variable."""
    if not isinstance(node.op.scalar_op, Switch):
        return None
    condition, first, second = node.inputs
    if not (first.owner and second.owner and first.owner.op == second.owner.op):
        return None
    function, (a, *more), (b, *_) = first.owner.op, first.owner.inputs, second.owner.inputs
    if more or not isinstance(function, Elemwise):
        return None
    if a.dtype != b.dtype or not a.broadcastable == b.broadcastable == node.out.broadcastable:
        return None  # it would be evaluated at more places
    return [function(pt.switch(condition, a, b))]


def _simplified(terms: list) -> list:
    """Stable forms, with elementwise functions evaluated no more often than needed."""
    lift = EquilibriumGraphRewriter([_evaluate_once], max_use_ratio=10)
    return rewrite_graph(rewrite_pregrad(terms), include=(), custom_rewrite=lift)


def _as_cfunc(jitted, gradient: bool):
    """One signature for every model: the kernels are compiled once for all of them.

    An exception cannot leave such a function; NaN stands for it, and the proposal is refused.
    """
    if gradient:

        def function(theta, data, log_prior_gradient, log_likelihood_gradient):
            try:
                log_prior, ell, first, second = jitted(theta, data)
            except Exception:
                return np.nan, np.nan
            for i in range(first.size):  # numba takes seconds to compile assignments of slices
                log_prior_gradient[i] = first[i]
                log_likelihood_gradient[i] = second[i]
            return log_prior, ell

    else:

        def function(theta, data, log_prior_gradient, log_likelihood_gradient):
            try:
                log_prior, ell = jitted(theta, data)
            except Exception:
                return np.nan, np.nan
            return log_prior, ell

    return numba.cfunc(DENSITY)(function)


@cache
def _caller():
    """Call a cfunc from Python: ctypes knows nothing of arrays."""

    @njit(cache=True)
    def call(function, theta, data, log_prior_gradient, log_likelihood_gradient):
        return function(theta, data, log_prior_gradient, log_likelihood_gradient)

    return call


def _n_categories(model, value_name: str) -> int:
    """Number of values of a discrete variable with finite support that starts at 0, else 0."""
    value = next(value for value in model.value_vars if value.name == value_name)
    rv = model.values_to_rvs[value]
    if isinstance(rv.owner.op, Bernoulli.rv_type):
        return 2
    if isinstance(rv.owner.op, Categorical.rv_type):
        return int(rv.owner.inputs[-1].type.shape[-1] or 0)
    return 0
