"""Cumulant expansions of log Z: right for nearly Gaussian work, and biased beyond it."""

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import checked_pair, checked_weights
from pymc_bdmc.estimators.estimate import Estimate

__all__ = ["cumulant_combined", "cumulant_forward", "cumulant_reverse"]

MIN_CHAINS = 20
"""Fewer cannot tell a Gaussian from anything else."""

MAX_NEGLECTED = 0.5
"""Largest neglected term, in standard errors; a bias of half an error costs 3 % of coverage."""


def cumulant_forward(forward: ArrayLike) -> Estimate:
    """Second-order cumulant expansion, log Ẑ = ⟨log w⟩_f + var_f(log w)/2.

    Habeck (2017), Eq. 12. Exact for Gaussian work; otherwise the neglected terms start with a
    sixth of the third cumulant. The standard error is the delta method's, without assuming
    Gaussian work: the spread of d + d²/2 over the chains, with d = log w − ⟨log w⟩.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are 20 chains or more and the first neglected term, κ₃/6, as well as the
        noise with which it can be seen, is below half a standard error. NaN for a single chain
        or where a weight is zero, for then the cumulants do not exist.

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or +∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_forward
    >>> round(cumulant_forward([0.0, 1.0, -1.0]).value, 6)
    0.5
    """
    return _one_sided(checked_weights(forward, "forward"), 0.5, "cumulant forward")


def cumulant_reverse(reverse: ArrayLike) -> Estimate:
    """Second-order cumulant expansion, log Ẑ = ⟨log w⟩_r − var_r(log w)/2.

    Habeck (2017), Eq. 12, in the other direction; see `cumulant_forward` for error and check.

    Parameters
    ----------
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate

    Raises
    ------
    ValueError
        If there are no weights, or one is NaN or −∞.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_reverse
    >>> round(cumulant_reverse([0.0, 1.0, -1.0]).value, 6)
    -0.5
    """
    return _one_sided(checked_weights(reverse, "reverse"), -0.5, "cumulant reverse")


def cumulant_combined(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Two-sided expansion, (⟨log w⟩_f + ⟨log w⟩_r)/2 + (var_f − var_r)/12.

    Habeck (2017), Eq. 13. By Crooks' relation K(t) = log E_f[wᵗ] gives the forward cumulants at
    t = 0 and the reverse ones at t = 1, and log Z = ∫₀¹ K′(t) dt; this is the Euler-Maclaurin
    rule for that integral, so the third and fourth cumulants cancel and the neglected term is
    the fifth derivative of K over 720. The standard error is the delta method's.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are 20 chains or more a direction and the difference to the rule without
        variances, less what sampling explains, is small; NaN for a single chain or where a
        weight is infinite.

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators import cumulant_combined
    >>> round(cumulant_combined([0.0, 1.0, -1.0], [2.0, 3.0, 1.0]).value, 6)
    1.0
    """
    forward, reverse = checked_pair(forward, reverse)
    method = "cumulant combined"
    if not (np.isfinite(forward).all() and np.isfinite(reverse).all()):
        return _undefined(method, "zero weights have no cumulants")
    if min(forward.size, reverse.size) < 2:
        return _undefined(method, "one chain has no variance")
    (mean_f, var_f, third_f), (mean_r, var_r, third_r) = _cumulants(forward), _cumulants(reverse)
    value = (mean_f + mean_r) / 2 + (var_f - var_r) / 12
    error = np.hypot(_standard_error(forward, 0.5, 1 / 12), _standard_error(reverse, 0.5, -1 / 12))
    # The same rule applied to K″ must give ⟨log w⟩_r − ⟨log w⟩_f: a second work regime that
    # neither end sees hides in the difference. Over 12 it enters log Z as a variance does.
    hidden = abs(mean_r - mean_f - (var_f + var_r) / 2) / 12
    neglected = max(hidden, abs(third_r - third_f) / 720)
    return _judged(value, error, method, min(forward.size, reverse.size), neglected)


def _one_sided(log_weights: np.ndarray, sign: float, method: str) -> Estimate:
    if not np.isfinite(log_weights).all():
        return _undefined(method, "zero weights have no cumulants")
    if log_weights.size < 2:
        return _undefined(method, "one chain has no variance")
    mean, variance, third = _cumulants(log_weights)
    deviation = log_weights - mean
    noise = np.std(deviation**3 - 3 * variance * deviation) / np.sqrt(log_weights.size)
    value = mean + sign * variance
    error = _standard_error(log_weights, 1.0, sign)
    return _judged(value, error, method, log_weights.size, max(abs(third), noise) / 6)


def _cumulants(log_weights: np.ndarray) -> tuple[float, float, float]:
    """First three cumulants, the second unbiased."""
    mean = log_weights.mean()
    return mean, log_weights.var(ddof=1), np.mean((log_weights - mean) ** 3)


def _standard_error(log_weights: np.ndarray, linear: float, quadratic: float) -> float:
    """Of linear · mean + quadratic · variance, by the spread of its influence function."""
    deviation = log_weights - log_weights.mean()
    influence = linear * deviation + quadratic * deviation**2
    return float(np.std(influence, ddof=1) / np.sqrt(log_weights.size))


def _judged(value, error, method, chains, neglected) -> Estimate:
    valid = chains >= MIN_CHAINS and neglected <= MAX_NEGLECTED * error
    reason = f"neglected terms about {neglected:.2g} nats, {chains} chains"
    return Estimate(float(value), float(error), method, bool(valid), reason)


def _undefined(method: str, reason: str) -> Estimate:
    return Estimate(np.nan, np.nan, method, False, reason)
