"""Averages of exponential weights: annealed importance sampling and its reverse."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_bdmc.estimators.checks import checked_weights, student_factor
from pymc_bdmc.estimators.estimate import Estimate

__all__ = [
    "MIN_EFFECTIVE_SAMPLE_SIZE",
    "effective_sample_size",
    "jarzynski_forward",
    "jarzynski_reverse",
    "log_mean_exp",
]

MIN_EFFECTIVE_SAMPLE_SIZE = 10.0
"""Below it the average hangs on a few weights and its standard error means little."""

MAX_SKEWNESS = 0.5
"""Largest skewness of the average. Samples that miss heavy weights are less skew and too low, so a
stricter limit would pick them out; what is strict is the limit on the expected skewness."""

MAX_EXPECTED_SKEWNESS = 0.12
"""Largest skewness of the average to be expected from the spread of the log weights."""


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
    method's, sd(w) / (mean(w) √K), widened by the factor 1 + 1.08 γ²/K + 1.21/K so that 1.96 of it
    cover 95 %: Hall (1992), Sec. 2.6, with γ the skewness of w.

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats; may contain −∞.

    Returns
    -------
    Estimate
        Biased low by about var(w)/(2K mean(w)²). Valid if the effective sample size is at least
        10 and the skewness of the average is small: at most 0.5 as observed, and at most 0.12 as
        expected from the spread of the log weights, which tells of heavy weights before they are
        drawn. Weights that no chain found leave no trace in one direction: only the
        reverse weights show them.

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

    The reverse AIS estimator (RAISE) of Burda, Grosse and Salakhutdinov (2015); Habeck (2017),
    Section 2. Its standard error is the delta method's.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Biased high. Valid as `jarzynski_forward` is.

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
    """Log mean exp and the other fields of its `Estimate`."""
    size = effective_sample_size(exponents)
    k = exponents.size
    observed, expected = _skewness_of_mean(exponents), _expected_skewness(exponents)
    # var(w)/mean(w)² = (K/ESS − 1) K/(K − 1) with the unbiased variance
    error = np.sqrt(max(k / size - 1, 0.0) / (k - 1)) if size > 0 and k > 1 else np.nan
    error *= student_factor(observed, k)
    valid = size >= MIN_EFFECTIVE_SAMPLE_SIZE
    valid &= observed <= MAX_SKEWNESS and expected <= MAX_EXPECTED_SKEWNESS
    reason = f"effective sample size {size:.1f}, skewness {observed:.2f}, expected {expected:.2f}"
    return log_mean_exp(exponents), float(error), method, bool(valid), reason


def _skewness_of_mean(exponents: np.ndarray) -> float:
    """Size of the skewness of the mean weight: 1 if one weight rules, ~1/√K if none does."""
    top = exponents.max()
    if not np.isfinite(top):
        return 0.0
    deviation = np.exp(exponents - top)
    deviation -= deviation.mean()
    variance = np.sum(deviation**2)
    return float(abs(np.sum(deviation**3)) / variance**1.5) if variance > 0 else 0.0


@np.errstate(over="ignore", invalid="ignore")
def _expected_skewness(exponents: np.ndarray) -> float:
    """Skewness of the mean weight if log w had no cumulants beyond κ₂ and positive κ₃ and κ₄.

    Then log E[wᵏ] = kκ₁ + k²κ₂/2 + k³κ₃/6 + k⁴κ₄/24. Of κ₃ counts only what exceeds its noise,
    and of κ₄ what exceeds it twice. Where κ₃ is negative, the long tail is that of negligible
    weights: κ₄ is left out and κ₂ taken from above the median.
    """
    finite = exponents[np.isfinite(exponents)]
    if not finite.size:
        return 0.0
    deviation = finite - finite.mean()
    second, third = np.mean(deviation**2), np.mean(deviation**3)
    fourth = np.mean(deviation**4) - 3 * second**2
    noise = np.sqrt(6 / finite.size) * second**1.5
    fourth = max(fourth - 2 * np.sqrt(24 / finite.size) * second**2, 0.0)
    if third < -noise:
        second = min(second, 2 * np.mean(np.maximum(finite - np.median(finite), 0.0) ** 2))
        fourth = 0.0
    third = max(third - noise, 0.0)
    if second == 0:
        return 0.0
    # log E[wᵏ] − k log E[w] for k = 2, 3
    twofold = second + third + 7 / 12 * fourth
    threefold = 3 * second + 4 * third + 13 / 4 * fourth
    if not threefold <= 300:  # the exponentials overflow, or the moments did
        return np.inf
    square, cube = np.expm1(twofold), np.expm1(threefold)
    return float((cube - 3 * square) / square**1.5 / np.sqrt(exponents.size))
