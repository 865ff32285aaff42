"""Reuse the compiled densities of earlier calls while their model is unchanged."""

import threading
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.custom import CustomDistRV, CustomSymbolicDistRV
from pymc.logprob.transforms import Transform
from pymc.pytensorf import resolve_backend_compile_kwargs
from pytensor.compile.ops import FromFunctionOp
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType

from pymc_bdmc.base.upstream import alone
from pymc_bdmc.model.fingerprint import fingerprint
from pymc_bdmc.model.structure import content, structure
from pymc_bdmc.model.tempered import TemperedDensity

__all__ = ["Loan"]

MOST_KEPT = 4
"""Number of models whose density is kept (the last ones); each keeps a copy of its data."""

_kept: WeakKeyDictionary[pm.Model, tuple[tuple, TemperedDensity]] = WeakKeyDictionary()
_lock = threading.Lock()


class Loan:
    """Density for one call: that of an earlier call if the model is unchanged, else a new one.

    A model is unchanged if it is the same `pymc.Model` object and its graphs have the same
    operations, constants and values of shared variables (`pymc.Data`, lengths of dims), compared by
    content; the same variables, names, dims, transforms and values; and the same ``check_bounds``,
    PyTensor ``floatX`` and backend. So new data, a new length, another variable or a changed array
    give a new density. A model with user code, such as `pymc.CustomDist` or an operation from
    outside PyMC and PyTensor, gets a new density in every call, since that code cannot be compared;
    so does every model if ``compile_kwargs`` are given.

    A density is used by one call at a time, since it holds the data on which it is evaluated; a
    second call at the same time gets its own.

    Parameters
    ----------
    model : pymc.Model
    backend : str, optional
        Backend of PyTensor, as in `sample_bdmc`.
    compile_kwargs : dict, optional
        As in `sample_bdmc`.

    Attributes
    ----------
    density : TemperedDensity
        Density with the data of the model.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_bdmc.model.lending import Loan
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> first = Loan(model)
    >>> Loan(model).density is first.density
    False
    >>> first.give_back()
    >>> Loan(model).density is first.density
    True
    """

    @alone
    def __init__(
        self, model: pm.Model, backend: str | None = None, compile_kwargs: dict | None = None
    ):
        self._model = model
        self._seen = None if compile_kwargs else _fingerprint(model, backend)
        with _lock:
            kept = _kept.pop(model, None)
        if kept and kept[0] == self._seen:
            self.density = kept[1]
        else:
            self.density = TemperedDensity(
                model, resolve_backend_compile_kwargs(backend, compile_kwargs)
            )
            self.density.check()

    @property
    def fingerprint(self) -> dict[str, str]:
        """Return a hash of each variable; empty if the model cannot be compared."""
        return {} if self._seen is None else fingerprint(self._model)

    def give_back(self) -> None:
        """Return the density for the next call, in its initial state; not called after an error."""
        if self._seen is None:
            return
        self.density.reset()
        with _lock:
            _kept[self._model] = self._seen, self.density
            if len(_kept) > MOST_KEPT:
                del _kept[next(iter(_kept))]  # the oldest


def _fingerprint(model: pm.Model, backend: str | None) -> tuple | None:
    """Return everything that determines a density; None if it cannot be compared."""
    transforms = [model.rvs_to_transforms[rv] for rv in model.free_RVs]
    named = [*model.basic_RVs, *model.potentials, *model.deterministics]
    computed = [*named, *map(model.rvs_to_values.get, model.basic_RVs)]
    computed += model.dim_lengths.values()
    for rv, transform in zip(model.free_RVs, transforms, strict=True):
        if transform is not None:
            computed.append(transform.forward(rv, *rv.owner.inputs))
    if not all(map(_is_known, [*_operations(computed), *_parts(transforms)])):
        return None
    shared = [
        variable
        for variable in graph_inputs(computed)
        if isinstance(variable, SharedVariable) and not isinstance(variable.type, RandomType)
    ]
    if not all(isinstance(variable.type, TensorType) for variable in shared):
        return None
    return (
        structure([], computed),
        tuple(content(pt.constant(variable.get_value(borrow=True))) for variable in shared),
        tuple(variable.name for variable in named),
        tuple(map(len, (model.free_RVs, model.observed_RVs, model.potentials))),
        tuple(transforms),
        tuple((name, *dims) for name, dims in model.named_vars_to_dims.items()),
        tuple(model.dim_lengths),
        model.check_bounds,
        pytensor.config.floatX,
        backend,
    )


def _is_known(thing: Op | Transform) -> bool:
    """Return whether an operation or transform is determined by its attributes (no user code)."""
    library = type(thing).__module__.split(".")[0]
    users = (FromFunctionOp, CustomDistRV, CustomSymbolicDistRV)
    return library in ("pymc", "pytensor") and not isinstance(thing, users)


def _operations(outputs: Sequence[Variable]) -> Iterator[Op]:
    """Yield all operations of a graph, including inner ones."""
    for node in io_toposort([], outputs):
        yield node.op
        for part in ("core_op", "scalar_op"):
            if hasattr(node.op, part):
                yield getattr(node.op, part)
        if isinstance(node.op, HasInnerGraph):
            yield from _operations(node.op.fgraph.outputs)


def _parts(transforms: Sequence[Transform | None]) -> Iterator[Transform]:
    for transform in filter(None, transforms):
        yield transform
        yield from _parts(getattr(transform, "transform_list", ()))
