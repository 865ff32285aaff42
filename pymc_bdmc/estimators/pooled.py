"""Estimate moments of one direction's weights from both, to check one-sided estimates."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from pymc_bdmc.estimators.checks import ROUNDING, checked_pair


class PooledChains(NamedTuple):
    """Log weights of both directions, as a weighted sample of each direction.

    Attributes
    ----------
    log_weights : ndarray of shape (n,)
        Nats, n = n_f + n_r.
    forward, reverse : ndarray of shape (n,)
        Probability of each log weight in that direction.
    n_forward, n_reverse : int
        Numbers of chains.
    """

    log_weights: np.ndarray
    forward: np.ndarray
    reverse: np.ndarray
    n_forward: int
    n_reverse: int

    def skewness_of_average(self, direction: str) -> float:
        """Return the skewness of the average of w (forward chains) or of 1/w (reverse chains).

        It is 0 if all log weights are equal up to rounding.
        """
        sign, log_weights, probability, n = self._side(direction)
        exponents = sign * log_weights
        return _skewness(np.exp(exponents - exponents.max()), probability) / np.sqrt(n)

    def expansion(self, direction: str) -> tuple[float, float]:
        """Return the cumulant expansion from one direction, and the skewness of its estimate."""
        sign, log_weights, probability, n = self._side(direction)
        mean = probability @ log_weights
        deviation = log_weights - mean
        influence = deviation + sign * deviation**2 / 2
        value = mean + sign * (probability @ deviation**2) / 2
        return float(value), _skewness(influence, probability) / np.sqrt(n)

    def _side(self, direction: str) -> tuple[int, np.ndarray, np.ndarray, int]:
        """Return the sign of log w in the average, the possible weights, and their number."""
        is_forward = direction == "forward"
        probability = self.forward if is_forward else self.reverse
        seen, n = probability > 0, self.n_forward if is_forward else self.n_reverse
        return 1 if is_forward else -1, self.log_weights[seen], probability[seen], n


def pool_chains(forward: ArrayLike, reverse: ArrayLike, log_z: float) -> PooledChains:
    """Weight the chains of both directions to be a sample of each direction.

    By Crooks' relation p_r/p_f = w/Z, a log weight of the pool has the probability 1/(n_f + n_r
    w/Z) in the forward direction and 1/(n_r + n_f Z/w) in the reverse direction. This is the
    mixture estimator of Shirts and Chodera (2008) for two states, with log Z by BAR. So each
    direction shows weights that the other one rarely finds.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats; may contain +∞.
    log_z : float
        BAR estimate, nats.

    Returns
    -------
    PooledChains

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> from pymc_bdmc.estimators.pooled import pool_chains
    >>> pool_chains([0.0], [0.0], 0.0).forward
    array([0.5, 0.5])
    """
    forward, reverse = checked_pair(forward, reverse)
    log_weights = np.concatenate([forward, reverse])
    offset = log_z + np.log(forward.size / reverse.size)
    shares = [np.exp(log_expit(sign * (offset - log_weights))) for sign in (1, -1)]
    in_forward, in_reverse = (share / share.sum() for share in shares)
    return PooledChains(log_weights, in_forward, in_reverse, forward.size, reverse.size)


def _skewness(values: np.ndarray, probability: np.ndarray) -> float:
    deviation = values - probability @ values
    scale = (probability @ deviation**2) ** 1.5  # 0 if it underflows
    if np.ptp(values) <= ROUNDING:
        return 0.0
    return float(abs(probability @ deviation**3) / scale) if scale > 0 else np.inf
