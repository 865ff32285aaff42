"""Kernels of a PyMC model outside of runs: applied singly, or in simulated tempering."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move, Point
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.problem import Problem
from pymc_bdmc.kernels.state import (
    Parameters,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.run.chain import Table


class TunedKernel:
    """Compiled kernels K_1 … K_T, or their reversals, on the data at the last `reset`: a `Kernel`.

    Unlike single chains, they never propose to move to a draw from the prior.
    """

    def __init__(self, problem: Problem, table: Table, betas: np.ndarray):
        self._problem, self._table, self._reverse = problem, table.at(betas), False

    def reset(self, rng: np.random.Generator) -> None:
        """Use ``rng`` and the current data of the density from now on."""
        self._rng = rng
        self._problem = self._problem.on(self._problem.density.present_data)

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""
        target, jitted = self._problem.target, self._problem.jitted
        thetas = jitted.ravel(point)[None]
        if jitted.rows:
            target.interval[:] = self._table.betas[t - 1 : t + 1]
        row = Table(*(each[t : t + 1] for each in self._table))
        _, move = _moved(self._problem, row, thetas, self._rng, np.empty(0), self._reverse)
        return jitted.unravel(thetas[0]), Move(*move)

    def reversal(self) -> "TunedKernel":
        """Return the kernel with K_t† in place of every K_t."""
        reversed_kernel = copy(self)
        reversed_kernel._reverse = not self._reverse
        return reversed_kernel


States = tuple[list, np.ndarray]
"""Present states of all chains, and their ℓ, nats."""


@dataclass(eq=False)
class ModelSystem:
    """A PyMC model as a `System`: exact prior draws, and moves by tuned kernels."""

    density: TemperedDensity
    description: str
    ravel: Callable[[Point], Any]
    """Converts points to states."""
    advance: Callable[[list, np.ndarray, np.random.Generator], States]
    """Moves every state at its own β > 0, and returns the new states and all ℓ."""
    trials: list[int] = field(default_factory=list)
    """Numbers of prior draws until one had ℓ > −∞, for each requested draw."""

    def _draw(self, chains: int, rng: np.random.Generator) -> list:
        drawn = [self.density.draw_prior(each) for each in rng.spawn(chains)]
        self.trials += [trials for _, trials in drawn]
        return [self.ravel(point) for point, _ in drawn]

    def draw_prior(self, chains: int, rng: np.random.Generator) -> States:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        return self.advance(self._draw(chains, rng), np.zeros(chains), rng)

    def step(self, state: States, betas: np.ndarray, rng: np.random.Generator) -> States:
        """Apply the kernel of its own β to every chain; at β = 0 draw again from the prior."""
        states, redrawn = list(state[0]), np.flatnonzero(betas == 0)
        for j, new in zip(redrawn, self._draw(len(redrawn), rng), strict=True):
            states[j] = new
        return self.advance(states, betas, rng)

    def log_likelihood(self, state: States) -> np.ndarray:
        """Return ℓ of every chain, nats."""
        return state[1]


def advance_compiled(
    problem: Problem, table: Table, states: list, betas: np.ndarray, rng: np.random.Generator
) -> States:
    """Move flat states by compiled kernels, on the data that the density has now."""
    problem, thetas = problem.on(problem.density.present_data), np.array(states)
    terms, _ = _moved(problem, table.at(betas), thetas, rng, np.empty(0))
    return list(thetas), terms[:, 1].copy()


def _moved(
    problem: Problem, table: Table, thetas: np.ndarray, rng: np.random.Generator,
    draw: np.ndarray, reverse: bool = False,
) -> tuple[np.ndarray, tuple]:  # fmt: skip
    """Apply `move_rows`; return log p and ℓ, and its report."""
    terms = np.empty((len(thetas), 2))
    return terms, move_rows(problem.target, problem.moves, table, draw, reverse, thetas, rng, terms)


@njit(nogil=True, cache=True)
def move_rows(target, kernel, table, draw, reverse, thetas, rng, terms):
    """Apply kernels to every row of ``thetas``, each with its own β > 0 and row of the table.

    Log p and ℓ are written to ``terms``, shape (rows, 2). Return the sums of the reports.
    """
    size, n_continuous = thetas.shape[1], table.scales.shape[1]
    states, work = make_states(1, size, n_continuous), make_workspace(size, n_continuous)
    state = state_at(states, 0)
    discrete = continuous = 0.0
    divergences = gradients = 0
    for j in range(len(thetas)):
        copy_vector(thetas[j], state.theta)
        evaluate(target, state)
        if table.betas[j] > 0.0:
            metric = Metric(table.scales[j], table.directions[j], table.excesses[j])
            parameters = Parameters(metric, table.step_sizes[j], table.widths[j])
            setting = Setting(table.betas[j], parameters, draw, reverse)
            move = kernel.transitions(target, setting, states, 0, work, rng)
            discrete += move.acceptance[0]
            continuous += move.acceptance[1]
            divergences += move.diverging
            gradients += move.gradient_evaluations
        copy_vector(state.theta, thetas[j])
        copy_vector(state.terms, terms[j])
    return (discrete, continuous), divergences, gradients
