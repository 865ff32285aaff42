"""What every estimator asks of its log weights, and when their average can be trusted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

__all__ = [
    "ROUNDING",
    "AverageCheck",
    "check_average",
    "checked_delta",
    "checked_pair",
    "checked_weights",
    "effective_sample_size",
    "skewness_of_mean",
    "student_factor",
]

MIN_EFFECTIVE_SAMPLE_SIZE = 10.0
"""Below it the average hangs on a few weights and its standard error means little."""

MAX_SKEWNESS = 0.65
"""Largest skewness of an average whose 95 % interval is trusted; docs/estimator_tables.md shows
what it lets through."""

ROUNDING = 1e-6
"""Spread of log weights, nats, that passes for rounding."""

IMPOSSIBLE = {"forward": np.inf, "reverse": -np.inf}
"""E_f[w] = Z and E_r[1/w] = 1/Z are finite, so these weights have probability zero."""


def checked_weights(log_weights: ArrayLike, direction: str) -> np.ndarray:
    """Flatten log weights and refuse those that no correct run can produce.

    Parameters
    ----------
    log_weights : array_like
        Nats. Forward ones may be −∞ (w = 0), reverse ones +∞ (1/w = 0).
    direction : {"forward", "reverse"}

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If there are none, if one is NaN, or if one is infinite on the impossible side.

    Examples
    --------
    >>> from pymc_bdmc.estimators.checks import checked_weights
    >>> checked_weights([[0.0, 1.0]], "forward")
    array([0., 1.])
    """
    log_weights = np.asarray(log_weights, dtype=float).ravel()
    if log_weights.size == 0:
        raise ValueError(f"{direction}: no log weights.")
    if np.isnan(log_weights).any():
        raise ValueError(f"{direction}: log weights are NaN; drop unfinished chains first.")
    if (log_weights == IMPOSSIBLE[direction]).any():
        raise ValueError(
            f"{direction}: a log weight is {IMPOSSIBLE[direction]}, which has probability zero; "
            "is the sign that of log w in both directions?"
        )
    return log_weights


def checked_pair(forward: ArrayLike, reverse: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check forward and reverse log weights, and sort them, lest rounding depend on their order.

    See `checked_weights`.
    """
    return np.sort(checked_weights(forward, "forward")), np.sort(
        checked_weights(reverse, "reverse")
    )


def student_factor(skewness: float, n: int) -> float:
    """How far to widen the standard error of a mean of n values, so that 1.96 of it cover 95 %.

    By Edgeworth's expansion of Student's statistic, Hall (1992), Sec. 2.6, its quantile exceeds
    1.96 by this factor, leaving out the values' kurtosis. ``skewness`` is that of the mean, which
    is 1/√n of the values'.
    """
    return 1 + 1.08 * skewness**2 + 1.21 / n


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


class AverageCheck(NamedTuple):
    """Whether an average of weights, and its standard error, can be trusted.

    Attributes
    ----------
    size : float
        Effective sample size.
    skewness : float
        Of the average, as far as its weights or their effective sample size tell.
    valid : bool
    reason : str
    """

    size: float
    skewness: float
    valid: bool
    reason: str


def check_average(log_weights: ArrayLike) -> AverageCheck:
    """Judge an average of weights by the weights themselves.

    An average needs an effective sample size of 10, and a skewness of at most 0.65. The observed
    skewness is small where heavy weights were missed, so it is not believed below that of
    log-normal weights of the same effective sample size, (x + 2) √(x − 1)/√K with x = K/ESS: so
    many chains as such a tail takes are asked for. Weights that are equal to rounding are not
    valid, for they say nothing of what no chain has found.

    Pareto k of the tail is no better a check: of 100 chains it ranges over ±0.25 between samples
    of the same weights, and below its limit 1 − 1/log₁₀ K are those that missed the tail.

    Parameters
    ----------
    log_weights : array_like of shape (K,)
        Logarithms of what is averaged, nats; may contain −∞.

    Returns
    -------
    AverageCheck

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import check_average
    >>> check_average(np.linspace(-1, 1, 64)).valid
    True
    >>> check_average(np.zeros(64)).reason
    'all weights are equal, which tells nothing of what no chain has found'
    """
    log_weights = np.asarray(log_weights, dtype=float)
    k, size = log_weights.size, effective_sample_size(log_weights)
    if size == 0:
        return AverageCheck(0.0, 0.0, False, "every weight is zero")
    if k > 1 and np.ptp(log_weights) <= ROUNDING:
        reason = "all weights are equal, which tells nothing of what no chain has found"
        return AverageCheck(size, 0.0, False, reason)
    excess = max(k / size - 1, 0.0)
    skewness = max(skewness_of_mean(log_weights), (excess + 3) * np.sqrt(excess / k))
    valid = size >= MIN_EFFECTIVE_SAMPLE_SIZE and skewness <= MAX_SKEWNESS
    reason = f"effective sample size {size:.1f}, skewness {skewness:.2f}"
    return AverageCheck(size, float(skewness), bool(valid), reason)


def skewness_of_mean(log_weights: np.ndarray) -> float:
    """Size of the skewness of the mean weight: 1 if one weight rules, ~1/√K if none does."""
    top = log_weights.max()
    if not np.isfinite(top):
        return 0.0
    deviation = np.exp(log_weights - top)
    deviation -= deviation.mean()
    variance = np.sum(deviation**2)
    return float(abs(np.sum(deviation**3)) / variance**1.5) if variance > 0 else 0.0


def checked_delta(confidence: float) -> float:
    """Turn a confidence into δ = 1 − confidence, and refuse one that is not between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators.checks import checked_delta
    >>> checked_delta(0.75)
    0.25
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}.")
    return 1 - confidence
