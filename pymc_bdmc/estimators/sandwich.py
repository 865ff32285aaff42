"""Average log weights: the Jeffreys bound, and the prior mass of a constraint."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


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
    pairs = [(clustered_mean(f), clustered_mean(r)) for f, r in zip(forward, reverse, strict=True)]
    pairs = [(f, r) for f, r in pairs if not np.isnan(r[0] - f[0])]
    gaps = np.array([r[0] - f[0] for f, r in pairs])
    if gaps.size == 0:
        return np.nan, np.nan
    if gaps.size == 1:
        (_, error_f), (_, error_r) = pairs[0]
        return float(gaps[0]), float(np.hypot(error_f, error_r))
    return float(gaps.mean()), _standard_error(gaps)


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
