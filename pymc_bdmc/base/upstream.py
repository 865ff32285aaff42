"""Use private parts of PyTensor, PyMC and Bambi, in this module only, and correct faults of PyMC.

Log densities and draws of some families are corrected as long as they need it (docs/upstream.md).
"""

import os
import threading
import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import ContextDecorator
from functools import cache
from io import BytesIO
from pickle import PicklingError
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions import mixture
from pymc.distributions.multivariate import CARRV, ICARRV, LKJCorr, _LKJCholeskyCov
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pymc.step_methods.compound import BlockedStep
from pytensor import config
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.sparse import dense_from_sparse
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.type_other import NoneTypeT
from scipy import linalg, sparse

DIVERGENCES = "_num_divs_sample"  # in which HMC and NUTS count divergences
HISTORY = "_history"  # the past states of a DEMetropolisZ

# Types of operations.
HURDLE = mixture._HurdleRV
LKJ_CORR: Any = LKJCorr.rv_type
LKJ_CHOLESKY: Any = _LKJCholeskyCov.rv_type
LKJ = LKJ_CORR, LKJ_CHOLESKY

log_density_of = _logprob
"""Dispatch of PyMC from the type of a random variable's operation to its log density."""


class _Alone(ContextDecorator):
    """Lock that lets one thread at a time build and compile PyTensor's graphs.

    PyTensor changes settings of the whole process while it compiles. A second thread would save and
    restore the changed settings, and the same seed would later give different numbers.
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
    """Return the function that the numba linker made of a compiled PyTensor function."""
    return function.vm.jit_fn


class _Pickler(cloudpickle.Pickler):
    """Pickler of operations of `pytensor.wrap_py`, by value if the function is local."""

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

    PyTensor makes constants read-only but not their earlier views, and SciPy's ``rvs`` then raises.
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


def as_sampled(bambi_model: Any, idata: Any) -> Any:
    """Return a fit by Bambi as draws of its PyMC model, whose predictors are centred; else None.

    The intercept of a fit is that without centring, and offsets of group effects are not in it.
    """
    invert = getattr(bambi_model, "_re_center_intercept", None)
    return invert(idata) if invert else None


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


def _with_precision(precision: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return U⁻¹z with Q = UᵀU, after a permutation that makes Q a band (Rue, 2001)."""
    order = sparse.csgraph.reverse_cuthill_mckee(sparse.csr_matrix(precision), True)
    band = precision[np.ix_(order, order)]
    width = int(np.abs(np.subtract(*np.nonzero(band))).max(initial=0))
    diagonals = [np.pad(band.diagonal(k), (k, 0)) for k in range(width, -1, -1)]
    upper = linalg.cholesky_banded(np.stack(diagonals))
    rows = z.reshape(-1, len(order))
    draws = np.empty_like(rows)
    draws[:, order] = linalg.solve_banded((0, width), upper, rows.T).T
    return draws.reshape(z.shape)


class CorrectedCAR(CARRV):
    """CAR with precision matrix Q = τ(D − αW), right draws and a normalised log density."""

    @classmethod
    def rng_fn(cls, rng, mu, W, alpha, tau, W_is_valid, size):
        """Return draws of the normal distribution with mean μ and precision matrix Q."""
        alpha, tau = np.squeeze(alpha), np.squeeze(tau)
        if not np.all(W_is_valid):
            raise ValueError("W must be symmetric")
        if not -1 < alpha < 1:
            raise ValueError("alpha must lie between -1 and 1")
        weights = W.toarray() if sparse.issparse(W) else np.reshape(W, np.shape(W)[-2:])
        precision = tau * (np.diag(weights.sum(axis=0)) - alpha * weights)
        shape = (*(size or ()), len(weights)) if size is not None else np.shape(mu)
        return mu + _with_precision(precision, rng.normal(size=shape))


@log_density_of.register(CorrectedCAR)
def _log_density_of_car(op, values, *inputs, **kwargs) -> Variable:
    log_p = log_density_of.dispatch(CARRV)(op, values, *inputs, **kwargs)
    if not is_wrong(CARRV):
        return log_p
    weights = inputs[3]  # after the generator, the size and the mean
    if isinstance(weights.type, SparseTensorType):
        weights = dense_from_sparse(weights)
    return log_p + 0.5 * (pt.log(weights.sum(axis=-2)) - np.log(2 * np.pi)).sum()


class CorrectedICAR(ICARRV):
    """ICAR of N regions, whose sum is normal with standard deviation ``zero_sum_stdev``·N.

    With the Laplacian L of the graph, the precision matrix is L/σ² + 11ᵀ/(``zero_sum_stdev``·N)².
    """

    @classmethod
    def rng_fn(cls, rng, W, sigma, zero_sum_stdev, size):
        """Return σ(x − x̄) + ``zero_sum_stdev``·z."""
        laplacian = laplacian_of(_one_graph(W))
        batch = np.broadcast_shapes(size or (), np.shape(sigma), np.shape(zero_sum_stdev))
        x = np.zeros((*batch, len(laplacian)))
        if len(laplacian) > 1:  # x is 0 in the last region, and has this precision elsewhere
            z = rng.normal(size=(*batch, len(laplacian) - 1))
            x[..., :-1] = _with_precision(laplacian[:-1, :-1], z)
        x -= x.mean(axis=-1, keepdims=True)
        means = zero_sum_stdev * rng.normal(size=batch)
        return np.asarray(sigma)[..., None] * x + means[..., None]


@log_density_of.register(CorrectedICAR)
def _log_density_of_icar(op, values, rng, size, W, sigma, zero_sum_stdev, **kwargs) -> Variable:
    (value,) = values
    sigma, zero_sum_stdev = _in_full(sigma), _in_full(zero_sum_stdev)
    adjacency = _one_graph(W.eval(mode="FAST_COMPILE"))
    one, other = np.nonzero(np.tril(adjacency))
    # By the matrix-tree theorem N²·(this determinant) is det(L + 11ᵀ).
    _, log_det = np.linalg.slogdet(laplacian_of(adjacency)[:-1, :-1])
    n = len(adjacency)
    edges = -0.5 * pt.square(value[..., one] - value[..., other]).sum(axis=-1) / sigma**2
    total = pm.logp(pm.Normal.dist(0, zero_sum_stdev * n), value.sum(axis=-1))
    constant = 0.5 * log_det + np.log(n) - 0.5 * (n - 1) * np.log(2 * np.pi)
    return edges + total + constant - (n - 1) * pt.log(sigma)


def _one_graph(W: np.ndarray) -> np.ndarray:
    """Return the adjacency matrix, which is the same in all rows of a batch."""
    return np.reshape(W, (-1, *np.shape(W)[-2:]))[0]


def laplacian_of(adjacency: np.ndarray) -> np.ndarray:
    """Return the Laplacian matrix of a graph, shape (N, N): its degrees less its edges."""
    return np.diag(adjacency.sum(axis=0)) - adjacency


def parts_of(icar: Variable) -> list[np.ndarray]:
    """Return the regions of each connected part of the graph of a `pymc.ICAR`."""
    adjacency = _one_graph(icar.owner.op.dist_params(icar.owner)[0].eval(mode="FAST_COMPILE"))
    n_parts, part = sparse.csgraph.connected_components(adjacency)
    return [np.flatnonzero(part == i) for i in range(n_parts)]


class CorrectedLKJCorr(LKJ_CORR):
    """Cholesky factors of correlation matrices with an LKJ prior."""

    @classmethod
    def like(cls, node: Apply) -> Op:
        """Return an operation for the inputs of ``node``."""
        rng, size, n, eta = (each.type() for each in node.inputs)
        batch = () if isinstance(size.type, NoneTypeT) else tuple(size)
        drawn = _correlated(rng, _constant(node.inputs[2]), eta, batch)
        return cls([rng, size, n, eta], drawn)


@log_density_of.register(CorrectedLKJCorr)
def _log_density_of_lkj_corr(op, values, rng, size, n, eta, **kwargs) -> Variable:
    return _log_density_of_factor(values[0], _constant(n), eta)


class CorrectedLKJCholeskyCov(LKJ_CHOLESKY):
    """Cholesky factors of covariance matrices, row by row, with an LKJ prior of correlations."""

    @classmethod
    def like(cls, node: Apply) -> Op:
        """Return an operation for the inputs of ``node``."""
        rng, n, eta, sd = (each.type() for each in node.inputs)
        batch = tuple(sd.shape[i] for i in range(sd.ndim - 1))
        n_rows = _constant(node.inputs[1])
        rng_after, factor = _correlated(rng, n_rows, eta, batch)
        rows, columns = np.tril_indices(n_rows)
        return cls([rng, n, eta, sd], [rng_after, (sd[..., None] * factor)[..., rows, columns]])


@log_density_of.register(CorrectedLKJCholeskyCov)
def _log_density_of_lkj_cholesky(op, values, rng, n, eta, sd_dist, **kwargs) -> Variable:
    n = _constant(n)
    factor = pt.zeros((n, n))[np.tril_indices(n)].set(values[0])
    sd = pt.sqrt(pt.square(factor).sum(axis=-1))
    factor = factor / sd[:, None]
    # The i elements left of the diagonal of a row, given its standard deviation.
    jacobian = (pt.log(pt.diagonal(factor)) - np.arange(n) * pt.log(sd)).sum()
    return pm.logp(sd_dist, sd).sum() + _log_density_of_factor(factor, n, eta) + jacobian


def _in_full(number: Variable) -> Variable:
    """Return a parameter in PyTensor's usual precision, since it may hold 1.0 in less."""
    return pt.cast(number, config.floatX)


def _constant(n: Variable) -> int:
    """Return the number of rows, which is a constant since shapes depend on it."""
    return int(get_underlying_scalar_constant_value(n))


def _correlated(rng, n: int, eta: Variable, batch: Sequence[Variable]) -> list[Variable]:
    """Return the next generator, and factors drawn row by row.

    Row k has k elements left of the diagonal, with a squared length of law Beta(k/2, η + (n − 1 −
    k)/2) and a uniform direction (Lewandowski, Kurowicka and Joe 2009, Section 3.2).
    """
    k = np.arange(1, n)
    rng, squared = pt.random.beta(
        k / 2, eta + (n - 1 - k) / 2, size=(*batch, n - 1), rng=rng, return_next_rng=True
    )
    rng, z = pt.random.normal(size=(*batch, n - 1, n - 1), rng=rng, return_next_rng=True)
    z = z * np.tri(n - 1)
    left = z * pt.sqrt(squared / pt.square(z).sum(axis=-1))[..., None]
    factor = pt.zeros((*batch, n, n))[..., 0, 0].set(1.0)
    return [rng, factor[..., 1:, :-1].set(left)[..., k, k].set(pt.sqrt(1 - squared))]


def _log_density_of_factor(factor: Variable, n: int, eta: Variable) -> Variable:
    """Return the log density of the elements left of the diagonal, by the same laws."""
    k, eta = np.arange(1, n), _in_full(eta)
    constants = pt.gammaln(eta + (n - 1) / 2) - pt.gammaln(eta + (n - 1 - k) / 2)
    diagonal = pt.diagonal(factor, axis1=-2, axis2=-1)[..., 1:]
    terms = constants - k / 2 * np.log(np.pi) + (2 * eta + n - 3 - k) * pt.log(diagonal)
    return terms.sum(axis=-1)


class _Family(NamedTuple):
    """Correction of a family, with a log density that shows whether it is needed."""

    like: Callable[[Apply], Op]
    always: bool  # whether draws need it even if the log density does not
    example: Callable[[], Variable]
    value: np.ndarray
    right: float  # log density of the example at the value
    fault: str


_FAMILIES: dict[Any, _Family] = {
    # Three regions in a row with α = 0 and τ = 1 are independent, with variances 1, 1/2 and 1.
    CARRV: _Family(
        lambda node: CorrectedCAR(), True,
        lambda: pm.CAR.dist(np.zeros(3), np.eye(3, k=1) + np.eye(3, k=-1), alpha=0.0, tau=1.0),
        np.zeros(3),
        0.5 * np.log(2) - 1.5 * np.log(2 * np.pi), "lacks its constant, which is added here",
    ),
    # The difference of two regions is N(0, σ), their sum N(0, 2·zero_sum_stdev); the Jacobian is 2.
    ICARRV: _Family(
        lambda node: CorrectedICAR(), True,
        lambda: pm.ICAR.dist(1 - np.eye(2), sigma=3.0, zero_sum_stdev=0.5), np.zeros(2),
        np.log(2) - np.log(3) - np.log(2 * np.pi),
        "lacks its constant and −(N − 1) log sigma, which are added here. If sigma is unknown, "
        "pm.sample draws from another posterior",
    ),
    # The matrices of three variables have the volume π²/2, and the Jacobian is 3/5 here.
    LKJ_CORR: _Family(
        CorrectedLKJCorr.like, False,
        lambda: pm.LKJCorr.dist(n=3, eta=1.0), np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 0, 1]]),
        np.log(0.6) + np.log(2) - 2 * np.log(np.pi),
        "has a wrong constant and lacks a Jacobian, which are corrected here. With more than two "
        "rows, pm.sample draws from another posterior",
    ),
    # Standard deviations of 1e9 and 1, and a correlation ~ Uniform(−1, 1) at 0.
    LKJ_CHOLESKY: _Family(
        CorrectedLKJCholeskyCov.like, False,
        lambda: pm.LKJCholeskyCov.dist(
            n=2, eta=1.0, sd_dist=pm.Exponential.dist(1e-9), compute_corr=False
        ),
        np.array([1e9, 0.0, 1.0]), 2 * np.log(1e-9) - 1 - np.log(2),
        "is +∞ or NaN if a standard deviation is 1e8 times another, and has a wrong constant in "
        "PyMC 6.3; both are corrected here",
    ),
}  # fmt: skip
"""Corrections of families, by the type of PyMC's operation."""


def _kind(op: Op) -> Any:
    """Return the family of an operation, if it may need a correction."""
    return next((kind for kind in _FAMILIES if isinstance(op, kind)), None)


@cache
def is_wrong(kind: Hashable) -> bool:
    """Return whether PyMC's log density of a family differs from the right one, at one value."""
    family = _FAMILIES[kind]
    log_p = pm.logp(family.example(), family.value).eval(mode="FAST_COMPILE")
    return not np.allclose(log_p, family.right)


def correct(rv: Variable) -> None:
    """Replace the operation of a variable if its log density or draws need a correction."""
    kind = _kind(rv.owner.op)
    if kind and (_FAMILIES[kind].always or is_wrong(kind)):
        rv.owner.op = _FAMILIES[kind].like(rv.owner)


def fault(op: Op) -> str:
    """Return what is wrong with PyMC's log density of an operation's family; empty if nothing."""
    kind = _kind(op)
    return _FAMILIES[kind].fault if kind and is_wrong(kind) else ""
