"""PyMC models as systems for simulated tempering: compiled chains, or step methods."""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import pymc as pm

from pymc_bdmc.base.types import Point
from pymc_bdmc.engines import CompiledEngine, PilotTask, StepEngine, make_engine
from pymc_bdmc.kernels import StepFactory
from pymc_bdmc.model.checks import check_model
from pymc_bdmc.model.tempered import TemperedDensity

__all__ = ["CompiledSystem", "StepSystem", "model_system"]


def model_system(
    model: pm.Model,
    betas: np.ndarray,
    step: str | StepFactory | Sequence[StepFactory] | None,
    rng: np.random.Generator,
) -> "CompiledSystem | StepSystem":
    """Compiled chains where they can do what is asked for, else PyMC's step methods.

    Parameters
    ----------
    model : pymc.Model
        With a proper prior and a likelihood.
    betas : ndarray of shape (K,)
        The ladder.
    step
        As for `sample_bdmc`.
    rng : Generator
        For the pilot that tunes the kernels, and for the streams of step methods.
    """
    check_model(model)
    density = TemperedDensity(model)
    density.check()
    engine = make_engine(density, betas, step)
    if isinstance(engine, CompiledEngine):
        return CompiledSystem(engine, rng)
    return StepSystem(engine, rng)


class _ModelSystem[E: CompiledEngine | StepEngine]:
    """What both engines share: draws from the prior, and how many trials they took."""

    def __init__(self, engine: E):
        self._engine = engine
        self.description = engine.description
        self.trials: list[int] = []
        """Draws from the prior until one had ℓ > −∞, each time that one was asked for."""

    def _prior_points(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Exact draws from the prior where ℓ > −∞."""
        drawn = [self._engine.density.draw_prior(each) for each in rng.spawn(chains)]
        self.trials += [trials for _, trials in drawn]
        return [point for point, _ in drawn]


class CompiledState(NamedTuple):
    """Flat states of all chains, and their ℓ."""

    thetas: np.ndarray
    """Shape (chains, d)."""
    log_likelihood: np.ndarray
    """Shape (chains,), nats."""


class CompiledSystem(_ModelSystem[CompiledEngine]):
    """All chains move in one compiled loop."""

    def __init__(self, engine: CompiledEngine, rng: np.random.Generator):
        super().__init__(engine)
        seed = np.random.SeedSequence(rng.integers(2**63))
        tuning = engine.pilot(PilotTask(engine.density.data, seed))
        assert tuning is not None, "nothing stops this pilot"
        self._tuning = tuning

    def draw_prior(self, chains: int, rng: np.random.Generator) -> CompiledState:
        """Exact draws from the prior where ℓ > −∞."""
        thetas = np.stack([self._engine.jitted.ravel(p) for p in self._prior_points(chains, rng)])
        return self._moved(thetas, np.zeros(chains), rng)

    def step(
        self, state: CompiledState, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        """Apply the kernel of its own β to every chain; at β = 0 draw anew from the prior."""
        thetas, anew = state.thetas.copy(), np.flatnonzero(betas == 0)
        if anew.size:
            thetas[anew] = self.draw_prior(anew.size, rng).thetas
        return self._moved(thetas, betas, rng)

    def _moved(
        self, thetas: np.ndarray, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        return CompiledState(thetas, self._engine.move(self._tuning, betas, thetas, rng))

    def log_likelihood(self, state: CompiledState) -> np.ndarray:
        """ℓ of every chain, nats."""
        return state.log_likelihood


class StepSystem(_ModelSystem[StepEngine]):
    """Step methods, one chain after the other, tuned for the ladder of the engine."""

    def __init__(self, engine: StepEngine, rng: np.random.Generator):
        super().__init__(engine)
        seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)  # of `default_rng`
        tasks = [PilotTask(engine.density.data, each) for each in seed.spawn(engine.pilots)]
        tuning = engine.combine([engine.pilot(task) for task in tasks])
        self._kernel = engine.kernel(tuning)
        self._kernel.reset(rng.spawn(1)[0])
        self._places = {beta: t for t, beta in enumerate(engine.betas.tolist())}

    def draw_prior(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Exact draws from the prior where ℓ > −∞."""
        return self._prior_points(chains, rng)

    def step(self, state: list[Point], betas: np.ndarray, rng: np.random.Generator) -> list[Point]:
        """Apply K_t to every point; at β = 0 draw anew from the prior."""
        return [
            self._kernel.step(self._places[beta], point)[0]
            if beta > 0
            else self.draw_prior(1, rng)[0]
            for point, beta in zip(state, betas.tolist(), strict=True)
        ]

    def log_likelihood(self, state: list[Point]) -> np.ndarray:
        """ℓ of every point, nats."""
        return np.array([self._engine.log_likelihood(point) for point in state])
