"""Measure the error of the mean of a sampler's draws, their R̂, and how many draws are copies."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

BATCHES = 40
"""Number of batches over all chains, each of which should exceed the autocorrelation time."""

LATTICE = 0.01
"""Largest deviation of gaps between rounded values from multiples of the smallest gap, in units of
this gap."""


def batch_variance(values: np.ndarray) -> np.ndarray:
    """Estimate the squared error of the mean of autocorrelated values by batch means.

    Parameters
    ----------
    values : ndarray of shape (chains, draws, elements)

    Returns
    -------
    ndarray of shape (elements,)
    """
    length = _length_of_batches(*values.shape[:2])
    long = _variance_of_batches(values, length)
    if length < 4:
        return long
    return long + np.maximum(0, long - _variance_of_batches(values, length // 2))


def number_of_batches(chains: int, draws: int) -> int:
    """Return the number of whole batches."""
    return chains * (draws // _length_of_batches(chains, draws))


def _length_of_batches(chains, draws):
    return max(1, draws // max(1, round(BATCHES / chains)))


def _variance_of_batches(values, length):
    chains, n, elements = values.shape
    kept = values[:, n % length :]
    means = kept.reshape(chains * (n // length), length, elements).mean(axis=1)
    return means.var(axis=0, ddof=1) / len(means)


def split_rhat(values: np.ndarray) -> np.ndarray:
    """Return split R̂, and its p-value from batches within half chains."""
    chains, n, elements = values.shape
    each = min(max(2, round(BATCHES / chains / 2)), max(1, n // 4))  # in a half
    length = n // (2 * each)
    if n < 8:  # half chains of three draws are too short for a variance
        return np.tile([1.0, 1.0], (elements, 1))
    kept = values[:, n - 2 * each * length :]
    batches = kept.reshape(2 * chains, each, length, elements).mean(axis=2)
    between = batches.mean(axis=1).var(axis=0, ddof=1)
    within = np.mean(kept.reshape(2 * chains, -1, elements).var(axis=1), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.sqrt(1 + between / within)
        ratio = between * each / batches.var(axis=1, ddof=min(1, each - 1)).mean(axis=0)
    p_value = fdtrc(2 * chains - 1, max(2 * chains * (each - 1), 1), ratio)
    return np.stack([np.nan_to_num(rhat, nan=1.0, posinf=np.inf), p_value], axis=-1)


def copies(draws: ArrayLike) -> float:
    """Return the mean number of copies of a draw, which is 1 unless draws were repeated.

    Consecutive equal draws, as after a rejection, count once. Equal values that come from rounding
    are not copies. They are recognised as multiples of a unit.

    Parameters
    ----------
    draws : array_like of shape (chains, draws, elements)
        Draws of continuous variables. Two draws are equal if all elements are.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import copies
    >>> copies(np.tile(np.random.default_rng(1).normal(size=(1, 100, 3)), (1, 10, 1)))
    10.0
    """
    draws = np.ascontiguousarray(draws, dtype=float)
    moved = np.any(draws[:, 1:] != draws[:, :-1], axis=2)
    kept = np.concatenate([draws[:, 0], draws[:, 1:][moved]])
    distinct = len(np.unique(kept, axis=0))
    return 1.0 if all(map(_is_rounded, kept.T)) else len(kept) / distinct


def _is_rounded(values: np.ndarray) -> bool:
    """Return whether all gaps between values are multiples of the smallest gap."""
    gaps = np.diff(np.unique(values))
    multiples = gaps / gaps.min(initial=np.inf)
    return bool(np.all(np.abs(multiples - np.round(multiples)) <= LATTICE))
