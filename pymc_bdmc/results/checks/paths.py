"""Check the runs on the real data against a few runs on other paths."""

from collections.abc import Iterator

from pymc_bdmc.estimators import refutes
from pymc_bdmc.paths.registry import PATHS
from pymc_bdmc.results.finding import Finding, message
from pymc_bdmc.results.reading import Reading, once

CONFIDENCE = 0.998
"""Confidence of `pymc_bdmc.estimators.refutes`; chosen."""


@once
def refuting_path(read: Reading) -> str:
    """Return the name of the path whose scouts refute the runs on the real data, if any."""
    runs = read.real_log_weights
    if not runs.size:
        return ""
    others = [(path, each) for path, each in read.scouts.items() if path != read.path]
    return next((path for path, each in others if refutes(each, runs, CONFIDENCE)), "")


def two_paths(read: Reading) -> Iterator[Finding]:
    """Report the path that refutes these runs.

    If scouts on their own path are not refuted, that path is as good, and the runs are too short.
    """
    if path := refuting_path(read):
        told, own = message("higher path", path=path), read.scouts.get(read.path)
        remedy = message("pass", path=path) if path in PATHS else None
        if own is not None and not refutes(read.scouts[path], own):
            remedy = message("longer")
        yield Finding("two paths", "bad", (told,), remedy)
