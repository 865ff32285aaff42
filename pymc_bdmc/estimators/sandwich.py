"""Average log weights and log ratios: the gap of the sandwich, divergences, and the prior mass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaincinv

from pymc_bdmc.estimators.checks import (
    MIN_DRAWS,
    MOST_SHAPE,
    ROUNDING,
    Estimate,
    check_average,
    checked_delta,
    checked_weights,
    log_mean_exp,
    pareto_shape,
    widening,
)


def clustered_mean(values: ArrayLike) -> tuple[float, float]:
    """Average over chains and data sets, with a standard error clustered by data set.

    Chains of one data set share y* (and in reverse θ*), so with several data sets the error comes
    from the spread of their means. With one data set only the spread over chains is known, so the
    error is conditional on this data set.

    Parameters
    ----------
    values : array_like of shape (n_datasets, n_chains)
        NaN marks a chain that was not finished.

    Returns
    -------
    mean, error : float
        In the units of ``values``. The error is NaN if there is only one value.

    Examples
    --------
    >>> from pymc_bdmc.estimators import clustered_mean
    >>> mean, error = clustered_mean([[1.0, 1.0], [3.0, 3.0]])
    >>> mean, error
    (2.0, 1.0)
    """
    rows = _finished(values)
    if not rows:
        return np.nan, np.nan
    sample = rows[0] if len(rows) == 1 else np.array([row.mean() for row in rows])
    return float(sample.mean()), _standard_error(sample)


def clustered_median(values: ArrayLike) -> tuple[float, float]:
    """Average the medians of data sets, with a standard error clustered by data set.

    The median suits log weights whose mean does not exist. With one data set, its error is half the
    distance between the values √K/2 ranks above and below the median.

    Parameters
    ----------
    values : array_like of shape (n_datasets, n_chains)
        NaN marks a chain that was not finished.

    Returns
    -------
    median, error : float
        In the units of ``values``. The error is NaN if there is only one value.

    Examples
    --------
    >>> from pymc_bdmc.estimators import clustered_median
    >>> clustered_median([[-1000.0, 1.0, 2.0, 3.0]])
    (1.5, 501.5)
    """
    rows = _finished(values)
    if not rows:
        return np.nan, np.nan
    medians = np.array([np.median(row) for row in rows])
    if len(rows) > 1:
        return float(medians.mean()), _standard_error(medians)
    row = np.sort(rows[0])
    reach = int(np.ceil(np.sqrt(row.size) / 2))
    low, high = max((row.size - 1) // 2 - reach, 0), min(row.size // 2 + reach, row.size - 1)
    with np.errstate(invalid="ignore"):  # ∞ less ∞
        error = (row[high] - row[low]) / 2 if row.size > 1 else np.nan
    return float(medians[0]), float(error)


def _finished(values: ArrayLike) -> list[np.ndarray]:
    """Return the values of finished chains by data set, without data sets that have none."""
    rows = [row[~np.isnan(row)] for row in np.atleast_2d(np.asarray(values, dtype=float))]
    return [row for row in rows if row.size]


def _standard_error(sample: np.ndarray) -> float:
    if sample.size < 2 or not np.isfinite(sample).all():
        return np.nan
    return float(sample.std(ddof=1) / np.sqrt(sample.size))


def jeffreys_bound(forward: ArrayLike, reverse: ArrayLike) -> tuple[float, float]:
    """Estimate the expected gap of the sandwich, an upper bound on the Jeffreys divergence.

    ⟨log w⟩_r − ⟨log w⟩_f bounds the symmetrised KL divergence between the sampler's approximate
    posterior (the last state of a forward chain) and the posterior (Grosse, Ancha and Roy 2016, Eqs
    7-12).

    Parameters
    ----------
    forward, reverse : array_like of shape (n_datasets, n_chains)
        Log weights on the same data sets, nats. NaN marks a chain that was not finished. The
        numbers of chains may differ.

    Returns
    -------
    gap, error : float
        Gap and error, nats. The error is clustered by data set. With one data set it is conditional
        on this data set.

    Examples
    --------
    >>> from pymc_bdmc.estimators import jeffreys_bound
    >>> gap, error = jeffreys_bound([[-1.0, 1.0]], [[2.0, 4.0]])
    >>> gap, round(error, 3)
    (3.0, 1.414)
    """
    forward, reverse = (np.atleast_2d(np.asarray(a, dtype=float)) for a in (forward, reverse))
    pairs = zip(map(clustered_mean, forward), map(clustered_mean, reverse), strict=True)
    found = [(r[0] - f[0], np.hypot(f[1], r[1])) for f, r in pairs if not np.isnan(r[0] - f[0])]
    if not found:
        return np.nan, np.nan
    gaps, errors = map(np.array, zip(*found, strict=True))
    return float(gaps.mean()), float(errors[0]) if gaps.size == 1 else _standard_error(gaps)


def forward_divergence(forward: ArrayLike, upper: float) -> Estimate:
    """Bound KL(q‖p) by U − ⟨log w⟩_f, with any upper bound U on log Z.

    By Grosse, Ancha and Roy (2016), Eqs 7-12, E[log Z − log w] ≥ KL(q‖p) over forward chains whose
    last states have distribution q, with p the posterior. The bound is infinite if a weight is
    zero.

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats.
    upper : float
        Upper bound on log Z found without these chains, nats.

    Returns
    -------
    Estimate
        The bound, with the error of the mean over the chains but without the error of U.

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or +∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import forward_divergence
    >>> forward_divergence([-1.0, 1.0], upper=0.5).value
    0.5
    """
    gaps, method = upper - checked_weights(forward, "forward"), "KL(q‖p) bound"
    value, error = float(gaps.mean()), _standard_error(gaps)
    if np.isnan(error):
        return Estimate(value, np.nan, method, False, "no spread over the chains")
    return Estimate(value, error, method, True, f"mean over {gaps.size} chains")


def reverse_divergence(reverse: ArrayLike, lower: float) -> Estimate:
    """Bound KL(p‖q) by ⟨log w⟩_r − L, with any lower bound L on log Z.

    By Grosse, Ancha and Roy (2016), Eqs 7-12, E[log w − log Z] ≥ KL(p‖q) over exact reverse chains,
    with p the posterior and q the distribution of the last states of forward chains.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.
    lower : float
        Lower bound on log Z found without these chains, nats.

    Returns
    -------
    Estimate
        The bound, with the error of the mean over the chains but without the error of L.

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or −∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import reverse_divergence
    >>> reverse_divergence([-1.0, 1.0], lower=-0.5).value
    0.5
    """
    found = forward_divergence(-checked_weights(reverse, "reverse"), -lower)
    return replace(found, method="KL(p‖q) bound")


def total_variation_bound(jeffreys: float) -> float:
    """Bound the total variation distance of two distributions by their Jeffreys divergence.

    The total variation V is the largest difference in the probability of any event, and in the mean
    of any quantity as a share of its range. The bound solves J = 2 V log((1 + V)/(1 − V)). An event
    with the probabilities (1 ± V)/2 attains it (Gilardoni 2006). It is sharper than Pinsker's
    inequality for the smaller of the two KL divergences, V ≤ √J/2.

    Parameters
    ----------
    jeffreys : float
        KL(q‖p) + KL(p‖q) or a bound on it, nats. A negative value counts as zero.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import total_variation_bound
    >>> round(total_variation_bound(0.1), 3), round(total_variation_bound(4.0), 3)
    (0.157, 0.834)
    """
    if not np.isfinite(jeffreys):
        return 1.0
    # V = tanh(u), with V·u = J/4: u lies between √J/2 and J/4 + 1.
    target = max(jeffreys, 0.0) / 4
    return float(np.tanh(brentq(lambda u: u * np.tanh(u) - target, 0.0, target + 1)))


def log_e_values(forward: Sequence[ArrayLike], reverse: Sequence[ArrayLike]) -> np.ndarray:
    """Accumulate the e-value against "sampler and simulator are correct" over data sets.

    Given y the two directions are independent, so mean(w_f) · mean(1/w_r) has expectation Z/Z = 1,
    and so has its product over independent data sets. By Ville's inequality the probability that
    the product ever exceeds 1/α is at most α. So one may stop at any data set, and reject if the
    product exceeds 1/α. The e-value of a correct sampler decreases, and faster if the gap is wide.

    Parameters
    ----------
    forward, reverse : sequences of array_like
        Log weights of the chains of each data set, nats; rows may differ in length.

    Returns
    -------
    ndarray of shape (n_datasets,)
        Log of the product up to each data set, nats. Compare with log(1/α).

    Raises
    ------
    ValueError
        If the directions differ in their number of data sets, or a data set has no weights or
        one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators import log_e_values
    >>> log_e_values([[0.0, 0.0], [1.0]], [[0.5, 0.5], [0.5]])
    array([-0.5,  0. ])
    """
    steps = [
        log_mean_exp(checked_weights(f, "forward")) + log_mean_exp(-checked_weights(r, "reverse"))
        for f, r in zip(forward, reverse, strict=True)
    ]
    return np.cumsum(steps)


class PriorMass(NamedTuple):
    """Log prior probability of S = {ℓ > −∞}, nats.

    Attributes
    ----------
    lower, upper : float
        Estimates whose expectations are below and above log P(S).
    error : float
        Standard error of either.
    """

    lower: float
    upper: float
    error: float

    @property
    def estimate(self) -> float:
        """Return the logarithm of the share of draws in S."""
        return self.upper


def log_prior_mass(n_draws: ArrayLike) -> PriorMass:
    """Estimate the log prior probability of S = {ℓ > −∞} from the numbers of prior draws.

    If drawing stops at the K-th draw in S, after N draws, (K − 1)/(N − 1) is unbiased for P(S) and
    N/K for 1/P(S).

    Parameters
    ----------
    n_draws : array_like of any shape
        Number of prior draws until one was accepted. Entries that are NaN or 0 are left out.

    Returns
    -------
    PriorMass
        Logarithms of (K − 1)/(N − 1) and of K/N, and their standard error. All are 0 if no draw
        was ever rejected.

    Examples
    --------
    >>> from pymc_bdmc.estimators import log_prior_mass
    >>> mass = log_prior_mass([1, 3, 2])
    >>> round(mass.lower, 3), round(mass.upper, 3)
    (-0.916, -0.693)
    """
    n_draws = np.asarray(n_draws, dtype=float)
    n_draws = n_draws[n_draws > 0]
    k, n = n_draws.size, n_draws.sum()
    if k == n:
        return PriorMass(0.0, 0.0, 0.0)
    lower = np.log((k - 1) / (n - 1)) if k > 1 else -np.inf
    return PriorMass(float(lower), float(np.log(k / n)), float(np.sqrt((1 - k / n) / k)))


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
    values = _checked_ratios(log_ratios)
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


def _checked_ratios(log_ratios: ArrayLike) -> np.ndarray:
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
    values, delta = _checked_ratios(log_ratios), checked_delta(confidence) / 2
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
