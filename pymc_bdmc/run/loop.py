"""Anneal in Python: particles with any kernel, and blocks of chains that move side by side."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import numpy as np

from pymc_bdmc.base.types import Direction, Kernel, Move, Point, Run, System, TwoSidedSystem, stack
from pymc_bdmc.run.resampling import (
    THRESHOLD,
    effective_size,
    mean_of,
    places,
    resample,
    update_weights,
)
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.run.workers import Workers, open_workers


class Stopped(Exception):
    """Ctrl-C, or the end of the call, stopped a computation."""


class Record:
    """Records of a run with n particles at every temperature, in the form of a `Run`."""

    def __init__(self, n_temperatures: int, n: int, n_parts: int = 0):
        shape = n_temperatures + 1
        self.mean, self.highest, self.rests = np.zeros((3, shape))
        self.acceptance = np.zeros((shape, n_parts))
        self.divergences = np.zeros(shape, dtype=int)
        self.effective_size = np.full(shape, float(n))
        self.resampled = np.zeros(shape, dtype=bool)
        self.n, self.gradients = n, 0

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that the compiled loop of a population fills."""
        return (
            self.mean, self.highest, self.rests, self.acceptance, self.divergences,
            self.effective_size, self.resampled,
        )  # fmt: skip

    def add(self, t: int, move: Move) -> None:
        """Add the sums over some particles that K_t moved."""
        acceptance = np.atleast_1d(move.acceptance)
        if not self.acceptance.size:
            self.acceptance = np.zeros((len(self.mean), len(acceptance)))
        self.acceptance[t] += acceptance
        self.divergences[t] += move.diverging
        self.gradients += move.gradient_evaluations

    def run(
        self, betas: np.ndarray, ends: Point, weights: np.ndarray, ancestors: int, **more: Any
    ) -> Run:
        """Return the run of this record."""
        self.acceptance[0] = np.nan
        return Run(
            float(np.diff(betas) @ self.highest[:-1] + self.rests.sum()),
            self.mean,
            self.acceptance / self.n,
            self.divergences,
            self.gradients,
            ends,
            weights,
            self.effective_size,
            self.resampled,
            ancestors,
            **more,
        )


def _moved(kernel: Kernel, t: int, points: Sequence[Point]) -> tuple[list[Point], Move]:
    """Apply K_t to every point; return the new ones, and the sums of the reports."""
    moved, reports = zip(*(kernel.step(t, point) for point in points), strict=True)
    acceptance, diverging, gradients = zip(*reports, strict=True)
    return list(moved), Move(np.sum(acceptance, axis=0), sum(diverging), sum(gradients))


def anneal_particles(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    betas: np.ndarray,
    points: list[Point],
    record: Record,
    rng: np.random.Generator,
    trail: Mapping[int, Point] | None = None,
) -> tuple[list[Point], np.ndarray, int]:
    """Anneal particles from β = 0 to 1; return them, their weights, and the number of ancestors.

    In a reverse run, particle 0 does not move but has its recorded ℓ and the ``trail``: its states
    before K_t, by t. Others may be resampled onto it (Andrieu, Doucet and Holenstein 2010).
    """
    kernel.reset(rng)
    n, first = record.n, 0 if trail is None else 1
    weights, roots, allowed = np.full(n, 1 / n), np.arange(n), places(len(betas) - 1)
    ells = np.array([log_likelihood(point) for point in points])
    record.mean[0] = mean_of(weights, ells)
    for t in range(1, len(betas)):
        increment = betas[t] - betas[t - 1]
        record.highest[t - 1], record.rests[t] = update_weights(weights, ells, increment)
        record.effective_size[t] = effective_size(weights)
        if allowed[t] and record.effective_size[t] < THRESHOLD * n:
            record.resampled[t] = True
            ancestors = resample(weights, trail is not None, rng.random())
            if trail is not None:
                points[0] = trail[t]
            points = [points[i] for i in ancestors]
            roots, weights[:] = roots[ancestors], 1 / n
        points[first:], move = _moved(kernel, t, points[first:])
        record.add(t, move)
        ells[first:] = [log_likelihood(point) for point in points[first:]]
        if first:
            ells[0] = record.mean[t]
        record.mean[t] = mean_of(weights, ells)
    return points, weights, len(np.unique(roots[weights > 0]))


def _reverse_path(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    point: Point,
    record: Record,
    rng: np.random.Generator,
    burn_in: int,
) -> tuple[Point, dict[int, Point]]:
    """Anneal a particle from the posterior to the prior; return it, and its states after K_t†."""
    kernel.reset(rng)
    last, trail = len(record.mean) - 1, {}
    for _ in range(burn_in):
        point, _ = kernel.step(last, point)
    record.mean[last] = log_likelihood(point)
    for t in range(last, 0, -1):
        point, move = kernel.step(t, point)
        record.add(t, move)
        record.mean[t - 1] = log_likelihood(point)
        if places(last)[t]:  # others may be resampled onto it there
            trail[t] = point
    record.highest[:] = record.mean
    return point, trail


def anneal(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    betas: np.ndarray,
    starts: Sequence[Point],
    direction: Direction,
    rng: np.random.Generator,
    burn_in: int = 0,
) -> Run:
    r"""Run particles along β and return log Ẑ, the log weight of the run.

    A single particle is a chain. Forward, θ_0 comes from the prior and θ_t ~ K_t(·|θ_{t−1}). In
    reverse, θ_T comes from the posterior, first moved ``burn_in`` times by K_T†, and θ_{t−1} ~
    K_t†(·|θ_t). Either way

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1}),

    so E_f[w] = Z and E_r[1/w] = 1/Z (Neal 2001; Grosse, Ghahramani and Adams 2015, Eqs 3 and 8).

    Several particles are annealed together. If their weights become too uneven, the logarithm of
    the mean weight is added to log Ẑ, and the particles are resampled (Del Moral, Doucet and Jasra
    2006). In reverse, the first is annealed from the posterior to the prior, and the others then
    run forward together with its path, which is never replaced. This is a conditional run, so
    E_f[Ẑ] = Z and E_r[1/Ẑ] = 1/Z still hold (Andrieu, Doucet and Holenstein 2010; Grosse,
    Ghahramani and Adams 2015, Sec. 4.2).
    """
    ends, trail, first = list(starts), None, 0
    record = Record(len(betas) - 1, len(starts))
    weights, ancestors = np.ones(1), 1
    if direction is Direction.REVERSE:
        back, first = kernel.reversal(), 1
        ends[0], trail = _reverse_path(back, log_likelihood, ends[0], record, rng, burn_in)
    if len(ends) > first:
        moved, weights, ancestors = anneal_particles(
            kernel, log_likelihood, betas, list(ends), record, rng, trail
        )
        ends[first:] = moved[first:]
    return record.run(betas, stack(ends), weights, ancestors)


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
