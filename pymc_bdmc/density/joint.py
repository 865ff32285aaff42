"""Evaluate the joint log density log p(θ, y) of a PyMC model at many draws."""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.pytensorf import compile as compile_graph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import WalkingGraphRewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.scan.op import Scan

from pymc_bdmc.base.compiling import quickest
from pymc_bdmc.base.upstream import alone
from pymc_bdmc.density.forward_graph import INTERPRETED
from pymc_bdmc.density.identity import operations
from pymc_bdmc.density.loops import WITH_FAST_LOOPS
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.density.tempered_model import without_initial_values

_PER_ROW = WalkingGraphRewriter(local_check_parameter_to_ninf_switch, order="out_to_in")
AT_ONCE = 500
"""Number of draws that are evaluated together."""

Evaluate = Callable[[list[np.ndarray]], np.ndarray]
_kept: WeakKeyDictionary[TemperedDensity, Evaluate] = WeakKeyDictionary()


def log_joint(model: pm.Model, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return log p(θ, y) of every draw, without the Jacobian of transforms; nats.

    Parameters
    ----------
    model : pymc.Model
    values : mapping of str to ndarray of shape (n, ...)
        Values of the free variables on the model's own scale, one draw a row.

    Returns
    -------
    ndarray of shape (n,)
        Log densities; −∞ for impossible draws.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_bdmc.density.joint import log_joint
    >>> with pm.Model() as model:
    ...     rate = pm.Exponential("rate", 1)
    ...     y = pm.Poisson("y", rate, observed=0)
    >>> log_joint(model, dict(rate=np.array([1.0, 2.0])))
    array([-2., -4.])
    """
    return _by_parts(_compiled(model), model, values)


def log_joint_of(density: TemperedDensity, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return `log_joint` of the model of a density, compiled once for each density.

    Parameters
    ----------
    density : TemperedDensity
    values : mapping of str to ndarray of shape (n, ...)
        Values of the free variables on the model's own scale, one draw a row.

    Returns
    -------
    ndarray of shape (n,)
        Log densities, nats; −∞ for impossible draws.
    """
    if density not in _kept:
        _kept[density] = _compiled(density.model)
    return _by_parts(_kept[density], density.model, values)


def _by_parts(evaluate: Evaluate, model: pm.Model, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Evaluate some rows after the other, which takes less memory."""
    names = [rv.name for rv in model.free_RVs]
    parts = [
        evaluate([np.asarray(values[name][i : i + AT_ONCE]) for name in names])
        for i in range(0, len(values[names[0]]), AT_ONCE)
    ]
    return np.concatenate(parts)


@alone
@pytensor.config.change_flags(cxx="")  # or it compiles the inner graphs, a second for each
def _compiled(model: pm.Model) -> Evaluate:
    """Return a function of rows of the free variables.

    Rows are evaluated together if the graph can be vectorised. A graph with a scan is compiled by
    numba instead and evaluated row by row: Python would interpret every step for every row.
    """
    with without_initial_values(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected variables likely created by GP")
        plain = remove_value_transforms(model)
    ordered = [plain.rvs_to_values[plain[rv.name]] for rv in model.free_RVs]
    # A parameter check would fail for all rows together; a switch acts on each row.
    logp = rewrite_graph(plain.logp(), custom_rewrite=_PER_ROW)
    types = [value.dtype for value in ordered]
    one_by_one = _one_by_one(ordered, logp, INTERPRETED)
    if any(isinstance(op, Scan) for op in operations([logp])):
        quick = _one_by_one(ordered, logp, WITH_FAST_LOOPS)
    else:
        quick = quickest("many draws at once", lambda: _at_once(ordered, logp), lambda: one_by_one)

    def evaluate(arrays):
        values = [a.astype(t) for a, t in zip(arrays, types, strict=True)]
        with np.errstate(all="ignore"):
            # An op may accept rows, or be compiled, but fail to compute them.
            found = quickest("draws", lambda: quick(*values), lambda: one_by_one(*values))
        return np.broadcast_to(found, (len(arrays[0]),)).astype(float)

    return evaluate


def _at_once(ordered: list[Variable], logp: Variable) -> Callable:
    """Return a function that evaluates all rows together."""
    rows = [pt.tensor(dtype=each.dtype, shape=(None, *each.type.shape)) for each in ordered]
    many = vectorize_graph(logp, dict(zip(ordered, rows, strict=True)))
    return compile_graph(rows, many, on_unused_input="ignore", mode=INTERPRETED)


def _one_by_one(ordered: list[Variable], logp: Variable, mode: Mode) -> Callable:
    """Return a function that evaluates row after row, compiled at the first use."""

    @cache
    @alone
    def single():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Numba will use object mode")
            return compile_graph(ordered, logp, on_unused_input="ignore", mode=mode)

    return lambda *arrays: np.array([single()(*row) for row in zip(*arrays, strict=True)])
