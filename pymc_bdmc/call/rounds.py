"""Rounds of annealing on all data sets: on a ladder of T, or until a target for the gap is met."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, cast

import numpy as np

from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule, adaptive, mean_between
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Annealing, Direction, Point, Tuning
from pymc_bdmc.call.options import Limits
from pymc_bdmc.estimators import jeffreys_bound
from pymc_bdmc.run.recorder import Recorder
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.run.workers import Pool
from pymc_bdmc.simulations import Simulated

_log = logging.getLogger("pymc.bdmc")

BLOCKS = 30


@dataclass(frozen=True)
class Plan:
    """The settings that all rounds share; see `sample_bdmc`."""

    particles: int
    entropy: Entropy
    limits: Limits
    progressbar: bool
    block_size: int = 1
    """Chains of a task, which move side by side."""
    judges_acceptance: bool = True
    """Whether few accepted proposals are a sign that chains mix badly."""
    preparation: float = 0.0
    """Seconds for simulating and tuning, which a confirming round needs once more."""
    further_moves: int = 0
    """Moves of the particles on the real data at β = 1 after the last temperature."""


@dataclass(frozen=True, eq=False)
class Side[T: Tuning | None]:
    """One side of a sandwich: the runs of one direction on one data set."""

    group: Literal["real", "real_reverse", "forward", "reverse", "burn_in"]
    dataset: int
    """Number of the data set: 0 for the real data, from 1 for simulated ones."""
    data: Mapping[str, np.ndarray]
    tuning: T
    chains: int
    """Number of runs."""
    sources: Sequence[Simulated] = ()
    """Simulated data with the states that reverse runs start from, in turn."""
    variant: int = 0
    """Number of this side among those with reverse runs on the same data."""

    def seconds(self: "Side[Tuning]", plan: Plan, n_temperatures: int) -> float:
        """Return the processor seconds of all runs of a round, estimated by the pilot."""
        return self._n_moves(plan, n_temperatures) * self.tuning.seconds_a_move

    def gradients(self: "Side[Tuning]", plan: Plan, n_temperatures: int) -> float:
        """Return the gradient evaluations of all runs of a round, estimated by the pilot."""
        return self._n_moves(plan, n_temperatures) * self.tuning.gradients_a_move

    def _n_moves(self, plan: Plan, n_temperatures: int) -> float:
        burn_in = sum(source.burn_in for source in self.sources) / max(1, len(self.sources))
        further = plan.further_moves if self.group == "real" else 0
        return self.chains * (burn_in + (n_temperatures + further) * plan.particles)

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the step size of the kernel at each β; NaN if it has none."""
        tuning: Tuning | None = self.tuning
        return tuning.step_size(betas) if tuning else np.full(len(betas), np.nan)

    def n_tasks(self, plan: Plan) -> int:
        """Return the number of tasks in a round."""
        return -(-self.chains // plan.block_size)

    def task(self, plan: Plan, betas: np.ndarray, round: int, index: int) -> AnnealTask:
        """Return one task of the round: a run of several particles, or a block of chains."""
        source = self.sources[index % len(self.sources)] if self.sources else None
        goes_up = self.group in ("real", "forward")
        direction = Direction.FORWARD if goes_up else Direction.REVERSE
        way = (direction is Direction.REVERSE) + self.variant
        key = (Purpose.ANNEAL, self.dataset, way, index, round)
        return AnnealTask(
            direction, self.data, betas, self.tuning, stream(plan.entropy, *key),
            source.point if source else None, source.burn_in if source else 0, plan.particles,
            min(plan.block_size, self.chains - index * plan.block_size),
            self.group == "real", plan.further_moves if self.group == "real" else 0,
        )  # fmt: skip


@dataclass(frozen=True)
class Round:
    """The results of one round of annealing."""

    schedule: Schedule
    sides: Sequence[Side]
    runs: dict[str, list[Annealing]]
    """Results of each group, one for each data set."""
    ends: dict[int, tuple[Point, np.ndarray]]
    """Last states and their weights on the real data, by the number of the run."""
    seconds: float
    confirms: bool = False
    """Whether the round repeats the one that met the target: with new runs, and on new simulated
    data if there can be any."""
    interrupted: bool = False

    @property
    def gap(self) -> tuple[float, float]:
        """Jeffreys bound and its error, nats; NaN without simulated data."""
        return jeffreys_bound(*(self.log_weights(group) for group in ("forward", "reverse")))

    def log_weights(self, group: str) -> np.ndarray:
        """Return the log weights of a group, shape (dataset, chain), nats."""
        return np.array([run.log_weight for run in self.runs.get(group, [])])

    @property
    def simulated(self) -> list[Simulated]:
        """The simulated data sets, with the states that their reverse runs start from."""
        return [side.sources[0] for side in self.sides if side.group == "reverse"]

    @property
    def is_readable(self) -> bool:
        """Whether every side has a finished run."""
        found = [run.log_weight for runs in self.runs.values() for run in runs]
        return not any(np.isnan(weights).all() for weights in found)

    def __str__(self) -> str:
        gap, error = self.gap
        bound = f", Jeffreys bound {gap:.3g} ± {error:.2g} nats" if "forward" in self.runs else ""
        return f"T = {self.schedule.n_temperatures}{bound}, {self.seconds:.1f} s"

    def meets(self, target_gap: float) -> bool:
        """Return whether the Jeffreys bound plus its error is at most the target."""
        gap, error = self.gap
        return max(gap, 0.0) + error <= target_gap


Report = Callable[[Callable[[], list[Round]]], None]
Path = tuple[np.ndarray, np.ndarray]
"""β and E_β[ℓ] there, nats."""


@dataclass(frozen=True, eq=False)
class Runs[T: Tuning | None]:
    """The runs ahead of a call."""

    sides: Sequence[Side[T]]
    """The real data first."""
    schedules: Sequence[Schedule]
    """The schedules of the planned rounds; with a target, of the first of them."""
    plan: Plan
    paths: Sequence[Path] = ()
    """E_β[ℓ] by the pilots on each data set; empty if a schedule has its own inverse temperatures.
    Otherwise these follow the pilots and, with a target, the forward chains of the round before.
    Reverse chains know θ*, so no schedule follows them."""
    renew: Callable[[], Sequence[Side[T]]] | None = None
    """Returns the sides of the round that confirms a target, on new simulated data. Without it,
    only the runs of that round are new."""


def anneal_in_rounds(pool: Pool, ahead: Runs, report: Report | None = None) -> list[Round]:
    """Anneal on every rung of a ladder; or, with a target, until the gap is small or a limit comes.

    Parameters
    ----------
    pool : Pool
        Where chains run.
    ahead : Runs
    report : callable, optional
        Called at every finished run; what it is called with returns what Ctrl-C would then.

    Returns
    -------
    list of Round
        The last one is the result.

    Raises
    ------
    KeyboardInterrupt
        If the pool was stopped before any chain was finished.
    """
    rounds: list[Round] = []
    sides, plan, paths = ahead.sides, ahead.plan, ahead.paths
    rungs, target_gap = ahead.schedules, plan.limits.target_gap
    planned = _until_the_gap_is_small(rungs[0], plan, rounds) if target_gap else rungs
    for schedule in planned:
        confirms = bool(rounds) and schedule is rounds[-1].schedule
        if paths and not confirms:
            schedule = _adapt(paths, schedule.n_temperatures)
        if confirms and ahead.renew:
            try:
                sides = ahead.renew()
            except KeyboardInterrupt:
                return _cut_short(rounds)
            except (FloatingPointError, ValueError) as error:
                _log.warning(
                    f"The last round is the result, but no new data could confirm it ({error})"
                )
                return rounds
        found = _anneal(pool, sides, schedule, rounds, plan, confirms, report)
        if found.interrupted:
            return _cut_short(rounds) or [found]
        rounds.append(found)
        if target_gap or len(rungs) > 1:
            _log.info(f"Round {len(rounds)}: {found}")
        if paths and target_gap:  # the rungs of a ladder are independent
            forward = found.runs["forward"] + found.runs.get("real", [])
            paths = [
                _smoothed(schedule.betas, run.by_beta["log_likelihood_path"]) for run in forward
            ]
    return rounds


def _until_the_gap_is_small(
    schedule: Schedule, plan: Plan, rounds: Sequence[Round]
) -> Iterator[Schedule]:
    """Yield schedules whose T doubles from round to round, until the gap is small enough.

    The gap that meets the target may owe it to noise, or to the θ* of its data sets. So that round
    is repeated with new runs on new data, and what they find is the result, whatever it is. A limit
    is no such choice: the round that reaches it is the result itself.
    """
    started, limits = time.perf_counter(), plan.limits
    target_gap = cast(float, limits.target_gap)
    while True:
        yield schedule
        schedule, n = rounds[-1].schedule, rounds[-1].schedule.n_temperatures
        if rounds[-1].meets(target_gap):
            yield schedule
            return
        limit = None
        next_two = 4 * rounds[-1].seconds + plan.preparation  # with the one that would confirm it
        if 2 * n > limits.most_temperatures:
            limit = f"max_temperatures={limits.most_temperatures}"
        elif limits.max_time and time.perf_counter() - started + next_two > limits.max_time:
            limit = f"max_time={limits.max_time:g} s"
        if limit:
            _log.warning(
                f"target_gap={target_gap:g} not reached within {limit}: the result is the last "
                "round."
            )
            return
        schedule = schedule.refined()


def _smoothed(betas: np.ndarray, means: np.ndarray) -> Path:
    """Return averages over `BLOCKS` stretches of a curve; a schedule must not follow its noise."""
    blocks = np.array_split(np.arange(1, len(betas) - 1), BLOCKS)
    inner = [block for block in blocks if len(block)]

    def smooth(values: np.ndarray) -> np.ndarray:
        return np.array([values[0], *(values[block].mean() for block in inner), values[-1]])

    return smooth(betas), smooth(means)


def _adapt(paths: Sequence[Path], n_temperatures: int) -> Schedule:
    """Return one schedule for all data sets, from (β, E_β[ℓ]) of each."""
    betas = np.unique(np.concatenate([betas for betas, _ in paths]))
    means = np.mean([mean_between(betas, *path) for path in paths], axis=0)
    return adaptive(betas, means, n_temperatures)


def _cut_short(rounds: Sequence[Round]) -> list[Round]:
    """Return the complete rounds, marked as interrupted."""
    return [*rounds[:-1], *(replace(each, interrupted=True) for each in rounds[-1:])]


@dataclass(frozen=True, eq=False)
class Tasks(Sequence[AnnealTask]):
    """The tasks of a round, each created on access: those on the real data come first.

    So Ctrl-C costs simulated data before it costs log ML. The others are one of each side in turn.
    """

    sides: Sequence[Side]
    plan: Plan
    betas: np.ndarray
    round: int

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Index and side of every task."""
        sides = enumerate(self.sides)
        every = ((index, i) for i, side in sides for index in range(side.n_tasks(self.plan)))
        return sorted(every, key=lambda place: (self.sides[place[1]].dataset > 0, *place))

    def __getitem__(self, k):
        index, i = self.places[k]
        return self.sides[i].task(self.plan, self.betas, self.round, index)


def _anneal(
    pool: Pool,
    sides: Sequence[Side],
    schedule: Schedule,
    rounds: Sequence[Round],
    plan: Plan,
    confirms: bool,
    report: Report | None,
) -> Round:
    """Run all tasks of the next round; after Ctrl-C the round holds those that were finished."""
    started = time.perf_counter()
    betas = schedule.betas
    recorders = [Recorder(side.chains, betas, plan.judges_acceptance) for side in sides]
    tasks = Tasks(sides, plan, betas, len(rounds))

    def found() -> Round:
        by_group: dict[str, list[Annealing]] = {}
        for side, recorder in zip(sides, recorders, strict=True):
            run = recorder.collected(side.step_size(betas))
            by_group.setdefault(side.group, []).append(run)
        ends = dict(recorders[0].ends)
        seconds = time.perf_counter() - started + pool.spent
        interrupted = sum(r.n_finished for r in recorders) < sum(side.chains for side in sides)
        return Round(schedule, sides, by_group, ends, seconds, confirms, interrupted)

    totals: Counter[str] = Counter()
    for side in sides:
        totals[side.group] += side.chains
    with ChainProgress(totals, plan.progressbar) as progress:
        for k, run in pool.run(tasks):
            index, i = tasks.places[k]
            recorders[i].add(index * plan.block_size, run)
            progress.finished(sides[i].group, *np.atleast_1d(run.log_weight))
            if report:
                report(lambda: _cut_short(rounds) or [found()])
    if not (rounds or any(recorder.n_finished for recorder in recorders)):
        raise KeyboardInterrupt(NOTHING_FINISHED)
    return found()
