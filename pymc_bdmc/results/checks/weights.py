"""Check log weights: that they are there and finite, and that their averages can be trusted."""

from collections.abc import Iterator

import numpy as np

from pymc_bdmc.density.structure import sum_out
from pymc_bdmc.estimators import bar, check_average
from pymc_bdmc.estimators.checks import MIN_EFFECTIVE_SAMPLE_SIZE
from pymc_bdmc.results.checks.gap import better_moves
from pymc_bdmc.results.checks.runs import AGAIN, kernel_left, more_particles
from pymc_bdmc.results.evidence import tempering_rows
from pymc_bdmc.results.finding import Finding, Remedy
from pymc_bdmc.results.reading import SIDES, Reading, Side, once

UNEVEN = 0.5
"""Effective share of the runs below which weights are too uneven for more runs to help; chosen."""

OTHER_DATA = Remedy(
    "a fit to your data needs no annealing, but fits to some simulated data sets do. Simulate data "
    'more like yours, simulate="posterior", or pass simulate=None for log ML alone.'
)


def unfinished(read: Reading) -> Iterator[Finding]:
    """Doubt groups in which no run was finished."""
    if found := read.by_group(lambda side: "" if side.finished else "no chain was finished"):
        yield Finding("unfinished", None, found, AGAIN)


def infinite(read: Reading) -> Iterator[Finding]:
    """Doubt weights that are zero or infinite."""

    def counted(side: Side) -> str:
        n = int(np.isinf(side.log_weight).sum())
        return f"{n} of {side.n_finished} log weights are infinite" if n else ""

    if found := read.by_group(counted):
        remedy = Remedy(
            "the kernel accepted states where the likelihood is zero, which a correct kernel never "
            "does: test it with testing.check_invariance."
        )
        yield Finding("infinite weights", None, found, remedy)


def no_mean(read: Reading) -> Iterator[Finding]:
    """Doubt a mean of forward log weights that does not exist, or is not resolved."""

    def unresolved(side: Side) -> str:
        return "" if side.tail.resolved else f"the mean log weight is {side.tail.reason}"

    if found := read.by_group(unresolved):
        more = f"take {more_particles(read)}, or " if read.particles else ""
        remedy = Remedy(f"{more}rely on medians and certified bounds.")
        yield Finding("mean of log weights", None, found, remedy)


def bad_averages(read: Reading) -> Iterator[Finding]:
    """Doubt averages that fail their check: of uneven weights, and of a few even ones."""
    if uneven := read.by_group(lambda side: _failed_average(read, side)[0]):
        remedy = Remedy(f"the averaged weights cannot be trusted: {more_effort(read)}")
        yield Finding("uneven weights", None, uneven, remedy)
    if few := read.by_group(lambda side: _failed_average(read, side)[1]):
        names = {"real", *read.directions}
        most = max(side.chains for name, side in read.sides.items() if name in names)
        leave_out = ", or leave chains out (these are independent runs, not Markov chains)"
        remedy = Remedy(
            f"too few runs to trust their averaged weights: take chains={max(16, 2 * most)}"
            f"{leave_out if most < MIN_EFFECTIVE_SAMPLE_SIZE else ''}."
        )
        yield Finding("few runs", None, few, remedy)


@once
def _failed_average(read: Reading, side: Side) -> tuple[str, str]:
    """Return why an average of uneven weights, or of a few even ones, fails its check."""
    data = "simulated" if side.name in SIDES["simulated"] else "real"
    if data == "simulated" and len(side.log_weight) > 1:
        return "", ""  # log ML of several simulated data sets is of no use
    sets = read.sets_of(data) if read.has(*SIDES[data]) else []
    if sets and all(bar(each.forward, each.reverse).valid for each in sets):
        return "", ""  # both directions together give a valid estimate
    checks = [(check_average(row), len(row)) for row in side.finished]
    failed = [(check.size / n, check.reason) for check, n in checks if not check.valid]
    share, reason = min(failed, default=(1.0, ""))
    return (reason, "") if share < UNEVEN else ("", reason)


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


def few_passages(read: Reading) -> Iterator[Finding]:
    """Doubt log ML of simulated tempering whose chains seldom pass from end to end."""
    row = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
    if not row.valid:
        text = f"the evidence cannot be trusted ({row.reason})"
        remedy = Remedy("take more draws, or more temperatures where plot_tempering shows a knot.")
        yield Finding("passages", None, text, remedy)


def uneven_visits(read: Reading) -> Iterator[Finding]:
    """Doubt simulated tempering that visits temperatures unevenly."""
    if read.flatness > 0.1:  # chosen
        text = f"temperatures are visited unevenly, by up to {read.flatness:.0%}"
        remedy = Remedy("take more chains, or a larger `initial`.")
        yield Finding("visits", None, text, remedy)
