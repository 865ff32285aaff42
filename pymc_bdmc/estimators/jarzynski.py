"""Averages of exponential weights: annealed importance sampling and its reverse."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_bdmc.estimators.estimate import Estimate

__all__ = ["effective_sample_size", "jarzynski_forward", "jarzynski_reverse", "log_mean_exp"]

MIN_EFFECTIVE_SAMPLE_SIZE = 10.0
"""Below it the average hangs on a few weights and its standard error means little."""


def log_mean_exp(values: ArrayLike) -> float:
    """Logarithm of the mean of exponentials, without overflow.

    Parameters
    ----------
    values : array_like of shape (n,)
        May contain −∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import log_mean_exp
    >>> float(log_mean_exp([1000.0, 1000.0]))
    1000.0
    """
    values = np.asarray(values, dtype=float)
    return float(logsumexp(values) - np.log(values.size))


def effective_sample_size(log_weights: ArrayLike) -> float:
    """Kish's effective number of equal weights, (Σw)²/Σw²; 0 if every weight is zero.

    Parameters
    ----------
    log_weights : array_like of shape (n,)
        Nats; may contain −∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import effective_sample_size
    >>> round(effective_sample_size([0.0, 0.0, -1000.0]), 6)
    2.0
    """
    log_weights = np.asarray(log_weights, dtype=float)
    if np.all(log_weights == -np.inf):
        return 0.0
    return float(np.exp(2 * logsumexp(log_weights) - logsumexp(2 * log_weights)))


def jarzynski_forward(forward: ArrayLike) -> Estimate:
    """Average the forward weights, log Ẑ = log (1/K) Σ w_k, as in annealed importance sampling.

    Jarzynski's equality, Habeck (2017), Eq. 9; Neal (2001). The standard error is the delta
    method's, sd(w) / (mean(w) √K).

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats; may contain −∞.

    Returns
    -------
    Estimate
        Biased low by about var(w)/(2K mean(w)²). Valid if the effective sample size is at least
        10.

    Raises
    ------
    ValueError
        If there are no weights or one is NaN.

    Examples
    --------
    >>> from pymc_bdmc.estimators import jarzynski_forward
    >>> round(jarzynski_forward([0.0, 0.1, -0.1]).value, 4)
    0.0033
    """
    forward = _checked(forward, "forward")
    value, error, size = _exponential_average(forward)
    return _estimate(value, error, size, "forward average")


def jarzynski_reverse(reverse: ArrayLike) -> Estimate:
    """Average the reciprocal reverse weights, log Ẑ = −log (1/K) Σ 1/w_k.

    The reverse AIS estimator (RAISE) of Burda, Grosse and Salakhutdinov (2015); Habeck (2017),
    Section 2. Its standard error is the delta method's.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Biased high. Valid if the effective sample size is at least 10.

    Raises
    ------
    ValueError
        If there are no weights or one is NaN.

    Examples
    --------
    >>> from pymc_bdmc.estimators import jarzynski_reverse
    >>> round(jarzynski_reverse([0.0, 0.1, -0.1]).value, 4)
    -0.0033
    """
    reverse = _checked(reverse, "reverse")
    value, error, size = _exponential_average(-reverse)
    return _estimate(-value, error, size, "reverse average")


def _exponential_average(exponents: np.ndarray) -> tuple[float, float, float]:
    """Log mean exp, its standard error, and the effective sample size."""
    size = effective_sample_size(exponents)
    k = exponents.size
    # var(w)/mean(w)² = (K/ESS − 1) K/(K − 1) with the unbiased variance
    error = np.sqrt(max(k / size - 1, 0.0) / (k - 1)) if size > 0 and k > 1 else np.nan
    return log_mean_exp(exponents), float(error), size


def _estimate(value, error, size, method) -> Estimate:
    valid = size >= MIN_EFFECTIVE_SAMPLE_SIZE
    return Estimate(value, error, method, valid, f"effective sample size {size:.1f}")


def _checked(log_weights: ArrayLike, name: str) -> np.ndarray:
    log_weights = np.asarray(log_weights, dtype=float).ravel()
    if log_weights.size == 0:
        raise ValueError(f"{name}: no log weights.")
    if np.isnan(log_weights).any():
        raise ValueError(f"{name}: log weights are NaN; drop unfinished chains first.")
    return log_weights
