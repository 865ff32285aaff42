"""Compile the density of a model to numba functions that all have the same signature."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain
from math import prod
from pickle import UnpicklingError
from typing import TYPE_CHECKING, NamedTuple

import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.discrete import Bernoulli, Categorical
from pymc.pytensorf import compile as compile_graph
from pymc.pytensorf import rewrite_pregrad
from pymc.vartypes import continuous_types
from pytensor.compile.mode import Mode, get_mode
from pytensor.compile.ops import FromFunctionOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, applys_between, graph_inputs, toposort
from pytensor.tensor.basic import scalar_from_tensor
from pytensor.tensor.type import TensorType

from pymc_bdmc.base import logger
from pymc_bdmc.base.compiling import DENSITY, in_a_line, load_numba, njit, quickest
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone, has_numba, jitted_function
from pymc_bdmc.density.fast import WITH_FAST_LOOPS
from pymc_bdmc.density.graph import INTERPRETED, Layout, number_of_rows, terms_in_turn, turns
from pymc_bdmc.density.identity import structure

if TYPE_CHECKING:
    from pymc_bdmc.density.tempered import TemperedDensity

_log = logger(__name__)

MODES = WITH_FAST_LOOPS, get_mode("NUMBA")
"""PyTensor's mode with the rewrites of this package, and without them if these fail."""

_cfuncs: dict[tuple, Callable] = {}
"""Compiled functions by what they compute: equal graphs share one, since numba never frees code."""


class NotJittable(Exception):
    """Reason why a model's density cannot be compiled by numba with its gradient."""


class NoGradient(NotJittable):
    """Reason why a model's density has no gradient; its values may be compiled."""


class Conditional(NamedTuple):
    """log p and ℓ in some elements of θ, in two functions with the arguments of one density."""

    first: Callable
    """Function that writes what depends on the other elements alone to both gradients."""
    second: Callable
    """Function of θ followed by what the first one wrote; gradients are 0 in the other elements."""
    held: int
    """Number of values that the first function writes."""


class JittedDensity(Layout):
    """log p(θ) and ℓ(θ) with their gradients, callable from other numba functions.

    They do not depend on β: log f_β and its gradient are weighted sums of them, so a change of
    temperature costs nothing. In θ, continuous variables come first. If ``in_turn``, in the order
    of the rows or in one that is given, observations come one after the other: at β the first βN of
    N. Then ℓ is the slope of log f between both ends of an interval (β, β'), and log p is log f_β −
    β ℓ, so that log p + β ℓ is right at both.
    """

    def __init__(self, density: "TemperedDensity", in_turn: bool | tuple[int, ...] = False):
        values = density.model.value_vars
        continuous = [value for value in values if value.dtype in continuous_types]
        discrete = [value for value in values if value.dtype not in continuous_types]
        super().__init__(density, [*continuous, *discrete])
        self._continuous = [value.name for value in continuous]
        # of the continuous and of the discrete variables
        self.names = tuple([self.titles[v.name] for v in kind] for kind in (continuous, discrete))
        numbers = [
            np.full(prod(self.shapes[value.name]), _n_categories(self.model.values_to_rvs[value]))
            for value in discrete
        ]
        # the number of values of each discrete element, 0 if unlimited
        self.categories = np.concatenate([np.zeros(0, int), *numbers])
        self.n_continuous = self.size - len(self.categories)
        # observations that come in turn, 0 if all come together
        self.rows = number_of_rows(density.model) if in_turn else 0
        self._turns = turns(self.rows, in_turn)
        self._observed = list(density.data)
        self._lock = density.lock
        self._conditionals: dict[bytes, Conditional | None] = {}
        self._in_blocks: dict[bytes, Callable] = {}

    @cached_property
    def with_gradient(self) -> Callable:
        """A cfunc of θ, data, an interval and two vectors for gradients, which returns log p and ℓ.

        All are float64 vectors; the interval is (β, β'). With several data sets, ℓ is the sum over
        them. The gradients of log p and ℓ in the continuous part are written to the last two
        arguments. The first use compiles it, and raises `NotJittable` if PyTensor's numba linker
        cannot.
        """
        return self._compile(gradient=True)

    @cached_property
    def without_gradient(self) -> Callable:
        """The cfunc that writes no gradients."""
        return self._compile(gradient=False)

    @property
    def compiled(self) -> Callable | None:
        """One of the functions, if it is compiled already."""
        return vars(self).get("without_gradient") or vars(self).get("with_gradient")

    def __call__(self, point: Point, data: Mapping[str, np.ndarray]) -> tuple[float, float]:
        """Return log p and ℓ at a point, by a function that is compiled already, if any."""
        return call_density(
            self.compiled or self.without_gradient,
            self.ravel(point),
            self.ravel_data(data),
            np.array([0.0, 1.0]),
            *np.empty((2, self.n_continuous)),
        )

    def ravel_data(self, data: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return observed data as one vector; of several stacked data sets one after the other."""
        values = [np.asarray(data[name], float) for name in self._observed]
        is_stacked = any(
            each.ndim > self.model.observed[name].ndim
            for name, each in zip(self._observed, values, strict=True)
        )
        sets = zip(*values, strict=True) if is_stacked else [values]
        of_data = self._of_data
        with self._lock:
            parts = [each.ravel() for one in sets for each in (*one, *of_data(*one))]
        return np.concatenate([np.zeros(0), *parts])

    @cached_property
    def _graphs(self) -> tuple[list[Variable], list[Variable], list[Variable]]:
        """Graphs of log p and ℓ, and of their elements, which are those of all variables."""
        model = self.model
        kinds = model.free_RVs, [*model.observed_RVs, *model.potentials]
        elements = [model.logp(vars=kind, sum=False) for kind in kinds]
        terms = [pt.add(pt.constant(0.0), *(pt.sum(each) for each in kind)) for kind in elements]
        rewritten = rewrite_pregrad([*terms, *chain(*elements)])
        n = 2 + len(model.free_RVs)
        return rewritten[:2], rewritten[2:n], rewritten[n:]

    @property
    def _terms(self) -> list[Variable]:
        return self._graphs[0]

    @cached_property
    def _of_data_alone(self) -> dict[Variable, int]:
        """The size of each part of log p or ℓ that depends on data alone, such as log y!."""
        if self.rows:
            return {}
        observed = set(self.model.observed.values())
        find = partial(fixed_parts, self._terms, self.model.value_vars)
        return {
            part: size
            for part, size in quickest(
                "what depends on data alone", find, dict[Variable, int]
            ).items()
            if part.dtype == "float64" and observed.intersection(ancestors([part]))
        }

    @cached_property
    @alone
    def _of_data(self) -> Callable:
        """Function from the observed data of one set to what depends on them alone."""
        if not self._of_data_alone:
            return lambda *_: []
        observed = [self.model.observed[name] for name in self._observed]
        inputs = [each.type() for each in observed]
        parts = graph_replace(
            list(self._of_data_alone), dict(zip(observed, inputs, strict=True)), strict=False
        )
        function = compile_graph(inputs, parts, mode=INTERPRETED, on_unused_input="ignore")
        return lambda *values: function(
            *(np.asarray(v, each.dtype) for v, each in zip(values, inputs, strict=True))
        )

    def _graph(self, gradient: bool) -> tuple[list[Variable], list[Variable]]:
        """Return flat inputs and the graphs of log p, ℓ and their gradients."""
        inputs, flat = self._flat(self.size)
        if self.rows:
            now, then = pt.scalars("now", "then")
            flat |= {now: inputs[2][0], then: inputs[2][1]}
            in_turn = terms_in_turn(self.model, self.rows, now, then, self._turns)
            terms = rewrite_pregrad(in_turn)
        else:
            terms = self._terms
        outputs = [*terms, *self._gradients(terms, list(self.parts))] if gradient else terms
        return inputs, graph_replace(outputs, flat, strict=False)

    def _gradients(self, terms: list[Variable], names: list[str]) -> list[Variable]:
        """Return the gradient of every term in the continuous θ, with zeros for other variables."""
        moving = {name: self.values[name] for name in self._continuous if name in names}
        gradients = []
        for term in terms:
            parts = pt.grad(term, [*moving.values()], disconnected_inputs="ignore")
            found = dict(zip(moving, parts, strict=True))
            zeros = {name: pt.zeros(self.shapes[name]) for name in self._continuous}
            gradients.append(pt.concatenate([each.ravel() for each in (zeros | found).values()]))
        return gradients

    def _flat(self, size: int) -> tuple[list[Variable], dict[Variable, Variable]]:
        """Return vectors for θ, perhaps with more numbers, data and interval, and their parts."""
        model = self.model
        observed = [model.observed[name] for name in self._observed]
        observed += self._of_data_alone
        lengths = [prod(each.type.shape) for each in observed]
        theta = pt.vector("theta", shape=(size,))
        data = pt.vector("data", shape=(sum(lengths),))
        flat = {
            value: theta[self.parts[value.name]]
            .reshape(self.shapes[value.name])
            .astype(value.dtype)
            for value in model.value_vars
        }
        for shared, length, end in zip(observed, lengths, accumulate(lengths), strict=True):
            flat[shared] = data[end - length : end].reshape(shared.type.shape).astype(shared.dtype)
        return [theta, data, pt.vector("interval", shape=(2,))], flat

    def conditional(self, latent: np.ndarray) -> Conditional | None:
        """Return the density in ``latent``, all elements of some variables, as two functions.

        None if no larger matrix depends on the other elements alone, since two functions would then
        hardly be faster than one, or if they cannot be compiled.
        """
        key = latent.tobytes()
        if key not in self._conditionals:
            self._conditionals[key] = quickest(
                "two parts", partial(self._conditional, latent), lambda: None
            )
        return self._conditionals[key]

    @alone
    def _conditional(self, latent: np.ndarray) -> Conditional | None:
        names = [name for name, part in self.parts.items() if part.start in latent]
        outputs = [*self._terms, *self._gradients(self._terms, names)]
        moving = [self.values[name] for name in names]
        fixed = fixed_parts(outputs, [*moving, *self.model.observed.values()])
        if self.rows or not any(
            part.type.ndim > 1 and size > len(latent) for part, size in fixed.items()
        ):
            return None
        inputs, flat = self._flat(self.size)
        vector = pt.concatenate(graph_replace([part.ravel() for part in fixed], flat, strict=False))
        of_first = [pt.constant(0.0), pt.constant(0.0), vector, vector]
        check = self.model.check_bounds
        first = _compiled(inputs, of_first, "what depends on the parameters alone", check)
        n = sum(fixed.values())
        inputs, flat = self._flat(self.size + n)
        ends = accumulate(fixed.values(), initial=self.size)
        for start, (part, size) in zip(ends, fixed.items(), strict=False):
            numbers = inputs[0][start : start + size]
            flat[part] = numbers.reshape(part.type.shape).astype(part.dtype)
        rest = graph_replace(outputs, flat, strict=False)
        second = _compiled(inputs, rest, "the log density given the parameters", check)
        return Conditional(first, second, n)

    def in_blocks(self, number: int, *labels: np.ndarray) -> Callable:
        """Return a cfunc that writes log p and ℓ of every block where others write gradients.

        Labels are those of the terms of log p, and of ℓ. Terms of no block are in a last element.
        """
        key = b"".join(each.tobytes() for each in labels)
        if key not in self._in_blocks:
            self._in_blocks[key] = self._compile_blocks(number, labels)
        return self._in_blocks[key]

    @alone
    def _compile_blocks(self, number: int, labels: Sequence[np.ndarray]) -> Callable:
        load_numba()
        inputs, flat = self._flat(self.size)
        sums = [
            pt.zeros(number + 1)[of_terms].inc(pt.concatenate([each.ravel() for each in terms]))
            for of_terms, terms in zip(labels, self._graphs[1:], strict=True)
        ]
        outputs = graph_replace([pt.constant(0.0), pt.constant(0.0), *sums], flat, strict=False)
        return _compiled(inputs, outputs, "the log density by blocks", self.model.check_bounds)

    @alone
    def _compile(self, gradient: bool) -> Callable:
        load_numba()
        try:
            inputs, outputs = self._graph(gradient)
        except Exception as error:  # PyTensor raises many types of error for a missing gradient
            raise NoGradient(f"its gradient is not implemented: {in_a_line(error)}") from error
        title = "the log density" + " with its gradient" * gradient
        return _compiled(inputs, outputs, title, self.model.check_bounds)


def _n_categories(rv: Variable) -> int:
    """Return the number of values of a discrete variable with support 0, …, n − 1, else 0."""
    if isinstance(rv.owner.op, Bernoulli.rv_type):
        return 2
    if isinstance(rv.owner.op, Categorical.rv_type):
        return int(rv.owner.inputs[-1].type.shape[-1] or 0)
    return 0


def fixed_parts(outputs: Sequence[Variable], changing: Collection[Variable]) -> dict[Variable, int]:
    """Return variables that do not depend on changing inputs but enter what does, with their sizes.

    Views, such as a transposed matrix, are made again, as are inputs and constants. For a number
    that is no tensor, such as the condition of a check, its tensor is taken. The result is empty if
    the shape of one is not known.
    """
    nodes, depends = list(toposort(outputs)), set(changing)
    for node in nodes:
        if not depends.isdisjoint(node.inputs):
            depends.update(node.outputs)
    entering = [each for node in nodes if node.outputs[0] in depends for each in node.inputs]
    fixed = {}
    for each in [*entering, *outputs]:
        if each in depends:
            continue
        while each.owner and (each.owner.op.view_map or not isinstance(each.type, TensorType)):
            each = each.owner.inputs[0]
        if each.owner:
            fixed[each] = each.type.shape
    is_known = not any(None in shape for shape in fixed.values())
    return {each: prod(shape) for each, shape in fixed.items()} if is_known else {}


def _compiled(
    inputs: list[Variable], outputs: list[Variable], title: str, check_bounds: bool
) -> Callable:
    """Return the cfunc of a graph of log p, ℓ, and their gradients perhaps."""
    outputs = guarded(outputs)
    # Scalars need no allocation.
    outputs = [*(scalar_from_tensor(each) for each in outputs[:2]), *outputs[2:]]
    for variable in graph_inputs(outputs):
        if isinstance(variable, SharedVariable):
            raise NotJittable(f"{variable} is a shared variable; use pm.Data in its place")
    key = structure(inputs, outputs), check_bounds
    if key in _cfuncs:
        return _cfuncs[key]
    _log.info(f"Compiling {title}")
    forms = [partial(_make_cfunc, inputs, outputs, check_bounds, mode) for mode in MODES]
    try:
        _cfuncs[key] = quickest(title, *forms)
    except (EOFError, UnpicklingError) as error:
        raise RuntimeError(
            f"A file of PyTensor's cache is damaged ({error}). Delete the directory "
            f"{pytensor.config.base_compiledir / 'numba'}; it will be filled again."
        ) from error
    except Exception as error:
        raise NotJittable(f"{type(error).__name__}: {in_a_line(error)}") from error
    return _cfuncs[key]


def _make_cfunc(inputs, outputs, check_bounds: bool, mode: Mode) -> Callable:
    with warnings.catch_warnings(), pm.Model(check_bounds=check_bounds, model=None):
        warnings.filterwarnings("ignore", "Numba will use object mode")  # as `guarded` expects
        function = compile_graph(inputs, outputs, mode=mode, on_unused_input="ignore")
    return _as_cfunc(jitted_function(function), len(outputs) > 2, inputs[1].type.shape[0])


def _as_cfunc(jitted, gradient: bool, length: int) -> Callable:
    """Return a cfunc with the same signature for every model, so kernels are compiled once.

    It cannot raise an exception: it returns NaN, and the proposal is rejected. Every data set has
    ``length`` numbers.
    """

    def function(theta, data, interval, log_prior_gradient, log_likelihood_gradient):
        try:
            values = jitted(theta, data[:length], interval)
            log_prior, ell = values[0], values[1]
            if gradient:
                for i in range(values[2].size):  # numba takes seconds to compile slices
                    log_prior_gradient[i] = values[2][i]
                    log_likelihood_gradient[i] = values[3][i]
            for start in range(length, data.size, max(length, 1)):
                values = jitted(theta, data[start : start + length], interval)
                ell += values[1]
                if gradient:
                    for i in range(values[3].size):
                        log_likelihood_gradient[i] += values[3][i]
        except Exception:
            return np.nan, np.nan
        return log_prior, ell

    return numba.cfunc(DENSITY)(function)


@njit(cache=True)
def call_density(function, theta, data, interval, log_prior_gradient, log_likelihood_gradient):
    """Call a cfunc with arrays, which ctypes cannot."""
    return function(theta, data, interval, log_prior_gradient, log_likelihood_gradient)


class Guarded(Op):
    """Operation that returns NaN for an exception: numba leaves it set, and Python fails later."""

    __props__ = ("op",)

    def __init__(self, op: Op):
        self.op = op

    def make_node(self, *inputs) -> Apply:
        """Return a node with the inputs and the types of outputs of the operation."""
        node = self.op.make_node(*inputs)
        return Apply(self, node.inputs, [output.type() for output in node.outputs])

    def perform(self, node, inputs, output_storage) -> None:
        """Perform the operation, or fill its outputs with NaN."""
        try:
            self.op.perform(node, inputs, output_storage)
        except Exception:
            for output, storage in zip(node.outputs, output_storage, strict=True):
                shape = [1 if n is None else n for n in output.type.shape]
                storage[0] = np.full(shape, np.nan, dtype=output.type.dtype)


def guarded(outputs: Sequence[Variable]) -> list[Variable]:
    """Return a graph in which no operation that numba runs in Python raises an exception."""
    replaced = {
        old: new
        for node in applys_between(list(graph_inputs(outputs)), outputs)
        if _is_black_box(node)
        for old, new in zip(
            node.outputs, Guarded(node.op).make_node(*node.inputs).outputs, strict=True
        )
    }
    return graph_replace(outputs, replaced) if replaced else list(outputs)


def _is_black_box(node: Apply) -> bool:
    """Return whether only Python can run an operation of the user's, with floats as outputs."""
    op = node.op
    own = not type(op).__module__.startswith(("pytensor.", "pymc."))
    wrapped = isinstance(op, FromFunctionOp) or (own and not has_numba(op))
    return wrapped and all(output.type.dtype in ("float32", "float64") for output in node.outputs)
