"""Compare all estimators, which the table `ESTIMATORS` lists, and check them by one another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_expit

from pymc_bdmc.estimators.averages import (
    MAX_NEGLECTED,
    cumulant_combined,
    cumulant_forward,
    cumulant_reverse,
    jarzynski_forward,
    jarzynski_reverse,
)
from pymc_bdmc.estimators.bar import bar, histogram
from pymc_bdmc.estimators.checks import ROUNDING, Estimate, checked_pair

MAX_DISAGREEMENT = 3.0
"""Largest difference of an estimate from BAR, or of the two averages, in standard errors."""

MAX_SKEWNESS = {"average": 1.0, "cumulant": 0.3}
"""Largest skewness of a valid one-sided estimate, from the chains of both directions.
docs/estimator_tables.md shows the coverage."""


@dataclass(frozen=True)
class Estimator:
    """Estimator of log Z, with the directions that it needs.

    Attributes
    ----------
    function : callable
        Function that returns an `Estimate`. It has an argument ``forward``, an argument ``reverse``
        or both, which are log weights of shape (n,), nats.
    judged_as : {"average", "cumulant", ""}
        Check of an estimate from one direction by the chains of both, if BAR is valid: that of an
        exponential average, that of a cumulant expansion, or only the distance from BAR.

    Examples
    --------
    >>> from pymc_bdmc.estimators import ESTIMATORS
    >>> [name for name, each in ESTIMATORS.items() if each.needs == ("forward",)]
    ['forward average', 'cumulant forward']
    """

    function: Callable[..., Estimate]
    judged_as: Literal["average", "cumulant", ""] = ""

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Return the directions of its log weights, in the order of the arguments."""
        return tuple(signature(self.function).parameters)

    def estimate(self, **log_weights: ArrayLike) -> Estimate:
        """Return the estimate from log weights of ``forward`` and ``reverse`` runs, nats."""
        return self.function(*(log_weights[direction] for direction in self.needs))


ESTIMATORS = {
    "bar": Estimator(bar),
    "histogram": Estimator(histogram),
    "forward average": Estimator(jarzynski_forward, "average"),
    "reverse average": Estimator(jarzynski_reverse, "average"),
    "cumulant forward": Estimator(cumulant_forward, "cumulant"),
    "cumulant reverse": Estimator(cumulant_reverse, "cumulant"),
    "cumulant combined": Estimator(cumulant_combined),
}
"""Estimators by the name in `Estimate.method`."""


@dataclass(frozen=True)
class Comparison:
    """Estimates by all methods, and the one to use.

    Attributes
    ----------
    estimates : dict of str to Estimate
        Estimates by method.
    recommended : str or None
        Method to use, or None if no check holds and only certified bounds are left.
    reason : str
        Reason for the recommendation.
    """

    estimates: dict[str, Estimate]
    recommended: str | None
    reason: str


def compare_estimators(forward: ArrayLike, reverse: ArrayLike) -> Comparison:
    """Estimate log Z by every method and recommend one.

    A check of one direction cannot see what only the other direction finds. So if BAR is valid, the
    chains of both directions together (`pooled`) check one-sided estimates. An average is valid if
    its skewness is at most 1. A cumulant expansion is valid if its bias is at most half a standard
    error, this error is at most 1 nat, and its skewness is at most 0.3. An estimate that differs
    from BAR by more than three combined standard errors is not valid. If the averages of the two
    directions differ by more than three standard errors, no one-sided estimate is valid.

    Parameters
    ----------
    forward, reverse : array_like of shape (n_f,), (n_r,)
        Log weights, nats; forward ones may be −∞.

    Returns
    -------
    Comparison
        Recommends BAR if it is valid, since no estimator from log weights alone has a smaller
        asymptotic error. Otherwise it recommends the valid estimate with the smallest error.

    Raises
    ------
    ValueError
        If a direction has no weights, or has one that is NaN or impossible.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.estimators import compare_estimators
    >>> rng = np.random.default_rng(0)
    >>> found = compare_estimators(rng.normal(-0.5, 1, 100), rng.normal(0.5, 1, 100))
    >>> found.recommended
    'bar'
    """
    estimates = {
        name: each.estimate(forward=forward, reverse=reverse) for name, each in ESTIMATORS.items()
    }
    best, pair = estimates["bar"], checked_pair(forward, reverse)
    if best.valid:
        for name, each in estimates.items():
            estimates[name] = _checked_by_bar(each, best, *pair)
    estimates = _checked_by_other_side(estimates, np.size(forward), np.size(reverse))
    valid = [each for each in estimates.values() if each.valid]
    if best.valid:
        reason = f"best use of both directions, and its check holds: {best.reason}"
        return Comparison(estimates, "bar", reason)
    if not valid:
        return Comparison(estimates, None, f"no estimator's check holds; for bar, {best.reason}")
    chosen = min(valid, key=lambda each: each.error)
    reason = f"smallest error among valid estimates; for bar, {best.reason}"
    return Comparison(estimates, chosen.method, reason)


def pool_chains(
    forward: np.ndarray, reverse: np.ndarray, log_z: float, direction: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the possible log weights of both directions, and their probabilities in one of them.

    They are 1/(n_f + n_r w/Z) in the forward and 1/(n_r + n_f Z/w) in the reverse direction, by
    Crooks' relation p_r/p_f = w/Z: the mixture estimator of Shirts and Chodera (2008) with BAR's
    log Z. So each direction shows weights that the other one rarely finds.
    """
    log_weights = np.concatenate([forward, reverse])
    offset = log_z + np.log(forward.size / reverse.size)
    sign = 1 if direction == "forward" else -1
    shares = np.exp(log_expit(sign * (offset - log_weights)))
    probability = shares / shares.sum()
    return log_weights[probability > 0], probability[probability > 0]


def expansion(
    log_weights: np.ndarray, probability: np.ndarray, sign: int
) -> tuple[float, np.ndarray]:
    """Return the cumulant expansion of a weighted sample, and the influence of its members."""
    mean = probability @ log_weights
    deviation = log_weights - mean
    value = mean + sign * (probability @ deviation**2) / 2
    return float(value), deviation + sign * deviation**2 / 2


def weighted_skewness(values: np.ndarray, probability: np.ndarray) -> float:
    """Return the absolute skewness of a weighted sample, or 0 if it varies by rounding only."""
    deviation = values - probability @ values
    scale = (probability @ deviation**2) ** 1.5  # 0 if it underflows
    if np.ptp(values) <= ROUNDING:
        return 0.0
    return float(abs(probability @ deviation**3) / scale) if scale > 0 else np.inf


def _checked_by_bar(
    estimate: Estimate, best: Estimate, forward: np.ndarray, reverse: np.ndarray
) -> Estimate:
    """Check an estimate of one direction by the chains of both, and any estimate by BAR."""
    if ESTIMATORS[estimate.method].judged_as and np.isfinite(estimate.error):
        estimate = _checked_by_both(estimate, forward, reverse, best.value)
    difference = abs(estimate.value - best.value)
    if difference <= MAX_DISAGREEMENT * np.hypot(estimate.error, best.error):
        return estimate
    reason = f"differs from bar by {difference:.2g} nats; {estimate.reason}"
    return replace(estimate, valid=False, reason=reason)


def _checked_by_both(
    estimate: Estimate, forward: np.ndarray, reverse: np.ndarray, log_z: float
) -> Estimate:
    kind, direction = ESTIMATORS[estimate.method].judged_as, ESTIMATORS[estimate.method].needs[0]
    if np.ptp(np.concatenate([forward, reverse])) <= ROUNDING:
        return estimate
    log_weights, probability = pool_chains(forward, reverse, log_z, direction)
    sign, n = (1, forward.size) if direction == "forward" else (-1, reverse.size)
    if kind == "average":
        exponents = sign * log_weights
        valid, found, terms = True, "", np.exp(exponents - exponents.max())
    else:
        value, terms = expansion(log_weights, probability, sign)
        bias = abs(value - log_z)
        # Errors above 1 nat come from neglected terms.
        valid = bias <= MAX_NEGLECTED * estimate.error and estimate.error <= 1.0
        found = f"bias {bias:.2g} nats, "
    skewness = weighted_skewness(terms, probability) / np.sqrt(n)
    valid = valid and skewness <= MAX_SKEWNESS[kind]
    reason = f"by both directions: {found}skewness {skewness:.2f}"
    return replace(estimate, valid=bool(valid), reason=reason)


def _checked_by_other_side(
    estimates: dict[str, Estimate], n_forward: int, n_reverse: int
) -> dict[str, Estimate]:
    """Mark one-sided estimates as not valid if the averages of the two directions disagree."""
    forward, reverse = estimates["forward average"], estimates["reverse average"]
    if estimates["bar"].valid and not (forward.valid and reverse.valid):
        return estimates  # an average already refuted says nothing about the other
    # Weights with light tails vary equally in both directions, by Crooks' relation. This gives the
    # error of a direction with few chains.
    per_chain = np.fmax(forward.error * np.sqrt(n_forward), reverse.error * np.sqrt(n_reverse))
    error = per_chain * np.sqrt(1 / n_forward + 1 / n_reverse)
    difference = abs(forward.value - reverse.value)
    if difference <= MAX_DISAGREEMENT * error:
        return estimates
    reason = f"the averages of the two directions are {difference:.2g} nats apart"
    for name, each in estimates.items():
        if len(ESTIMATORS[name].needs) == 1:
            estimates[name] = replace(each, valid=False, reason=f"{reason}; {each.reason}")
    return estimates
