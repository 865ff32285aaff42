"""Average over the posterior by weighted chains, and bootstrap any estimator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import check_average, checked_weights
from pymc_bdmc.estimators.estimate import Estimate, EvidenceDraws


@dataclass(frozen=True)
class WeightedAverage:
    """Posterior average of one or many variables.

    Attributes
    ----------
    value, error : ndarrays
        Average and standard error, in the units and with the shape of the variable.
    effective_sample_size : float
    valid : bool
        Whether the weights pass `check_average`.
    reason : str
        What the check found.
    """

    value: np.ndarray
    error: np.ndarray
    effective_sample_size: float
    valid: bool
    reason: str


def weighted_average(log_weights: ArrayLike, values: ArrayLike) -> WeightedAverage:
    """Average a variable over the posterior, by the weighted last states of forward chains.

    By Crooks' relation ⟨x⟩_posterior = ⟨w x⟩_f / ⟨w⟩_f for a variable x (Favaro et al. 2015, Eq.
    11). With u the normalised weights, the standard error of this ratio by the delta method is
    √(n/(n−1) Σ u²(x − x̄)²), which is derived here.

    Parameters
    ----------
    log_weights : array_like of shape (n,)
        Forward log weights, nats; may contain −∞.
    values : array_like of shape (n, ...)
        The variable in the last state of each chain.

    Returns
    -------
    WeightedAverage
        NaN and not valid if every weight is zero.

    Raises
    ------
    ValueError
        If there are no weights, one is NaN or +∞, or the lengths differ.

    Examples
    --------
    >>> from pymc_bdmc.estimators import weighted_average
    >>> round(float(weighted_average([0.0, 1.0], [0.0, 1.0]).value), 4)
    0.7311
    """
    log_weights = checked_weights(log_weights, "forward")
    values = np.asarray(values, dtype=float)
    n = log_weights.size
    if values.shape[:1] != (n,):
        raise ValueError(f"{n} log weights do not fit values of shape {values.shape}.")
    check = check_average(log_weights)
    if check.size == 0:
        missing = np.full(values.shape[1:], np.nan)
        return WeightedAverage(missing, missing, 0.0, False, check.reason)
    weights = np.exp(log_weights - log_weights.max())
    weights = (weights / weights.sum()).reshape(n, *[1] * (values.ndim - 1))
    # States of zero weight may be infinite.
    values = np.where(weights > 0, values, 0.0)
    average = np.sum(weights * values, axis=0)
    error = np.full_like(average, np.nan)
    if n > 1:
        error = np.sqrt(n / (n - 1) * np.sum((weights * (values - average)) ** 2, axis=0))
    return WeightedAverage(average, error, check.size, check.valid, check.reason)


def bootstrap(
    estimator: Callable[..., Estimate],
    *log_weights: ArrayLike,
    replicates: int = 1000,
    random_seed: int | np.random.Generator | None = None,
) -> EvidenceDraws:
    """Estimate an estimator's error by resampling its chains.

    Each direction is resampled separately. Resampling cannot show regions that no chain has seen,
    so if an estimator's check fails, its bootstrap interval is too short as well.

    Parameters
    ----------
    estimator : function
        Function of one or two arrays of log weights that returns an `Estimate`, such as `bar`.
    *log_weights : array_like
        Arguments of the estimator, nats.
    replicates : int
    random_seed : int or Generator, optional

    Returns
    -------
    EvidenceDraws
        Draws whose estimate has the estimator's own value and check, with the standard deviation of
        the replicates as its error.

    Raises
    ------
    ValueError
        If there are fewer than 2 replicates, or as the estimator does.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import bootstrap, jarzynski_forward
    >>> forward = np.random.default_rng(0).normal(-0.02, 0.2, size=100)
    >>> round(bootstrap(jarzynski_forward, forward, random_seed=1).estimate.error, 2)
    0.02
    """
    if replicates < 2:
        raise ValueError("A bootstrap needs at least 2 replicates.")
    rng = np.random.default_rng(random_seed)
    arrays = [np.asarray(a, dtype=float).ravel() for a in log_weights]
    full = estimator(*arrays)
    values = np.array(
        [estimator(*(rng.choice(a, a.size) for a in arrays)).value for _ in range(replicates)]
    )
    error = float(values.std(ddof=1)) if np.isfinite(values).all() else np.nan
    estimate = Estimate(full.value, error, f"{full.method}, bootstrap", full.valid, full.reason)
    return EvidenceDraws(values, estimate)
