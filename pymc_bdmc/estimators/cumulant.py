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
    return _expand({"forward": checked_weights(forward, "forward")}, "cumulant forward")


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
    return _expand({"reverse": checked_weights(reverse, "reverse")}, "cumulant reverse")


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
    return _expand({"forward": forward, "reverse": reverse}, "cumulant combined")
