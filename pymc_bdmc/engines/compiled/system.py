"""Convert a PyMC model to a system whose chains move in one compiled loop."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pymc_bdmc.engines.systems import ModelSystem
from pymc_bdmc.engines.tasks import PilotTask

if TYPE_CHECKING:
    from pymc_bdmc.engines.compiled.engine import CompiledEngine


class CompiledState(NamedTuple):
    """Flat states of all chains, and their ℓ."""

    thetas: np.ndarray
    """Flat states, shape (chains, d)."""
    log_likelihood: np.ndarray
    """ℓ, shape (chains,), nats."""


class CompiledSystem(ModelSystem["CompiledEngine"]):
    """System whose chains move in one compiled loop."""

    def __init__(self, engine: "CompiledEngine", rng: np.random.Generator):
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
