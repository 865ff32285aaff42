"""Graphs of a PyMC model: its tempered copy, its vector θ, and observations one after the other."""

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.model.transform.optimization import freeze_dims_and_data
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import node_rewriter, out2in
from pytensor.scan.op import Scan
from pytensor.tensor.variable import TensorVariable

from pymc_bdmc.base.compiling import quickest
from pymc_bdmc.base.types import Point
from pymc_bdmc.base.upstream import alone, correct
from pymc_bdmc.density.fast import WITH_FAST_LOOPS
from pymc_bdmc.density.identity import operations

if TYPE_CHECKING:
    from pymc_bdmc.density.tempered import TemperedDensity


@node_rewriter([pt.add, pt.mul])
def _in_parts(fgraph, node):
    """Rewrite a sum or product of many operands as one of several parts."""
    most = 30  # NumPy takes 32 arrays
    if len(node.inputs) <= most:
        return None
    return [node.op(node.op(*node.inputs[:most]), *node.inputs[most:])]


INTERPRETED = (
    Mode("py", "fast_run")
    .excluding("fusion")
    # after the rewrites that join sums and products
    .register((out2in(_in_parts, name="sums_and_products_in_parts"), 49.0))
)
"""Mode for graphs that are evaluated once a chain, for which compiling takes longer than it saves.
Fusion is excluded since fused operations would loop over elements in Python."""


def by_rows(
    inputs: Sequence[Variable], outputs: Sequence[Variable]
) -> Callable[..., list[np.ndarray]]:
    """Return a function from rows of the inputs to rows of the outputs, interpreted all at once.

    A graph that cannot be vectorised is evaluated row by row. So is one with a scan, by numba:
    Python would interpret every step of it for every row.
    """

    @alone
    @pytensor.config.change_flags(cxx="")  # or it compiles the inner graphs, a second for each
    def compiled(inputs, outputs, mode):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Numba will use object mode")
            return compile_graph(inputs, outputs, on_unused_input="ignore", mode=mode)

    def together():
        rows = [pt.tensor(dtype=each.dtype, shape=(None, *each.type.shape)) for each in inputs]
        vectorised = vectorize_graph(outputs, dict(zip(inputs, rows, strict=True)))
        several = [
            many if many.ndim > one.ndim else pt.broadcast_to(many, (rows[0].shape[0], *many.shape))
            for one, many in zip(outputs, vectorised, strict=True)  # a constant has no rows
        ]
        return compiled(rows, several, INTERPRETED)

    def one_by_one(mode):
        single = cache(lambda: compiled(inputs, outputs, mode))

        def evaluate(*rows):
            found = [single()(*row) for row in zip(*rows, strict=True)]
            return [np.array(each) for each in zip(*found, strict=True)]

        return evaluate

    plain = one_by_one(INTERPRETED)
    has_scan = any(isinstance(op, Scan) for op in operations(outputs))
    fast = partial(one_by_one, WITH_FAST_LOOPS) if has_scan else together
    quick = quickest("rows at once", fast, lambda: plain)

    def evaluate(*rows):
        with np.errstate(all="ignore"):
            # An operation may accept rows, or be compiled, but fail to compute them.
            return quickest("rows", lambda: quick(*rows), lambda: plain(*rows))

    return evaluate


class TemperedModel(pm.Model):
    """Copy of a PyMC model whose `logp` is log p(θ) + β ℓ(θ).

    Step methods, gradients and everything else that PyMC derives from ``model.logp()`` then target
    f_β. β and the observed data are shared inputs, so changing them recompiles nothing.
    """

    beta: pt.TensorVariable
    observed: dict[str, pt.TensorVariable]
    """By the name of the observed variable."""

    @classmethod
    def from_model(cls, model: pm.Model) -> "TemperedModel":
        """Copy ``model`` and give it an inverse temperature."""
        with without_initial_values(model), warnings.catch_warnings():
            # PyMC warns about GP objects of the old model, which are not used here.
            warnings.filterwarnings("ignore", "Detected variables likely created by GP")
            tempered = freeze_dims_and_data(model)
        # PyMC's own idiom for changing methods of a rebuilt model (see `freeze_model`).
        tempered.__class__ = cls
        tempered.check_bounds = model.check_bounds
        keep_order(tempered, model)
        for rv in tempered.basic_RVs:
            correct(rv)
        tempered.beta = pytensor.shared(np.array(1.0), name="beta")
        tempered.observed = {}
        for rv in tempered.observed_RVs:
            data = tempered.rvs_to_values[rv]  # constant, or a cast of one
            value = np.asarray(data.eval(mode=INTERPRETED))
            shared = pytensor.shared(value, name=f"{rv.name}_data", shape=value.shape)
            tempered.observed[rv.name] = tempered.rvs_to_values[rv] = shared
        return tempered

    def logp(self, vars=None, jacobian=True, sum=True):
        """Return `pymc.Model.logp`, or without ``vars`` the scalar log f_β."""
        if vars is not None or not sum:
            return super().logp(vars=vars, jacobian=jacobian, sum=sum)
        log_prior = super().logp(vars=self.free_RVs, jacobian=jacobian)
        # The switch makes β = 0 exact: 0·(−∞) counts as 0.
        return log_prior + pt.switch(self.beta > 0, self.beta * self.datalogp, 0.0)


def keep_order(copy: pm.Model, model: pm.Model) -> None:
    """Put the variables of a copy into their order in the model, which PyMC does not keep."""
    for variables in ("free_RVs", "observed_RVs", "potentials", "deterministics"):
        setattr(copy, variables, [copy[rv.name] for rv in getattr(model, variables)])


@contextmanager
def without_initial_values(model: pm.Model) -> Iterator[None]:
    """Hide initial values, which are not used here and which PyMC cannot always copy."""
    saved = dict(model.rvs_to_initial_values)
    try:
        model.rvs_to_initial_values.update(dict.fromkeys(saved))
        yield
    finally:
        model.rvs_to_initial_values.update(saved)


class Layout:
    """Places of the unconstrained variables in one vector θ, by default in the model's order."""

    def __init__(self, density: "TemperedDensity", values: Sequence[Variable] | None = None):
        self.model, self.size = density.model, density.size
        values = density.model.value_vars if values is None else values
        self.values = {value.name: value for value in values}
        self.shapes = {name: density.shapes[name] for name in self.values}
        # the names of the model's variables, by those of the unconstrained ones
        self.titles = {name: density.titles[name] for name in self.values}
        lengths = [prod(shape) for shape in self.shapes.values()]
        ends = accumulate(lengths)
        self.parts = {
            name: slice(end - length, end)
            for name, length, end in zip(self.values, lengths, ends, strict=True)
        }

    def ravel(self, point: Point) -> np.ndarray:
        """Return θ as one vector."""
        return np.concatenate([np.asarray(point[name], float).ravel() for name in self.parts])

    def ravel_many(self, points: Point) -> np.ndarray:
        """Return many θ, one a row, from arrays with one point a row."""
        n = len(next(iter(points.values())))
        rows = [
            np.asarray(points[name], float).reshape(n, part.stop - part.start)
            for name, part in self.parts.items()
        ]
        return np.ascontiguousarray(np.concatenate(rows, axis=1))  # as compiled loops read them

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the variables of one or many flat θ, by name and in the model's order."""
        before = theta.shape[:-1]
        return {
            each.name: theta[..., self.parts[each.name]]
            .reshape((*before, *self.shapes[each.name]))
            .astype(each.dtype)
            for each in self.model.value_vars
        }

    def elements_of(self, names: Collection[str]) -> np.ndarray:
        """Return which elements of θ belong to the variables of these names; bool, shape (n,)."""
        found = np.zeros(self.size, dtype=bool)
        for name, part in self.parts.items():
            found[part] = self.titles[name] in names
        return found

    def names_of(self, elements: np.ndarray) -> list[str]:
        """Return the names of the variables that have some of these elements of θ."""
        return [
            self.titles[name]
            for name, part in self.parts.items()
            if np.isin(np.r_[part], elements).any()
        ]

    @property
    def units(self) -> np.ndarray:
        """The element that is the logarithm of each element's unit, or −1; shape (n,).

        In the Cholesky factor of a covariance matrix, the elements of a row are of the size of its
        diagonal element.
        """
        found = np.full(self.size, -1)
        for name, part in self.parts.items():
            rv = self.model.values_to_rvs[self.values[name]]
            if isinstance(self.model.rvs_to_transforms[rv], CholeskyCovPacked):
                length = self.shapes[name][-1]
                rows, columns = np.tril_indices(int(np.sqrt(2 * length)))
                diagonal = np.flatnonzero(rows == columns)[rows]
                units = np.where(rows == columns, -1, diagonal)
                for first in range(part.start, part.stop, length):
                    found[first : first + length] = np.where(units < 0, -1, first + units)
        return found


def number_of_rows(model: pm.Model) -> int:
    """Return N, the common length of observed variables; an error if they have no rows."""
    remedy = "path: 'data' needs observations in rows; use 'prior'."
    if model.potentials:
        raise ValueError(f"{remedy} {model.potentials[0].name} is a Potential, which has none.")
    lengths = {}
    for rv in model.observed_RVs:
        (log_p,) = model.logp(vars=[rv], sum=False)
        if log_p.ndim == 0:
            raise ValueError(f"{remedy} {rv.name} has one density for all its elements together.")
        lengths[rv.name] = model.rvs_to_values[rv].type.shape[0]
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise ValueError(f"{remedy} Here the first dimensions differ in length: {listed}.")
    return next(iter(lengths.values()))


def turns(rows: int, order: bool | tuple[int, ...]) -> np.ndarray | None:
    """Return at which turn each row is added; None for the order of the rows."""
    if isinstance(order, bool):
        return None
    if sorted(order) != list(range(rows)):
        raise ValueError(f"path: the order must have each of 0, …, {rows - 1} once.")
    return np.argsort(order)


def terms_in_turn(
    model: pm.Model,
    rows: int,
    now: TensorVariable,
    then: TensorVariable,
    turns: np.ndarray | None = None,
) -> list[Variable]:
    """Return graphs of log f − β · slope at β = ``now``, and of the slope up to ``then``.

    The slope is −∞ along the whole path if an observation is impossible, as from the prior.
    """
    each = pt.add(
        *(
            log_p.reshape((rows, -1)).sum(axis=1)
            for log_p in model.logp(vars=model.observed_RVs, sum=False)
        )
    )
    impossible = pt.isinf(each) & (each < 0)
    finite = pt.switch(impossible, 0.0, each)
    before = pt.arange(rows) if turns is None else pt.constant(turns)
    come, coming = (pt.clip(beta * rows - before, 0.0, 1.0) for beta in (now, then))
    slopes = (coming - come) / (then - now)
    slope = (slopes * finite).sum() + pt.switch(impossible.any(), -pt.inf, 0.0)
    return [model.varlogp + ((come - now * slopes) * finite).sum(), slope]
