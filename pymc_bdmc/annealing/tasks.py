"""What an engine does, and the tasks that a pool hands to it: pilots and runs of single chains."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_bdmc.annealing.pools import ThreadPool, WorkerPool
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.types import Chain, Direction, Point, Tuning

__all__ = ["AnnealTask", "Engine", "PilotTask"]


class Engine[T: Tuning](Protocol):
    """Tunes kernels and runs chains, each on the data of its task; it knows its own tunings."""

    density: TemperedDensity
    pilots: int
    """Independent pilots on a data set."""

    @property
    def description(self) -> str:
        """The kernels and their variables, in the order of application."""

    def pool(self, cores: int, stop: np.ndarray) -> AbstractContextManager[ThreadPool | WorkerPool]:
        """Where tasks run on copies of the engine, or share it, until ``stop`` is set."""

    def pilot(self, task: "PilotTask") -> T | None:
        """The tuning that one pilot finds; None if it was stopped."""

    def combine(self, tunings: Sequence[T]) -> T:
        """Join the findings of the pilots on one data set."""

    def run(self, task: "AnnealTask[T]") -> Chain | None:
        """One annealing chain from its own start; None if it was stopped."""


@dataclass(frozen=True, eq=False)
class PilotTask:
    """One pilot on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence

    def run[T: Tuning](self, engine: Engine[T]) -> T | None:
        """The tuning that the pilot finds; None if it was stopped."""
        return engine.pilot(self)


@dataclass(frozen=True, eq=False)
class AnnealTask[T: Tuning]:
    """One annealing chain on given observed data.

    Attributes
    ----------
    direction : Direction
        Forward chains draw their own start from the prior.
    data : mapping of str to ndarray
        Observed data.
    betas : ndarray of shape (T + 1,)
        The schedule.
    tuning : Tuning
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
    tuning: T
    seed: np.random.SeedSequence
    start: Point | None = None
    burn_in: int = 0

    def run(self, engine: Engine[T]) -> Chain | None:
        """The chain; None if it was stopped."""
        return engine.run(self)
