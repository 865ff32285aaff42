"""Estimate log Z by a histogram of work, by maximum likelihood or by sampling its posterior."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.bar import bar, overlap, overlap_variance, solve_bar
from pymc_bdmc.estimators.checks import checked_pair, log_sum_exp
from pymc_bdmc.estimators.estimate import Estimate, EvidenceDraws

MAX_THIN = 200
"""Largest number of sweeps per kept draw. If more are needed, the directions hardly overlap."""


def histogram(forward: ArrayLike, reverse: ArrayLike) -> Estimate:
    """Estimate log Z by the maximum-likelihood histogram of work.

    This follows Habeck (2017). Of all distributions p on the pooled works, it takes the one with
    the largest likelihood of forward works drawn from p and reverse works drawn from p·w/Z. Its
    masses are those of the weighted histogram method with two states, p_j = 1/(n_f + n_r w_j/Z)
    with Z = Σ p_j w_j. This fixed point is BAR's equation, so the values agree. An iteration would
    reduce the error by a factor of only 1 − `overlap` per step, so the root is found directly. The
    squared standard error from the likelihood is 1/Σ π(1 − π) − 1/n_f − 1/n_r with π = n_r p_j
    w_j/Z.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

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
    forward : array_like of shape (n_f,)
        Forward log weights, nats.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

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
    with np.errstate(invalid="ignore"):  # ∞ − ∞ at a weight of +∞, settled below
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
    docs/histogram_gibbs.md. The number of sweeps between kept draws depends on the `overlap` of the
    directions.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.
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
    log_z = solve_bar(forward, reverse)
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
    check = bar(forward, reverse)
    estimate = Estimate(
        value=float(kept.mean()),
        error=float(kept.std(ddof=1)) if draws > 1 else np.nan,
        method="histogram posterior",
        valid=check.valid and shared >= 1 / MAX_THIN,
        reason=f"{check.reason}, {thin} sweeps a draw",
    )
    return EvidenceDraws(kept, estimate)
