"""Split log Z of annealed runs over the observations that entered one after another."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from pymc_bdmc.estimators.checks import check_average, skewness_of_mean, student_factor


class PredictiveDensities(NamedTuple):
    """Log predictive densities of observations given the earlier ones, with errors, nats.

    Attributes
    ----------
    value, error : ndarray of shape (N,)
        log p(y_i | y_<i) and one standard error.
    cumulative, cumulative_error : ndarray of shape (N,)
        log p(y_1, …, y_i) and one standard error.
    valid : ndarray of bool, shape (N,)
        Whether the average over the runs up to each observation passes `check_average`.
    """

    value: np.ndarray
    error: np.ndarray
    cumulative: np.ndarray
    cumulative_error: np.ndarray
    valid: np.ndarray


def predictive_densities(log_weights: ArrayLike) -> PredictiveDensities:
    """Estimate the predictive density of every observation from forward runs, with errors.

    The weight of run k after observation i is w_ki = ∏_{j≤i} exp(log weight of j), and its average
    over the runs is an unbiased estimate of p(y_1, …, y_i). The predictive density is the ratio of
    two of these averages. The runs are independent, so by the delta method the error of its
    logarithm is that of the mean of w_ki/w̄_i − w_k,i−1/w̄_i−1 over the runs. It is widened as in
    `jarzynski_forward`.

    Parameters
    ----------
    log_weights : array_like of shape (K, N)
        Part of the log weight of every run that each observation added, nats; may be −∞.

    Returns
    -------
    PredictiveDensities
        Densities whose values sum to the last ``cumulative``, the logarithm of the mean weight.

    References
    ----------
    Chopin (2002), A sequential particle filter method for static models, Section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import jarzynski_forward, predictive_densities
    >>> parts = np.random.default_rng(0).normal(-1, 0.1, (50, 4))
    >>> found = predictive_densities(parts)
    >>> bool(abs(found.value.sum() - jarzynski_forward(parts.sum(axis=1)).value) < 1e-10)
    True
    """
    parts = np.asarray(log_weights, dtype=float)
    if parts.ndim != 2 or not parts.size:
        raise ValueError(f"log_weights: shape (runs, observations) is needed, not {parts.shape}.")
    totals = np.cumsum(parts, axis=1)
    k = len(totals)
    cumulative = logsumexp(totals, axis=0) - np.log(k)
    with np.errstate(invalid="ignore"):  # where every weight is zero
        shares = np.exp(totals - cumulative)
    before = np.concatenate([np.ones((k, 1)), shares[:, :-1]], axis=1)
    widened = np.array([student_factor(skewness_of_mean(column), k) for column in totals.T])
    spread = np.sqrt(k) if k > 1 else np.nan
    error = widened * np.std(shares - before, axis=0, ddof=min(k - 1, 1)) / spread
    cumulative_error = widened * np.std(shares, axis=0, ddof=min(k - 1, 1)) / spread
    with np.errstate(invalid="ignore"):
        value = np.diff(cumulative, prepend=0.0)
    valid = np.array([check_average(column).valid for column in totals.T])
    return PredictiveDensities(value, error, cumulative, cumulative_error, valid)
