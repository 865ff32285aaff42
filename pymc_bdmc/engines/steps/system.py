"""Convert a PyMC model to a system whose chains move in turn by step methods."""

from typing import cast

import numpy as np

from pymc_bdmc.base.types import Point
from pymc_bdmc.engines.systems import ModelSystem
from pymc_bdmc.engines.tasks import PilotTask, TunedEngine
from pymc_bdmc.kernels.tuning import StepTuning


class StepSystem(ModelSystem):
    """System of step methods, which move one chain after the other, at the β of a schedule."""

    def __init__(
        self, engine: TunedEngine[StepTuning], betas: np.ndarray, rng: np.random.Generator
    ):
        super().__init__(engine.density, engine.description)
        seed = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)  # of `default_rng`
        tasks = [PilotTask(engine.density.data, each) for each in seed.spawn(engine.pilots)]
        tunings = [tuning for task in tasks if (tuning := engine.pilot(task))]
        self._kernel = engine.kernel(engine.combine(tunings), betas)
        self._kernel.reset(rng.spawn(1)[0])
        self._places = {beta: t for t, beta in enumerate(betas.tolist())}

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
        return np.array([self._density(point)[1] for point in state])
