"""Bound divergences by the sandwich, convert them to total variation, and compute e-values."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import checked_weights
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.jarzynski import log_mean_exp


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
    return _mean_gap(upper - checked_weights(forward, "forward"), "KL(q‖p) bound")


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
    return _mean_gap(checked_weights(reverse, "reverse") - lower, "KL(p‖q) bound")


def _mean_gap(gaps: np.ndarray, method: str) -> Estimate:
    value = float(gaps.mean())
    if gaps.size < 2 or not np.isfinite(value):
        return Estimate(value, np.nan, method, False, "no spread over the chains")
    error = float(gaps.std(ddof=1) / np.sqrt(gaps.size))
    return Estimate(value, error, method, True, f"mean over {gaps.size} chains")


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
    from scipy.optimize import brentq  # heavy, and seldom needed

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
