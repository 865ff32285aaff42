"""Rank the real data among data sets that were simulated from the model.

If the model is right, the real data set is exchangeable with simulated ones, so its rank tests the
model.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class RankTest(NamedTuple):
    """Result of ranking the real data among simulated ones.

    Attributes
    ----------
    deviations : ndarray of shape (F,)
        Deviation of the real data by feature, in standard deviations from the mean of all sets.
    p_values : ndarray of shape (F,)
        Share of the data sets (including the real one) that deviate at least as much.
    p_value : float
        Same share for the largest deviation over all features, counted on the given sides only.
        This is one exact test of all features.
    worst : int
        Index of the feature with the largest deviation.
    """

    deviations: np.ndarray
    p_values: np.ndarray
    p_value: float
    worst: int


def spread_and_tails(data: ArrayLike) -> np.ndarray:
    """Measure the spread and the tails of each data set.

    Each value is standardised by the mean and the standard deviation of the same element over the
    data sets. From the standardised values z of a data set, the spread is log⟨z²⟩, which unmodelled
    noise raises, and the tails are log(⟨z⁴⟩/⟨z²⟩²), which outliers raise.

    Parameters
    ----------
    data : array_like of shape (n_datasets, ...)
        Values of one observed variable. NaN is left out.

    Returns
    -------
    ndarray of shape (n_datasets, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import spread_and_tails
    >>> data = np.random.default_rng(1).normal(size=(20, 200))
    >>> data[0, 0] = 20
    >>> int(spread_and_tails(data)[:, 1].argmax())
    0
    """
    data = np.asarray(data, dtype=float)
    values = data.reshape(len(data), -1)
    unit = np.nanmax(np.abs(values), axis=0)
    values = values / np.where(unit > 0, unit, 1.0)  # prevents overflow of squares
    centred = values - np.nanmean(values, axis=0)
    sd = np.sqrt(np.nanmean(centred**2, axis=0))
    varies = sd > 0
    if not varies.any():
        return np.zeros((len(values), 2))
    squares = (centred[:, varies] / sd[varies]) ** 2
    second, fourth = np.nanmean(squares, axis=1), np.nanmean(squares**2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        features = np.stack([np.log(second), np.log(fourth) - 2 * np.log(second)], axis=1)
    return np.nan_to_num(features, nan=0.0, neginf=-np.inf)


def rank_among(features: ArrayLike, sides: ArrayLike = 0) -> RankTest:
    """Test whether the first data set is exchangeable with the others.

    If data sets are exchangeable, so are their deviations, and each rank is uniform. So for any
    features, p_value ≤ α with a probability of at most α. With n data sets the p-value cannot be
    below 1/n.

    Parameters
    ----------
    features : array_like of shape (n_datasets, F)
        Numbers that describe each data set, with the real one first.
    sides : array_like of shape (F,), default 0
        Deviations that count in the test of all features: those on both sides (0), above the mean
        (1) or below the mean (−1).

    Returns
    -------
    RankTest

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import rank_among
    >>> features = np.random.default_rng(1).normal(size=(20, 2))
    >>> features[0, 1] = 9
    >>> round(rank_among(features).p_value, 3)
    0.05
    """
    features = np.asarray(features, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = (features - features.mean(axis=0)) / features.std(axis=0)
    deviations = np.nan_to_num(deviations)  # 0/0 if all data sets are equal
    sizes, counted = np.abs(deviations), np.asarray(sides)
    scores = np.where(counted == 0, sizes, np.maximum(deviations * counted, 0))
    return RankTest(
        deviations[0],
        np.mean(sizes >= sizes[0], axis=0),
        float(np.mean(scores.max(axis=1) >= scores[0].max())),
        int(np.argmax(scores[0])),
    )
