"""Independent chains of one particle that move side by side, a block of them in a task."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Protocol, cast, runtime_checkable

import numpy as np

from pymc_bdmc.base.types import Direction, Run, System, TwoSidedSystem
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.run.workers import Workers, open_workers


@runtime_checkable
class BlockSystem(Protocol):
    """A system without pilots that anneals its own blocks: how its chains move and start."""

    @property
    def description(self) -> str:
        """Name of a transition."""

    @property
    def block_size(self) -> int:
        """Number of chains of a task; the last task may have fewer."""

    @property
    def defaults(self) -> tuple[int, str]:
        """Temperatures and schedule of a call that gives none."""

    @property
    def attributes(self) -> Mapping[str, object]:
        """Attributes of a result, with ``upper_bound``, the kind of start."""

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a task without the GIL; log weights are NaN if ``stop`` is set."""


class BlockEngine:
    """Engine of a system that anneals its own blocks, shared by threads."""

    def __init__(self, system: BlockSystem):
        self._system, self._stop = system, np.zeros(1, dtype=np.uint8)

    @property
    def description(self) -> str:
        """Name of a transition."""
        return self._system.description

    def pool(
        self, cores: int, stop: np.ndarray, executor: Executor | None = None
    ) -> AbstractContextManager[Workers]:
        """Return threads that share this engine, or the workers of an executor."""
        self._stop = stop
        return open_workers(self, cores, stop, executor)

    def run(self, task: AnnealTask) -> Run | None:
        """Return the runs of a task, which depend on nothing else; None if they were stopped."""
        run = self._system.run_block(task, self._stop)
        if np.isfinite(run.log_weight).all():
            return run
        if self._stop[0]:
            return None
        raise FloatingPointError(
            "Log weights are not finite: a log likelihood is NaN or infinite, or overflows when it "
            "is added up."
        )


@dataclass(frozen=True)
class SideBySide:
    """A `System` with draws at β = 1, whose chains move by its own transition."""

    system: System
    block_size: ClassVar[int] = 100
    defaults: ClassVar[tuple[int, str]] = 1000, "linear"

    def __post_init__(self):
        if not isinstance(self.system, TwoSidedSystem):
            raise TypeError(
                "system: description, draw_prior, draw_posterior, step and log_likelihood are "
                f"needed (see bdmc.System), got {self.system!r}."
            )

    @property
    def description(self) -> str:
        """Name of a transition."""
        return self.system.description

    @property
    def attributes(self) -> dict[str, object]:
        """Attributes of a result that describe the system."""
        status = getattr(self.system, "start_status", "exact")
        return {
            "system": repr(self.system),
            "upper_bound": status,
            "independent_starts": 1,
            "burn_in": 0,
        }

    def run_block(self, task: AnnealTask, stop: np.ndarray) -> Run:
        """Anneal the chains of a task; log weights are NaN if ``stop`` is set."""
        system, rng = cast(TwoSidedSystem, self.system), np.random.default_rng(task.seed)
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

        return anneal_block(task.direction, task.betas, move, log_likelihood, stop)


def anneal_block(
    direction: Direction,
    betas: np.ndarray,
    move: Callable[[int], float],
    log_likelihood: Callable[[], np.ndarray],
    stop: np.ndarray | None = None,
) -> Run:
    r"""Run chains side by side along β and return their log weights.

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1})

    in both directions (Grosse, Ghahramani and Adams 2015, Eqs 3 and 8). ``move(t)`` applies K_t, or
    in reverse K_t†, to all chains and returns the share of accepted proposals. ``log_likelihood``
    returns ℓ of the present states, nats. If ``stop`` is set, the log weights are NaN.
    """
    last, increments = len(betas) - 1, np.append(np.diff(betas), 0.0)
    mean, sd, acceptance = np.full((3, last + 1), np.nan)
    log_weight = np.zeros(1)

    def measure(t: int) -> None:
        nonlocal log_weight
        # In both directions ℓ of the state at β_t is multiplied by the increment that follows.
        ell = log_likelihood()
        mean[t], sd[t] = ell.mean(), ell.std()
        log_weight = log_weight + increments[t] * ell

    measure(direction.start(last))
    for t, arrival in direction.moves(last):
        if stop is not None and stop[0]:
            log_weight[:] = np.nan
            break
        acceptance[t] = move(t)
        measure(arrival)
    return Run.of_block(direction, log_weight, mean, sd, acceptance)
