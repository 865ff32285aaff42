"""Tasks that workers give to an engine: pilots, fits and runs. They are plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_bdmc.base.types import Direction, Point, Run, Tuning
from pymc_bdmc.reference.student import Reference


@dataclass(frozen=True, eq=False)
class PilotTask:
    """Task of one pilot on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    reference: Reference | None = None
    until_mixed: bool = True
    """Whether a compiled pilot stays at β = 1 until its population mixes, as a fit needs."""

    def run(self, engine: Any) -> Tuning | None:
        """Return the tuning of the pilot; None if it was stopped."""
        return engine.pilot(self)


@dataclass(frozen=True, eq=False)
class FitTask:
    """Task: search for a reference whose draws need no annealing; see `fits.fit.Fit`."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    known: Any = None
    """Tuning on similar data. Searches start near its reference."""
    reference: Reference | None = None
    """A reference that is judged and not fitted."""
    degrees_of_freedom: float | None = None
    """Degrees of freedom of the t distributions, if chosen."""
    latent: Sequence[str] | None = None
    """Names of the latent variables, if chosen."""
    reached: Point | None = None
    """States that runs from the prior reached, a row each. Searches start there too, and the fit
    must cover them."""

    def run(self, engine: Any) -> Any:
        """Return the fit; None if it was stopped."""
        return engine.fit(self)


@dataclass(frozen=True, eq=False)
class RefitTask:
    """Task: fit the reference of a known tuning to other data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence
    known: Tuning

    def run(self, engine: Any) -> Tuning | None:
        """Return the known tuning with the new fit and its R̂; None if it was stopped."""
        return engine.refit(self)


@dataclass(frozen=True, eq=False)
class AnnealTask:
    """Task of one annealing run on given observed data, or of a block of chains."""

    direction: Direction
    data: Mapping[str, np.ndarray]
    betas: np.ndarray
    """The schedule, shape (T + 1,)."""
    tuning: Any
    """`Tuning` of the kernel, the same in both directions; None if there is nothing to tune."""
    seed: np.random.SeedSequence
    """The run's stream; forward runs draw their own starts from the prior."""
    start: Point | None = None
    """θ* for a reverse run."""
    burn_in: int = 0
    """Kernel applications at β = 1 before a reverse run starts."""
    particles: int = 1
    chains: int = 1
    """Number of chains that move side by side; 1 for a run of several particles."""
    keeps_ends: bool = True
    """Whether the last states are kept, which may be large."""
    further_moves: int = 0
    """Moves of all particles at β = 1 after the last weight, by the compiled engine only. The
    states after each move are kept as further particles."""

    def run(self, engine: Any) -> Run | None:
        """Return the run; None if it was stopped."""
        run = engine.run(self)
        return run if run is None or self.keeps_ends else replace(run, ends={})
