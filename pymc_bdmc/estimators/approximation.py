"""How far an approximation with a density is from the posterior, by log p(θ, y) − log q(θ)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from pymc_bdmc.estimators.checks import (
    ROUNDING,
    check_average,
    checked_delta,
    student_factor,
)
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.tails import pareto_shape

__all__ = [
    "PosteriorMean",
    "certified_divergence",
    "evidence_lower_bound",
    "posterior_log_ratio",
    "total_variation_of_divergence",
]

FEWEST = 100
"""Values whose tail can be judged: fewer leave less than 20 of them for it."""

HEAVY = 0.7
"""Pareto k from which on a mean of hundreds of values is not trusted: as in PSIS, Vehtari et al.
(2024). From 1/2 on there is no variance, from 1 on no mean."""

LITTLE = 0.05
"""Nats that a tail may add without harm, however heavy."""


def evidence_lower_bound(log_ratios: ArrayLike) -> Estimate:
    """Mean of log p(θ, y) − log q(θ) over draws of q, the evidence lower bound (ELBO).

    It is log p(y) − KL(q‖p). Its standard error is that of a mean, widened for skewness as that of
    `jarzynski_forward`, and, in quadrature, what a tail of Pareto shape k has still to add:
    m/(n(1 − k)), where m is the largest deviation downwards of n values. Where k ≥ 0.7 and that is
    more than 0.05 nats, the mean is not valid. The first half of the draws gives k and the other
    half the mean, since draws that happen to miss a tail have a wrong mean and look harmless. The
    upper tail needs no check: the mean of p(θ, y)/q(θ) is p(y), so few terms are much larger than
    log p(y).

    Parameters
    ----------
    log_ratios : array_like of shape (n,)
        Of independent draws, nats. −∞ where the posterior has no mass: then the mean is −∞.

    Returns
    -------
    Estimate
        Not valid with fewer than 200 draws or a heavy tail.

    Raises
    ------
    ValueError
        If there are fewer than four, or one is NaN or +∞.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import evidence_lower_bound
    >>> found = evidence_lower_bound(np.linspace(-1, 1, 401))
    >>> round(found.error, 3), found.valid
    (0.021, True)
    """
    values = _checked(log_ratios)
    impossible = int(np.sum(values == -np.inf))
    if impossible:
        reason = f"log p(θ, y) is −∞ at {impossible} of {values.size} draws of q"
        return Estimate(-np.inf, np.nan, "ELBO", True, reason)
    judges, rest = np.split(values, [values.size // 2])
    deviations = (rest - rest.mean()) / rest.size
    valid, reason, tail = _judged(-judges, -deviations)
    error = np.hypot(_widened(deviations) * np.linalg.norm(deviations), tail)
    return Estimate(float(rest.mean()), float(error), "ELBO", valid, reason)


def _widened(deviations: np.ndarray) -> float:
    """Factor of the error of a mean, from what each value contributes to it."""
    n, variance = deviations.size, np.sum(deviations**2)
    skewness = float(np.sum(deviations**3) / variance**1.5) if variance > 0 else 0.0
    return float(np.sqrt(n / (n - 1)) * student_factor(skewness, n))


class PosteriorMean(NamedTuple):
    """Posterior mean of log p(θ, y) − log q(θ), by weighted runs.

    Attributes
    ----------
    estimate : Estimate
        Of the mean, nats.
    difference_error : float
        Standard error of the mean less the log of the average weight, nats: both are of the same
        runs, so their errors are not independent.
    """

    estimate: Estimate
    difference_error: float


def posterior_log_ratio(
    log_ratios: ArrayLike, shares: ArrayLike, log_weights: ArrayLike
) -> PosteriorMean:
    """Mean of log p(θ, y) − log q(θ) over the posterior, by the weighted particles of runs.

    A ratio estimator whose clusters are the runs: ȳ = Σ v_ki y_ki over particles i of runs k, with
    normalised weights v. By the delta method its error is √(K/(K−1) Σ_k s_k²) with
    s_k = Σ_i v_ki (y_ki − ȳ), and that of ȳ − log((1/K) Σ w_k) is
    √(K/(K−1) Σ_k (s_k − (u_k − 1/K))²), where u are the normalised weights of the runs; derived
    here. Every other particle judges the upper tail and the others make the mean, for the reason
    given in `evidence_lower_bound`. Errors are widened for skewness, as those of
    `jarzynski_forward`.

    Parameters
    ----------
    log_ratios : array_like of shape (K, N)
        Of the particles, nats. +∞ where q has no mass: then the mean is +∞.
    shares : array_like of shape (K, N)
        Weights within each run; they add up to 1.
    log_weights : array_like of shape (K,)
        Of the runs, nats, all up to the same constant; may contain −∞.

    Returns
    -------
    PosteriorMean
        Not valid where the weights fail `check_average`, the particles are worth fewer than 200
        draws, or the upper tail is so heavy that the mean has no standard error.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import posterior_log_ratio
    >>> rng = np.random.default_rng(0)
    >>> found = posterior_log_ratio(
    ...     rng.normal(size=(16, 32)), np.full((16, 32), 1 / 32), rng.normal(0, 0.1, 16)
    ... )
    >>> found.estimate.valid, round(found.estimate.error, 2)
    (True, 0.05)
    """
    values, log_weights = np.asarray(log_ratios, float), np.asarray(log_weights, float)
    check = check_average(log_weights)
    if not check.size:
        return _no_mean(np.nan, False, check.reason)
    runs = np.exp(log_weights - log_weights.max())
    runs /= runs.sum()
    weights = runs[:, None] * np.asarray(shares, float)
    seen = weights > 0
    if np.isnan(values[seen]).any():
        reason = "particles lie at the edge of the support, as far as floating point can tell"
        return _no_mean(np.nan, False, reason)
    if (values[seen] == np.inf).any():
        share = float(weights[seen & (values == np.inf)].sum())
        return _no_mean(np.inf, True, f"q is zero on {share:.2g} of the posterior")
    values = np.where(seen, values, 0.0)
    judges = np.arange(values.size).reshape(values.shape) % 2 == 0
    tail_of = _equal_weights(values[judges & seen], weights[judges & seen])
    weights = np.where(judges, 0.0, weights)
    if not weights.any():
        return _no_mean(np.nan, False, "every weight is zero but those that judge the tail")
    weights /= weights.sum()
    value, k = float(np.sum(weights * values)), len(runs)
    parts = weights * (values - value)
    valid, reason, tail = _judged(tail_of, parts)
    if not check.valid:
        valid, reason = False, f"weights of the runs: {check.reason}"
    own, evidence = parts.sum(axis=1), runs - 1 / k
    scale = np.sqrt(k / max(k - 1, 0.5)) * _widened(parts[~judges])
    errors = [float(np.hypot(scale * np.linalg.norm(s), tail)) for s in (own, own - evidence)]
    return PosteriorMean(Estimate(value, errors[0], _WEIGHTED, valid, reason), errors[1])


_WEIGHTED = "particles"


def _no_mean(value: float, valid: bool, reason: str) -> PosteriorMean:
    return PosteriorMean(Estimate(value, np.nan, _WEIGHTED, valid, reason), np.nan)


def _equal_weights(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As many equally spaced quantiles as the weighted values are worth."""
    if not values.size:
        return values
    order = np.argsort(values)
    ends = np.cumsum(weights[order])
    n = int(np.sum(weights) ** 2 / np.sum(weights**2) + 1e-6)
    heights = (np.arange(n) + 0.5) / n * ends[-1]
    return values[order][np.minimum(np.searchsorted(ends, heights), len(ends) - 1)]


def _checked(log_ratios: ArrayLike) -> np.ndarray:
    values = np.asarray(log_ratios, float).ravel()
    if values.size < 4:
        raise ValueError(f"{values.size} draws of q; 4 are needed, and {2 * FEWEST} for an error.")
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("log p(θ, y) − log q(θ) is NaN or +∞ at a draw of q.")
    return values


def _judged(values: np.ndarray, parts: np.ndarray) -> tuple[bool, str, float]:
    """Whether a mean can be trusted, why, and what its tail has still to add.

    ``values`` tell the shape of the upper tail; ``parts`` are what each value of the mean, others
    than these, contributes to its deviation.
    """
    if values.size < FEWEST:
        needed = f"too few to judge a tail; it takes {FEWEST}"
        return False, f"values worth {values.size} draws, {needed}", 0.0
    if np.ptp(values) <= ROUNDING:
        return True, "all values are equal", ROUNDING
    shape = pareto_shape(values)
    tail = float(parts.max()) / (1 - np.clip(shape, 0.0, 0.95))
    if shape < HEAVY or tail <= LITTLE:
        return True, f"tail of Pareto k = {shape:.2g}", tail
    what = "the mean may be infinite" if shape >= 1 else "the mean converges too slowly"
    return False, f"{what}: tail of Pareto k = {shape:.2g}", tail


def certified_divergence(log_ratios: ArrayLike, lower: float, confidence: float = 0.95) -> float:
    r"""Lower bound on KL(q‖p) from draws of q and any lower bound on log p(y); finite sample.

    With g = log p(θ, y) − log q(θ), A = {g ≤ b}, ε = q(A's complement) and L the lower bound on
    log p(y), the log sum inequality on A and on its complement gives, for every b,

    .. math:: KL(q‖p) ≥ L − E_q[h] − ε \log(1/ε),

    where h = g on A and L elsewhere; max(h, c) in place of h lowers the
    right side only. Derived here. The first fifth of the draws chooses b and c. The others give ε
    its upper limit by Clopper and Pearson, and the mean of max(h, c), which is bounded, its own by
    Maurer and Pontil (2009), Theorem 4. Each spends half of 1 − ``confidence``. Heavy tails
    neither break nor need anything.

    Parameters
    ----------
    log_ratios : array_like of shape (n,)
        g of independent draws of q, nats; may contain −∞.
    lower : float
        Lower bound on log p(y), got without these draws, nats. Its own failure probability adds.
    confidence : float
        1 − δ of what the draws contribute.

    Returns
    -------
    float
        At least 0, nats.

    Raises
    ------
    ValueError
        If there are fewer than four draws, or one is NaN or +∞.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import certified_divergence
    >>> draws = np.random.default_rng(0).normal(-1.0, 0.5, 10_000)
    >>> round(certified_divergence(draws, lower=0.0), 2)
    0.97
    """
    values, delta = _checked(log_ratios), checked_delta(confidence) / 2
    pilot, rest = np.split(values, [max(values.size // 5, 1)])
    known = pilot[np.isfinite(pilot)]
    if lower == -np.inf or not known.size or rest.size < 2:
        return 0.0
    top = known.max() + 0.25 * np.ptp(known) + ROUNDING
    low, high, n = min(known.min(), lower), max(top, lower), rest.size
    above = int(np.sum(rest > top))
    share = min(float(betaincinv(above + 1, n - above, 1 - delta)) if above < n else 1.0, 1 / np.e)
    bounded = np.where(rest > top, lower, np.maximum(rest, low))
    log_term = np.log(2 / delta)
    limit = bounded.mean() + np.sqrt(2 * bounded.var(ddof=1) * log_term / n)
    limit += 7 * (high - low) * log_term / (3 * (n - 1))
    return max(0.0, float(lower - limit + share * np.log(share)))


def total_variation_of_divergence(divergence: float) -> float:
    """Largest total variation distance of two distributions of a given KL divergence.

    The smaller of √(KL/2), Pinsker's inequality, and √(1 − e^−KL), that of Bretagnolle and Huber
    (1979): by so much the probability of any event may differ. Either direction will do.

    Parameters
    ----------
    divergence : float
        KL(q‖p), KL(p‖q) or a bound on it, nats; below zero it counts as zero.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import total_variation_of_divergence
    >>> round(total_variation_of_divergence(0.02), 3), round(total_variation_of_divergence(4.0), 3)
    (0.1, 0.991)
    """
    divergence = max(divergence, 0.0)
    return float(min(np.sqrt(divergence / 2), np.sqrt(-np.expm1(-divergence))))
