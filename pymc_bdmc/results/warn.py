"""Log the doubts about a result, with one remedy: the next step of its verdict."""

import logging

import xarray as xr

from pymc_bdmc.results.diagnose import doubts_of
from pymc_bdmc.results.groups import is_simulated_tempering, is_system
from pymc_bdmc.results.verdict import NEXT, verdict

__all__ = ["warn"]

_log = logging.getLogger("pymc.bdmc")

MOST_WARNINGS = 3
"""Largest number of doubts that are logged."""


def warn(dt: xr.DataTree) -> None:
    """Log the gravest doubts about a result, at most three, and what to do next.

    An error in here is logged too, so that no finished run is lost.
    """
    try:
        doubts = doubts_of(dt)[:MOST_WARNINGS]
        step = _next_step(dt, doubts) if doubts else ""
    except Exception:
        _log.exception("The result is complete, but diagnosing it failed.")
        return
    for finding, _ in doubts:
        _log.warning(finding)
    if step:
        _log.warning(step)


def _next_step(dt: xr.DataTree, doubts: list[tuple[str, str]]) -> str:
    """Return the next step of the verdict, or the first remedy if there is no model.

    Results of `temper` have no verdict, and that of a system may have very many runs to judge.
    """
    if is_simulated_tempering(dt) or is_system(dt):
        return next((f"{NEXT}{remedy}" for _, remedy in doubts if remedy), "")
    last = verdict(dt).text.split("\n")[-1]
    return last if last.startswith(NEXT) else ""
