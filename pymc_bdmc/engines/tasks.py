"""Protocol of an engine, and the tasks that a pool gives to it: pilots and runs."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_bdmc.base.system import System
from pymc_bdmc.base.types import Direction, Kernel, Moves, Point, Run, Tuning
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.workers import Workers
from pymc_bdmc.reference.student import Reference


class Engine[T: Tuning | None](Protocol):
    """Engine that anneals, and gives its tasks to workers."""

    @property
    def description(self) -> str:
        """Return the kernels and their variables, in the order of application."""

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> AbstractContextManager[Workers]:
        """Return workers whose tasks share the engine or use copies of it."""

    def run(self, task: "AnnealTask[T]") -> Run | None:
        """Anneal one run, or a block of chains, from its own starts; None if it was stopped."""


class TunedEngine[T: Tuning](Engine[T], Protocol):
    """Engine of a PyMC model, which tunes kernels on the data of each task."""

    @property
    def kernel_names(self) -> Moves:
        """Return the names of the kernels."""

    density: TemperedDensity
    lock: Any
    """Lock for the use of the density."""
    rows: int
    """Number of observations that are added in turn; 0 if all are added together."""
    pilots: int
    """Number of independent pilots per data set."""
    default_particles: int
    """Default number of particles of a run."""
    stacks_data: bool
    """Whether its runs can be on several data sets at once."""
    moves_further: bool
    """Whether it supports `AnnealTask.further_moves`."""
    has_gradient: bool
    """Whether compiled kernels use a gradient. A density without a gradient is likely to call a
    solver, so that evaluations are slow."""

    @property
    def meets_undefined(self) -> bool:
        """Return whether log p may have been NaN at a state."""

    @property
    def no_reference(self) -> str:
        """Return the reason why this is no `ModelEngine`; empty if it is one."""

    def pilot(self, task: "PilotTask") -> T | None:
        """Return the tuning of one pilot; None if it was stopped."""

    def combine(self, tunings: Sequence[T]) -> T:
        """Combine the tunings of the pilots on one data set."""

    def kernel(self, tuning: T, betas: np.ndarray) -> Kernel:
        """Return the kernels of a schedule, to be applied one at a time."""

    def system(self, rng: np.random.Generator) -> System:
        """Return the model as a system for simulated tempering, tuned by pilots."""


class ModelEngine[T: Tuning](TunedEngine[T], Protocol):
    """Engine of a PyMC model whose paths may start at a reference."""

    @property
    def heavy_tails(self) -> Sequence[str]:
        """Return the names of variables whose priors have tails that a fit lacks."""

    def fit(self, task: "FitTask") -> "Fit | None":
        """Search for a reference whose draws need no annealing; None if it was stopped."""

    def refit(self, task: "RefitTask[T]") -> T | None:
        """Fit other data, starting from a known tuning; return fit and R̂, or None if stopped."""

    def adapted(self, known: T, reference: Reference, rhat: float) -> T:
        """Return the known tuning for a reference that is fitted to other, similar data."""

    def with_peaks(
        self, reference: Reference, data: Mapping[str, np.ndarray], seed: np.random.SeedSequence
    ) -> Reference:
        """Return the reference with the narrow peaks that it misses."""

    def surplus(
        self,
        states: Point,
        data: Mapping[str, np.ndarray],
        tuning: T,
        margin: float,
        seed: np.random.SeedSequence,
    ) -> float:
        """Return by how much log p + ℓ − log r at states exceeds its values in the pilot, nats.

        States beyond the ``margin`` are moved first, so that the kernel leads them out of a tail.
        """


@dataclass(frozen=True, eq=False)
class PilotTask:
    """Task of one pilot on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    reference: Reference | None = None
    until_mixed: bool = True
    """Whether a compiled pilot stays at β = 1 until its population mixes, as a fit needs."""

    def run[T: Tuning](self, engine: TunedEngine[T]) -> T | None:
        """Return the tuning of the pilot; None if it was stopped."""
        return engine.pilot(self)


MOST_VARIANCE = 5.0
"""Largest relative variance of the weights of draws from a good `Fit`."""


class Fit(NamedTuple):
    """Result of a search for a reference whose draws need no annealing.

    Attributes
    ----------
    tuning : Tuning or None
        Tuning of runs with T = 1, whose particles are weighed; None if the search failed.
    reason : str
        How the reference was found, or why the search failed.
    variance : float
        Relative variance v of the weight of a draw. A run of N draws has a gap of about v/N nats.
    gradient_evaluations : int
        Cost, in evaluations of log p + ℓ with or without its gradient.
    most_variance : float
        The largest relative variance with which the reference may be used.
    refuses_given : bool
        Whether a fit to the given draws, or with the named latent variables, was tried and is far
        from the posterior.
    seconds : float
        CPU seconds of an evaluation; NaN if not known.
    misses : bool
        Whether the search is not finished, or a part of the posterior was found that the fit
        misses.
    log_weights : ndarray of shape (K,)
        log Ẑ of runs that weigh draws from a fit that misses a part, nats. They are unbiased all
        the same.
    """

    tuning: Tuning | None
    reason: str
    variance: float
    gradient_evaluations: int
    most_variance: float = MOST_VARIANCE
    refuses_given: bool = False
    seconds: float = np.nan
    misses: bool = False
    log_weights: np.ndarray = np.empty(0)


@dataclass(frozen=True, eq=False)
class FitTask:
    """Task: search by climbs for a reference whose draws need no annealing; see `Fit`.

    Attributes
    ----------
    data : mapping of str to ndarray
        Observed data.
    seed : SeedSequence
    known : Tuning, optional
        Tuning on similar data. Climbs start near its reference.
    reference : Reference, optional
        A reference that is judged and not fitted.
    degrees_of_freedom : float, optional
        Degrees of freedom of the t distributions, if they were chosen.
    latent : sequence of str, optional
        Names of the latent variables, if they were chosen.
    reached : mapping of str to ndarray, optional
        States that runs from the prior came to, a row each. Climbs start there too, and the fit
        must cover them.
    """

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    known: Any = None
    reference: Reference | None = None
    degrees_of_freedom: float | None = None
    latent: Sequence[str] | None = None
    reached: Point | None = None

    def run(self, engine: ModelEngine) -> Fit | None:
        """Return the fit; None if it was stopped."""
        return engine.fit(self)


@dataclass(frozen=True, eq=False)
class RefitTask[T: Tuning]:
    """Task: fit the reference of a known tuning to other data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    known: T

    def run(self, engine: ModelEngine[T]) -> T | None:
        """Return the known tuning with the new fit and its R̂; None if it was stopped."""
        return engine.refit(self)


@dataclass(frozen=True, eq=False)
class AnnealTask[T: Tuning | None]:
    """Task of one annealing run on given observed data, or of a block of chains.

    Attributes
    ----------
    direction : Direction
        Forward runs draw their own starts from the prior.
    data : mapping of str to ndarray
        Observed data.
    betas : ndarray of shape (T + 1,)
        The schedule.
    tuning : Tuning or None
        Tuning of the kernel, the same in both directions; None if there is nothing to tune.
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
