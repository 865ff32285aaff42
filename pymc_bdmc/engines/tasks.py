"""Protocol of an engine, and the tasks that a pool gives to it: pilots and runs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pymc_bdmc.base.types import Direction, Point, Run, Tuning
from pymc_bdmc.engines.pools import Pool
from pymc_bdmc.kernels.reference import Reference

__all__ = ["AnnealTask", "Engine", "PilotTask"]


class Engine[T: Tuning](Protocol):
    """Engine that tunes kernels and anneals, on the data of each task."""

    pilots: int
    """Number of independent pilots per data set."""
    default_particles: int
    """Default number of particles of a run."""
    moves_further: bool
    """Whether it supports `AnnealTask.further_moves`."""
    block_size: int
    """Number of chains of a task, which move together."""
    judges_acceptance: bool
    """Whether a low acceptance shows that chains mix badly."""

    @property
    def description(self) -> str:
        """Return the kernels and their variables, in the order of application."""

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> AbstractContextManager[Pool]:
        """Return a pool whose tasks share the engine or use copies of it."""

    def pilot(self, task: "PilotTask") -> T | None:
        """Return the tuning of one pilot; None if it was stopped."""

    def combine(self, tunings: Sequence[T]) -> T:
        """Combine the tunings of the pilots on one data set."""

    def run(self, task: "AnnealTask[T]") -> Run | None:
        """Anneal one run from its own starts; None if it was stopped."""


@dataclass(frozen=True, eq=False)
class PilotTask:
    """Task of one pilot on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    reference: Reference | None = None
    until_mixed: bool = True
    """Whether a compiled pilot stays at β = 1 until its population mixes, as a fit needs."""

    def run[T: Tuning](self, engine: Engine[T]) -> T | None:
        """Return the tuning of the pilot; None if it was stopped."""
        return engine.pilot(self)


@dataclass(frozen=True, eq=False)
class AnnealTask[T: Tuning]:
    """Task of one annealing run on given observed data.

    Attributes
    ----------
    direction : Direction
        Forward runs draw their own starts from the prior.
    data : mapping of str to ndarray
        Observed data.
    betas : ndarray of shape (T + 1,)
        The schedule.
    tuning : Tuning
        Tuning of the kernel, the same in both directions.
    seed : SeedSequence
        The run's stream.
    start : Point, optional
        θ* for a reverse run.
    burn_in : int
        Kernel applications at β = 1 before a reverse run starts.
    particles : int
        Number of particles.
    chains : int
        Number of chains that move side by side; 1 for a run of several particles.
    keeps_ends : bool
        Whether the last states are kept, which may be large.
    further_moves : int
        Moves of all particles at β = 1 after the last weight. The states after each move are kept
        as further particles. For the compiled engine only.
    """

    direction: Direction
    data: Mapping[str, np.ndarray]
    betas: np.ndarray
    tuning: T
    seed: np.random.SeedSequence
    start: Point | None = None
    burn_in: int = 0
    particles: int = 1
    chains: int = 1
    keeps_ends: bool = True
    further_moves: int = 0

    def run(self, engine: Engine[T]) -> Run | None:
        """Return the run; None if it was stopped."""
        run = engine.run(self)
        return run if run is None or self.keeps_ends else replace(run, ends={})
