"""Bound log Z at a stated confidence, for any number of chains."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, stdtrit

from pymc_bdmc.estimators.checks import checked_delta, checked_weights
from pymc_bdmc.estimators.jarzynski import log_mean_exp


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
    lower = _markov(checked_weights(forward, "forward"), checked_delta(confidence), kind, ranks)
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
    upper = -_markov(-checked_weights(reverse, "reverse"), checked_delta(confidence), kind, ranks)
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
    scaled = np.exp(weights - weights.max())
    reach = np.inf
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


def _markov(log_values: np.ndarray, delta: float, kind: str, ranks) -> float:
    """Bound log E[v] of a positive v from below, at confidence 1 − δ."""
    if kind == "mean":
        if ranks is not None:
            raise ValueError("ranks belong to kind='order statistics'.")
        return log_mean_exp(log_values) + float(np.log(delta))
    if kind != "order statistics":
        raise ValueError(f"kind must be 'mean' or 'order statistics', not {kind!r}.")
    k = log_values.size
    if ranks is None:
        ranks = np.unique([1, *np.ceil(np.array([0.25, 0.5, 0.75]) * k)])
    ranks = np.asarray(ranks)
    if ranks.size == 0 or (ranks < 1).any() or (ranks > k).any() or (ranks % 1 != 0).any():
        raise ValueError(f"ranks must be whole numbers from 1 to {k}, not {ranks}.")
    ranks = ranks.astype(int)
    # P(Bin(K, p) ≥ m) is the beta distribution function with parameters m and K − m + 1 at p.
    log_a = -np.log(betaincinv(k - ranks + 1, ranks, delta / ranks.size))
    return float(np.max(np.sort(log_values)[ranks - 1] - log_a))
