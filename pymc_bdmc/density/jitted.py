"""Compile the tempered density as one numba function of flat vectors."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.pytensorf import rewrite_pregrad
from pymc.vartypes import continuous_types
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.basic import EquilibriumGraphRewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.scalar import Switch
from pytensor.tensor.elemwise import Elemwise

from pymc_bdmc.base.compiling import in_a_line, load_numba, quickest
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.cfunc import Graph, NotJittable, caller, compiled
from pymc_bdmc.density.flat import ContinuousFirst
from pymc_bdmc.density.held import held_parts
from pymc_bdmc.density.rows import number_of_rows, terms_in_turn, turns

if TYPE_CHECKING:
    from pymc_bdmc.density.tempered import TemperedDensity


class NoGradient(NotJittable):
    """Error that says why a model's density has no gradient; its values may be compiled."""


class Conditional(NamedTuple):
    """log p and ℓ in some elements of θ, in two functions with the arguments of one density."""

    first: Callable
    """Function that writes what depends on the other elements alone to both gradients."""
    second: Callable
    """Function of θ followed by what the first one wrote; gradients are 0 in the other elements."""
    held: int
    """Number of values that the first function writes."""


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
        call = caller()

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

    def _graph(self, gradient: bool) -> Graph:
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
        title = "the log density" + " with its gradient" * gradient
        return Graph([theta, data], graph_replace(outputs, flat, strict=False), title)

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
            then hardly be faster than one function, or if they cannot be compiled.
        """
        key = latent.tobytes()
        if key not in self._conditionals:
            in_two_parts = partial(self._conditional, latent)
            self._conditionals[key] = (
                None if self.rows else quickest("two parts", in_two_parts, lambda: None)
            )
        return self._conditionals[key]

    @alone
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
        outputs_of_first = [pt.constant(0.0), pt.constant(0.0), vector, vector]
        first = Graph([theta, data], outputs_of_first, "what depends on the parameters alone")
        theta, data, flat = self._flat(self.size + sum(held.values()))
        ends = accumulate(held.values(), initial=self.size)
        for start, (part, size) in zip(ends, held.items(), strict=False):
            shape = part.type.shape
            flat[part] = theta[start : start + size].reshape(shape).astype(part.dtype)
        rest = graph_replace(outputs, flat, strict=False)
        second = Graph([theta, data], rest, "the log density given the parameters")
        check = self._model.check_bounds
        return Conditional(compiled(first, check), compiled(second, check), sum(held.values()))

    @alone
    def _compile(self, gradient: bool):
        load_numba()
        try:
            graph = self._graph(gradient)
        except Exception as error:  # PyTensor raises many types of error for a missing gradient
            raise NoGradient(f"its gradient is not implemented: {in_a_line(error)}") from error
        return compiled(graph, self._model.check_bounds)


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
    stable = rewrite_pregrad(terms)
    lift = EquilibriumGraphRewriter([_evaluate_once], max_use_ratio=10)
    lifted = partial(rewrite_graph, stable, include=(), custom_rewrite=lift)
    return quickest("switches", lifted, lambda: stable)
