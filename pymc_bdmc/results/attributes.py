"""Attributes that every result has: schedule, seed, timing and version."""

import time
from collections.abc import Hashable

from pymc_bdmc.base.schedules import Schedule
from pymc_bdmc.base.streams import Entropy, recorded
from pymc_bdmc.base.version import VERSION

__all__ = ["run_attributes"]


def run_attributes(
    schedule: Schedule, entropy: Entropy, started: float, interrupted: bool
) -> dict[Hashable, str | float | int]:
    """Return schedule, seed, seconds since ``started``, whether interrupted, and version."""
    return {
        "schedule": schedule.name,
        "random_seed": recorded(entropy),
        "sampling_time": time.perf_counter() - started,
        "interrupted": int(interrupted),
        "pymc_bdmc_version": VERSION,
    }
