"""Estimate log Z by averaging weights: annealed importance sampling and its reverse."""

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import (
    check_average,
    checked_weights,
    log_sum_exp,
    skewness_of_mean,
    student_factor,
)
from pymc_bdmc.estimators.estimate import Estimate


def log_mean_exp(values: ArrayLike) -> float:
    """Return the logarithm of the mean of exponentials, without overflow.

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
    return float(log_sum_exp(values) - np.log(values.size))


def jarzynski_forward(forward: ArrayLike) -> Estimate:
    """Average the forward weights, log Ẑ = log (1/K) Σ w_k, as in annealed importance sampling.

    This is Jarzynski's equality (Habeck 2017, Eq. 9; Neal 2001). The standard error by the delta
    method is sd(w) / (mean(w) √K). With γ the skewness of w, it is widened by the factor 1 + 1.08
    γ²/K + 1.21/K, so that ± 1.96 standard errors cover 95 % (Hall 1992, Sec. 2.6).

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats; may contain −∞.

    Returns
    -------
    Estimate
        Biased low by about var(w)/(2K mean(w)²). Valid if `check_average` is. Only the reverse
        direction can show large weights that no forward chain found.

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
    forward = checked_weights(forward, "forward")
    return Estimate(*_exponential_average(forward, "forward average"))


def jarzynski_reverse(reverse: ArrayLike) -> Estimate:
    """Average the reciprocal reverse weights, log Ẑ = −log (1/K) Σ 1/w_k.

    This is the reverse AIS estimator (RAISE) of Burda, Grosse and Salakhutdinov (2015). See also
    Habeck (2017), Section 2. The standard error is by the delta method.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Biased high. Valid under the same check as `jarzynski_forward`.

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
    reverse = checked_weights(reverse, "reverse")
    value, error, *rest = _exponential_average(-reverse, "reverse average")
    return Estimate(-value, error, *rest)


def _exponential_average(exponents: np.ndarray, method: str) -> tuple:
    """Return the log of the mean weight, and the other fields of its `Estimate`."""
    check, k = check_average(exponents), exponents.size
    # var(w)/mean(w)² = (K/ESS − 1) K/(K − 1) with the unbiased variance
    error = np.sqrt(max(k / check.size - 1, 0.0) / (k - 1)) if check.size > 0 and k > 1 else np.nan
    error *= student_factor(skewness_of_mean(exponents), k)
    return log_mean_exp(exponents), float(error), method, check.valid, check.reason
