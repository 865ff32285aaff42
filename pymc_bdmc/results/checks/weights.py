"""Check log weights: that they are there and finite, and that their averages can be trusted."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.estimators import bar, check_average
from pymc_bdmc.estimators.checks import MIN_EFFECTIVE_SAMPLE_SIZE
from pymc_bdmc.results.checks.gap import better_moves
from pymc_bdmc.results.checks.integrity import AGAIN
from pymc_bdmc.results.checks.moves import kernel_left, larger_number, more_particles
from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.runs import SIDES, Side

UNEVEN = 0.5
"""Effective share of the runs below which weights are too uneven for more runs to help; chosen."""

OTHER_DATA = Remedy(
    "a fit to your data needs no annealing, but fits to some simulated data sets do. Simulate data "
    'more like yours, simulate="posterior", or pass simulate=None for log ML alone.'
)


def unfinished(read: Reading) -> Iterator[Finding]:
    """Doubt groups in which no run was finished."""
    if found := read.by_group(lambda side: "" if side.finished else "no chain was finished"):
        yield Finding("unfinished", None, (found,), AGAIN)


def infinite(read: Reading) -> Iterator[Finding]:
    """Doubt weights that are zero or infinite."""

    def counted(side: Side) -> str:
        n = sum(int(np.isinf(row).sum()) for row in side.finished)
        return f"{n} of {side.n_finished} log weights are infinite" if n else ""

    if found := read.by_group(counted):
        remedy = Remedy(
            "the kernel accepted states where the likelihood is zero, which a correct kernel never "
            "does: test it with testing.check_invariance."
        )
        yield Finding("infinite weights", None, (found,), remedy)


def no_mean(read: Reading) -> Iterator[Finding]:
    """Doubt a mean of forward log weights that does not exist, or is not resolved."""

    def unresolved(side: Side) -> str:
        known = side.is_reverse or side.tail.resolved
        return "" if known else f"the mean log weight is {side.tail.reason}"

    if found := read.by_group(unresolved):
        more = f"take particles={larger_number(read)}, or " if read.particles else ""
        remedy = Remedy(f"{more}rely on medians and certified bounds.")
        yield Finding("mean of log weights", None, (found,), remedy)


def bad_average(read: Reading) -> Iterator[Finding]:
    """Doubt averages of uneven weights that fail their check."""

    def failed(side: Side) -> str:
        reason, share = _worst(read, side)
        return reason if share < UNEVEN else ""

    if found := read.by_group(failed):
        remedy = Remedy(f"the averaged weights cannot be trusted: {more_effort(read)}")
        yield Finding("uneven weights", None, (found,), remedy)


def few_runs(read: Reading) -> Iterator[Finding]:
    """Doubt averages of a few even weights that fail their check."""

    def failed(side: Side) -> str:
        reason, share = _worst(read, side)
        return reason if share >= UNEVEN else ""

    if found := read.by_group(failed):
        names = {"real", *read.directions}
        most = max(side.chains for name, side in read.sides.items() if name in names)
        leave_out = ", or leave chains out (these are independent runs, not Markov chains)"
        remedy = Remedy(
            f"too few runs to trust their averaged weights: take chains={max(16, 2 * most)}"
            f"{leave_out if most < MIN_EFFECTIVE_SAMPLE_SIZE else ''}."
        )
        yield Finding("few runs", None, (found,), remedy)


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


def more_effort(read: Reading) -> Remedy:
    """Return the remedy for weights that are too uneven."""
    if read.needs_other_data:
        return OTHER_DATA
    if better := better_moves(read):
        return better
    if read.finite_variables:
        return Remedy(f"{sum_out(read.finite_variables)}.")
    particles = f" or {more_particles(read)}" if read.particles else ""
    kernel = kernel_left(read)
    return Remedy(f"use more temperatures{particles}{f', or try {kernel}' if kernel else ''}.")
