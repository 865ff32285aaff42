"""The contract of a preparation: all that is decided before the weighted runs, without θ*."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.streams import Purpose, stream
from pymc_bdmc.base.types import Direction, Run, Tuning
from pymc_bdmc.call.rounds import Plan
from pymc_bdmc.call.session import ModelSession
from pymc_bdmc.density.structure import with_necks
from pymc_bdmc.paths import Path
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.simulations import Simulation

DataSets = Mapping[int, Mapping[str, np.ndarray]]
"""Data sets by number; 0 is the real data."""
Tunings = Mapping[int, Tuning]

UNREACHED = "a fit does not reach small scales of the centred {}"

SCOUTS = 4
"""Number of forward runs on one path by which a preparation judges it. Chosen."""
MIN_DRAWS = 1536
"""Least number of independent draws of all runs on the real data; fewer if they are expensive."""


class Preparation(ABC):
    """The path of a call, the tuning on each of its data sets, and the size of its runs.

    It has random streams that no weighted run uses, and never sees θ*.
    """

    kernel: str
    """The kernels and their variables, in the order of application."""
    heavy_tail = 0.0
    """Pareto k of the weights of a fit to the first data set, if it is too large; else 0."""
    reached: Sequence[str] = ()
    """Centred latent variables of which runs reach the part where a scale is near 0."""
    knows_tails = False
    """Whether the structure of the model determines the tails of the fit."""
    doubt = ""
    """Why a fit to the first data set misses part of the posterior, or may do so."""

    def __init__(self, session: ModelSession):
        self._session, self._engine = session, session.engine
        self.gradients: Counter[str] = Counter()
        """Gradient evaluations so far, by stage."""

    @property
    def unreached(self) -> list[str]:
        """Names of centred effects whose small scales a fit does not reach."""
        return [name for name in with_necks(self._engine.density.model) if name not in self.reached]

    @abstractmethod
    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Return the path that all data sets take, and why; ``path`` is the one asked for.

        ``data`` is the data set that decides.
        """

    @abstractmethod
    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return the tuning on each data set; without fits the later pilots need not mix."""

    @abstractmethod
    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few forward runs along a path on one data set."""

    def scouted(self, dataset: int) -> dict[str, np.ndarray]:
        """Return log Ẑ of the scouts that decided between paths, by path, nats."""
        return {}

    @abstractmethod
    def size(self, tunings: Tunings, path: Path) -> tuple[int, int]:
        """Return T and N with which the gap is small enough; N only if it is not given."""

    @abstractmethod
    def real_runs(
        self, tunings: Tunings, path: Path, n_temperatures: int, particles: int
    ) -> tuple[float, int, int]:
        """Return the variance of log Ẑ of a run (nats²), the fewest runs, and moves at β = 1.

        All are about the first data set; the moves come after the last temperature.
        """

    def _run[K](self, tasks: Mapping[K, Any], stage: str) -> dict[K, Any]:
        """Return the results of all tasks, show how many there are, and count their gradients."""
        keys, found, visible = list(tasks), {}, bool(tasks) and self._session.options.progressbar
        with ChainProgress({stage: len(tasks)}, visible, "Preparation", "") as progress:
            for i, result in self._session.run(list(tasks.values())):
                found[keys[i]] = result
                progress.advance(stage, 1)
        if len(found) < len(tasks):
            raise KeyboardInterrupt(NOTHING_FINISHED)
        self.gradients[stage] += sum(each.gradient_evaluations for each in found.values())
        return {key: found[key] for key in keys}

    def _forward_tasks(
        self, data: DataSets, tuning: Tuning, betas: np.ndarray, particles: int, key: int
    ) -> dict[int, AnnealTask]:
        """Return the tasks of `SCOUTS` forward runs on one data set; their seeds begin at a key."""
        ((dataset, observed),) = data.items()
        seeds = [self._seed(Purpose.FIT, dataset, key + chain) for chain in range(SCOUTS)]
        return {
            chain: AnnealTask(Direction.FORWARD, observed, betas, tuning, seed, particles=particles)
            for chain, seed in enumerate(seeds)
        }

    def _seed(self, *key: int) -> np.random.SeedSequence:
        return stream(self._session.entropy, *key)


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelPlan(Plan):
    """The runs of a call on a PyMC model, and why they are these."""

    preparation: Preparation
    simulation: Simulation | None
    """The kind of simulated data that suits the model and the engine."""
    path: Path
    reason: str
    """Why this path is taken."""
