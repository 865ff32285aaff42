"""Estimate the tail of a sample, and check whether the mean of log weights exists."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MIN_DRAWS = 100
"""Smallest number of values for judging a tail, which then has at least 20 values."""

FEWEST_TAIL = 5  # values of a tail from which its shape is estimated; chosen

MOST_SHAPE = 0.7
"""Largest Pareto k of values whose average can be trusted, or 1 − 1/log10(S) if S states show it:
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling. A distribution
with k ≥ 1/2 has no variance, with k ≥ 1 no mean."""


def pareto_shape(values: ArrayLike) -> float:
    """Estimate the shape k of the generalised Pareto distribution of the largest values.

    This is the estimator of Zhang and Stephens (2009) with the weak prior of Vehtari et al. (2024).
    It uses the largest fifth of n values, but no more than 3√n. Moments of order ≥ 1/k do not
    exist.

    Parameters
    ----------
    values : array_like of shape (n,)
        At least 25.

    Returns
    -------
    float
        Shape k, or NaN if there are too few values or if all values of the tail are equal.

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
    if size < FEWEST_TAIL:
        return np.nan
    excess = values[-size:] - values[-size - 1]
    excess = excess[excess > 0]
    if excess.size < FEWEST_TAIL or excess[0] == excess[-1]:
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


def shape_of_weights(weights: np.ndarray) -> float:
    """Return Pareto k of weights, or 0 if none is large enough for a heavy tail."""
    # The largest of n weights with a tail of shape k is about n^k times their mean; 0.4 is chosen.
    # The estimate can also be large for weights with a sharp upper bound, which do no harm.
    is_large = weights.max() > weights.size**0.4 * weights.mean()
    return pareto_shape(weights) if is_large else 0.0


def shape_by_states(log_weights: np.ndarray) -> tuple[float, float]:
    """Return Pareto k of weights w = p/r of draws from r, and its limit, by log w of states of p.

    If P(w > t) falls as t^(−1/k) under r, it falls as t^(1 − 1/k) under p: with the shape k/(1 −
    k). So far more states of p are in the tail, also in a region without draws from r. A constant
    added to log w does not matter; log w is +∞ if r is 0.
    """
    with np.errstate(invalid="ignore"):
        below = np.sort(log_weights) - log_weights.max()
    shape = max(np.nan_to_num(pareto_shape(np.exp(below))), 0.0)
    # A tail may be so heavy that it underflows.
    if np.isnan(below[-1]) or below[-FEWEST_TAIL] < np.log(np.finfo(float).tiny):
        shape = np.inf
    return 1 - 1 / (1 + shape), min(1 - 1 / np.log10(log_weights.size), MOST_SHAPE)


class TailCheck(NamedTuple):
    """Result of checking whether E_f[log w] exists and can be estimated.

    Attributes
    ----------
    shape : float
        Pareto k of −ℓ of prior draws, divided by the number of particles of a run. NaN if it is
        not known.
    exists, resolved : bool
        Whether the mean exists, and whether it also has a meaningful standard error.
    reason : str
        Empty if ``resolved`` is true.
    """

    shape: float
    exists: bool
    resolved: bool
    reason: str


def check_mean_of_logs(log_likelihood: ArrayLike, particles: int = 1) -> TailCheck:
    """Check whether the mean of forward log weights exists, by ℓ of prior draws.

    A forward chain starts from the prior, so its log weight contains a multiple of ℓ(θ_0). If E[ℓ]
    = −∞ under the prior, E_f[log w] = −∞ for every number of temperatures, and a mean over chains
    that did not reach the tail says nothing. If the tail of −ℓ has the Pareto shape k ≥ 1, the mean
    does not exist. If k ≥ 1/2, the mean has no standard error.

    A run of N particles keeps the best of N prior draws, and their −ℓ has the shape k/N.

    Parameters
    ----------
    log_likelihood : array_like
        ℓ of prior draws, nats. Values of −∞ are ignored, since the path starts from the others.
    particles : int, default 1
        Number of particles of a run.

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
        reason = f"not resolved: {values.size} prior draws are too few to judge the tail of ℓ"
        return TailCheck(np.nan, True, False, reason)
    shape = pareto_shape(values) / particles
    draws = "ℓ of prior draws" if particles == 1 else f"the best ℓ of {particles} prior draws"
    if shape >= 1:
        reason = f"−∞: {draws} has no mean (Pareto k = {shape:.2g})"
    elif shape >= 0.5:
        reason = f"not resolved: {draws} has no variance (Pareto k = {shape:.2g})"
    else:
        reason = ""
    return TailCheck(shape, not shape >= 1, not reason, reason)
