"""Report log ML with its interval and its certified bounds, if an estimate can be trusted."""

from collections.abc import Iterator

from pymc_bdmc.results.checks.missed import gaps_on_simulated, short_on_simulated
from pymc_bdmc.results.finding import Doubt, Finding, Message, message
from pymc_bdmc.results.log_ml import LogML, decimals, log_ml_of
from pymc_bdmc.results.reading import Reading

MOST_GAP = 1.0
"""Nats by which reverse runs on a simulated data set may lie above forward ones, beyond their
errors, before the verdict says so; chosen."""


def evidence(read: Reading, doubts: list[Doubt]) -> Iterator[Finding]:
    """Report log ML; it is open if no estimate can be trusted."""
    if not read.sets_of(read.main):
        return
    found = log_ml_of(read)
    told = (found.message, *_on_simulated(read, found))
    if found.valid:
        brief = message(
            "brief log ML", value=found.value, error=found.error, n=decimals(found.error)
        )
        ends = found.value, found.error, *found.interval
        yield Finding("log ML", None, told, None, *ends, brief)
        return
    finite = read.finite_variables
    summed = message("stop", what=message("sum out", names=finite)) if finite else None
    remedy = doubts[0] if doubts else summed
    yield Finding(
        "log ML", "open", told, remedy, lower=found.certified_lower, upper=found.certified_upper
    )


def _on_simulated(read: Reading, found: LogML) -> Iterator[Message]:
    """Say what runs miss on simulated data, and whether the error of log ML contains it."""
    if not found.valid or not (gaps := gaps_on_simulated(read)):
        return
    if (missed := short_on_simulated(read)) > found.error / 2:
        yield message("in error", missed=missed)
    elif max(gaps) > MOST_GAP:
        yield message("not in error", gap=max(gaps), n=read.real.forward.size)
