"""Certify an upper bound on the total variation between posterior draws and the posterior."""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from pymc_bdmc.estimators.checks import checked_delta

CELLS = 2000
"""Number of cells of the grid of upper bounds, which are multiples of 1/2000."""
MOST_DATASETS = 10**6
"""Largest number of data sets that is proposed."""


@dataclass(frozen=True)
class TotalVariation:
    """Bound on the total variation between a draw of forward runs and the posterior.

    Attributes
    ----------
    value : float
        Mean of the terms. Its expectation is at least the total variation distance.
    upper : float
        Upper confidence bound on this expectation, at the level `confidence`.
    confidence : float
        1 − δ.
    terms : ndarray of shape (D,)
        One term between 0 and 1 per data set, which is 1 if any run of the data set failed.
    islands : int
        Number m of pooled runs. The bound applies to a particle drawn by weight from at least m
        forward runs.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import TotalVariation
    >>> print(TotalVariation(0.03, 0.17, 0.95, np.full(20, 0.03), 1))
    total variation about 0.030, at most 0.17 with 95 % confidence (20 data sets, single runs)
    """

    value: float
    upper: float
    confidence: float
    terms: np.ndarray
    islands: int

    @property
    def datasets(self) -> int:
        """Number D of data sets."""
        return self.terms.size

    def __str__(self):
        sets = "1 data set" if self.datasets == 1 else f"{self.datasets} data sets"
        runs = "single runs" if self.islands == 1 else f"{self.islands} runs pooled"
        return (
            f"total variation about {self.value:.3f}, at most {self.upper:.4g} with "
            f"{100 * self.confidence:.6g} % confidence ({sets}, {runs})"
        )


def total_variation(
    forward: ArrayLike,
    reverse: ArrayLike,
    confidence: float = 0.95,
    *,
    islands: int | None = None,
    start_distance: float = 0.0,
) -> TotalVariation:
    r"""Bound the total variation distance between a draw of forward runs and the posterior.

    The probability of any event under the distribution of the draw differs by at most this distance
    from its posterior probability. Each data set gives one term between 0 and 1 whose expectation
    is at least the distance. As terms are bounded there are no heavy tails, and the mean over
    independent data sets has a certified upper bound.

    Parameters
    ----------
    forward : array_like of shape (D, K_f)
        Log weights of the forward runs on D data sets, nats. −∞ stands for a weight of zero, and
        NaN for a run that failed or was not finished.
    reverse : array_like of shape (D, K_r)
        Log weights of the reverse runs on the same data sets, nats. +∞ is allowed, and NaN stands
        for a run that failed. The runs of a data set may share their start θ*.
    confidence : float
        1 − δ. If more data sets are simulated after a look at the result, all looks share δ (see
        `round_confidence`).
    islands : int, optional
        Number m of forward runs from which the draw is taken, as one of all their particles, by
        weight. It must be chosen before the weights are seen. By default K_f // 2 + 1.
    start_distance : float, default 0
        Total variation of the starts of the reverse runs from the posterior, at most, mean over the
        data sets. It is added to the mean of the terms and to its upper bound.

    Returns
    -------
    TotalVariation
        Mean over the data sets, and its upper confidence bound.

    Raises
    ------
    ValueError
        If the arrays are not two-dimensional with the same number of rows, if there are no data
        sets, if `islands` is not between 1 and K_f, or if the confidence or a distance of starts
        is not between 0 and 1.

    Notes
    -----
    *One run.* Let F be the law of a forward run with N particles, w its weight, and R the law of a
    reverse run, which starts from an exact posterior draw. F includes the choice of one of the
    last particles by weight, and R takes the particle that it started from. Then
    :math:`dR/dF = w/Z`, for a single particle by reversing each transition and for a population
    by conditional resampling (Andrieu, Doucet and Holenstein 2010). Hence :math:`dF/dR = Z/w` and

    .. math:: TV(F, R) = \int (dR - dF)_+ = E_R[(1 - Z/w)_+] .

    The chosen particle is a function of the run. Its law is q under F and the posterior p under R.
    The laws of a function of the run cannot be further apart than those of the run itself (data
    processing), so :math:`TV(q, p) \le TV(F, R)`.

    *Z need not be known.* The function :math:`c \mapsto (1 - c/w)_+` is convex. The mean
    :math:`\hat Z` of forward weights of the same data set has expectation Z and is independent of
    the reverse run, so :math:`E[(1 - \hat Z/w)_+ \mid w] \ge (1 - Z/w)_+` by Jensen's inequality.
    It would not hold for an estimate of Z from the reverse runs themselves.

    *Pooled runs.* Draw run J of m independent forward runs with probability
    :math:`w_J / \sum_i w_i`, and then one of its particles by weight. The m runs are islands of
    one population with the weight :math:`\bar w = \sum_i w_i / m`. Let J be uniform under
    :math:`R_m`, run J a reverse run and the others forward ones. The ratio of the two laws is

    .. math:: \frac{dR_m}{dF_m} = \frac{w_J / (m Z)}{w_J / \sum_i w_i} = \frac{\bar w}{Z} ,

    so all of the above holds with :math:`\bar w`, the mean of the weights of a reverse run and of
    m − 1 forward runs, its companions, if :math:`\hat Z` is the mean of the *other* forward
    weights. The term of a data set is the mean of :math:`(1 - \hat Z/\bar w)_+` over its reverse
    runs and over the K_f cyclic choices of the companions.

    *More runs.* The claim for m islands holds for draws from K ≥ m pooled runs as well, since
    :math:`TV(F_K, R_K) = E_F[(1 - \bar w_K/Z)_+]` falls with K: the means :math:`\bar w_K` are a
    reverse martingale, :math:`E[\bar w_m \mid \bar w_K] = \bar w_K`, and the function is convex.

    *Data sets.* A data set counts as 1 if it has no runs or a run that failed. It also counts as 1
    if it has a forward weight of +∞ or a reverse weight of −∞, which only overflow can cause.
    Leaving it out would select the data sets on which the sampler does well. Runs that share a θ*
    are one data set, since none of them can say anything about a mode that does not contain θ*.

    *Starts of the reverse runs.* With exact starts the bound is proved. With burned-in starts, the
    terms lie between 0 and 1, so a coupling of the start with a posterior draw gives :math:`v \le
    E[u] + TV(\text{starts}, \text{posterior})`, whose last part is `start_distance`. It is added to
    means and not to each term, since a term that is cut off at 1 would count it in part. If it is
    an estimate, the confidence does not cover its error. With heuristic starts (draws of another
    sampler on real data) nothing is certified. The bound applies to data sets like the simulated
    ones, and to runs with the same particles, temperatures and tuning. The error of finitely many
    draws must be added.

    *Restricted support.* If all runs are restricted to a set S, pass the raw weights of the
    restricted path in both directions: the probability of S cancels.

    Examples
    --------
    Twenty data sets with two runs in each direction, and all weights are equal:

    >>> import numpy as np
    >>> from pymc_bdmc.estimators import total_variation
    >>> print(total_variation(np.zeros((20, 2)), np.zeros((20, 2))))
    total variation about 0.000, at most 0.1395 with 95 % confidence (20 data sets, 2 runs pooled)
    """
    forward, reverse = np.asarray(forward, dtype=float), np.asarray(reverse, dtype=float)
    if forward.ndim != 2 or reverse.ndim != 2 or len(forward) != len(reverse):
        raise ValueError(
            "forward and reverse must have the shapes (data sets, runs) with the same data sets, "
            f"not {forward.shape} and {reverse.shape}."
        )
    if len(forward) == 0:
        raise ValueError("forward: no data sets.")
    most = max(forward.shape[1], 1)
    if islands is None:
        islands = forward.shape[1] // 2 + 1
    if not 1 <= islands <= most or islands % 1 != 0:
        raise ValueError(f"islands must be a whole number from 1 to {most}, not {islands}.")
    if not 0 <= start_distance <= 1:
        raise ValueError(f"start_distance must lie between 0 and 1, not {start_distance}.")
    terms = _terms(forward, reverse, int(islands))
    ends = terms.mean(), upper_confidence_bound(terms, confidence)
    value, upper = (min(float(end + start_distance), 1.0) for end in ends)
    return TotalVariation(value, upper, confidence, terms, int(islands))


def _terms(forward, reverse, islands):
    """Return the mean of (1 − Ẑ/w̄)₊ for each data set, shape (D,)."""
    datasets, runs = forward.shape
    if forward.size == 0 or reverse.size == 0:
        return np.ones(datasets)
    # NaN is false in both comparisons.
    failed = ~((forward < np.inf).all(axis=1) & (reverse > -np.inf).all(axis=1))
    forward, reverse = (np.where(failed[:, None], 0.0, each) for each in (forward, reverse))
    rotated = forward[:, np.add.outer(np.arange(runs), np.arange(runs)) % runs]
    companions, others = np.split(rotated, [islands - 1], axis=2)
    log_z = np.logaddexp.reduce(others, axis=2) - np.log(runs - islands + 1)
    log_sum = np.logaddexp(reverse[:, :, None], np.logaddexp.reduce(companions, axis=2)[:, None])
    log_ratio = log_z[:, None] - (log_sum - np.log(islands))
    terms = 1 - np.exp(np.minimum(log_ratio, 0.0))
    return np.where(failed, 1.0, terms.mean(axis=(1, 2)))


def upper_confidence_bound(terms: ArrayLike, confidence: float = 0.95) -> float:
    r"""Bound the mean of independent terms in [0, 1] from above, by constant bets.

    The terms need not be identically distributed, and the bound is on the mean v of their means. It
    holds for any number of terms, without a large-sample argument, and does not depend on their
    order.

    Parameters
    ----------
    terms : array_like of shape (D,)
        Independent terms between 0 and 1.
    confidence : float
        1 − δ.

    Returns
    -------
    float
        Upper bound, a multiple of 1/2000. Terms that are all zero give about 1 − δ^(1/D).

    Raises
    ------
    ValueError
        If there are no terms, if one is not between 0 and 1, or if the confidence is not.

    Notes
    -----
    To test that v ≥ m, two bettors share a capital of 1 and stake a constant share c on every term,

    .. math:: \tfrac12 \sum_c \prod_d \Bigl(1 - c + c\,\frac{1 - u_d}{1 - m}\Bigr) .

    By independence and the inequality of the arithmetic and geometric means, the expectation of
    each product is at most :math:`(1 - c + c (1 - v)/(1 - m))^D`, which is at most 1 if v ≥ m. So
    the capital reaches 1/δ with probability at most δ (Markov), and m is rejected if it does. One
    bettor has c = 1, which is best for equal terms. The other has c = 1 − a/m with a < m the
    solution of D · kl(a, m) = log(1/δ), which is best for terms that are 0 or 1 with mean a. (In
    terms of Waudby-Smith and Ramdas 2024, λ = c/(1 − m).)

    The bound is the top of the highest cell of a grid that is not rejected at its lower end. Only
    the cell that contains v has to be kept with probability 1 − δ, and v is above its lower end.
    Stakes that adapt to earlier terms invalidate the argument if the terms are not identically
    distributed. After several low terms such a bettor stakes more on the next term, and wins if it
    is low as well, although the mean of all terms is high.

    Examples
    --------
    >>> from pymc_bdmc.estimators import upper_confidence_bound
    >>> upper_confidence_bound([0.0] * 20), upper_confidence_bound([0.0] * 60)
    (0.1395, 0.049)
    """
    values, counts = np.unique(_checked_terms(terms, "terms"), return_counts=True)
    return _upper_end(values, counts, checked_delta(confidence))


def datasets_needed(
    target: float, confidence: float = 0.95, value: float | ArrayLike = 0.0
) -> int | None:
    """Return the number of data sets that would certify a total variation below a target.

    It assumes that further data sets are like those seen so far.

    Parameters
    ----------
    target : float
        Largest upper bound, between 0 and 1.
    confidence : float
        1 − δ.
    value : float or array_like
        Value of all terms, or several values with equal shares, such as the `terms` of a
        `TotalVariation`. Unequal terms need more data sets than equal terms with the same mean.

    Returns
    -------
    int or None
        Number of data sets, or None if a million are not enough, such as when the mean of the
        values is not below the target.

    Raises
    ------
    ValueError
        If a value or the confidence is not between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import datasets_needed
    >>> datasets_needed(0.05), datasets_needed(0.25, value=0.05), datasets_needed(0.05, value=0.1)
    (59, 13, None)
    """
    values, counts = np.unique(_checked_terms(value, "value"), return_counts=True)
    delta = checked_delta(confidence)

    def does(datasets):
        return _upper_end(values, datasets * counts / counts.sum(), delta) <= target

    number = 1 + bisect_left(range(1, MOST_DATASETS), True, key=does)
    return number if number < MOST_DATASETS else None


def _checked_terms(terms, name):
    terms = np.ravel(np.asarray(terms, dtype=float))
    if terms.size == 0 or not ((terms >= 0) & (terms <= 1)).all():
        raise ValueError(f"{name} must be numbers between 0 and 1, at least one, not {terms}.")
    return terms


def _upper_end(values, counts, delta):
    """Return the bound of `upper_confidence_bound` for values with these counts."""
    means, stakes = _stakes(round(counts.sum()), delta)
    odds = np.divide.outer(1 - values, 1 - means)
    with np.errstate(divide="ignore"):
        capitals = counts @ np.log(odds), counts @ np.log1p(stakes * (odds - 1))
    kept = np.logaddexp(*capitals) - np.log(2) < -np.log(delta)
    # No bet rejects a mean of 0, so the lowest cell is always kept.
    return float(1 + np.max(np.flatnonzero(kept) + 1, initial=0)) / CELLS


@lru_cache(maxsize=64)
def _stakes(datasets, delta):
    """Return the means to test (lower ends of all cells but the first) and stakes c = 1 − a/m."""
    means = np.arange(1, CELLS) / CELLS
    low, high = np.zeros(means.size), means
    # If no a > 0 solves the equation, no bet can reject m, and any c will do.
    for _ in range(40):
        a = (low + high) / 2
        far = datasets * (rel_entr(a, means) + rel_entr(1 - a, 1 - means)) > -np.log(delta)
        low, high = np.where(far, a, low), np.where(far, high, a)
    return means, 1 - low / means
