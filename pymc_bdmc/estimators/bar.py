"""Estimate log Z from both directions, by Bennett's acceptance ratio and a histogram of work."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_expit

from pymc_bdmc.estimators.checks import (
    ROUNDING,
    Estimate,
    EvidenceDraws,
    checked_pair,
    effective_sample_size,
    log_sum_exp,
)

MAX_THIN = 200
"""Largest number of sweeps per kept draw. If more are needed, the directions hardly overlap."""


def bar(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Estimate log Z by Bennett's acceptance ratio.

    The estimate solves Σ_f σ(log w − log Z − M) = Σ_r σ(M + log Z − log w), with σ the logistic
    function and M = log(n_f/n_r) (Bennett 1976; Habeck 2017, Eq. 14). Without M the solution is
    wrong whenever n_f ≠ n_r. By Crooks' relation its variance is the sum of the relative variances
    of σ in both directions (Bennett). It is also 1/I − 1/n_f − 1/n_r with I the sum of σ(1 − σ)
    over all chains (Shirts, Bair, Hooker and Pande 2003). If both directions have narrow, separated
    weights, all chains of a direction have the same small σ, and the first variance is far too
    small. The larger of the two is reported.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats; forward ones may be −∞, and reverse ones +∞.

    Returns
    -------
    Estimate
        Valid if at least 5 effective chains of each direction overlap the other's work distribution
        (by Kish's formula on σ), the error is at most 1 nat, and the weights satisfy Crooks'
        relation (by `crooks_misfit`). Chains are assumed to be independent. Reverse chains that
        share their start are independent only if they forget it.

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators import bar
    >>> round(bar([0.9, 1.0, 0.8], [1.2, 1.1]).value, 3)
    1.002
    """
    forward, reverse = checked_pair(forward, reverse)
    log_z = solve_bar(forward, reverse)
    if not np.isfinite(log_z):
        return Estimate(log_z, np.nan, "bar", False, "no finite weights in one direction")
    sizes = [effective_sample_size(each) for each in log_acceptances(forward, reverse, log_z)]
    counts, error = (forward.size, reverse.size), np.nan
    if min(counts) > 1:
        # Per side n/ESS − 1 = var(σ)/mean(σ)², made unbiased.
        terms = [max(n / e - 1, 0.0) / (n - 1) for n, e in zip(counts, sizes, strict=True)]
        error = float(np.sqrt(max(sum(terms), overlap_variance(forward, reverse, log_z))))
    shared = overlap(forward, reverse, log_z)
    reason = f"{min(sizes):.1f} effective chains cross, overlap {shared:.2g}"
    valid = min(sizes) >= 5.0  # for 95 % coverage
    if error > 1.0:  # five effective chains per direction give 0.63 nats if works overlap
        valid, reason = False, f"the works hardly overlap: {shared:.2g}"
    elif valid and abs(misfit := crooks_misfit(forward, reverse, log_z)) > 3.0:
        valid = False  # correct weights exceed 3 standard errors in 0.3 % of samples
        reason += (
            f", {misfit:+.1f} standard errors from Crooks' relation: is log w given with the same "
            "sign in both directions, and do reverse chains forget a shared start?"
        )
    return Estimate(log_z, error, "bar", bool(valid), reason)


def crooks_misfit(forward: np.ndarray, reverse: np.ndarray, log_z: float) -> float:
    """Measure the departure of the weights from Crooks' relation, in standard errors.

    By p_r/p_f = w/Z the direction of a chain has a logistic regression on log w with slope one and
    BAR as intercept (Shirts, Bair, Hooker and Pande 2003). This is the score test of the slope. It
    is positive for narrow weights that lie apart and negative for a wrong sign.
    """
    log_weights = np.concatenate([forward, reverse])
    finite = np.isfinite(log_weights)  # the direction of an infinite one is certain
    from_forward, from_reverse = map(np.exp, log_acceptances(forward, reverse, log_z))
    residuals = np.concatenate([-from_forward, from_reverse])[finite]
    information = np.abs(residuals) * (1 - np.abs(residuals))
    deviation = log_weights[finite]
    deviation = deviation - np.average(deviation, weights=information)
    if np.ptp(deviation) <= ROUNDING:
        return 0.0
    return float(residuals @ deviation / np.sqrt(information @ deviation**2))


def overlap(forward: ArrayLike, reverse: ArrayLike, log_z: float) -> float:
    """Measure the overlap of forward and reverse work, from 0 (none) to 1 (identical).

    The overlap is the integral (n_f + n_r) ∫ p_f p_r / (n_f p_f + n_r p_r) dW, which is one minus
    the second eigenvalue of the overlap matrix of Klimovich, Shirts and Mobley (2015). By Crooks'
    relation p_r/p_f = w/Z, so each direction gives the integral as the mean of a logistic function.
    At BAR's log Z both means agree.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats.
    log_z : float
        An estimate of log Z, nats.

    Examples
    --------
    >>> from pymc_bdmc.estimators import overlap
    >>> round(overlap([1.0, 1.0], [1.0, 1.0, 1.0], 1.0), 6)
    1.0
    """
    forward, reverse = checked_pair(forward, reverse)
    counts = np.array([forward.size, reverse.size])
    sums = [np.exp(log_sum_exp(a)) for a in log_acceptances(forward, reverse, log_z)]
    return float(np.mean(sums) * counts.sum() / counts.prod())


def overlap_variance(forward: np.ndarray, reverse: np.ndarray, log_z: float) -> float:
    """Return the variance of BAR, 1/I − 1/n_f − 1/n_r, nats², infinite without overlap.

    I = Σσ(1 − σ) over all chains is the Fisher information on log Z in their directions (Shirts,
    Bair, Hooker and Pande 2003).
    """
    odds = np.concatenate([forward, reverse]) - log_z - np.log(forward.size / reverse.size)
    with np.errstate(over="ignore"):
        inverse = float(np.exp(-log_sum_exp(log_expit(odds) + log_expit(-odds))))
    return max(inverse - 1 / forward.size - 1 / reverse.size, 0.0)


def log_acceptances(
    forward: np.ndarray, reverse: np.ndarray, log_z: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the log probability, given its weight, that a chain comes from the other direction."""
    offset = log_z + np.log(forward.size / reverse.size)
    return log_expit(forward - offset), log_expit(offset - reverse)


def solve_bar(forward: np.ndarray, reverse: np.ndarray) -> float:
    """Solve BAR's equation in log space, with ±∞ or NaN if a direction has no finite weight."""
    finite = forward[np.isfinite(forward)], reverse[np.isfinite(reverse)]
    if not (finite[0].size and finite[1].size):
        if finite[0].size:
            return np.inf
        return -np.inf if finite[1].size else np.nan

    def excess(log_z):
        # Log ratio of the left to the right side. Chains cancel by σ(x) = 1 − σ(−x): otherwise
        # rounding would hide the slope of a plateau between distant weights.
        offset = log_z + np.log(forward.size / reverse.size)
        left, right = forward - offset, offset - reverse
        whole = np.count_nonzero(left > 0) - np.count_nonzero(right > 0)
        parts = log_expit(-np.abs(np.concatenate([left, right])))
        adds = np.concatenate([left <= 0, right > 0])
        gain = log_sum_exp(np.append(parts[adds], np.log(whole) if whole > 0 else -np.inf))
        loss = log_sum_exp(np.append(parts[~adds], np.log(-whole) if whole < 0 else -np.inf))
        return float(gain - loss)

    # `excess` falls from +∞ to −∞, so a growing bracket always ends.
    low, high, width = min(map(np.min, finite)), max(map(np.max, finite)), 1.0
    while excess(low) < 0:
        low, width = low - width, 2 * width
    while excess(high) > 0:
        high, width = high + width, 2 * width
    return float(low if low == high else brentq(excess, low, high, xtol=1e-12))


def histogram(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Estimate log Z by the maximum-likelihood histogram of work.

    After Habeck (2017). Of all distributions p on the pooled works, it takes the one with
    the largest likelihood of forward works drawn from p and reverse works drawn from p·w/Z. Its
    masses are those of the weighted histogram method with two states, p_j = 1/(n_f + n_r w_j/Z)
    with Z = Σ p_j w_j. This fixed point is BAR's equation, so the values agree. An iteration would
    reduce the error by a factor of only 1 − `overlap` per step, so the root is found directly. The
    squared standard error from the likelihood is 1/Σ π(1 − π) − 1/n_f − 1/n_r with π = n_r p_j
    w_j/Z.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats; forward ones may be −∞.

    Returns
    -------
    Estimate
        Valid if `bar` is.

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators import histogram
    >>> round(histogram([0.9, 1.0, 0.8], [1.2, 1.1]).value, 3)
    1.002
    """
    forward, reverse = checked_pair(forward, reverse)
    estimate = replace(bar(forward, reverse), method="histogram")
    if np.isnan(estimate.error):
        return estimate
    variance = overlap_variance(forward, reverse, estimate.value)
    return replace(estimate, error=float(np.sqrt(variance)))


@dataclass(frozen=True)
class WorkDistribution:
    """Forward and reverse distributions of work on the same atoms, tied by Crooks' relation.

    Attributes
    ----------
    log_z : float
        Nats.
    work : ndarray of shape (n_f + n_r,)
        The pooled works W = −log w in increasing order, nats.
    log_forward, log_reverse : ndarrays of shape (n_f + n_r,)
        Log masses; log_reverse = log_forward − work − log_z.
    """

    log_z: float
    work: np.ndarray
    log_forward: np.ndarray
    log_reverse: np.ndarray

    def densities(self, edges: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Return densities of forward and reverse work in bins, without the mass outside them.

        Parameters
        ----------
        edges : array_like of shape (n_bins + 1,)
            Increasing, nats.

        Returns
        -------
        forward, reverse : ndarrays of shape (n_bins,)
            Per nat.
        """
        edges = np.asarray(edges, dtype=float)
        forward, reverse = (
            np.histogram(self.work, edges, weights=np.exp(log_masses))[0] / np.diff(edges)
            for log_masses in (self.log_forward, self.log_reverse)
        )
        return forward, reverse


def work_distribution(forward: ArrayLike, reverse: ArrayLike) -> WorkDistribution:
    """Estimate the distributions of work by maximum likelihood (see `histogram`).

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats.

    Returns
    -------
    WorkDistribution

    Raises
    ------
    ValueError
        If a direction has no finite weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import work_distribution
    >>> found = work_distribution([0.9, 1.0, 0.8], [1.2, 1.1])
    >>> float(np.exp(found.log_forward).sum().round(6))
    1.0
    """
    forward, reverse = checked_pair(forward, reverse)
    log_z = solve_bar(forward, reverse)
    if not np.isfinite(log_z):
        raise ValueError("A direction has no finite log weights, so the works share no scale.")
    log_weights = -np.sort(-np.concatenate([forward, reverse]))
    # Use the acceptance of the same side, so that atoms of very large weight keep their mass.
    log_ratio = log_weights - log_z
    log_forward = -np.logaddexp(np.log(forward.size), np.log(reverse.size) + log_ratio)
    with np.errstate(invalid="ignore"):  # ∞ − ∞ at a weight of +∞
        log_reverse = log_forward + log_ratio
    log_reverse[log_ratio == np.inf] = -np.log(reverse.size)
    return WorkDistribution(log_z, -log_weights, log_forward, log_reverse)


def histogram_posterior(
    forward: ArrayLike,
    reverse: ArrayLike,
    *,
    draws: int = 1000,
    concentration: float = 0.0,
    random_seed: int | np.random.Generator | None = None,
) -> EvidenceDraws:
    """Sample the posterior of log Z under an unknown distribution of work.

    The forward masses p of the pooled works have a Dirichlet prior. Forward works are multinomial
    under p, and reverse works are multinomial under p·w/Z. Let g be a vector of positive numbers
    proportional to p, and u an auxiliary number. Sweeps of

    g_j ~ Gamma(1 + concentration, rate n_f + u w_j),  u ~ Gamma(n_r, rate Σ g_j w_j)

    leave the posterior invariant, and log Z = log Σ g_j w_j − log Σ g_j, as derived in
    docs/method.md. The number of sweeps between kept draws depends on the `overlap` of the
    directions.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats; forward ones may be −∞.
    draws : int
        Number of draws to keep.
    concentration : float
        Concentration of the Dirichlet prior, per pooled work. The limit 0 (Haldane's prior, as in
        the Bayesian bootstrap) centres the posterior at maximum likelihood. Larger values pull p
        towards the pooled works, and so increase log Z.
    random_seed : int or Generator, optional

    Returns
    -------
    EvidenceDraws
        Draws whose estimate is valid if `bar` is and the overlap is at least 1/200.

    Raises
    ------
    ValueError
        If a direction has no finite weights, or has one that is NaN or impossible, if the
        concentration is negative, or if ``draws`` is less than 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import histogram_posterior
    >>> posterior = histogram_posterior([0.9, 1.0, 0.8], [1.2, 1.1], random_seed=1)
    >>> round(posterior.estimate.value, 1)
    1.0
    """
    forward, reverse = checked_pair(forward, reverse)
    if concentration < 0 or draws < 1:
        raise ValueError("concentration must not be negative, and draws must be at least 1.")
    check = bar(forward, reverse)
    log_z = check.value
    if not (np.isfinite(log_z) and np.isfinite(reverse).all()):
        raise ValueError("The posterior needs finite reverse and some finite forward log weights.")
    rng = np.random.default_rng(random_seed)
    shared = overlap(forward, reverse, log_z)
    thin = min(int(np.ceil(1 / shared)), MAX_THIN) if shared > 0 else MAX_THIN
    log_ratio = np.concatenate([forward, reverse]) - log_z
    log_u, kept = np.log(reverse.size), np.empty(draws)
    for i in range(-10 * thin, draws * thin):  # start at maximum likelihood and drop ten draws
        log_rate = np.logaddexp(np.log(forward.size), log_u + log_ratio)
        log_g = np.log(rng.gamma(1 + concentration, size=log_ratio.size)) - log_rate
        log_gw = log_sum_exp(log_g + log_ratio)
        log_u = np.log(rng.gamma(reverse.size)) - log_gw
        if i >= 0 and i % thin == 0:
            kept[i // thin] = log_z + log_gw - log_sum_exp(log_g)
    error = float(kept.std(ddof=1)) if draws > 1 else np.nan
    valid, reason = check.valid and shared >= 1 / MAX_THIN, f"{check.reason}, {thin} sweeps a draw"
    estimate = Estimate(float(kept.mean()), error, "histogram posterior", valid, reason)
    return EvidenceDraws(kept, estimate)
