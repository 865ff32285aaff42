"""What every estimator asks of its log weights, and what a mean of few of them is worth."""

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["checked_pair", "checked_weights", "student_factor"]

IMPOSSIBLE = {"forward": np.inf, "reverse": -np.inf}
"""E_f[w] = Z and E_r[1/w] = 1/Z are finite, so these weights have probability zero."""


def checked_weights(log_weights: ArrayLike, direction: str) -> np.ndarray:
    """Flatten log weights and refuse those that no correct run can produce.

    Parameters
    ----------
    log_weights : array_like
        Nats. Forward ones may be −∞ (w = 0), reverse ones +∞ (1/w = 0).
    direction : {"forward", "reverse"}

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    ValueError
        If there are none, if one is NaN, or if one is infinite on the impossible side.

    Examples
    --------
    >>> from pymc_bdmc.estimators.checks import checked_weights
    >>> checked_weights([[0.0, 1.0]], "forward")
    array([0., 1.])
    """
    log_weights = np.asarray(log_weights, dtype=float).ravel()
    if log_weights.size == 0:
        raise ValueError(f"{direction}: no log weights.")
    if np.isnan(log_weights).any():
        raise ValueError(f"{direction}: log weights are NaN; drop unfinished chains first.")
    if (log_weights == IMPOSSIBLE[direction]).any():
        raise ValueError(
            f"{direction}: a log weight is {IMPOSSIBLE[direction]}, which has probability zero; "
            "is the sign that of log w in both directions?"
        )
    return log_weights


def checked_pair(forward: ArrayLike, reverse: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Check forward and reverse log weights, and sort them, lest rounding depend on their order.

    See `checked_weights`.
    """
    return np.sort(checked_weights(forward, "forward")), np.sort(
        checked_weights(reverse, "reverse")
    )


def student_factor(skewness: float, n: int) -> float:
    """How far to widen the standard error of a mean of n values, so that 1.96 of it cover 95 %.

    By Edgeworth's expansion of Student's statistic, Hall (1992), Sec. 2.6, its quantile exceeds
    1.96 by this factor, leaving out the values' kurtosis. ``skewness`` is that of the mean, which
    is 1/√n of the values'.
    """
    return 1 + 1.08 * skewness**2 + 1.21 / n
