"""The tail of a sample, and whether the mean of log weights exists."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["TailCheck", "check_mean_of_logs", "pareto_shape"]

MIN_DRAWS = 100
"""Fewer leave a tail of less than 20 values, too few to tell its shape."""


def pareto_shape(values: ArrayLike) -> float:
    """Shape k of the generalised Pareto distribution of the largest values.

    The estimator of Zhang and Stephens (2009) with the weak prior of Vehtari et al. (2024), on the
    largest fifth of n values but no more than 3√n. Moments of order 1/k and beyond do not exist.

    Parameters
    ----------
    values : array_like of shape (n,)
        At least 25.

    Returns
    -------
    float
        NaN where there are too few values, or the tail holds one value only.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import pareto_shape
    >>> cauchy = np.random.default_rng(1).standard_cauchy(10_000)
    >>> abs(pareto_shape(cauchy) - 1) < 0.2
    True
    """
    values = np.sort(np.asarray(values, dtype=float))
    n = values.size
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    if size < 5:
        return np.nan
    excess = values[-size:] - values[-size - 1]
    excess = excess[excess > 0]
    if excess.size < 5 or excess[0] == excess[-1]:
        return np.nan
    size = excess.size
    grid = 30 + int(np.sqrt(size))
    # θ = −k/σ on a grid, weighted by its profile likelihood
    theta = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    theta = theta / (3 * excess[int(size / 4 + 0.5) - 1]) + 1 / excess[-1]
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    log_likelihood = size * (np.log(-theta / shape) - shape - 1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    best = np.sum(theta * weights) / np.sum(weights)
    return float((size * np.log1p(-best * excess).mean() + 10 * 0.5) / (size + 10))


class TailCheck(NamedTuple):
    """Whether E_f[log w] exists, and whether chains can find it.

    Attributes
    ----------
    shape : float
        Pareto k of −ℓ of prior draws, by particles of a run; NaN where it cannot be told.
    exists, resolved : bool
        Whether the mean exists; whether it does and its standard error means something.
    reason : str
        Empty if it is resolved.
    """

    shape: float
    exists: bool
    resolved: bool
    reason: str


def check_mean_of_logs(log_likelihood: ArrayLike, particles: int = 1) -> TailCheck:
    """Judge whether the mean of forward log weights exists, by ℓ of prior draws.

    A forward chain starts from the prior, so its log weight contains a share of ℓ(θ_0): where
    E[ℓ] = −∞ under the prior, E_f[log w] = −∞ for every number of temperatures, and a mean of
    chains that have not met the tail says nothing. The tail of −ℓ has the Pareto shape k: from 1 on
    there is no mean, from 1/2 on it has no standard error.

    A run of N particles follows the best of N prior draws, whose −ℓ has the shape k/N.

    Parameters
    ----------
    log_likelihood : array_like
        ℓ of prior draws, nats. Those of −∞ do not count: the path starts from the others.
    particles : int, default 1
        Of a run.

    Returns
    -------
    TailCheck

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import check_mean_of_logs
    >>> rng = np.random.default_rng(1)
    >>> check_mean_of_logs(-rng.normal(size=512) ** 2).resolved
    True
    >>> check_mean_of_logs(-rng.standard_cauchy(size=512) ** 2).exists
    False
    """
    values = -np.asarray(log_likelihood, dtype=float).ravel()
    values = values[np.isfinite(values)]
    if values.size < MIN_DRAWS:
        reason = f"not resolved: {values.size} prior draws are too few to tell the tail of ℓ"
        return TailCheck(np.nan, True, False, reason)
    shape = pareto_shape(values) / particles
    draws = "ℓ of prior draws" if particles == 1 else f"the best ℓ of {particles} prior draws"
    if shape >= 1:
        reason = f"−∞: {draws} has no mean (Pareto k = {shape:.2g})"
        return TailCheck(shape, False, False, reason)
    if shape >= 0.5:
        reason = f"not resolved: {draws} has no variance (Pareto k = {shape:.2g})"
        return TailCheck(shape, True, False, reason)
    return TailCheck(shape, True, True, "")
