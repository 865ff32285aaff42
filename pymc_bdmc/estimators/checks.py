"""Check log weights before they are used, and by their spread and tails whether to trust a mean."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

MIN_EFFECTIVE_SAMPLE_SIZE = 10.0
"""Smallest effective sample size of a valid average. Below it, a few weights decide the average."""

ROUNDING = 1e-6
"""Largest spread of log weights that counts as rounding, nats."""

MIN_DRAWS = 100
"""Smallest number of values for judging a tail, which then has at least 20 values."""

FEWEST_TAIL = 5  # values of a tail from which its shape is estimated; chosen

MOST_SHAPE = 0.7
"""Largest Pareto k of values whose average can be trusted, or 1 − 1/log10(S) if S states show it:
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling. A distribution
with k ≥ 1/2 has no variance, with k ≥ 1 no mean."""


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
