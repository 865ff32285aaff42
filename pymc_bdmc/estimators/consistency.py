"""Whether runs on real data behave as runs on simulated data do, and whether the data are alike.

Two questions are kept apart. Given the data, runs are independent, so runs can be permuted; this
compares the two data sets at hand, and different data sets of a right model differ too. Data sets
drawn from the model are exchangeable with the real one if the model is right, so the real one's
rank among several of them tests the model.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

__all__ = [
    "RankTest",
    "RunDistance",
    "Shortfall",
    "distances_to_others",
    "quantile_distance",
    "rank_among",
    "run_distance",
    "shifted_runs",
    "shortfall_difference",
    "spread_and_tails",
]

PERMUTATIONS = 199

RESAMPLINGS = 200


class RunDistance(NamedTuple):
    """How far the runs on the real data lie from those on simulated data.

    Attributes
    ----------
    value : float
        `quantile_distance` of the shifted log weights, nats.
    error : float
        Its standard error, by the bootstrap over runs, and over data sets if there are several.
    reference : float
        What it is where nothing differs: the mean over permutations of the runs; of several
        simulated sets, the median of their own distances.
    p_value : float
        Of the permutation of runs, given both data sets, where there is one simulated set; else of
        the rank of the real one among all sets.
    """

    value: float
    error: float
    reference: float
    p_value: float


class Shortfall(NamedTuple):
    """By how much more the runs on the real data fall short of their best estimate.

    Attributes
    ----------
    value : float
        Shortfall on the real data less the mean one on simulated data, nats.
    error : float
        Standard error by the bootstrap over runs; over data sets if there are several.
    real, simulated : float
        The two of them. The expected shortfall from log Z bounds KL(q‖p).
    """

    value: float
    error: float
    real: float
    simulated: float


class RankTest(NamedTuple):
    """Where the real data stand among simulated ones.

    Attributes
    ----------
    deviations : ndarray of shape (F,)
        Of the real data, feature by feature, in standard deviations from the mean of all.
    p_values : ndarray of shape (F,)
        Share of the data sets that deviate as much, the real one with them.
    p_value : float
        The same of the largest deviation over the features: one exact test of all of them.
    """

    deviations: np.ndarray
    p_values: np.ndarray
    p_value: float


def shifted_runs(log_weights: ArrayLike) -> np.ndarray:
    """Log weights less the best estimate of their data set: that of the longest runs.

    Grosse, Ancha and Roy (2016), Fig. 1: log Z of real and simulated data differ, so each is shown
    relative to its own.

    Parameters
    ----------
    log_weights : array_like of shape (..., n_rounds, K)
        Nats, the longest runs last; NaN marks a run that was not finished.

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> from pymc_bdmc.estimators import shifted_runs
    >>> shifted_runs([[0.0, 1.0], [3.0, 3.0]])
    array([[-3., -2.],
           [ 0.,  0.]])
    """
    log_weights = np.asarray(log_weights, dtype=float)
    longest = log_weights[..., -1, :]
    finished = ~np.isnan(longest)
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN where every weight is zero
        total = logsumexp(np.where(finished, longest, -np.inf), axis=-1)
        best = total - np.log(finished.sum(axis=-1))
        return log_weights - best[..., None, None]


def quantile_distance(a: ArrayLike, b: ArrayLike) -> float:
    """Mean distance between the quantiles of two samples: Wasserstein's, of order 1.

    Parameters
    ----------
    a, b : array_like
        Samples in one unit, of any size; NaN is left out. Infinite values give an infinite
        distance.

    Returns
    -------
    float
        In the samples' unit.

    Examples
    --------
    >>> from pymc_bdmc.estimators import quantile_distance
    >>> quantile_distance([0.0, 1.0], [3.0, 3.0, 4.0, 4.0])
    3.0
    """
    a, b = (np.sort(x[~np.isnan(x)]) for x in (np.ravel(a), np.ravel(b)))
    if not (a.size and b.size):
        return np.nan
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return np.inf
    points = np.sort(np.concatenate([a, b]))
    below = [np.searchsorted(x, points[:-1], side="right") / x.size for x in (a, b)]
    return float(np.sum(np.abs(below[0] - below[1]) * np.diff(points)))


def distances_to_others(log_weights: ArrayLike) -> np.ndarray:
    """Distance of the shifted runs of each data set from those of all others together, nats.

    Parameters
    ----------
    log_weights : array_like of shape (n_datasets, n_rounds, K)
        Nats, the longest runs last; the first round is compared.

    Returns
    -------
    ndarray of shape (n_datasets,)

    Examples
    --------
    >>> from pymc_bdmc.estimators import distances_to_others
    >>> distances_to_others([[[0.0, 0.0]], [[1.0, 1.0]], [[5.0, 5.0]]])
    array([0., 0., 0.])
    """
    shifted = shifted_runs(log_weights)[:, 0]
    others = (np.delete(shifted, i, axis=0) for i in range(len(shifted)))
    return np.array([quantile_distance(*pair) for pair in zip(shifted, others, strict=True)])


def run_distance(
    real: ArrayLike, simulated: ArrayLike, rng: np.random.Generator, round: int = -1
) -> RunDistance:
    """Compare the log weights of a round on real and on simulated data, each shifted.

    Grosse, Ancha and Roy (2016), Section 4.2. Permuted runs are shifted anew, since a sample that
    was shifted by an estimate of its own lies nearer to another one than permuted values do.

    Parameters
    ----------
    real : array_like of shape (n_rounds, K)
        Forward log weights, nats, the longest runs last; NaN marks a run that was not finished.
    simulated : array_like of shape (n_datasets, n_rounds, K)
    rng : numpy.random.Generator
        For permutations and the bootstrap.
    round : int, default -1
        The round to compare.

    Returns
    -------
    RunDistance

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import run_distance
    >>> rng = np.random.default_rng(1)
    >>> real, simulated = rng.normal(0, 3, (1, 50)), rng.normal(7, 1, (1, 1, 50))
    >>> run_distance(real, simulated, rng).p_value < 0.01
    True
    """
    sets = np.concatenate([np.asarray(real, dtype=float)[None], np.asarray(simulated, dtype=float)])
    sets = sets[:, [round, -1]]  # the runs compared, and the longest
    if len(sets) > 2:
        distances = distances_to_others(sets)
        deviating = np.mean(distances >= distances[0])
        reference = float(np.median(distances[1:]))
    else:
        permuted = [_distance(each) for each in _permutations(sets, rng, same=round == -1)]
        deviating = (1 + np.sum(np.array(permuted) >= _distance(sets))) / (1 + len(permuted))
        reference = float(np.mean(permuted))
    resampled = [_distance(_resampled(sets, rng)) for _ in range(RESAMPLINGS)]
    with np.errstate(invalid="ignore"):
        return RunDistance(_distance(sets), float(np.std(resampled)), reference, float(deviating))


def _distance(sets: np.ndarray) -> float:
    """Of the first set from all others together."""
    shifted = shifted_runs(sets)[:, 0]
    return quantile_distance(shifted[0], shifted[1:])


def _permutations(sets: np.ndarray, rng: np.random.Generator, same: bool) -> Iterator[np.ndarray]:
    """Two sets whose runs changed places, each round's by themselves.

    Log Z of the sets differ, so runs are taken relative to the mean of theirs, which leaves
    (K − 1)/K of their variance. Relative to the best estimate they would be nearer to one another.
    """
    n = (~np.isnan(sets)).sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (sets - np.nansum(sets, axis=2, keepdims=True) / n) * np.sqrt(n / (n - 1))
    by_round = relative.swapaxes(0, 1)
    for _ in range(PERMUTATIONS):
        longest = rng.permutation(by_round[1].ravel())
        compared = longest if same else rng.permutation(by_round[0].ravel())
        yield np.stack([compared, longest]).reshape(by_round.shape).swapaxes(0, 1)


def _resampled(sets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The real set and as many simulated ones, all with runs drawn again."""
    n, _, k = sets.shape
    others = rng.integers(1, n, n - 1) if n > 2 else [1]
    return sets[[0, *others]][:, :, rng.integers(k, size=k)]


def shortfall_difference(
    real: ArrayLike, simulated: ArrayLike, rng: np.random.Generator, round: int = -1
) -> Shortfall:
    """By how much more runs on real data fall short of their best estimate than simulated ones do.

    E[log Z − log w] over forward runs bounds KL(q‖p) on their data (Grosse, Ancha and Roy 2016,
    Eqs 7-12), so this is by how much the bound of the simulated data may have to be raised for the
    real ones. The best estimate stands in for log Z: what no run found is not in it.

    Parameters
    ----------
    real : array_like of shape (n_rounds, L)
        Forward log weights, nats, the longest runs last; NaN marks a run that was not finished.
    simulated : array_like of shape (n_datasets, n_rounds, K)
    rng : numpy.random.Generator
        For the bootstrap.
    round : int, default -1
        The round to compare.

    Returns
    -------
    Shortfall

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import shortfall_difference
    >>> rng = np.random.default_rng(1)
    >>> real, simulated = rng.normal(0, 1, (1, 200)), rng.normal(7, 1, (3, 1, 200))
    >>> found = shortfall_difference(real, simulated, rng)
    >>> bool(abs(found.value) < 3 * found.error)
    True
    """
    real, simulated = (np.asarray(each, dtype=float) for each in (real, simulated))
    k, rounds = simulated.shape[-1], [round, -1]
    # A best estimate of few runs lies lower, so the real runs are taken in sets of as many.
    sets = max(1, real.shape[-1] // k)
    runs, simulated = real[rounds, : sets * k], simulated[:, rounds]

    def of_real(chosen: np.ndarray) -> float:
        return _shortfall(runs[:, chosen].reshape(2, sets, -1).swapaxes(0, 1))

    def resampled() -> float:
        n = len(simulated)
        others = simulated[rng.integers(n, size=n) if n > 1 else [0]][:, :, rng.integers(k, size=k)]
        chosen = np.asarray(rng.integers(sets * k, size=sets * k))
        return of_real(chosen) - _shortfall(others)

    found = of_real(np.arange(sets * k)), _shortfall(simulated)
    with np.errstate(invalid="ignore"):
        error = float(np.std([resampled() for _ in range(RESAMPLINGS)]))
    return Shortfall(found[0] - found[1], error, *found)


def _shortfall(sets: np.ndarray) -> float:
    """Mean over data sets of how far the mean log weight lies below the best estimate."""
    shifted = shifted_runs(sets)[:, 0]
    finished = ~np.isnan(shifted)
    with np.errstate(invalid="ignore"):  # NaN of a single run, which has no best estimate
        means = -np.where(finished, shifted, 0).sum(axis=1) / finished.sum(axis=1)
    return float(means.mean())


def spread_and_tails(data: ArrayLike) -> np.ndarray:
    """How far the values of each data set lie from what is usual for their place.

    Every value is taken in standard deviations from the mean of its place over the data sets. Of
    these z a data set has log⟨z²⟩, which noise that the model does not know of raises, and
    log(⟨z⁴⟩/⟨z²⟩²), which outliers raise.

    Parameters
    ----------
    data : array_like of shape (n_datasets, ...)
        Values of one observed variable; NaN is left out.

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


def rank_among(features: ArrayLike) -> RankTest:
    """Test whether the first data set is one of the others' kind.

    Where data sets are exchangeable so are their deviations, which treat all of them alike, and
    the rank of any is uniform: p_value ≤ α with a probability of at most α, whatever the features.
    With n data sets it cannot be below 1/n.

    Parameters
    ----------
    features : array_like of shape (n_datasets, F)
        Numbers that describe each data set; the real one first.

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
    deviations = np.nan_to_num(deviations)  # 0/0 where no data set differs from another
    scores = np.abs(deviations)
    return RankTest(
        deviations[0],
        np.mean(scores >= scores[0], axis=0),
        float(np.mean(scores.max(axis=1) >= scores[0].max())),
    )
