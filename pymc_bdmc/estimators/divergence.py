"""What the sandwich says beyond log Z: bounds on divergences, what they mean, and an e-value."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import checked_weights
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.jarzynski import log_mean_exp

__all__ = [
    "forward_divergence",
    "log_e_values",
    "reverse_divergence",
    "total_variation_bound",
]


def forward_divergence(forward: ArrayLike, upper: float) -> Estimate:
    """Bound KL(q‖p), sampler from posterior, by U − ⟨log w⟩_f with any upper bound U on log Z.

    Grosse, Ancha and Roy (2016), Eqs 7-12: E[log Z − log w] ≥ KL(q‖p) over forward chains whose
    last states have distribution q. It is infinite if a weight is zero.

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats.
    upper : float
        An upper bound on log Z got without these chains, nats.

    Returns
    -------
    Estimate
        Of the bound; its error is the mean's over the chains, and does not cover U's.

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
    return _mean_gap(upper - checked_weights(forward, "forward"), "KL(q‖p) bound")


def reverse_divergence(reverse: ArrayLike, lower: float) -> Estimate:
    """Bound KL(p‖q), posterior from sampler, by ⟨log w⟩_r − L with any lower bound L on log Z.

    Grosse, Ancha and Roy (2016), Eqs 7-12: E[log w − log Z] ≥ KL(p‖q) over exact reverse chains.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.
    lower : float
        A lower bound on log Z got without these chains, nats.

    Returns
    -------
    Estimate
        Of the bound; its error is the mean's over the chains, and does not cover L's.

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
    return _mean_gap(checked_weights(reverse, "reverse") - lower, "KL(p‖q) bound")


def _mean_gap(gaps: np.ndarray, method: str) -> Estimate:
    value = float(gaps.mean())
    if gaps.size < 2 or not np.isfinite(value):
        return Estimate(value, np.nan, method, False, "no spread over the chains")
    error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    return Estimate(value, error, method, True, f"mean over {gaps.size} chains")


def total_variation_bound(jeffreys: float) -> float:
    """Largest total variation distance of two distributions of a given Jeffreys divergence.

    By how much the probability of any event can differ, and the mean of any quantity as a share of
    its range. No event changes the divergence less than one of probabilities (1 ± V)/2, so
    J ≥ 2 V log((1 + V)/(1 − V)), which is attained (Gilardoni 2006). It is sharper than what
    Pinsker's inequality gives for the smaller of the two KL divergences, which is at most J/2:
    V ≤ √J/2.

    Parameters
    ----------
    jeffreys : float
        KL(q‖p) + KL(p‖q) or a bound on it, nats; below zero it counts as zero.

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
    from scipy.optimize import brentq  # heavy, and seldom needed

    if not np.isfinite(jeffreys):
        return 1.0
    # V = tanh(u), with V·u = J/4: u lies between √J/2 and J/4 + 1.
    target = max(jeffreys, 0.0) / 4
    return float(np.tanh(brentq(lambda u: u * np.tanh(u) - target, 0.0, target + 1)))


def log_e_values(forward: Sequence[ArrayLike], reverse: Sequence[ArrayLike]) -> np.ndarray:
    """Accumulate the e-value against "sampler and simulator are correct", a step a data set.

    Given y the two directions are independent, so mean(w_f) · mean(1/w_r) has expectation
    Z/Z = 1, and so has its product over independent data sets. By Ville's inequality the
    product ever exceeds 1/α with probability at most α: stop at any data set and reject if it
    does. A correct sampler's e-value sinks, the more so the wider the gap.

    Parameters
    ----------
    forward, reverse : sequences of array_like
        Log weights of the chains of each data set, nats; rows may differ in length.

    Returns
    -------
    ndarray of shape (n_datasets,)
        Log of the product over the data sets so far, nats. Compare with log(1/α).

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
