"""Independent chains of one particle that move side by side, a block of them in a task."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import numpy as np

from pymc_bdmc.base.system import StartStatus, TwoSidedSystem
from pymc_bdmc.base.types import UNTUNED, Direction, Run, Untuned
from pymc_bdmc.engines.pools import ExecutorPool, ThreadPool
from pymc_bdmc.engines.tasks import AnnealTask, PilotTask

__all__ = ["BlockEngine", "SystemEngine", "anneal_block"]


class BlockEngine(ABC):
    """An engine of systems that need no pilot: lattices, machines, and those of users.

    A subclass gives ``description`` and `run_block`, which must not hold the GIL for long.

    Attributes
    ----------
    block_size : int
        Chains of a task; the last one of a direction may have fewer.
    stop : ndarray of uint8, shape (1,)
        A flag that ends chains early if it is set.
    """

    pilots = 1
    default_particles = 1
    moves_further = False
    judges_acceptance = False
    block_size = 100
    description: str
    start_status: StartStatus = "exact"

    def __init__(self):
        self.stop = np.zeros(1, dtype=np.uint8)

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> ThreadPool | ExecutorPool:
        """Return threads that share this engine, or copies on workers, until ``stop`` is set."""
        self.stop = stop
        return ExecutorPool(self, executor, stop) if executor else ThreadPool(self, cores, stop)

    def pilot(self, task: PilotTask) -> Untuned:
        """Return that nothing is tuned."""
        return UNTUNED

    def combine(self, tunings: Sequence[Untuned]) -> Untuned:
        """Return that nothing is tuned."""
        return UNTUNED

    @abstractmethod
    def run_block(self, task: AnnealTask[Untuned]) -> Run:
        """Anneal the chains of a task; if it was stopped, their log weights may be NaN."""

    def run(self, task: AnnealTask[Untuned]) -> Run | None:
        """Return the runs of a task, which depend on nothing else; None if they were stopped.

        Raises
        ------
        FloatingPointError
            If a log weight is not finite.
        """
        run = self.run_block(task)
        if np.isfinite(run.log_weight).all():
            return run
        if self.stop[0]:
            return None
        raise FloatingPointError(
            "Log weights are not finite: a log likelihood is NaN or infinite, or overflows when it "
            "is added up."
        )


class SystemEngine(BlockEngine):
    """An engine of any `System` that has exact or other draws at β = 1 as well.

    Parameters
    ----------
    system : TwoSidedSystem
    """

    def __init__(self, system: TwoSidedSystem):
        super().__init__()
        self._system = system
        self.description = system.description
        self.start_status = getattr(system, "start_status", "exact")

    def run_block(self, task: AnnealTask[Untuned]) -> Run:
        """Anneal the chains of a task by the transition of the system."""
        system, rng = self._system, np.random.default_rng(task.seed)
        if task.direction is Direction.FORWARD:
            state, step = system.draw_prior(task.chains, rng), system.step
        else:
            state = system.draw_posterior(task.chains, rng)
            step = getattr(system, "step_back", system.step)

        def move(t: int) -> float:
            nonlocal state
            state = step(state, np.full(task.chains, task.betas[t]), rng)
            return np.nan

        def log_likelihood() -> np.ndarray:
            ell = np.asarray(system.log_likelihood(state))
            if ell.shape != (task.chains,):
                raise ValueError(
                    f"system: log_likelihood must return shape ({task.chains},), a value for each "
                    f"chain, got {ell.shape}."
                )
            return ell

        return anneal_block(task, move, log_likelihood, self.stop)


def anneal_block(
    task: AnnealTask,
    move: Callable[[int], float],
    log_likelihood: Callable[[], np.ndarray],
    stop: np.ndarray,
) -> Run:
    r"""Run chains side by side along β and return their log weights.

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1})

    in both directions (Grosse, Ghahramani and Adams 2015, Eqs 3 and 8).

    Parameters
    ----------
    task : AnnealTask
        Its direction and schedule.
    move : callable
        Applies K_t, or in reverse K_t†, to all chains; returns the share of accepted proposals.
    log_likelihood : callable
        Returns ℓ of the present states, shape (chains,), nats.
    stop : ndarray of uint8, shape (1,)
        A flag; if it is set, the run ends early and its log weights are NaN.
    """
    last = len(task.betas) - 1
    increments = np.append(np.diff(task.betas), 0.0)
    log_weight = np.zeros(task.chains)
    mean, sd, acceptance = np.full((3, last + 1), np.nan)

    def measure(t: int) -> None:
        # In both directions ℓ of the state at β_t is weighed by the increment that follows.
        ell = log_likelihood()[: task.chains]
        mean[t], sd[t] = ell.mean(), ell.std()
        log_weight[:] += increments[t] * ell

    measure(task.direction.start(last))
    for t, arrival in task.direction.moves(last):
        if stop[0]:
            log_weight[:] = np.nan
            break
        acceptance[t] = move(t)
        measure(arrival)
    return Run.of_block(task.direction, log_weight, mean, sd, acceptance)
