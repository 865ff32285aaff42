"""Estimate log Z by cumulant expansions, which are accurate for nearly Gaussian work only."""

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import (
    ROUNDING,
    Estimate,
    checked_pair,
    checked_weights,
    skewness_of_sum,
    student_factor,
)

MIN_CHAINS = {"cumulant combined": 20, "cumulant forward": 50, "cumulant reverse": 50}
"""Smallest number of chains for a valid estimate, since fewer cannot show that work is Gaussian."""

MAX_NEGLECTED = 0.5
"""Largest neglected terms of a valid expansion, in standard errors, for a coverage of 92 %."""

MAX_VARIANCE = 1.0
"""Largest variance of log weights for a one-sided expansion, nats². Beyond it, Gaussian work cannot
be verified."""

MAX_SKEWNESS = 1.0
"""Largest skewness of log weights for a one-sided expansion. Beyond it, errors of κ̂₃ and of the
estimate are correlated, and samples that look Gaussian are those that missed the tail."""


def cumulant_forward(forward: ArrayLike) -> Estimate:
    """Estimate log Z by the forward cumulant expansion, ⟨log w⟩_f + var_f(log w)/2.

    See Habeck (2017), Eq. 12. The derivatives of K(t) = log E_f[wᵗ] at 0 are the cumulants κ₁, κ₂,
    … of log w, and this is the Taylor polynomial of log Z = K(1). Its remainder is K‴(t)/6 at some
    t between 0 and 1, which is zero for Gaussian work and otherwise about κ₃/6 if K‴ is nearly
    constant. The standard error is by the delta method and does not assume Gaussian work. It is the
    spread of d + d²/2 over the chains, with d = log w − ⟨log w⟩, widened as in `jarzynski_forward`.
    The first neglected terms, ``|κ̂₃|/6 + |κ̂₄|/24``, are added in quadrature, since the bias may be
    as large as the noise.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are at least 50 chains, whose log weights differ and have a variance of at
        most 1 nat² and a skewness of at most 1, and if the neglected terms are at most the standard
        error without them. NaN for a single chain or if a weight is zero, since the cumulants do
        not exist then.

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
    """Estimate log Z by the reverse cumulant expansion, ⟨log w⟩_r − var_r(log w)/2.

    This is Eq. 12 of Habeck (2017) in the reverse direction. For the error and the check, see
    `cumulant_forward`.

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
    """Estimate log Z by the two-sided expansion, (⟨log w⟩_f + ⟨log w⟩_r)/2 + (var_f − var_r)/12.

    See Habeck (2017), Eq. 13. By Crooks' relation K(t) = log E_f[wᵗ] gives the forward cumulants at
    t = 0 and the reverse cumulants at t = 1. The estimate is the Euler-Maclaurin rule for log Z =
    ∫₀¹ K′(t) dt. The third and fourth cumulants cancel, and the remainder is the fifth derivative
    of K at some t between 0 and 1, divided by 720. The standard error is by the delta method.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

    Returns
    -------
    Estimate
        Valid if there are at least 20 chains per direction and two estimates of the neglected terms
        are at most half a standard error. One is the next term of the rule, (κ₄,r − κ₄,f)/720. The
        other is a twelfth of the error of the rule applied to K″, ``|⟨log w⟩_r − ⟨log w⟩_f − (var_f
        + var_r)/2|/12``. NaN for a single chain or if a weight is infinite.

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
    if undefined := _undefined(method, forward, reverse):
        return undefined
    mean_f, var_f, _, fourth_f = _cumulants(forward)
    mean_r, var_r, _, fourth_r = _cumulants(reverse)
    value = (mean_f + mean_r) / 2 + (var_f - var_r) / 12
    error = np.hypot(_influence(forward, 0.5, 1 / 12)[0], _influence(reverse, 0.5, -1 / 12)[0])
    # The same rule applied to K″ must give ⟨log w⟩_r − ⟨log w⟩_f. A difference shows work that
    # neither end sees; divided by 12 it enters log Z as a variance does.
    hidden = abs(mean_r - mean_f - (var_f + var_r) / 2) / 12
    neglected = max(hidden, abs(fourth_r - fourth_f) / 720)
    chains = min(forward.size, reverse.size)
    valid = chains >= MIN_CHAINS[method] and neglected <= MAX_NEGLECTED * error
    reason = f"neglected terms about {neglected:.2g} nats, {_enough(chains, method)}"
    return Estimate(float(value), float(error), method, bool(valid), reason)


def _one_sided(log_weights: np.ndarray, sign: float, method: str) -> Estimate:
    if undefined := _undefined(method, log_weights):
        return undefined
    mean, variance, third, fourth = _cumulants(log_weights)
    chains = log_weights.size
    noise, asymmetry = _influence(log_weights, 1.0, sign)
    noise *= student_factor(asymmetry, chains)
    neglected = abs(third) / 6 + abs(fourth) / 24
    skewness = abs(third) / variance**1.5 if variance > 0 else 0.0
    is_gaussian = variance <= MAX_VARIANCE and skewness <= MAX_SKEWNESS and neglected <= noise
    valid = chains >= MIN_CHAINS[method] and np.ptp(log_weights) > ROUNDING and is_gaussian
    reason = (
        f"neglected terms about {neglected:.2g} nats, variance {variance:.2g} nats², skewness "
        f"{skewness:.2f}, {_enough(chains, method)}"
    )
    error = float(np.hypot(noise, neglected))
    return Estimate(float(mean + sign * variance), error, method, bool(valid), reason)


def _enough(chains: int, method: str) -> str:
    needed = MIN_CHAINS[method]
    return f"{chains} chains" + (f" where {needed} are needed" if chains < needed else "")


def _cumulants(log_weights: np.ndarray) -> tuple[float, float, float, float]:
    """Return the first four cumulants, of which the second is unbiased."""
    mean, variance = log_weights.mean(), log_weights.var(ddof=1)
    deviation = log_weights - mean
    return mean, variance, np.mean(deviation**3), np.mean(deviation**4) - 3 * variance**2


def _influence(log_weights: np.ndarray, linear: float, quadratic: float) -> tuple[float, float]:
    """Return standard error and skewness of linear · mean + quadratic · variance over chains."""
    n, deviation = log_weights.size, log_weights - log_weights.mean()
    influence = linear * deviation + quadratic * deviation**2
    influence -= influence.mean()
    error = np.sqrt(np.sum(influence**2) / n / (n - 1))
    return float(error), skewness_of_sum(influence)


def _undefined(method: str, *sides: np.ndarray) -> Estimate | None:
    """Return an estimate that is NaN if the cumulants of a direction do not exist."""
    if not all(np.isfinite(side).all() for side in sides):
        return Estimate(np.nan, np.nan, method, False, "zero weights have no cumulants")
    if min(side.size for side in sides) < 2:
        return Estimate(np.nan, np.nan, method, False, "one chain has no variance")
    return None
