"""The contract of a preparation: all that is decided before the weighted runs, without θ*."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.streams import Entropy
from pymc_bdmc.base.types import Run, Tuning
from pymc_bdmc.density.structure import with_necks
from pymc_bdmc.engines.tasks import ModelEngine
from pymc_bdmc.engines.workers import Pool
from pymc_bdmc.paths import Path

DataSets = Mapping[int, Mapping[str, np.ndarray]]
"""Data sets by number; 0 is the real data."""
Tunings = Mapping[int, Tuning]

UNREACHED = "a fit does not reach small scales of the centred {}"

SCOUTS = 4
"""Number of forward runs that a preparation makes on one path."""


DRAWN = 1536
"""Independent draws of all runs on the real data, at least, as far as few enough runs give them."""


class Preparation(ABC):
    """The path of a call, the tuning on each of its data sets, and the size of its runs.

    Parameters
    ----------
    pool : Pool
    engine : ModelEngine
    entropy : int or sequence of int
        A preparation has streams that no weighted run uses, and never sees θ*.

    Attributes
    ----------
    gradients : Counter
        Gradient evaluations so far, by stage.
    heavy_tail : float
        Pareto k of the weights of a fit to the first data set, if it is too large; else 0.
    reached : sequence of str
        Latent variables, of which runs reach the part of a centred posterior where a scale is near
        0.
    knows_tails : bool
        Whether runs weigh draws from a reference whose tails follow from the model's structure.
    weighs_real : bool
        Whether runs anneal though draws from a fit to the real data need not, and nothing that was
        seen of this fit speaks against log ML by its draws.
    doubt : str
        Why a fit to the first data set misses part of the posterior, or may do so.
    """

    heavy_tail = 0.0
    reached: Sequence[str] = ()
    knows_tails = False
    weighs_real = False
    doubt = ""

    def __init__(self, pool: Pool, engine: ModelEngine, entropy: Entropy):
        self._pool, self._engine, self._entropy = pool, engine, entropy
        self.gradients: Counter[str] = Counter()

    @property
    def unreached(self) -> list[str]:
        """Return the names of centred effects whose small scales a fit does not reach."""
        return [name for name in with_necks(self._engine.density.model) if name not in self.reached]

    @property
    @abstractmethod
    def kernel(self) -> str:
        """The kernels and their variables, in the order of application."""

    @abstractmethod
    def choose(self, data: DataSets, path: Path | None) -> tuple[Path, str]:
        """Return the path that all data sets take, by the first few, and why it is taken.

        Parameters
        ----------
        data : mapping of int to mapping of str to ndarray
            The data set that decides, by its number; then those that may object to a fit.
        path : Path or None
            The path that is asked for, if any.
        """

    @abstractmethod
    def tunings(self, data: DataSets, path: Path, *, fits: bool = True) -> Tunings:
        """Return the tuning on each data set.

        With ``fits=False`` nothing is fitted to the last states of further pilots.
        """

    @abstractmethod
    def scouts(self, data: DataSets, path: Path) -> list[Run]:
        """Return a few forward runs along a path on one data set."""

    def scouted(self, dataset: int) -> dict[str, np.ndarray]:
        """Return log Ẑ of the scouts that decided between paths, by path, nats."""
        return {}

    @abstractmethod
    def enough(
        self, tunings: Tunings, path: Path, particles: int | None, target_gap: float | None
    ) -> tuple[int, int]:
        """Return T and N with which the gap is small enough; N if it is not given."""

    @abstractmethod
    def variance(self, tunings: Tunings, path: Path, n_temperatures: int, particles: int) -> float:
        """Return the variance of log Ẑ to expect of a run on the first data set, nats²."""

    @abstractmethod
    def further(self, n_temperatures: int) -> tuple[int, int]:
        """Return the states at β = 1 to have of runs on the real data, and the most moves there."""

    @abstractmethod
    def fewest_chains(self, tunings: Tunings, particles: int, further_moves: int) -> int:
        """Return the least number of runs on the real data, the first data set, by default."""

    def _all(
        self, tasks: Sequence, stage: str, tell: Callable[[Any], object] = lambda result: None
    ) -> list:
        """Return the results of all tasks, each told as it comes, and count their gradients.

        Raises
        ------
        KeyboardInterrupt
            If the pool was stopped.
        """
        found = {}
        for i, result in self._pool.run(tasks):
            found[i] = result
            tell(result)
        if len(found) < len(tasks):
            raise KeyboardInterrupt(NOTHING_FINISHED)
        self.gradients[stage] += sum(each.gradient_evaluations for each in found.values())
        return [found[i] for i in range(len(tasks))]
