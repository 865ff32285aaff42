"""Correct the log density and the draws of PyMC's `CAR`, as long as they need it."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.multivariate import CARRV
from pytensor.graph.basic import Variable
from pytensor.sparse import dense_from_sparse
from pytensor.sparse.type import SparseTensorType
from scipy import linalg, sparse

from pymc_bdmc.base.upstream import log_density_of


class CorrectedCAR(CARRV):
    """CAR with precision matrix Q = τ(D − αW), right draws and a normalised log density."""

    @classmethod
    def rng_fn(cls, rng, mu, W, alpha, tau, W_is_valid, size):
        """Return μ + U⁻¹z with Q = UᵀU, after a permutation that makes Q a band (Rue, 2001)."""
        alpha, tau = np.squeeze(alpha), np.squeeze(tau)
        if not np.all(W_is_valid):
            raise ValueError("W must be symmetric")
        if not -1 < alpha < 1:
            raise ValueError("alpha must lie between -1 and 1")
        weights = W.toarray() if sparse.issparse(W) else np.reshape(W, np.shape(W)[-2:])
        precision = tau * (np.diag(weights.sum(axis=0)) - alpha * weights)
        order = sparse.csgraph.reverse_cuthill_mckee(sparse.csr_matrix(precision), True)
        band = precision[np.ix_(order, order)]
        width = int(np.abs(np.subtract(*np.nonzero(band))).max(initial=0))
        diagonals = [np.pad(band.diagonal(k), (k, 0)) for k in range(width, -1, -1)]
        upper = linalg.cholesky_banded(np.stack(diagonals))
        shape = (*(size or ()), len(order)) if size is not None else np.shape(mu)
        z = rng.normal(size=shape).reshape(-1, len(order))
        draws = np.empty_like(z)
        draws[:, order] = linalg.solve_banded((0, width), upper, z.T).T
        return mu + draws.reshape(shape)


@log_density_of.register(CorrectedCAR)
def _log_density(op, values, *inputs, **kwargs) -> Variable:
    log_p = log_density_of.dispatch(CARRV)(op, values, *inputs, **kwargs)
    if not constant_is_missing():
        return log_p
    weights = inputs[3]  # after the generator, the size and the mean
    if isinstance(weights.type, SparseTensorType):
        weights = dense_from_sparse(weights)
    return log_p + 0.5 * (pt.log(weights.sum(axis=-2)) - np.log(2 * np.pi)).sum()


@cache
def constant_is_missing() -> bool:
    """Return whether PyMC's log density of `CAR` lacks −n/2·log 2π + ½ Σ log Dᵢ.

    Three regions in a row with α = 0 and τ = 1 are independent, with variances 1, 1/2 and 1, so the
    log density of zeros is ½ log 2 − 3/2·log 2π = −2.410. PyMC 6.4 returns 0.
    """
    row = np.diag(np.ones(2), 1) + np.diag(np.ones(2), -1)
    log_p = pm.logp(pm.CAR.dist(np.zeros(3), row, alpha=0.0, tau=1.0), np.zeros(3))
    right = 0.5 * np.log(2) - 1.5 * np.log(2 * np.pi)
    return not np.allclose(log_p.eval(mode="FAST_COMPILE"), right)
