"""Compile the tempered density as one numba function of flat vectors."""

import logging
import warnings
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from itertools import accumulate
from math import prod
from pickle import UnpicklingError
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
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
from pymc_bdmc.base.upstream import alone, jitted_function
from pymc_bdmc.model.black_box import guarded
from pymc_bdmc.model.flat import ContinuousFirst
from pymc_bdmc.model.held import held_parts
from pymc_bdmc.model.identity import structure
from pymc_bdmc.model.loops import WITH_FAST_LOOPS
from pymc_bdmc.model.rows import number_of_rows, terms_in_turn, turns

if TYPE_CHECKING:
    from pymc_bdmc.model.tempered import TemperedDensity

_log = logging.getLogger("pymc.bdmc")


class NotJittable(Exception):
    """Error that says why a model's density cannot be compiled by numba with its gradient."""


class NoGradient(NotJittable):
    """Error that says why a model's density has no gradient; its values may be compiled."""


class Conditional(NamedTuple):
    """log p and ℓ in some elements of θ, in two functions with the arguments of one density."""

    first: Callable
    """Function that writes what depends on the other elements alone to both gradients."""
    second: Callable
    """Function of θ followed by these numbers; gradients are 0 in the other elements."""
    held: int
    """How many numbers these are."""


class JittedDensity(ContinuousFirst):
    """log p(θ) and ℓ(θ) with their gradients, callable from other numba functions.

    They do not depend on β: log f_β and its gradient are weighted sums of them, so a change of
    temperature costs nothing.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities.
    in_turn : bool or tuple of int, default False
        Whether observations are added one after the other, or in which order: at β the first βN of
        N. Then the flat
        data end with β and a later β', ℓ is the slope of log f between them, and log p is log f_β −
        β ℓ, so that log p + β ℓ is right at both.

    Attributes
    ----------
    with_gradient, without_gradient : numba cfunc
        ``(theta, data, log_prior_gradient, log_likelihood_gradient) -> (log_prior, ell)`` with
        float64 vectors of the flat θ, continuous variables first, and of the flat observed data. If
        these are several data sets, ℓ is the sum over them. The gradients with respect to the
        continuous part are written to the last two arguments.
    rows : int
        Number of observations that are added in turn, 0 if all are added together.

    Raises
    ------
    NotJittable
        If PyTensor's numba linker cannot compile such a function.
    ValueError
        If a variable has no rows that can be added in turn, or they have another number than the
        order.
    """

    def __init__(self, density: "TemperedDensity", in_turn: bool | tuple[int, ...] = False):
        super().__init__(density)
        self.rows = number_of_rows(density.model) if in_turn else 0
        self._turns = turns(self.rows, in_turn)
        self._observed = list(density.data)
        self._conditionals: dict[bytes, Conditional | None] = {}

    @cached_property
    def with_gradient(self) -> Callable:
        """Return the cfunc with gradients, compiled at the first use."""
        return self._compile(gradient=True)

    @cached_property
    def without_gradient(self) -> Callable:
        """Return the cfunc that does not write gradients, compiled at the first use."""
        return self._compile(gradient=False)

    def terms(self, function: Callable) -> Callable[..., tuple[float, float]]:
        """Return a function from the variables, in the model's order, to log p and ℓ."""
        names = [value.name for value in self._model.value_vars]
        gradients = np.empty((2, self.n_continuous))
        call = _caller()

        def terms(*values):
            data = {name: self._model.observed[name].get_value() for name in self._observed}
            theta = self.ravel(dict(zip(names, values, strict=True)))
            return call(function, theta, self.ravel_data(data), *gradients)

        return terms

    def ravel_data(self, data: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return observed data as one vector; of several stacked data sets one after the other."""
        values = [np.asarray(data[name], float) for name in self._observed]
        is_stacked = any(
            each.ndim > self._model.observed[name].ndim
            for name, each in zip(self._observed, values, strict=True)
        )
        sets = zip(*values, strict=True) if is_stacked else [values]
        flat = [each.ravel() for one in sets for each in one]
        return np.concatenate([np.zeros(0), *flat, [0.0, 1.0] if self.rows else []])

    @cached_property
    def _terms(self) -> list[Variable]:
        """Return the graphs of log p and ℓ."""
        return _simplified([self._model.varlogp, self._model.datalogp])

    def _graph(self, gradient: bool) -> "_Graph":
        """Return the graph of log p, ℓ and their gradients for flat inputs."""
        model = self._model
        now, then = pt.scalars("now", "then")
        terms = outputs = (
            _simplified(terms_in_turn(model, self.rows, now, then, self._turns))
            if self.rows
            else self._terms
        )
        if gradient:
            outputs = [*terms, *self._gradients(terms, list(self.parts))]
        theta, data, flat = self._flat(self.size)
        if self.rows:
            flat |= {now: data[-2], then: data[-1]}
        return _Graph([theta, data], graph_replace(outputs, flat, strict=False))

    def _gradients(self, terms: list[Variable], names: list[str]) -> list[Variable]:
        """Return the gradient of every term in the continuous θ, with zeros for other variables."""
        values = {value.name: value for value in self._model.value_vars}
        continuous = [name for name in self.parts if values[name].dtype in continuous_types]
        moving = [name for name in continuous if name in names]
        gradients = []
        for term in terms:
            parts = pt.grad(term, [values[name] for name in moving], disconnected_inputs="ignore")
            found = dict(zip(moving, parts, strict=True))
            rows = [found.get(name, pt.zeros(self.shapes[name])).ravel() for name in continuous]
            gradients.append(pt.concatenate(rows))
        return gradients

    def _flat(self, size: int) -> tuple[Variable, Variable, dict[Variable, Variable]]:
        """Return vectors for θ, with more numbers perhaps, and for the data, and their parts."""
        model = self._model
        observed = [model.observed[name] for name in self._observed]
        lengths = [prod(each.type.shape) for each in observed]
        theta = pt.vector("theta", shape=(size,))
        data = pt.vector("data", shape=(sum(lengths) + (2 if self.rows else 0),))
        flat = {
            value: theta[self.parts[value.name]]
            .reshape(self.shapes[value.name])
            .astype(value.dtype)
            for value in model.value_vars
        }
        for shared, length, end in zip(observed, lengths, accumulate(lengths), strict=True):
            flat[shared] = data[end - length : end].reshape(shared.type.shape).astype(shared.dtype)
        return theta, data, flat

    @alone
    def conditional(self, latent: np.ndarray) -> "Conditional | None":
        """Return the density in some elements of θ, as a function in two parts.

        Parameters
        ----------
        latent : ndarray of int
            Indices of elements, which are all elements of some continuous variables.

        Returns
        -------
        Conditional or None
            None if no larger matrix depends on the other elements alone, since two parts would
            then hardly be faster than one function.
        """
        key = latent.tobytes()
        if key not in self._conditionals:
            self._conditionals[key] = None if self.rows else self._conditional(latent)
        return self._conditionals[key]

    def _conditional(self, latent: np.ndarray) -> "Conditional | None":
        values = {value.name: value for value in self._model.value_vars}
        names = [name for name, part in self.parts.items() if part.start in latent]
        outputs = [*self._terms, *self._gradients(self._terms, names)]
        moving = [values[name] for name in names]
        held = held_parts(outputs, [*moving, *self._model.observed.values()])
        if not any(part.type.ndim > 1 and size > len(latent) for part, size in held.items()):
            return None
        theta, data, flat = self._flat(self.size)
        vector = pt.concatenate(graph_replace([part.ravel() for part in held], flat, strict=False))
        zero = pt.constant(0.0)
        first = self._cfunc(_Graph([theta, data], [zero, zero, vector, vector]), gradient=True)
        theta, data, flat = self._flat(self.size + sum(held.values()))
        ends = accumulate(held.values(), initial=self.size)
        for start, (part, size) in zip(ends, held.items(), strict=False):
            shape = part.type.shape
            flat[part] = theta[start : start + size].reshape(shape).astype(part.dtype)
        graph = _Graph([theta, data], graph_replace(outputs, flat, strict=False))
        return Conditional(first, self._cfunc(graph, gradient=True), sum(held.values()))

    @alone
    def _compile(self, gradient: bool):
        load_numba()
        try:
            graph = self._graph(gradient)
        except Exception as error:  # PyTensor raises many types of error for a missing gradient
            raise NoGradient(f"its gradient is not implemented: {_in_a_line(error)}") from error
        return self._cfunc(graph, gradient)

    def _cfunc(self, graph: "_Graph", gradient: bool) -> Callable:
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
                f"{pytensor.config.base_compiledir / 'numba'}; it will be filled again."
            ) from error


def _in_a_line(error: Exception) -> str:
    """Return the first line of an error, without numba's internal locations."""
    lines = [line for line in str(error).splitlines() if not line.startswith("Failed in")]
    return lines[0] if lines else ""


MOST_KEPT = 64
"""Largest number of compiled densities kept; the oldest is dropped first."""

_cfuncs: dict[tuple, Callable] = {}


class _Graph:
    """Graph of log p, ℓ, and gradients perhaps, as functions of flat θ and data."""

    def __init__(self, inputs: list[Variable], outputs: list[Variable]):
        outputs = guarded(outputs)
        scalars = [scalar_from_tensor(each) for each in outputs[:2]]  # scalars need no allocation
        self.inputs, self.outputs = inputs, [*scalars, *outputs[2:]]
        self.structure = structure(inputs, self.outputs)
        """Key that is equal for graphs of the same computation."""


def _compiled(graph: _Graph, gradient: bool, check_bounds: bool):
    """Return the cfunc of a graph, shared by equal graphs since numba never frees its code."""
    key = graph.structure, gradient, check_bounds
    if key not in _cfuncs:
        if len(_cfuncs) == MOST_KEPT:
            del _cfuncs[next(iter(_cfuncs))]  # the oldest
        _log.info(f"Compiling the log density{' with its gradient' if gradient else ''}")
        _cfuncs[key] = _make_cfunc(graph, gradient, check_bounds)
    return _cfuncs[key]


def _make_cfunc(graph: _Graph, gradient: bool, check_bounds: bool):
    with warnings.catch_warnings(), pm.Model(check_bounds=check_bounds, model=None):
        warnings.filterwarnings("ignore", "Numba will use object mode")  # as `guarded` expects
        function = compile_graph(
            graph.inputs, graph.outputs, mode=WITH_FAST_LOOPS, on_unused_input="ignore"
        )
    try:
        jitted = jitted_function(function)
    except AttributeError as error:
        raise NotJittable(f"this PyTensor keeps its numba functions elsewhere: {error}") from error
    return _as_cfunc(jitted, gradient, graph.inputs[1].type.shape[0])


@node_rewriter([Elemwise])
def _evaluate_once(fgraph, node):
    """Rewrite switch(c, f(a), f(b)) to f(switch(c, a, b)), as in a Bernoulli density."""
    if not isinstance(node.op.scalar_op, Switch):
        return None
    condition, first, second = node.inputs
    if not (first.owner and second.owner and first.owner.op == second.owner.op):
        return None
    function, (a, *more), (b, *_) = first.owner.op, first.owner.inputs, second.owner.inputs
    if more or not isinstance(function, Elemwise):
        return None
    if a.dtype != b.dtype or not a.broadcastable == b.broadcastable == node.out.broadcastable:
        return None  # it would be evaluated more often
    return [function(pt.switch(condition, a, b))]


def _simplified(terms: list) -> list:
    """Rewrite graphs to stable forms that evaluate elementwise functions only as needed."""
    lift = EquilibriumGraphRewriter([_evaluate_once], max_use_ratio=10)
    return rewrite_graph(rewrite_pregrad(terms), include=(), custom_rewrite=lift)


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
def _caller():
    """Return a function that calls a cfunc with arrays, which ctypes cannot."""

    @njit(cache=True)
    def call(function, theta, data, log_prior_gradient, log_likelihood_gradient):
        return function(theta, data, log_prior_gradient, log_likelihood_gradient)

    return call
