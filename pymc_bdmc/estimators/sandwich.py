"""Average log weights: the gap of the sandwich, divergences that it bounds, and the prior mass."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from pymc_bdmc.estimators.checks import Estimate, checked_weights, log_mean_exp


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
    value, error = float(gaps.mean()), _standard_error(gaps)
    if np.isnan(error):
        return Estimate(value, np.nan, method, False, "no spread over the chains")
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
