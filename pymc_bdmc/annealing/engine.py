"""Chains whose kernel is made of PyMC step methods: what one worker process holds and runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pymc_bdmc.annealing.driver import anneal
from pymc_bdmc.kernels.steps import StepFactory, StepKernel, build_steps, check_frozen
from pymc_bdmc.kernels.tuning import Tuning, pilot_betas, pilot_run
from pymc_bdmc.types import Chain, Direction, Point

if TYPE_CHECKING:
    from pymc_bdmc.tempering import TemperedDensity

__all__ = ["AnnealTask", "PilotTask", "StepEngine"]


class StepEngine:
    """Compiled density and step methods, shared by every chain that a process runs.

    Parameters
    ----------
    density : TemperedDensity
        The path of densities.
    betas : ndarray of shape (T + 1,)
        The schedule.
    step, compile_kwargs
        See `build_steps`.

    Raises
    ------
    ValueError
        If a step method cannot be built or frozen; see `build_steps` and `check_frozen`.
    """

    def __init__(
        self,
        density: "TemperedDensity",
        betas: np.ndarray,
        step: str | StepFactory | Sequence[StepFactory] | None = None,
        compile_kwargs: Mapping | None = None,
    ):
        self.density = density
        self.betas = betas
        self.steps = build_steps(density, step, compile_kwargs)
        self._untuned = [step.sampling_state for step in self.steps]
        self._check()

    def _check(self) -> None:
        """Compile everything once, and see that frozen step methods stay frozen."""
        rng = np.random.default_rng(0)
        point, _ = self.density.draw_prior(rng)
        self.density.set_beta(self.betas[1])
        for step in self.steps:
            step.stop_tuning()
        check_frozen(self.steps, point, rng)

    @property
    def description(self) -> str:
        """The step methods and their variables, in the order of application."""
        return " > ".join(
            f"{type(step).__name__}({', '.join(var.name for var in step.vars)})"
            for step in self.steps
        )

    def pilot(self, rng: np.random.Generator) -> Tuning:
        """Run one pilot chain on the present data, from its own draw from the prior."""
        start, _ = self.density.draw_prior(rng)
        for step, state in zip(self.steps, self._untuned, strict=True):
            step.sampling_state = state
        return pilot_run(self.density, self.steps, pilot_betas(self.betas), start, rng)

    def kernel(self, tuning: Tuning, direction: Direction) -> StepKernel:
        """Return the frozen kernel, reversed for the reverse direction."""
        for step, state in zip(self.steps, self._untuned, strict=True):
            step.sampling_state = state
        kernel = StepKernel(self.density, self.steps, self.betas, tuning)
        return kernel if direction is Direction.FORWARD else kernel.reversal()

    def log_likelihood(self, point: Point) -> float:
        """ℓ of a point on the present data, nats."""
        return self.density(point)[1]


@dataclass(frozen=True, eq=False)
class PilotTask:
    """One pilot chain on given observed data."""

    data: Mapping[str, np.ndarray]
    seed: np.random.SeedSequence

    def run(self, engine: StepEngine) -> Tuning:
        """Run the chain in this process."""
        engine.density.set_data(self.data)
        return engine.pilot(np.random.default_rng(self.seed))


@dataclass(frozen=True, eq=False)
class AnnealTask:
    """One annealing chain on given observed data.

    Attributes
    ----------
    direction : Direction
        Forward chains draw their own start from the prior.
    data : mapping of str to ndarray
        Observed data.
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
    tuning: Tuning
    seed: np.random.SeedSequence
    start: Point | None = None
    burn_in: int = 0

    def run(self, engine: StepEngine) -> Chain:
        """Run the chain in this process."""
        engine.density.set_data(self.data)
        rng = np.random.default_rng(self.seed)
        kernel = engine.kernel(self.tuning, self.direction)
        if self.direction is Direction.FORWARD:
            start, prior_draws = engine.density.draw_prior(rng)
        else:
            start, prior_draws = self.start, 0
        kernel.reset(rng)
        for _ in range(self.burn_in):
            start, _ = kernel.step(len(engine.betas) - 1, start)
        chain = anneal(kernel, engine.log_likelihood, engine.betas, start, self.direction)
        return replace(chain, prior_draws=prior_draws)
