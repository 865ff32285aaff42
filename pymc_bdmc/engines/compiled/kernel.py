"""Apply compiled kernels one transition at a time, under the contract of all kernels."""

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import Move, Point
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.kernels.prior_move import Draw, no_draw
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


class TunedKernel:
    """Kernels K_1 … K_T of a compiled engine, as a `pymc_bdmc.base.types.Kernel`.

    With them the loop in Python gives the same bits as the compiled loop.

    Parameters
    ----------
    problem : Problem
        The path of densities; its data are replaced at every `reset`.
    moves : CompiledKernel
    tuning : PathTuning
    betas : ndarray of shape (T + 1,)
        The schedule.
    reverse : bool, default False
        Whether every K_t is the reversal.
    draws : ndarray of shape (D, d), optional
        Prior draws to which a chain may move. Every multiple of ``stride`` proposes the next one.
    stride : int

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
        tuning: PathTuning,
        betas: np.ndarray,
        reverse: bool = False,
        draws: np.ndarray | None = None,
        stride: int = 1,
    ):
        self._problem, self._moves = problem, moves
        self._tuning, self._betas, self._reverse = tuning, betas, reverse
        self._draws, self._stride = draws, stride
        self._table = tuning.at(betas)

    def reset(self, rng: np.random.Generator) -> None:
        """Use ``rng`` and the current data of the density from now on."""
        self._rng = rng
        self._problem = self._problem.on(self._problem.density.present_data)

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point.

        Raises
        ------
        FloatingPointError
            If a log density is +∞; the message names β and the variables.
        """
        table, target, jitted = self._table, self._problem.target, self._problem.jitted
        theta, terms = jitted.ravel(point), np.empty(2)
        metric = Metric(table.scales[t], table.directions[t], table.excesses[t])
        parameters = Parameters(metric, table.step_sizes[t], table.widths[t])
        if jitted.rows:
            target.interval[:] = self._betas[t - 1 : t + 1]
        setting = Setting(self._betas[t], parameters, self._draw(t), self._reverse)
        move = move_once(target, self._moves, setting, theta, self._rng, terms)
        if not terms.sum() < np.inf:
            self._problem.raise_at(self._betas[t], theta)
        return jitted.unravel(theta), move

    def _draw(self, t: int) -> Draw:
        place, rest = divmod(t, self._stride)
        if self._draws is None or rest or place > len(self._draws):
            return no_draw()
        return Draw(True, self._draws[place - 1])

    def reversal(self) -> "TunedKernel":
        """Return the kernel with K_t† in place of every K_t."""
        return TunedKernel(
            self._problem, self._moves, self._tuning, self._betas, not self._reverse, self._draws,
            self._stride,
        )  # fmt: skip


@njit(nogil=True, cache=True, title="a single transition")
def move_once(target, kernel, setting, theta, rng, terms):
    """Move θ, in place, from a newly evaluated state; write its terms."""
    n_continuous = setting.parameters.metric.scale.size
    states = make_states(1, theta.size, n_continuous)
    state, work = state_at(states, 0), make_workspace(theta.size, n_continuous)
    copy_vector(theta, state.theta)
    evaluate(target, state)
    move = kernel.transitions(target, setting, states, 0, work, rng)
    copy_vector(state.theta, theta)
    copy_vector(state.terms, terms)
    return move
