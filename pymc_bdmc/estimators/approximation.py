"""Estimate divergences of an approximation q from the posterior, by log p(θ, y) − log q(θ)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from pymc_bdmc.estimators.checks import ROUNDING, Estimate, check_average, checked_delta, widening
from pymc_bdmc.estimators.tails import MIN_DRAWS, MOST_SHAPE, pareto_shape


def evidence_lower_bound(log_ratios: ArrayLike) -> Estimate:
    """Estimate the evidence lower bound (ELBO), the mean of log p(θ, y) − log q(θ) over q.

    The ELBO is log p(y) − KL(q‖p). Its standard error is that of a mean, widened for skewness as in
    `jarzynski_forward`. The contribution m/(n(1 − k)) of an unseen tail of Pareto shape k is added
    in quadrature, with m the largest downward deviation of n values. If k ≥ 0.7 and this
    contribution exceeds 0.05 nats, the mean is not valid. The first half of the draws gives k and
    the second half gives the mean, because draws that happen to miss a tail have both a wrong mean
    and a small k. The upper tail needs no check: the mean of p(θ, y)/q(θ) is p(y), so few terms are
    much larger than log p(y).

    Parameters
    ----------
    log_ratios : array_like of shape (n,)
        Values at independent draws, nats. A value of −∞ (no posterior mass) makes the mean −∞.

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
    if impossible := int(np.sum(values == -np.inf)):
        reason = f"log p(θ, y) is −∞ at {impossible} of {values.size} draws of q"
        return Estimate(-np.inf, np.nan, "ELBO", True, reason)
    first, second = np.split(values, [values.size // 2])
    deviations = (second - second.mean()) / second.size
    valid, reason, tail = _check_tail(-first, -deviations)
    error = np.hypot(widening(deviations) * np.linalg.norm(deviations), tail)
    return Estimate(float(second.mean()), float(error), "ELBO", valid, reason)


class PosteriorMean(NamedTuple):
    """Posterior mean of log p(θ, y) − log q(θ), estimated from weighted runs.

    Attributes
    ----------
    estimate : Estimate
        Estimate of the mean, nats.
    difference_error : float
        Standard error of the mean minus the log of the average weight, nats. Both use the same
        runs, so their errors are not independent.
    """

    estimate: Estimate
    difference_error: float


def posterior_log_ratio(
    log_ratios: ArrayLike, shares: ArrayLike, log_weights: ArrayLike
) -> PosteriorMean:
    """Estimate the posterior mean of log p(θ, y) − log q(θ) from weighted particles of runs.

    The ratio estimator ȳ = Σ v_ki y_ki sums over particles i of runs k, with normalised weights v.
    Runs are the clusters. By the delta method the error of ȳ is √(K/(K−1) Σ_k s_k²) with s_k = Σ_i
    v_ki (y_ki − ȳ). With u the normalised weights of the runs, the error of ȳ − log((1/K) Σ w_k) is
    √(K/(K−1) Σ_k (s_k − (u_k − 1/K))²). Both are derived here. Every second particle judges the
    upper tail and the others give the mean, for the reason given in `evidence_lower_bound`. Errors
    are widened for skewness, as in `jarzynski_forward`.

    Parameters
    ----------
    log_ratios : array_like of shape (K, N)
        Values at the particles, nats. A value of +∞ (q has no mass there) makes the mean +∞.
    shares : array_like of shape (K, N)
        Weights within each run; they add up to 1.
    log_weights : array_like of shape (K,)
        Log weights of the runs, nats, up to a common constant; may contain −∞.

    Returns
    -------
    PosteriorMean
        Not valid if the weights fail `check_average`, the effective number of particles is below
        200, or the upper tail is so heavy that the mean has no standard error.

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

    def no_mean(value: float, valid: bool, reason: str) -> PosteriorMean:
        return PosteriorMean(Estimate(value, np.nan, "particles", valid, reason), np.nan)

    values, log_weights = np.asarray(log_ratios, float), np.asarray(log_weights, float)
    check = check_average(log_weights)
    if not check.size:
        return no_mean(np.nan, False, check.reason)
    runs = np.exp(log_weights - log_weights.max())
    runs /= runs.sum()
    weights = runs[:, None] * np.asarray(shares, float)
    seen = weights > 0
    if np.isnan(values[seen]).any():
        reason = "particles lie at the edge of the support, up to floating-point rounding"
        return no_mean(np.nan, False, reason)
    if (values[seen] == np.inf).any():
        share = float(weights[seen & (values == np.inf)].sum())
        return no_mean(np.inf, True, f"q is zero on {share:.2g} of the posterior")
    values = np.where(seen, values, 0.0)
    in_tail = np.arange(values.size).reshape(values.shape) % 2 == 0  # particles that give the tail
    tail_values = _equal_weights(values[in_tail & seen], weights[in_tail & seen])
    weights = np.where(in_tail, 0.0, weights)
    if not weights.any():
        return no_mean(np.nan, False, "every weight is zero but those that judge the tail")
    weights /= weights.sum()
    value, k = float(np.sum(weights * values)), len(runs)
    parts = weights * (values - value)
    valid, reason, tail = _check_tail(tail_values, parts)
    if not check.valid:
        valid, reason = False, f"weights of the runs: {check.reason}"
    own, evidence = parts.sum(axis=1), runs - 1 / k
    scale = np.sqrt(k / max(k - 1, 0.5)) * widening(parts[~in_tail])
    errors = [float(np.hypot(scale * np.linalg.norm(s), tail)) for s in (own, own - evidence)]
    return PosteriorMean(Estimate(value, errors[0], "particles", valid, reason), errors[1])


def _equal_weights(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return equally spaced quantiles of weighted values, one per effective value."""
    if not values.size:
        return values
    order = np.argsort(values)
    ends = np.cumsum(weights[order])
    n = int(np.sum(weights) ** 2 / np.sum(weights**2) + 1e-6)
    heights = (np.arange(n) + 0.5) / n * ends[-1]
    return values[order][np.minimum(np.searchsorted(ends, heights), len(ends) - 1)]


def _checked(log_ratios: ArrayLike) -> np.ndarray:
    values = np.asarray(log_ratios, float).ravel()
    n = values.size
    if n < 4:
        raise ValueError(f"{n} draws of q; 4 are needed, and {2 * MIN_DRAWS} for an error.")
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("log p(θ, y) − log q(θ) is NaN or +∞ at a draw of q.")
    return values


def _check_tail(values: np.ndarray, parts: np.ndarray) -> tuple[bool, str, float]:
    """Return whether a mean can be trusted, why, and the contribution of its unseen upper tail.

    ``values`` give the shape of the tail, and ``parts`` are the deviations of the values averaged.
    """
    if values.size < MIN_DRAWS:
        needed = f"too few to judge a tail: {MIN_DRAWS} are needed"
        return False, f"an effective sample of {values.size} draws, {needed}", 0.0
    if np.ptp(values) <= ROUNDING:
        return True, "all values are equal", ROUNDING
    shape = pareto_shape(values)
    tail = float(parts.max()) / (1 - np.clip(shape, 0.0, 0.95))
    if shape < MOST_SHAPE or tail <= 0.05:  # nats that a heavy tail may contribute; chosen
        return True, f"tail of Pareto k = {shape:.2g}", tail
    what = "the mean may be infinite" if shape >= 1 else "the mean converges too slowly"
    return False, f"{what}: tail of Pareto k = {shape:.2g}", tail


def certified_divergence(log_ratios: ArrayLike, lower: float, confidence: float = 0.95) -> float:
    r"""Bound KL(q‖p) from below, from draws of q and any lower bound on log p(y); finite sample.

    With g = log p(θ, y) − log q(θ), A = {g ≤ b}, ε = q(A's complement) and L the lower bound on
    log p(y), the log sum inequality on A and on its complement gives, for every b,

    .. math:: KL(q‖p) ≥ L − E_q[h] − ε \log(1/ε),

    where h = g on A and L elsewhere; replacing h by max(h, c) can only lower the right side. The
    inequality is derived here. The first fifth of the draws chooses b and c. The other draws give
    upper limits on ε (Clopper and Pearson) and on the mean of max(h, c), which is bounded (Maurer
    and Pontil 2009, Theorem 4). Each limit spends half of 1 − ``confidence``. The bound holds for
    heavy tails as well.

    Parameters
    ----------
    log_ratios : array_like of shape (n,)
        g of independent draws of q, nats; may contain −∞.
    lower : float
        Lower bound on log p(y), found without these draws, nats. Its failure probability adds.
    confidence : float
        1 − δ, for the part that comes from the draws.

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
    most = known.max() + 0.25 * np.ptp(known) + ROUNDING
    low, high, n = min(known.min(), lower), max(most, lower), rest.size
    above = int(np.sum(rest > most))
    share = min(float(betaincinv(above + 1, n - above, 1 - delta)) if above < n else 1.0, 1 / np.e)
    bounded = np.where(rest > most, lower, np.maximum(rest, low))
    log_term = np.log(2 / delta)
    limit = bounded.mean() + np.sqrt(2 * bounded.var(ddof=1) * log_term / n)
    limit += 7 * (high - low) * log_term / (3 * (n - 1))
    return max(0.0, float(lower - limit + share * np.log(share)))


def total_variation_of_divergence(divergence: float) -> float:
    """Bound the total variation distance of two distributions by their KL divergence.

    It is the smaller of √(KL/2) (Pinsker) and √(1 − e^−KL) (Bretagnolle and Huber 1979). The
    probability of any event differs by at most this. Either direction of KL can be used.

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
