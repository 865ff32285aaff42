"""Check whether chains of simulated tempering pass from end to end, and visit evenly."""

from pymc_bdmc.results.evidence import tempering_rows
from pymc_bdmc.results.finding import Doubt, message
from pymc_bdmc.results.reading import Reading

MAX_UNEVENNESS = 0.1
"""Largest unevenness of the visits to the temperatures that is no doubt; chosen."""


def few_passages(read: Reading) -> Doubt | None:
    """Tell why log ML cannot be trusted."""
    row = tempering_rows(read, "RTS")["tempering", 0, "RTS"]
    if row.valid:
        return None
    return Doubt({"": message("no RTS", reason=row.reason)}, message("more passages"))


def uneven_visits(read: Reading) -> Doubt | None:
    """Tell how uneven the visits are."""
    if read.flatness <= MAX_UNEVENNESS:
        return None
    return Doubt({"": message("uneven visits", share=read.flatness)}, message("more visits"))
