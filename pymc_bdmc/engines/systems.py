"""Kernels of a PyMC model outside of runs: applied singly, or in simulated tempering."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Kernel, Move, Point
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.kernels.state import (
    Parameters,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import CompiledKernel, Draw, Setting, no_draw
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.run.chain import Table


class TunedKernel:
    """Compiled kernels K_1 … K_T, or their reversals, as a `pymc_bdmc.base.types.Kernel`.

    The data are those of the density at the last `reset`. At every multiple of ``stride`` K_t
    proposes to move to the next of the prior ``draws``, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_bdmc.engines import CompiledEngine, PilotTask
    >>> from pymc_bdmc.density.tempered import TemperedDensity
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("x"), observed=0.5)
    >>> engine = CompiledEngine(TemperedDensity(model))
    >>> tuning = engine.pilot(PilotTask(engine.density.data, np.random.SeedSequence(1)))
    >>> kernel = engine.kernel(tuning, np.array([0.0, 0.5, 1.0]))
    >>> kernel.reset(np.random.default_rng(1))
    >>> point, move = kernel.step(1, {"x": np.array(0.0)})
    >>> bool(0 <= move.acceptance[1] <= 1)
    True
    """

    def __init__(
        self,
        problem: Problem,
        moves: CompiledKernel,
        table: Table,
        betas: np.ndarray,
        reverse: bool = False,
        draws: np.ndarray | None = None,
        stride: int = 1,
    ):
        self._problem, self._moves, self._betas, self._reverse = problem, moves, betas, reverse
        self._table, self._whole = table.at(betas), table
        self._draws, self._stride = draws, stride

    def reset(self, rng: np.random.Generator) -> None:
        """Use ``rng`` and the current data of the density from now on."""
        self._rng = rng
        self._problem = self._problem.on(self._problem.density.present_data)

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""
        target, jitted = self._problem.target, self._problem.jitted
        thetas, terms = jitted.ravel(point)[None], np.empty((1, 2))
        if jitted.rows:
            target.data[-2:] = self._betas[t - 1 : t + 1]
        row = Table(*(each[t : t + 1] for each in self._table))
        draw, (place, rest) = no_draw(), divmod(t, self._stride)
        if self._draws is not None and not rest and place <= len(self._draws):
            draw = Draw(True, self._draws[place - 1])
        move = move_rows(target, self._moves, row, draw, self._reverse, thetas, self._rng, terms)
        if not terms.sum() < np.inf:
            self._problem.raise_at(self._betas[t], thetas[0])
        return jitted.unravel(thetas[0]), Move(*move)

    def reversal(self) -> "TunedKernel":
        """Return the kernel with K_t† in place of every K_t."""
        return TunedKernel(
            self._problem, self._moves, self._whole, self._betas, not self._reverse, self._draws,
            self._stride,
        )  # fmt: skip


class ModelSystem:
    """Part of a system that is common to all models: exact prior draws, restricted to ℓ > −∞."""

    def __init__(self, density: TemperedDensity, description: str):
        self._density, self.description = density, description
        self.trials: list[int] = []
        """Numbers of prior draws until one had ℓ > −∞, for each requested draw."""

    def prior_points(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Draw points from the prior."""
        drawn = [self._density.draw_prior(each) for each in rng.spawn(chains)]
        self.trials += [trials for _, trials in drawn]
        return [point for point, _ in drawn]


class StepSystem(ModelSystem):
    """System of step methods, which move one chain after the other, at the β of a schedule."""

    def __init__(
        self, density: TemperedDensity, description: str, kernel: Kernel, betas: np.ndarray
    ):
        super().__init__(density, description)
        self._kernel, self._places = kernel, {beta: t for t, beta in enumerate(betas.tolist())}

    def draw_prior(self, chains: int, rng: np.random.Generator) -> list[Point]:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        return self.prior_points(chains, rng)

    def step(self, state: list[Point], betas: np.ndarray, rng: np.random.Generator) -> list[Point]:
        """Apply K_t to every point; at β = 0 draw again from the prior."""
        return [
            self._kernel.step(self._places[beta], point)[0]
            if beta > 0
            else self.prior_points(1, rng)[0]
            for point, beta in zip(state, betas.tolist(), strict=True)
        ]

    def log_likelihood(self, state: list[Point]) -> np.ndarray:
        """Return ℓ of every point, nats."""
        return np.array([self._density(point)[1] for point in state])


class CompiledState(NamedTuple):
    """Flat states of all chains, and their ℓ."""

    thetas: np.ndarray
    """Flat states, shape (chains, d)."""
    log_likelihood: np.ndarray
    """ℓ, shape (chains,), nats."""


class CompiledSystem(ModelSystem):
    """System whose chains move in one compiled loop, on the data that the density holds."""

    def __init__(self, problem: Problem, moves: CompiledKernel, table: Table, description: str):
        super().__init__(problem.density, description)
        self._problem, self._moves, self._table = problem, moves, table

    def draw_prior(self, chains: int, rng: np.random.Generator) -> CompiledState:
        """Draw exactly from the prior restricted to ℓ > −∞."""
        thetas = np.stack([self._problem.jitted.ravel(p) for p in self.prior_points(chains, rng)])
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
        table = self._table.at(betas)
        move_rows(problem.target, self._moves, table, no_draw(), False, thetas, rng, terms)
        for j in np.flatnonzero(~(terms.sum(axis=1) < np.inf)):
            problem.raise_at(betas[j], thetas[j])
        return CompiledState(thetas, terms[:, 1].copy())

    def log_likelihood(self, state: CompiledState) -> np.ndarray:
        """Return ℓ of every chain, nats."""
        return state.log_likelihood


@njit(nogil=True, cache=True)
def move_rows(target, kernel, table, draw, reverse, thetas, rng, terms):
    """Apply kernels to every row of ``thetas``, each with its own β and parameters of the table.

    Rows at β = 0 do not move. Log p and ℓ are written to ``terms``, of shape (rows, 2). Return the
    sums of the reports.
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
