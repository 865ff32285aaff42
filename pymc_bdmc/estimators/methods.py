"""Compare all estimators on the same chains, and check them against one another."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.checks import ROUNDING
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.pooled import PooledChains, pool_chains
from pymc_bdmc.estimators.registry import ESTIMATORS

MAX_DISAGREEMENT = 3.0
"""Largest difference of an estimate from BAR, or of the two averages, in standard errors."""

MAX_SKEWNESS = {"average": 1.0, "cumulant": 0.3}
"""Largest skewness of a valid one-sided estimate, from the chains of both directions.
docs/estimator_tables.md shows the coverage."""

MAX_NEGLECTED = 0.5
"""Largest bias of a valid one-sided expansion, in standard errors, for a coverage of 92 %."""

MAX_ERROR = 1.0
"""Largest error of a valid expansion, nats. Larger errors come from neglected terms."""


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
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

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
    found = [each.estimate(forward=forward, reverse=reverse) for each in ESTIMATORS.values()]
    (best,) = (estimate for estimate in found if estimate.method == "bar")
    if best.valid:
        pooled = pool_chains(forward, reverse, best.value)
        found = [_beside(best, _judged(estimate, pooled, best)) for estimate in found]
    found = _beside_the_other_side(found, np.size(forward), np.size(reverse))
    estimates = {e.method: e for e in found}
    if best.valid:
        reason = f"best use of both directions, and its check holds: {best.reason}"
        return Comparison(estimates, best.method, reason)
    valid = [e for e in found if e.valid]
    if not valid:
        reason = f"no estimator's check holds; for bar, {best.reason}"
        return Comparison(estimates, None, reason)
    chosen = min(valid, key=lambda e: e.error)
    reason = f"smallest error among valid estimates; for bar, {best.reason}"
    return Comparison(estimates, chosen.method, reason)


def _judged(estimate: Estimate, pooled: PooledChains, best: Estimate) -> Estimate:
    """Check an estimate of one direction by the chains of both."""
    kind, direction = ESTIMATORS[estimate.method].judged_as, ESTIMATORS[estimate.method].needs[0]
    if not kind or not np.isfinite(estimate.error) or np.ptp(pooled.log_weights) <= ROUNDING:
        return estimate
    if kind == "average":
        skewness = pooled.skewness_of_average(direction)
        valid, found = True, f"skewness {skewness:.2f}"
    else:
        value, skewness = pooled.expansion(direction)
        bias = abs(value - best.value)
        valid = bias <= MAX_NEGLECTED * estimate.error and estimate.error <= MAX_ERROR
        found = f"bias {bias:.2g} nats, skewness {skewness:.2f}"
    valid = valid and skewness <= MAX_SKEWNESS[kind]
    return replace(estimate, valid=bool(valid), reason=f"by both directions: {found}")


def _beside(best: Estimate, estimate: Estimate) -> Estimate:
    difference = abs(estimate.value - best.value)
    if difference <= MAX_DISAGREEMENT * np.hypot(estimate.error, best.error):
        return estimate
    reason = f"differs from {best.method} by {difference:.2g} nats; {estimate.reason}"
    return replace(estimate, valid=False, reason=reason)


def _beside_the_other_side(
    found: Sequence[Estimate], n_forward: int, n_reverse: int
) -> list[Estimate]:
    """Mark one-sided estimates as not valid if the averages of the two directions disagree."""
    by_method = {e.method: e for e in found}
    best, forward, reverse = (by_method[m] for m in ("bar", "forward average", "reverse average"))
    if best.valid and not (forward.valid and reverse.valid):
        return list(found)  # an average already refuted says nothing about the other
    # Weights with light tails vary equally in both directions, by Crooks' relation. This gives the
    # error of a direction with few chains.
    per_chain = np.fmax(forward.error * np.sqrt(n_forward), reverse.error * np.sqrt(n_reverse))
    error = per_chain * np.sqrt(1 / n_forward + 1 / n_reverse)
    difference = abs(forward.value - reverse.value)
    if difference <= MAX_DISAGREEMENT * error:
        return list(found)
    reason = f"the averages of the two directions are {difference:.2g} nats apart"

    def is_one_sided(estimate: Estimate) -> bool:
        return len(ESTIMATORS[estimate.method].needs) == 1

    return [
        replace(e, valid=False, reason=f"{reason}; {e.reason}") if is_one_sided(e) else e
        for e in found
    ]
