"""Check log weights before they are used, and whether their average can be trusted."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MIN_EFFECTIVE_SAMPLE_SIZE = 10.0
"""Smallest effective sample size of a valid average. Below it, a few weights decide the average."""

ROUNDING = 1e-6
"""Largest spread of log weights that counts as rounding, nats."""


@dataclass(frozen=True)
class Estimate:
    """Estimate of log Z, or of a bound.

    Attributes
    ----------
    value : float
        Estimate of log Z or of the bound, nats.
    error : float
        Standard error, nats.
    method : str
        Name of the method.
    valid : bool
        Whether the estimator's own check says that its error can be trusted.
    reason : str
        What the check found.
    """

    value: float
    error: float
    method: str
    valid: bool
    reason: str


@dataclass(frozen=True)
class EvidenceDraws:
    """Draws of log Z, from a posterior or a bootstrap.

    Attributes
    ----------
    log_z : ndarray of shape (draws,)
        Nats.
    estimate : Estimate
        Estimate whose error is the standard deviation of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import Estimate, EvidenceDraws
    >>> estimate = Estimate(0.5, 0.3, "histogram posterior", True, "")
    >>> lower, upper = EvidenceDraws(np.linspace(0, 1, 99), estimate).interval(0.5)
    >>> round(lower, 3), round(upper, 3)
    (0.245, 0.755)
    """

    log_z: np.ndarray
    estimate: Estimate

    def interval(self, probability: float = 0.95) -> tuple[float, float]:
        """Return the central interval of the draws, nats.

        A further draw falls into the interval with this probability. With the usual sample
        quantiles, the interval of 300 draws would be half a per cent too short.
        """
        tail = (1 - probability) / 2
        lower, upper = np.quantile(self.log_z, [tail, 1 - tail], method="weibull")
        return float(lower), float(upper)


def checked_weights(log_weights: ArrayLike, direction: str) -> np.ndarray:
    """Flatten log weights, and raise a ValueError for values that no correct run can produce.

    E_f[w] = Z and E_r[1/w] = 1/Z are finite, so w is not ∞ in forward runs, nor 0 in reverse ones.
    """
    log_weights = np.asarray(log_weights, dtype=float).ravel()
    impossible = {"forward": np.inf, "reverse": -np.inf}[direction]
    if log_weights.size == 0:
        raise ValueError(f"{direction}: no log weights.")
    if np.isnan(log_weights).any():
        raise ValueError(f"{direction}: log weights are NaN; drop unfinished chains first.")
    if (log_weights == impossible).any():
        raise ValueError(
            f"{direction}: a log weight is {impossible}, which has probability zero; "
            "is log w given with the same sign in both directions?"
        )
    return log_weights


def checked_pair(forward: ArrayLike, reverse: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check the log weights of both directions, and sort them."""
    forward, reverse = checked_weights(forward, "forward"), checked_weights(reverse, "reverse")
    return np.sort(forward), np.sort(reverse)  # rounding must not depend on the order of chains


def checked_delta(confidence: float) -> float:
    """Return δ = 1 − confidence, or raise a ValueError unless it lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    return 1 - confidence


def student_factor(skewness: float, n: int) -> float:
    """Return the factor for a standard error so that ± 1.96 standard errors cover 95 %.

    It is by Edgeworth's expansion of Student's statistic (Hall 1992, Sec. 2.6) without kurtosis.
    ``skewness`` is that of the mean, 1/√n times the skewness of the n values.
    """
    return 1 + 1.08 * skewness**2 + 1.21 / n


def widening(deviations: np.ndarray) -> float:
    """Return the factor that turns √(Σ d²) of deviations from a mean into its standard error."""
    n = deviations.size
    return float(np.sqrt(n / (n - 1)) * student_factor(skewness_of_sum(deviations), n))


def skewness_of_mean(log_weights: np.ndarray) -> float:
    """Return the absolute skewness of the mean weight, about 1/√K, or 1 if one weight dominates."""
    most = log_weights.max()
    if not np.isfinite(most):
        return 0.0
    deviation = np.exp(log_weights - most)
    return abs(skewness_of_sum(deviation - deviation.mean()))


def skewness_of_sum(deviations: np.ndarray) -> float:
    """Return the skewness of a sum of independent terms, from their deviations from the mean."""
    variance = np.sum(deviations**2)
    return float(np.sum(deviations**3) / variance**1.5) if variance > 0 else 0.0


def log_sum_exp(values: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Return log Σ exp of values, also ±∞, ten times as fast as SciPy for a hundred of them."""
    most = np.max(values, axis=axis, keepdims=True)
    most = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return np.log(np.sum(np.exp(values - most), axis=axis)) + np.squeeze(most, axis=axis)


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


def effective_sample_size(log_weights: ArrayLike) -> float:
    """Return Kish's effective sample size, (Σw)²/Σw²; 0 if every weight is zero.

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
    if np.isinf(log_weights.max()):
        return float(np.sum(log_weights == np.inf))
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / np.sum(weights**2))


class AverageCheck(NamedTuple):
    """Result of checking whether an average of weights and its error can be trusted.

    Attributes
    ----------
    size : float
        Effective sample size.
    needed : float
        Smallest effective sample size of a valid average of this number of weights.
    valid : bool
    reason : str
    """

    size: float
    needed: float
    valid: bool
    reason: str


def check_average(log_weights: ArrayLike) -> AverageCheck:
    """Check an average of weights by their effective sample size.

    An average of K weights needs an effective sample size (ESS) of at least 10. The ESS must also
    be so large that the average of log-normal weights would have a skewness of at most 0.65. With x
    = K/ESS this skewness is (x + 2) √(x − 1)/√K, so the ESS must be 10.4 for 16 weights, 13.9 for
    24, 22.1 for 48 and 35.5 for 100. If weights are equal up to rounding, except for a tenth at
    either end, their average is not valid, since they say nothing about regions that no chain
    found.

    The observed skewness widens the error (see `student_factor`). But it does not decide whether an
    average is valid, since it is large if the heavy weights were found and small if they were
    missed. Pareto k of the tail is not a better check. With 100 chains it varies by ±0.25 between
    samples of the same weights, and the samples below its limit 1 − 1/log₁₀ K are those that missed
    the tail.

    Parameters
    ----------
    log_weights : array_like of shape (K,)
        Logarithms of the averaged weights, nats; may contain −∞.

    Returns
    -------
    AverageCheck

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import check_average
    >>> check_average(np.linspace(-1, 1, 64)).reason
    'effective sample size 48.4 of 64'
    >>> check_average(np.linspace(-9, 1, 64)).reason
    'effective sample size 12.6 of 64, 26.7 are needed'
    >>> check_average(np.linspace(-1, 1, 4)).reason
    'an average of 4 weights, at least 10 are needed'
    >>> check_average(np.zeros(64)).reason
    'all weights are equal, which says nothing about what no chain found'
    """
    log_weights = np.asarray(log_weights, dtype=float)
    k, size = log_weights.size, effective_sample_size(log_weights)
    # With u² = x − 1 the skewness is at its limit for u³ + 3u = 2c, so u = 2 sinh(asinh(c)/3).
    # docs/estimator_tables.md shows the coverage of 95 % intervals with a skewness of up to 0.65.
    root = 2 * np.sinh(np.arcsinh(0.65 * np.sqrt(k) / 2) / 3)
    needed = max(MIN_EFFECTIVE_SAMPLE_SIZE, float(k / (1 + root**2)))
    most = np.sort(log_weights)[k // 10 : k - k // 10]
    valid, reason = size >= needed, f"effective sample size {size:.1f} of {k}"
    if size == 0:
        reason = "every weight is zero"
    elif k > 1 and np.ptp(log_weights) <= ROUNDING:
        valid, reason = False, "all weights are equal, which says nothing about what no chain found"
    elif valid and np.ptp(most) <= ROUNDING:
        valid = False
        reason = "nearly all weights are equal, which says nothing about what no chain found"
    elif k < MIN_EFFECTIVE_SAMPLE_SIZE:
        weights = "1 weight" if k == 1 else f"{k} weights"
        reason = f"an average of {weights}, at least {MIN_EFFECTIVE_SAMPLE_SIZE:g} are needed"
    elif not valid:
        reason += f", {needed:.1f} are needed"
    return AverageCheck(size, needed, valid, reason)
