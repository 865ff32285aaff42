"""Check whether averages of weights can be trusted, and whether more runs would do."""

from pymc_bdmc.estimators import bar, check_average
from pymc_bdmc.results.finding import Message, message
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, Side

UNEVEN = 0.5
"""Effective share of the runs below which weights are too uneven for more runs to help; chosen."""


def bad_average(read: Reading, side: Side) -> Message | None:
    """Tell why an average of uneven weights fails its check."""
    reason, share = _worst(read, side)
    return message("as told", text=reason) if share < UNEVEN and reason else None


def few_runs(read: Reading, side: Side) -> Message | None:
    """Tell why an average of a few even weights fails its check."""
    reason, share = _worst(read, side)
    return message("as told", text=reason) if share >= UNEVEN and reason else None


@once
def _worst(read: Reading, side: Side) -> tuple[str, float]:
    """Return why an average fails its check, if it does, and its effective share of the runs."""
    is_simulated = side.name in SIDES["simulated"]
    if _bar_is_valid(read, "simulated" if is_simulated else "real"):
        return "", 1.0  # both directions together give a valid estimate
    if is_simulated and len(side.log_weight) > 1:
        return "", 1.0  # log ML of several simulated data sets is of no use
    checks = [(check_average(row), len(row)) for row in side.finished]
    failed = [(check.size / n, check.reason) for check, n in checks if not check.valid]
    share, reason = min(failed, default=(1.0, ""))
    return reason, share


@once
def _bar_is_valid(read: Reading, data: str) -> bool:
    if not read.has(*SIDES[data]):
        return False
    pairs = [(each.forward, each.reverse) for each in read.sets_of(data)]
    return bool(pairs) and all(bar(*pair).valid for pair in pairs)
