"""What a pool runs on an engine: a pilot, or one annealing chain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_bdmc.types import Chain, Direction, Point

__all__ = ["AnnealTask", "PilotTask"]


@dataclass(frozen=True, eq=False)
class PilotTask:
    """One pilot on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence

    def run(self, engine: Any) -> Any:
        """Return the tuning that the pilot finds."""
        return engine.run_pilot(self)


@dataclass(frozen=True, eq=False)
class AnnealTask:
    """One annealing chain on given observed data.

    Attributes
    ----------
    direction : Direction
        Forward chains draw their own start from the prior.
    data : mapping of str to ndarray
        Observed data.
    betas : ndarray of shape (T + 1,)
        The schedule.
    tuning : Tuning or PathTuning
        Of the kernel, the same in both directions.
    seed : SeedSequence
        The chain's stream.
    start : Point, optional
        θ* for a reverse chain.
    burn_in : int
        Kernel applications at β = 1 before a reverse chain starts.
    """

    direction: Direction
    data: Mapping[str, np.ndarray]
    betas: np.ndarray
    tuning: Any
    seed: np.random.SeedSequence
    start: Point | None = None
    burn_in: int = 0

    def run(self, engine: Any) -> Chain:
        """Run the chain."""
        return engine.run_chain(self)
