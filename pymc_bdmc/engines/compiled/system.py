"""Convert a PyMC model to a system whose chains move in one compiled loop."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.engines.systems import ModelSystem
from pymc_bdmc.kernels.prior_move import no_draw
from pymc_bdmc.kernels.state import (
    Parameters,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import CompiledKernel, Setting
from pymc_bdmc.reference.metric import Metric


class CompiledState(NamedTuple):
    """Flat states of all chains, and their ℓ."""

    thetas: np.ndarray
    """Flat states, shape (chains, d)."""
    log_likelihood: np.ndarray
    """ℓ, shape (chains,), nats."""


class CompiledSystem(ModelSystem):
    """System whose chains move in one compiled loop, on the data that the density holds."""

    def __init__(
        self, problem: Problem, moves: CompiledKernel, tuning: PathTuning, description: str
    ):
        super().__init__(problem.density, description)
        self._problem, self._moves, self._tuning = problem, moves, tuning

    def draw_prior(self, chains: int, rng: np.random.Generator) -> CompiledState:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        thetas = np.stack([self._problem.jitted.ravel(p) for p in self._prior_points(chains, rng)])
        return self._moved(thetas, np.zeros(chains), rng)

    def step(
        self, state: CompiledState, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        """Apply the kernel of its own β to every chain; at β = 0 draw again from the prior."""
        thetas, redrawn = state.thetas.copy(), np.flatnonzero(betas == 0)
        if redrawn.size:
            thetas[redrawn] = self.draw_prior(redrawn.size, rng).thetas
        return self._moved(thetas, betas, rng)

    def _moved(
        self, thetas: np.ndarray, betas: np.ndarray, rng: np.random.Generator
    ) -> CompiledState:
        problem, terms = self._problem.on(self._density.present_data), np.empty((len(betas), 2))
        table = self._tuning.at(betas)
        move_chains(problem.target, self._moves, table, betas, thetas, rng, terms)
        for j in np.flatnonzero(~(terms.sum(axis=1) < np.inf)):
            problem.raise_at(betas[j], thetas[j])
        return CompiledState(thetas, terms[:, 1].copy())

    def log_likelihood(self, state: CompiledState) -> np.ndarray:
        """Return ℓ of every chain, nats."""
        return state.log_likelihood


@njit(nogil=True, cache=True)
def move_chains(target, kernel, table, betas, thetas, rng, terms):
    """Apply a kernel to every row of ``thetas``, each with its own β and row of the table.

    Rows at β = 0 do not move. Log p and ℓ are written to ``terms``, of shape (rows, 2).
    """
    states, nothing = make_states(1, thetas.shape[1], table.scales.shape[1]), no_draw()
    state = state_at(states, 0)
    work = make_workspace(thetas.shape[1], table.scales.shape[1])
    for j in range(betas.size):
        copy_vector(thetas[j], state.theta)
        evaluate(target, state)
        if betas[j] > 0.0:
            metric = Metric(table.scales[j], table.directions[j], table.excesses[j])
            parameters = Parameters(metric, table.step_sizes[j], table.widths[j])
            setting = Setting(betas[j], parameters, nothing, False)
            kernel.transitions(target, setting, states, 0, work, rng)
        copy_vector(state.theta, thetas[j])
        copy_vector(state.terms, terms[j])
