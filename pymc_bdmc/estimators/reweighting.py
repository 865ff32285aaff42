"""Estimate the log ML of another model from the weighted particles of runs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_bdmc.estimators.checks import (
    check_average,
    checked_weights,
    log_sum_exp,
    widening,
)
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.jarzynski import jarzynski_forward, log_mean_exp


@dataclass(frozen=True)
class Reweighted:
    """Result of `reweighted_evidence`.

    Attributes
    ----------
    log_weights : ndarray of shape (K,)
        Log weights of the runs under the new model, nats. Their average is unbiased for Z_new.
    log_z : Estimate
        Estimate of log Z_new.
    log_ratio : Estimate
        Estimate of log(Z_new/Z_old) from the same runs. Its error is smaller if the two averages
        are correlated.

    Examples
    --------
    >>> from pymc_bdmc.estimators import reweighted_evidence
    >>> found = reweighted_evidence([[0.7, 0.7]] * 2, [[0.5, 0.5]] * 2, [-1.0, -1.1])
    >>> found.log_weights.round(3).tolist()
    [-0.3, -0.4]
    """

    log_weights: np.ndarray
    log_z: Estimate
    log_ratio: Estimate


def reweighted_evidence(
    log_ratios: ArrayLike, shares: ArrayLike, log_weights: ArrayLike
) -> Reweighted:
    """Estimate log Z of a new model by reweighting the particles of runs on an old model.

    The estimate (1/K) Σ_k Ẑ_k Σ_i W_ki f_new(θ_ki)/f_old(θ_ki) of Z_new is unbiased if f_old > 0
    wherever f_new > 0. This holds for any schedule, since the particles of a run are properly
    weighted by Ẑ_k W_ki (Del Moral, Doucet and Jasra 2006, Section 2). Particles of one run are
    dependent, so errors are those of an average over K independent runs.

    Parameters
    ----------
    log_ratios : array_like of shape (K, N)
        log f_new(θ_ki) − log f_old(θ_ki), nats; −∞ if f_new is zero.
    shares : array_like of shape (K, N)
        Weights W_ki within each run, which add up to 1.
    log_weights : array_like of shape (K,)
        log Ẑ_k of the runs, nats; may contain −∞.

    Returns
    -------
    Reweighted
        Not valid if the averages of either model fail `check_average`. Pareto k of the weights of
        the particles would show a small overlap of the two models. It is not checked here.

    Raises
    ------
    ValueError
        If a log ratio is NaN or +∞ at a particle that has weight, or as `jarzynski_forward` does.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import reweighted_evidence
    >>> rng = np.random.default_rng(1)
    >>> theta = rng.normal(size=(16, 100))  # exact draws, so that every log weight is 0
    >>> log_ratios = np.log(2) - 1.5 * theta**2  # from N(0, 1) to N(0, 1/4)
    >>> weights = rng.normal(0, 0.01, 16)
    >>> found = reweighted_evidence(log_ratios, np.full((16, 100), 0.01), weights)
    >>> bool(abs(found.log_z.value) < 3 * found.log_z.error)
    True
    """
    log_weights = checked_weights(log_weights, "forward")
    log_ratios, shares = np.asarray(log_ratios, float), np.asarray(shares, float)
    seen = (shares > 0) & np.isfinite(log_weights)[:, None]
    if not (log_ratios[seen] < np.inf).all():
        raise ValueError("log_ratios: one is NaN or +∞ at a particle that has weight.")
    with np.errstate(divide="ignore"):  # particles of weight zero, and runs without any
        new = log_weights + logsumexp(np.where(seen, log_ratios, -np.inf), axis=1, b=shares)
    return Reweighted(new, jarzynski_forward(new), log_ratio_of_averages(new, log_weights))


def log_ratio_of_averages(above: ArrayLike, below: ArrayLike) -> Estimate:
    """Estimate the logarithm of the ratio of two averages of weights over the same runs.

    With u and v the normalised weights, the standard error by the delta method is √(K/(K−1) Σ (u_k
    − v_k)²), which is derived here. It is widened for skewness, as in `jarzynski_forward`.

    Parameters
    ----------
    above, below : array_like of shape (K,)
        Log weights of the same runs, nats; may contain −∞.

    Returns
    -------
    Estimate
        Valid if both averages pass `check_average`. NaN and not valid if every weight of one of
        them is zero.

    Raises
    ------
    ValueError
        If the lengths differ, or a log weight is NaN or +∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import log_ratio_of_averages
    >>> found = log_ratio_of_averages([1.0, 2.0], [0.0, 1.0])
    >>> round(found.value, 6), round(found.error, 6)
    (1.0, 0.0)
    """
    pair = [checked_weights(each, "forward") for each in (above, below)]
    k = pair[0].size
    if pair[1].size != k:
        raise ValueError(f"{k} log weights cannot be paired with {pair[1].size}.")
    checks = [check_average(each) for each in pair]
    if not all(check.size for check in checks):
        return Estimate(np.nan, np.nan, "log ratio", False, "every weight is zero")
    first, second = (np.exp(each - log_sum_exp(each)) for each in pair)
    parts = first - second
    error = widening(parts) * float(np.linalg.norm(parts)) if k > 1 else np.nan
    reasons = "; ".join(dict.fromkeys(check.reason for check in checks))
    value = log_mean_exp(pair[0]) - log_mean_exp(pair[1])
    return Estimate(value, error, "log ratio", all(c.valid for c in checks), reasons)
