"""Bound log Z and total variations at a stated confidence, for any number of chains."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, rel_entr, stdtrit

from pymc_bdmc.estimators.checks import checked_delta, checked_weights, log_mean_exp

CELLS = 2000  # of the grid of upper bounds, which are multiples of 1/2000


@dataclass(frozen=True)
class CertifiedBounds:
    """Interval for log Z that needs no large-sample argument.

    Attributes
    ----------
    lower, upper : float
        Ends of the interval, nats; −∞ or ∞ on a side that is not bounded.
    confidence : float
        Lower bound on the probability that the interval contains log Z.
    kind : str
        Method of each side, such as ``"order statistics / mean"``.

    Examples
    --------
    >>> from pymc_bdmc.estimators import CertifiedBounds
    >>> print(CertifiedBounds(-2.0, 1.5, 0.95, "mean / mean"))
    log ML ∈ [-2.000, 1.500], certified at 95 % (finite sample)
    """

    lower: float
    upper: float
    confidence: float
    kind: str

    def __str__(self):
        return (
            f"log ML ∈ [{self.lower:.3f}, {self.upper:.3f}], "
            f"certified at {100 * self.confidence:.6g} % (finite sample)"
        )


def certified_lower(
    forward: ArrayLike,
    confidence: float = 0.95,
    *,
    kind: str = "mean",
    ranks: Sequence[int] | None = None,
) -> CertifiedBounds:
    """Bound log Z from below by forward weights.

    ``"mean"`` is Markov's inequality for the average, log mean(w) − log(1/δ), for any dependence
    between chains. ``"order statistics"`` needs independent chains. If w_(r) exceeds aZ, more than
    K − r chains do, each with a probability of at most 1/a, so P(w_(r) > aZ) ≤ P(Bin(K, 1/a) ≥ K −
    r + 1). This is solved for a. The bound is much tighter for weights that vary by a few nats or
    less. The ranks share δ equally, and the best bound is taken.

    Parameters
    ----------
    forward : array_like of shape (K,)
        Forward log weights, nats; may contain −∞.
    confidence : float
        1 − δ.
    kind : {"mean", "order statistics"}
    ranks : sequence of int, optional
        Ranks from 1 (the smallest weight) to K, which must be fixed before the weights are seen. By
        default those of the smallest weight and of the three quartiles.

    Returns
    -------
    CertifiedBounds
        Bounds without an upper side.

    Raises
    ------
    ValueError
        If there are no weights or one is NaN or +∞, if the confidence is not between 0 and 1,
        or if a rank or the kind is unknown.

    Examples
    --------
    >>> from pymc_bdmc.estimators import certified_lower
    >>> round(certified_lower([0.0] * 64, 0.95).lower, 3)
    -2.996
    >>> round(certified_lower([0.0] * 64, 0.95, kind="order statistics", ranks=[1]).lower, 3)
    -0.047
    """
    log_weights, delta = checked_weights(forward, "forward"), checked_delta(confidence)
    if kind not in ("mean", "order statistics"):
        raise ValueError(f"kind must be 'mean' or 'order statistics', not {kind!r}.")
    if kind == "mean":
        if ranks is not None:
            raise ValueError("ranks belong to kind='order statistics'.")
        lower = log_mean_exp(log_weights) + float(np.log(delta))
        return CertifiedBounds(lower, np.inf, confidence, kind)
    k = log_weights.size
    quartiles = np.ceil(np.array([0.25, 0.5, 0.75]) * k)
    places = np.unique([1, *quartiles]) if ranks is None else np.asarray(ranks)
    if not (places.size and ((places >= 1) & (places <= k) & (places % 1 == 0)).all()):
        raise ValueError(f"ranks must be whole numbers from 1 to {k}, not {places}.")
    places = places.astype(int)
    # P(Bin(K, p) ≥ m) is the beta distribution function with parameters m and K − m + 1 at p.
    log_a = -np.log(betaincinv(k - places + 1, places, delta / places.size))
    lower = float(np.max(np.sort(log_weights)[places - 1] - log_a))
    return CertifiedBounds(lower, np.inf, confidence, kind)


def certified_upper(
    reverse: ArrayLike,
    confidence: float = 0.95,
    *,
    kind: str = "mean",
    ranks: Sequence[int] | None = None,
) -> CertifiedBounds:
    """Bound log Z from above by reverse weights, whose reciprocals average to 1/Z.

    These are the bounds of `certified_lower` applied to 1/w. They hold only if the reverse chains
    start from exact posterior draws, so there is no certified upper bound on real data. Reverse
    chains that share their start are not independent, which rules out order statistics.

    Parameters
    ----------
    reverse : array_like of shape (K,)
        Reverse log weights, nats.
    confidence : float
        1 − δ.
    kind : {"mean", "order statistics"}
    ranks : sequence of int, optional
        Ranks of 1/w (see `certified_lower`).

    Returns
    -------
    CertifiedBounds
        Bounds without a lower side.

    Raises
    ------
    ValueError
        As `certified_lower` does.

    Examples
    --------
    >>> from pymc_bdmc.estimators import certified_upper
    >>> round(certified_upper([0.0] * 64, 0.95).upper, 3)
    2.996
    """
    log_weights = -checked_weights(reverse, "reverse")
    upper = -certified_lower(log_weights, confidence, kind=kind, ranks=ranks).lower
    return CertifiedBounds(-np.inf, upper, confidence, kind)


def certified_bounds(
    forward: ArrayLike,
    reverse: ArrayLike,
    confidence: float = 0.95,
    *,
    kind: str | tuple[str, str] = ("order statistics", "mean"),
    lower_share: float = 0.5,
) -> CertifiedBounds:
    """Bound log Z on both sides, which split δ.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats.
    confidence : float
        1 − δ for both sides together.
    kind : str or pair of str
        ``"mean"`` or ``"order statistics"``, either for both sides or for the lower and the upper
        side. The default suits independent forward chains and reverse chains that share their
        start.
    lower_share : float
        Part of δ that the lower side spends, between 0 and 1.

    Returns
    -------
    CertifiedBounds

    Raises
    ------
    ValueError
        As `certified_lower` does, or if ``lower_share`` is not between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import certified_bounds
    >>> print(certified_bounds([0.0] * 64, [0.0] * 64, kind="mean"))
    log ML ∈ [-3.689, 3.689], certified at 95 % (finite sample)
    """
    if not 0 < lower_share < 1:
        raise ValueError(f"lower_share must lie between 0 and 1, not {lower_share}.")
    kinds = (kind, kind) if isinstance(kind, str) else tuple(kind)
    delta = checked_delta(confidence)
    lower = certified_lower(forward, 1 - lower_share * delta, kind=kinds[0]).lower
    upper = certified_upper(reverse, 1 - (1 - lower_share) * delta, kind=kinds[1]).upper
    return CertifiedBounds(lower, upper, confidence, " / ".join(kinds))


def refutes(
    higher: ArrayLike, lower: ArrayLike, confidence: float = 0.95, *, ways: int = 2
) -> bool:
    """Say whether runs of one method show that another method missed part of Z.

    Averages of forward weights are unbiased for the same Z, for any path, kernel and schedule. They
    are seldom much too high, since P(Ẑ > aZ) ≤ 1/a. So if two methods differ by more than chance,
    the lower one missed something. The lower method is refuted if its estimate plus t standard
    errors is below the certified lower bound of the higher one (order statistics). Comparing by two
    standard errors would refute a right method with heavy-tailed weights far too often.

    Parameters
    ----------
    higher, lower : array_like of shape (K,), (L,)
        Log weights of independent forward runs of each method, nats.
    confidence : float
        1 − δ. The certified bound and Student's t are each taken at 1 − δ/m.
    ways : int, default 2
        m, the number of methods that are compared.

    Returns
    -------
    bool
        Whether ``lower`` is refuted.

    Raises
    ------
    ValueError
        As `certified_lower` does.

    Examples
    --------
    >>> from pymc_bdmc.estimators import refutes
    >>> refutes([5.0, 4.9, 5.1, 5.0], [-1.0, -0.8, -1.2, -1.1])
    True
    >>> refutes([0.3, 0.1, -0.2, 0.0], [-0.2, 0.1, 0.0, -0.1])
    False
    """
    share = 1 - checked_delta(confidence) / ways
    weights = checked_weights(lower, "forward")
    if not np.isfinite(weights).any():
        return bool(np.isfinite(checked_weights(higher, "forward")).any())
    scaled, reach = np.exp(weights - weights.max()), np.inf
    if weights.size > 1:
        error = scaled.std(ddof=1) / scaled.mean() / np.sqrt(weights.size)
        reach = float(stdtrit(weights.size - 1, share)) * error
    bound = certified_lower(higher, share, kind="order statistics").lower
    return bool(bound > log_mean_exp(weights) + reach)


def certified_probability(
    trials: int, acceptances: int, confidence: float = 0.95
) -> CertifiedBounds:
    """Bound the log of an acceptance probability, if trials ran until enough were accepted.

    The bounds are Clopper and Pearson's interval for sampling that stops at the last acceptance.
    They apply to log P(S), the prior mass of a hard constraint, with the rejections of prior draws.
    Each side spends δ/2.

    Parameters
    ----------
    trials : int
        Number of draws; the last one was accepted.
    acceptances : int
        Number of accepted draws, at least 1.
    confidence : float
        1 − δ.

    Returns
    -------
    CertifiedBounds
        Bounds on log P(S), nats. Added to bounds on log(Z/P(S)) they bound log Z, and the failure
        probabilities add as well.

    Raises
    ------
    ValueError
        If not 1 ≤ acceptances ≤ trials, or the confidence is not between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import certified_probability
    >>> bounds = certified_probability(trials=200, acceptances=100)
    >>> round(bounds.lower, 3), round(bounds.upper, 3)
    (-0.847, -0.564)
    """
    if not 1 <= acceptances <= trials:
        raise ValueError(f"{acceptances} acceptances in {trials} trials are not possible.")
    tail = checked_delta(confidence) / 2
    lower = np.log(betaincinv(acceptances, trials - acceptances + 1, tail))
    upper = 0.0
    if trials > acceptances:
        upper = np.log(betaincinv(acceptances, trials - acceptances, 1 - tail))
    return CertifiedBounds(float(lower), float(upper), confidence, "Clopper-Pearson")


def round_confidence(confidence: float, number: int) -> float:
    """Return the confidence for one of several rounds, if the rounds stop after a look at them.

    Rounds 1, 2, 3, … spend δ/2, δ/4, δ/8, …, so all rounds together spend at most δ.

    Parameters
    ----------
    confidence : float
        1 − δ over all rounds.
    number : int
        Number of the round, from 1.

    Raises
    ------
    ValueError
        If the round is less than 1 or the confidence is not between 0 and 1.

    Examples
    --------
    >>> from pymc_bdmc.estimators import round_confidence
    >>> round(round_confidence(0.9, 1), 6), round(round_confidence(0.9, 2), 6)
    (0.95, 0.975)
    """
    if number < 1:
        raise ValueError(f"Rounds count from 1, not {number}.")
    return 1 - checked_delta(confidence) * 0.5**number


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

    The bound is the upper end of the highest cell of a grid that is not rejected at its lower end.
    Only the cell with v has to be kept with probability 1 − δ, and v is above its lower end.
    Stakes that adapt to earlier terms invalidate the argument if the terms are not identically
    distributed. After several low terms such a bettor stakes more on the next term, and wins if it
    is low as well, although the mean of all terms is high.

    Examples
    --------
    >>> from pymc_bdmc.estimators import upper_confidence_bound
    >>> upper_confidence_bound([0.0] * 20), upper_confidence_bound([0.0] * 60)
    (0.1395, 0.049)
    """
    return _upper_end(*_counted(terms, "terms"), checked_delta(confidence))


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
    values, counts = _counted(value, "value")
    delta = checked_delta(confidence)

    def is_enough(datasets):
        return _upper_end(values, datasets * counts / counts.sum(), delta) <= target

    most = 10**6  # larger numbers are not proposed
    number = 1 + bisect_left(range(1, most), True, key=is_enough)
    return number if number < most else None


def _counted(terms: ArrayLike, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of checked terms, and how often each occurs."""
    terms = np.ravel(np.asarray(terms, dtype=float))
    if terms.size == 0 or not ((terms >= 0) & (terms <= 1)).all():
        raise ValueError(f"{name} must be numbers between 0 and 1, at least one, not {terms}.")
    return np.unique(terms, return_counts=True)


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
