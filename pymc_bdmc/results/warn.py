"""Log the doubts about a result, with one remedy: the next step of its verdict."""

import logging

import xarray as xr

from pymc_bdmc.results.diagnose import doubts_of
from pymc_bdmc.results.finding import Doubt, Message, message
from pymc_bdmc.results.reading import Reading
from pymc_bdmc.results.say import say, say_found
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
        step = _next_step(read, doubts) if doubts else None
        if isinstance(step, Doubt) and doubts == [step]:  # which is said already
            step = step.remedy
        told = [say_found(doubt) for doubt in doubts]
        told += [say(message("next", what=step))] if step else []
    except Exception:
        _log.exception("The result is complete, but diagnosing it failed.")
        return
    for line in told:
        _log.warning(line)


def _next_step(read: Reading, doubts: list[Doubt]) -> Message | Doubt | None:
    """Return the next step of the verdict, or the first remedy if there is no model.

    Results of `temper` have no verdict, and that of a system may have very many runs to judge.
    """
    if read.is_tempering or read.is_system:
        return next((doubt.remedy for doubt in doubts if doubt.remedy), None)
    return verdict_of(read).remedy
