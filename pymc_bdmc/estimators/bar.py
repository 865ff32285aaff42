"""Bennett's acceptance ratio: the best use of forward and reverse log weights together."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from pymc_bdmc.estimators.checks import checked_pair, effective_sample_size
from pymc_bdmc.estimators.estimate import Estimate

__all__ = ["bar", "overlap", "solve_bar"]

MIN_CROSSING_CHAINS = 5.0
"""Effective chains a direction that reach into the other; with fewer, 95 % intervals cover less."""


def bar(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Estimate log Z by Bennett's acceptance ratio.

    Solves Σ_f σ(log w − log Z − M) = Σ_r σ(M + log Z − log w) with σ the logistic function and
    M = log(n_f/n_r): Bennett (1976); Habeck (2017), Eq. 14. Without M the solution is
    wrong whenever n_f ≠ n_r. The standard error is Bennett's with unbiased variances: the
    two sides' relative variances of σ add.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats; may contain +∞ (a zero 1/w).

    Returns
    -------
    Estimate
        Valid if at least 5 effective chains of each direction reach into the other's work
        distribution, counted by Kish's formula on σ, and the overlap is not above one. The
        chains are taken to be independent: reverse chains that share their start are so only if
        they forget it.

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
    # Per side n/ESS − 1 = var(σ)/mean(σ)²; the unbiased variance makes a single chain's NaN.
    sizes = [effective_sample_size(a) for a in log_acceptances(forward, reverse, log_z)]
    counts = (forward.size, reverse.size)
    if min(counts) > 1:
        terms = [max(n / e - 1, 0.0) / (n - 1) for n, e in zip(counts, sizes, strict=True)]
        error = float(np.sqrt(sum(terms)))
    else:
        error = np.nan
    shared = overlap(forward, reverse, log_z)
    reason = f"{min(sizes):.1f} effective chains cross, overlap {shared:.2g}"
    # The true overlap is 1 at most, and near 1 it has little noise.
    impossible = shared > 1 + 2 * np.sqrt(1 / forward.size + 1 / reverse.size)
    if impossible:
        reason += ", more than Crooks' relation allows: is the sign that of log w in both?"
    valid = min(sizes) >= MIN_CROSSING_CHAINS and not impossible
    return Estimate(log_z, error, "bar", bool(valid), reason)


def overlap(forward: ArrayLike, reverse: ArrayLike, log_z: float) -> float:
    """Overlap of the forward and reverse work distributions, from 0 (none) to 1 (identical).

    The integral (n_f + n_r) ∫ p_f p_r / (n_f p_f + n_r p_r) dW, which is one minus the second
    eigenvalue of the overlap matrix of Klimovich, Shirts and Mobley (2015). By Crooks' relation
    p_r/p_f = w/Z, so each direction gives it as a mean of a logistic function; at BAR's log Z
    the two agree.

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
    sums = [np.exp(logsumexp(a)) for a in log_acceptances(forward, reverse, log_z)]
    return float(np.mean(sums) * counts.sum() / counts.prod())


def log_acceptances(
    forward: np.ndarray, reverse: np.ndarray, log_z: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities that a chain, known by its weight only, came from the other direction."""
    offset = log_z + np.log(forward.size / reverse.size)
    return log_expit(forward - offset), log_expit(offset - reverse)


def solve_bar(forward: np.ndarray, reverse: np.ndarray) -> float:
    """Root of BAR's equation in log space; ±∞ or NaN where a direction has no finite weight."""
    finite = [np.isfinite(forward), np.isfinite(reverse)]
    if not (finite[0].any() and finite[1].any()):
        if finite[0].any():
            return np.inf
        return -np.inf if finite[1].any() else np.nan

    def excess(log_z):
        # log of what the left side's terms hold over the right side's. By σ(x) = 1 − σ(−x) whole
        # chains cancel, or a plateau between distant weights would drown its slope in rounding.
        offset = log_z + np.log(forward.size / reverse.size)
        left, right = forward - offset, offset - reverse
        whole = np.count_nonzero(left > 0) - np.count_nonzero(right > 0)
        parts = log_expit(-np.abs(np.concatenate([left, right])))
        adds = np.concatenate([left <= 0, right > 0])
        gain = logsumexp(np.append(parts[adds], np.log(whole) if whole > 0 else -np.inf))
        loss = logsumexp(np.append(parts[~adds], np.log(-whole) if whole < 0 else -np.inf))
        return float(gain - loss)

    # `excess` falls from +∞ to −∞, so a growing bracket always ends.
    pooled = np.concatenate([forward[finite[0]], reverse[finite[1]]])
    low, high, width = pooled.min(), pooled.max(), 1.0
    while excess(low) < 0:
        low, width = low - width, 2 * width
    while excess(high) > 0:
        high, width = high + width, 2 * width
    return float(low if low == high else brentq(excess, low, high, xtol=1e-12))
