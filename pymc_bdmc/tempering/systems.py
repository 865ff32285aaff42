"""Convert PyMC models to systems for simulated tempering."""

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
    """Return a system of compiled chains if possible, else of PyMC's step methods.

    Parameters
    ----------
    model : pymc.Model
        Model with a proper prior and a likelihood.
    betas : ndarray of shape (K,)
        The ladder.
    step
        As for `sample_bdmc`.
    rng : Generator
        Generator for the pilot that tunes the kernels, and for the streams of step methods.
    """
    check_model(model)
    density = TemperedDensity(model)
    density.check()
    engine = make_engine(density, betas, step)
    if isinstance(engine, CompiledEngine):
        return CompiledSystem(engine, rng)
    return StepSystem(engine, rng)


class _ModelSystem[E: CompiledEngine | StepEngine]:
    """Shared part of both engines: prior draws, and the number of trials they took."""

    def __init__(self, engine: E):
        self._engine = engine
        self.description = engine.description
        self.trials: list[int] = []
        """Numbers of prior draws until one had ℓ > −∞, for each requested draw."""

    def _prior_points(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        drawn = [self._engine.density.draw_prior(each) for each in rng.spawn(chains)]
        self.trials += [trials for _, trials in drawn]
        return [point for point, _ in drawn]


class CompiledState(NamedTuple):
    """Flat states of all chains, and their ℓ."""

    thetas: np.ndarray
    """Flat states, shape (chains, d)."""
    log_likelihood: np.ndarray
    """ℓ, shape (chains,), nats."""


class CompiledSystem(_ModelSystem[CompiledEngine]):
    """System whose chains move in one compiled loop."""

    def __init__(self, engine: CompiledEngine, rng: np.random.Generator):
        super().__init__(engine)
        seed = np.random.SeedSequence(rng.integers(2**63))
        tuning = engine.pilot(PilotTask(engine.density.data, seed))
        assert tuning is not None, "nothing stops this pilot"
        self._tuning = tuning

    def draw_prior(self, chains: int, rng: np.random.Generator) -> CompiledState:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        thetas = np.stack([self._engine.jitted.ravel(p) for p in self._prior_points(chains, rng)])
        return self._moved(thetas, np.zeros(chains), rng)

    def step(
        self, state: CompiledState, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        """Apply the kernel of its own β to every chain; at β = 0 draw again from the prior."""
        thetas, anew = state.thetas.copy(), np.flatnonzero(betas == 0)
        if anew.size:
            thetas[anew] = self.draw_prior(anew.size, rng).thetas
        return self._moved(thetas, betas, rng)

    def _moved(
        self, thetas: np.ndarray, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        return CompiledState(thetas, self._engine.move(self._tuning, betas, thetas, rng))

    def log_likelihood(self, state: CompiledState) -> np.ndarray:
        """Return ℓ of every chain, nats."""
        return state.log_likelihood


class StepSystem(_ModelSystem[StepEngine]):
    """System of step methods, which move one chain after the other."""

    def __init__(self, engine: StepEngine, rng: np.random.Generator):
        super().__init__(engine)
        seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)  # from `default_rng`
        tasks = [PilotTask(engine.density.data, each) for each in seed.spawn(engine.pilots)]
        tuning = engine.combine([engine.pilot(task) for task in tasks])
        self._kernel = engine.kernel(tuning)
        self._kernel.reset(rng.spawn(1)[0])
        self._places = {beta: t for t, beta in enumerate(engine.betas.tolist())}

    def draw_prior(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        return self._prior_points(chains, rng)

    def step(self, state: list[Point], betas: np.ndarray, rng: np.random.Generator) -> list[Point]:
        """Apply K_t to every point; at β = 0 draw again from the prior."""
        return [
            self._kernel.step(self._places[beta], point)[0]
            if beta > 0
            else self.draw_prior(1, rng)[0]
            for point, beta in zip(state, betas.tolist(), strict=True)
        ]

    def log_likelihood(self, state: list[Point]) -> np.ndarray:
        """Return ℓ of every point, nats."""
        return np.array([self._engine.log_likelihood(point) for point in state])
