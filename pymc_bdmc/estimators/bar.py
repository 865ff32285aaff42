"""Estimate log Z by Bennett's acceptance ratio, from forward and reverse log weights."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_expit

from pymc_bdmc.estimators.checks import (
    ROUNDING,
    checked_pair,
    effective_sample_size,
    log_sum_exp,
)
from pymc_bdmc.estimators.estimate import Estimate

MIN_CROSSING_CHAINS = 5.0
"""Smallest effective number of chains per direction that overlap the other, for 95 % coverage."""

MAX_ERROR = 1.0
"""Largest valid error, nats. Five effective chains per direction give 0.63 if works overlap."""

MAX_MISFIT = 3.0
"""Largest departure from Crooks' relation, in standard errors, which correct weights exceed in
0.3 % of samples."""


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
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats; may contain +∞ (a zero 1/w).

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
    acceptances = log_acceptances(forward, reverse, log_z)
    sizes = [effective_sample_size(each) for each in acceptances]
    counts = (forward.size, reverse.size)
    if min(counts) > 1:
        # Per side n/ESS − 1 = var(σ)/mean(σ)², made unbiased.
        terms = [max(n / e - 1, 0.0) / (n - 1) for n, e in zip(counts, sizes, strict=True)]
        error = float(np.sqrt(max(sum(terms), overlap_variance(forward, reverse, log_z))))
    else:
        error = np.nan
    shared = overlap(forward, reverse, log_z)
    reason = f"{min(sizes):.1f} effective chains cross, overlap {shared:.2g}"
    valid = min(sizes) >= MIN_CROSSING_CHAINS
    if error > MAX_ERROR:
        valid, reason = False, f"the works hardly overlap: {shared:.2g}"
    elif valid and abs(misfit := crooks_misfit(forward, reverse, log_z)) > MAX_MISFIT:
        valid = False
        reason += (
            f", {misfit:+.1f} standard errors from Crooks' relation: is log w given with the same "
            "sign in both directions, and do reverse chains forget a shared start?"
        )
    return Estimate(log_z, error, "bar", bool(valid), reason)


def crooks_misfit(forward: np.ndarray, reverse: np.ndarray, log_z: float) -> float:
    """Measure the departure of the weights from Crooks' relation, in standard errors.

    By p_r/p_f = w/Z the direction of a chain follows a logistic regression on log w with slope one,
    whose intercept is BAR (Shirts, Bair, Hooker and Pande 2003). This is the score test of the
    slope, which is standard normal in large samples. It is positive if log w separates the
    directions too well (narrow weights that lie apart), and negative if log w separates them too
    badly (a wrong sign).

    Parameters
    ----------
    forward, reverse : ndarray of shape (n_f,), (n_r,)
        Log weights, nats.
    log_z : float
        BAR estimate, nats; the directions must overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators.bar import crooks_misfit
    >>> rng = np.random.default_rng(0)
    >>> forward, reverse = rng.normal(-0.5, 1, 50), rng.normal(0.5, 1, 50)
    >>> abs(crooks_misfit(forward, reverse, 0.0)) < 3
    True
    >>> crooks_misfit(forward, -reverse, 0.0) < -3
    True
    """
    log_weights = np.concatenate([forward, reverse])
    finite = np.isfinite(log_weights)  # the direction of an infinite one is certain
    crossing = [np.exp(each) for each in log_acceptances(forward, reverse, log_z)]
    residuals = np.concatenate([-crossing[0], crossing[1]])[finite]
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
    forward : array_like of shape (n_f,)
        Forward log weights, nats.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.
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
    """Return the variance of BAR from the overlap of the works, nats², infinite without overlap.

    It is 1/I − 1/n_f − 1/n_r with I = Σσ(1 − σ) over all chains, which is the Fisher information on
    log Z in the directions of the chains (Shirts, Bair, Hooker and Pande 2003).
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
    finite = [np.isfinite(forward), np.isfinite(reverse)]
    if not (finite[0].any() and finite[1].any()):
        if finite[0].any():
            return np.inf
        return -np.inf if finite[1].any() else np.nan

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
    pooled = np.concatenate([forward[finite[0]], reverse[finite[1]]])
    low, high, width = pooled.min(), pooled.max(), 1.0
    while excess(low) < 0:
        low, width = low - width, 2 * width
    while excess(high) > 0:
        high, width = high + width, 2 * width
    return float(low if low == high else brentq(excess, low, high, xtol=1e-12))
