"""Test what can be exchanged: runs on two data sets, data sets, and draws before and after a move.

Permuting runs tests whether two data sets differ, but those of a right model differ too. Only the
rank of the real data among several exchangeable ones tests the model (`rank_among`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp


class RunDistance(NamedTuple):
    """Distance of the runs on the real data from those on simulated data.

    Attributes
    ----------
    value : float
        `quantile_distance` of the shifted log weights, nats.
    error : float
        Standard error, by the bootstrap over runs, and over data sets if there are several.
    reference : float
        Value to expect if nothing differs. With one simulated set it is the mean over permutations
        of the runs, and with several the median of their own distances.
    p_value : float
        P-value of the permutation test of runs if there is one simulated set, and otherwise of the
        rank of the real set among all sets.
    """

    value: float
    error: float
    reference: float
    p_value: float


class Shortfall(NamedTuple):
    """Excess shortfall of the runs on the real data below their best estimate.

    Attributes
    ----------
    value : float
        Shortfall on the real data minus the mean shortfall on simulated data, nats.
    error : float
        Standard error by the bootstrap over runs, and over data sets if there are several.
    real, simulated : float
        Shortfall on each kind of data. The expected shortfall from log Z bounds KL(q‖p).
    """

    value: float
    error: float
    real: float
    simulated: float


def shifted_runs(log_weights: ArrayLike) -> np.ndarray:
    """Subtract from log weights the best estimate of their data set, by its longest runs.

    The log Z of real and simulated data differ, so each data set is relative to its own estimate,
    as in Fig. 1 of Grosse, Ancha and Roy (2016).

    Parameters
    ----------
    log_weights : array_like of shape (..., n_rounds, K)
        Nats, with the longest runs last. NaN marks an unfinished run.

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
    """Return the Wasserstein distance of order 1 of two samples.

    Parameters
    ----------
    a, b : array_like
        Samples of any size in the same unit. NaN is left out, and infinite values give an infinite
        distance.

    Returns
    -------
    float
        Distance in the unit of the samples.

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
    """Return the distance of each data set's shifted runs from those of all other sets, nats.

    Parameters
    ----------
    log_weights : array_like of shape (n_datasets, n_rounds, K)
        Log weights, nats, with the longest runs last. The first round is compared.

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

    See Grosse, Ancha and Roy (2016), Section 4.2. Permuted runs are shifted again by their own
    estimate, because shifting brings samples closer together.

    Parameters
    ----------
    real : array_like of shape (n_rounds, K)
        Forward log weights, nats, with the longest runs last. NaN marks an unfinished run.
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
    found = _distance(sets)
    if len(sets) > 2:
        distances = distances_to_others(sets)
        deviating = np.mean(distances >= distances[0])
        reference = float(np.median(distances[1:]))
    else:
        permuted = [_distance(each) for each in _permutations(sets, rng, same=round == -1)]
        deviating = (1 + np.sum(np.array(permuted) >= found)) / (1 + len(permuted))
        reference = float(np.mean(permuted))

    def resampled(others: np.ndarray, runs: np.ndarray) -> float:
        return _distance(sets[[0, *others + 1]][:, :, runs])

    error = _bootstrap_error(resampled, len(sets) - 1, sets.shape[2], rng)
    return RunDistance(found, error, reference, float(deviating))


def _distance(sets: np.ndarray) -> float:
    shifted = shifted_runs(sets)[:, 0]
    return quantile_distance(shifted[0], shifted[1:])


def _permutations(sets: np.ndarray, rng: np.random.Generator, same: bool) -> Iterator[np.ndarray]:
    """Yield two sets with runs exchanged at random within each round, relative to their means.

    This leaves (K − 1)/K of the variance. Relative to best estimates, runs would be closer.
    """
    n = (~np.isnan(sets)).sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = (sets - np.nansum(sets, axis=2, keepdims=True) / n) * np.sqrt(n / (n - 1))
    by_round = relative.swapaxes(0, 1)
    for _ in range(199):  # p-values are multiples of 1/200
        longest = rng.permutation(by_round[1].ravel())
        compared = longest if same else rng.permutation(by_round[0].ravel())
        yield np.stack([compared, longest]).reshape(by_round.shape).swapaxes(0, 1)


def _bootstrap_error(
    statistic: Callable[..., float], n: int, k: int, rng: np.random.Generator
) -> float:
    """Return the error of a function of indices of n simulated sets and of k of their runs."""
    values = []
    for _ in range(200):  # chosen
        sets = rng.integers(n, size=n) if n > 1 else np.zeros(1, dtype=int)
        values.append(statistic(sets, np.asarray(rng.integers(k, size=k))))
    with np.errstate(invalid="ignore"):
        return float(np.std(values))


def shortfall_difference(
    real: ArrayLike, simulated: ArrayLike, rng: np.random.Generator, round: int = -1
) -> Shortfall:
    """Estimate the shortfall of runs on real data in excess of that on simulated data.

    E[log Z − log w] over forward runs bounds KL(q‖p) on their data (Grosse, Ancha and Roy 2016, Eqs
    7-12). So for the real data, the bound from simulated data may have to be raised by this excess.
    The best estimate replaces log Z, and it misses the regions that no run found.

    Parameters
    ----------
    real : array_like of shape (n_rounds, L)
        Forward log weights, nats, with the longest runs last. NaN marks an unfinished run.
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
    # The best estimate of few runs is lower, so use equally many runs of the real data.
    sets = max(1, real.shape[-1] // k)
    runs, simulated = real[rounds, : sets * k], simulated[:, rounds]

    def of_real(chosen: np.ndarray) -> float:
        return _shortfall(runs[:, chosen].reshape(2, sets, -1).swapaxes(0, 1))

    def resampled(others: np.ndarray, of_others: np.ndarray) -> float:
        chosen = np.asarray(rng.integers(sets * k, size=sets * k))
        return of_real(chosen) - _shortfall(simulated[others][:, :, of_others])

    error = _bootstrap_error(resampled, len(simulated), k, rng)
    found = of_real(np.arange(sets * k)), _shortfall(simulated)
    return Shortfall(found[0] - found[1], error, *found)


def _shortfall(sets: np.ndarray) -> float:
    """Return the mean distance of the mean log weight below the best estimate."""
    shifted = shifted_runs(sets)[:, 0]
    finished = ~np.isnan(shifted)
    with np.errstate(invalid="ignore"):  # NaN for a single run, which has no best estimate
        means = -np.where(finished, shifted, 0).sum(axis=1) / finished.sum(axis=1)
    return float(means.mean())


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


LogDensity = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""Function from rows θ to log p(θ), nats, and its gradient or None. Outside the support log p is
NaN or −∞."""

LEARNING = 128  # draws that set the scale of the moves and functions, and are not tested


def exchangeability(
    thetas: np.ndarray,
    log_density: LogDensity,
    groups: Mapping[str, slice],
    rng: np.random.Generator,
    whole: np.ndarray | None = None,
) -> dict[str, float]:
    """Test by variable whether independent draws have the stated density; return p-values.

    If a reversible kernel moves θ ~ p to θ′, (θ, θ′) and (θ′, θ) have the same distribution (Stein
    1986, Approximate Computation of Expectations, Chapter I), so h(θ′) − h(θ) is symmetric about 0
    for every h. This needs no condition on the tails, the edges or the normalisation of p.

    With a gradient the draws move by Hamiltonian trajectories, and without one by Metropolis steps
    of each variable, which have less power for variables with many elements. The test compares the
    location and spread of every element and of a variable, and log p (the key ``""``).

    ``groups`` are the columns of every variable, together the first m of ``thetas``; others stay
    constant. Columns that are ``whole`` have integer values, without a gradient. p-values are
    multiplied by the number of comparisons. The result is ``{"": 0.0}`` if draws lie outside the
    support, and empty if fewer than twice `LEARNING` draws have a finite log p and gradient.
    """
    values, gradients = log_density(thetas)
    if np.mean(values == -np.inf) > 0.01:  # more than rounding at an edge may explain; chosen
        return {"": 0.0}
    usable = np.isfinite(values)
    if gradients is not None:
        usable &= np.isfinite(gradients).all(axis=1)
    if usable.sum() < 2 * LEARNING or not groups:
        return {}
    learning, before = np.split(thetas[usable], [LEARNING])
    m = max(columns.stop for columns in groups.values())
    centre, spread = np.median(learning[:, :m], axis=0), interquartile_range(learning[:, :m])
    # A composition of transitions is as reversible as each of them; their numbers are chosen.
    if gradients is None:
        blocks, scale, moves = [{name: groups[name]} for name in groups], spread, 10
    else:  # use the geometric mean of a marginal and a conditional width
        conditional = interquartile_range(gradients[usable][:LEARNING])
        blocks, scale, moves = [dict(groups)], np.sqrt(spread / conditional), 2
    compared: list[tuple[str, np.ndarray]] = []
    for block in blocks:
        moving = np.zeros(m)
        for columns in block.values():
            moving[columns] = scale[columns]
        after, log_ratio = before, np.zeros(len(before))
        for _ in range(moves):
            after, rise = moved(after, log_density, moving, rng, whole)
            log_ratio += rise
        u = (np.stack([after, before])[:, :, :m] - centre) / spread
        # Bounded functions of every element, one for its location and one for its spread
        changes = np.subtract(*np.stack([np.tanh(u), 1 - 1 / (1 + u**2)], axis=1))
        compared.append(("", log_ratio))
        for name, columns in block.items():
            for change in changes[:, :, columns]:
                together = [change.sum(axis=1)] if change.shape[1] > 1 else []
                compared += [(name, each) for each in (*change.T, *together)]
    names = np.array([name for name, _ in compared])
    differences = np.stack([each for _, each in compared], axis=1)
    pvalues = np.minimum(1.0, symmetry_pvalues(differences) * len(compared))
    return {name: float(pvalues[names == name].min()) for name in ("", *groups)}


def symmetry_pvalues(differences: np.ndarray) -> np.ndarray:
    """Bound the p-value of the mean of each column of independent rows, if symmetric about 0.

    Given the absolute values, signs are independent and fair. So z = Σd/√(Σd²) has P(abs(z) ≥ t) ≤
    2·exp(−t²/2) for any n and any tails (Hoeffding 1963, Theorem 2).
    """
    sizes = np.max(np.abs(differences), axis=0)
    scaled = differences / np.where(sizes > 0, sizes, 1.0)  # no overflow of squares
    squares = np.sum(scaled**2, axis=0)
    z_squared = np.sum(scaled, axis=0) ** 2 / np.where(squares > 0, squares, 1.0)
    return np.minimum(1.0, 2 * np.exp(-0.5 * z_squared))


def moved(
    thetas: np.ndarray,
    log_density: LogDensity,
    scale: np.ndarray,
    rng: np.random.Generator,
    whole: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Make a reversible transition of every row; return the rows, and the increase of log p, nats.

    ``scale`` of shape (m,) is the unit of length of the first m columns, or 0 if one does not move.
    Without a gradient the rows move by a random walk, by integers in the columns of ``whole``.
    """
    n, m = len(thetas), np.count_nonzero(scale)
    before, gradient = log_density(thetas)
    # Step sizes are log-uniform, so that some suit any shape; their limits are chosen.
    if gradient is None:
        limits, unit, leaps = (0.3, 2.4), m**-0.5, 1
    else:
        limits, unit, leaps = (0.1, 0.5), m**-0.25, 6
    steps = scale * np.exp(rng.uniform(*np.log(limits), size=(n, 1))) * unit
    momenta = rng.normal(size=(n, len(scale)))
    end, end_momenta = thetas.copy(), momenta.copy()
    with np.errstate(over="ignore", invalid="ignore"):  # such trajectories are rejected
        for _ in range(leaps):
            if gradient is not None:
                end_momenta += 0.5 * steps * gradient
            jumps = steps * end_momenta
            if whole is not None:
                jumps = np.where(whole, np.rint(jumps), jumps)
            end[:, : len(scale)] += jumps
            value, gradient = log_density(end)
            if gradient is not None:
                end_momenta += 0.5 * steps * gradient
        log_ratio = value - before
        kinetic = 0.5 * np.sum(momenta**2 - end_momenta**2, axis=1)
        accepted = np.log(rng.random(n)) < log_ratio + kinetic
    return np.where(accepted[:, None], end, thetas), np.where(accepted, log_ratio, 0.0)


def interquartile_range(values: np.ndarray) -> np.ndarray:
    """Return the interquartile range by column, with 1 in place of 0."""
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return np.where(high > low, high - low, 1.0)
