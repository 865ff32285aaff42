"""Log the doubts about a result, with one remedy: the next step of its verdict."""

import logging

import xarray as xr

from pymc_bdmc.results.diagnose import doubts_of
from pymc_bdmc.results.finding import NO_REMEDY, Finding, Remedy
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.verdict import verdict_of

_log = logging.getLogger("pymc.bdmc")

MOST_WARNINGS = 3
"""Largest number of doubts that are logged."""


def warn(dt: xr.DataTree) -> None:
    """Log the gravest doubts about a result, at most three, and what to do next.

    An error in here is logged too, so that no finished run is lost.
    """
    try:
        read = Reading.of(dt)
        doubts = doubts_of(read)[:MOST_WARNINGS]
        step = _next_step(read, doubts) if doubts else NO_REMEDY
        if [doubt.told for doubt in doubts] == [step]:  # whose first part is said already
            step = doubts[0].remedy
        told = [doubt.text for doubt in doubts]
        told += [f"Next: {step}"] if step else []
    except Exception:
        _log.exception("The result is complete, but diagnosing it failed.")
        return
    for line in told:
        _log.warning(line)


def _next_step(read: Reading, doubts: list[Finding]) -> Remedy:
    """Return the next step of the verdict, or the first remedy if there is no model.

    Results of `temper` have no verdict, and that of a system may have very many runs to judge.
    """
    if read.is_tempering or read.is_system:
        return next((doubt.remedy for doubt in doubts if doubt.remedy), NO_REMEDY)
    return verdict_of(read).remedy
