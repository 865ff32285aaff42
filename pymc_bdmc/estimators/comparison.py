"""All estimators on the same chains, checked against one another."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.estimators.bar import bar
from pymc_bdmc.estimators.cumulant import cumulant_combined, cumulant_forward, cumulant_reverse
from pymc_bdmc.estimators.estimate import Estimate
from pymc_bdmc.estimators.histogram import histogram
from pymc_bdmc.estimators.jarzynski import jarzynski_forward, jarzynski_reverse

__all__ = ["Comparison", "compare_estimators"]

MAX_DISAGREEMENT = 3.0
"""Standard errors by which an estimate may differ from BAR."""


@dataclass(frozen=True)
class Comparison:
    """Estimates by all methods, and the one to use.

    Attributes
    ----------
    estimates : dict of str to Estimate
        By method.
    recommended : str or None
        The method to use; None if no check holds, and only certified bounds are left.
    reason : str
        Why.
    """

    estimates: dict[str, Estimate]
    recommended: str | None
    reason: str


def compare_estimators(forward: ArrayLike, reverse: ArrayLike) -> Comparison:
    """Estimate log Z by every method and recommend one.

    A check that sees one direction cannot know what only the other finds. So where BAR is valid,
    an estimate that differs from it by more than three standard errors of both is marked invalid.

    Parameters
    ----------
    forward : array_like of shape (n_f,)
        Forward log weights, nats; may contain −∞.
    reverse : array_like of shape (n_r,)
        Reverse log weights, nats.

    Returns
    -------
    Comparison
        Recommends BAR where it is valid, for no estimator that knows only the works has a
        smaller asymptotic error; else the valid estimate of smallest error.

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
    best = bar(forward, reverse)
    found = [
        best,
        histogram(forward, reverse),
        jarzynski_forward(forward),
        jarzynski_reverse(reverse),
        cumulant_forward(forward),
        cumulant_reverse(reverse),
        cumulant_combined(forward, reverse),
    ]
    if best.valid:
        found = [_checked(estimate, best) for estimate in found]
        reason = f"uses both directions best, and its check holds: {best.reason}"
        return Comparison({e.method: e for e in found}, best.method, reason)
    valid = [e for e in found if e.valid]
    if not valid:
        reason = f"no estimator's check holds; for bar, {best.reason}"
        return Comparison({e.method: e for e in found}, None, reason)
    chosen = min(valid, key=lambda e: e.error)
    reason = f"smallest error of those whose check holds; for bar, {best.reason}"
    return Comparison({e.method: e for e in found}, chosen.method, reason)


def _checked(estimate: Estimate, best: Estimate) -> Estimate:
    difference = abs(estimate.value - best.value)
    if difference <= MAX_DISAGREEMENT * np.hypot(estimate.error, best.error):
        return estimate
    reason = f"differs from {best.method} by {difference:.2g} nats; {estimate.reason}"
    return replace(estimate, valid=False, reason=reason)
