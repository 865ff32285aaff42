"""Report log ML with its interval and its certified bounds, if an estimate can be trusted."""

from collections.abc import Iterator

from pymc_bdmc.results.finding import Doubt, Finding, message
from pymc_bdmc.results.log_ml import decimals, log_ml_of
from pymc_bdmc.results.reading import Reading


def evidence(read: Reading, doubts: list[Doubt]) -> Iterator[Finding]:
    """Report log ML; it is open if no estimate can be trusted."""
    if not read.sets_of(read.main):
        return
    found = log_ml_of(read)
    told = (found.message,)
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
