"""Rounds of annealing on all data sets: on a ladder of T, or until a target for the gap is met."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import xarray as xr

from pymc_bdmc.base import logger
from pymc_bdmc.base.interrupts import NOTHING_FINISHED
from pymc_bdmc.base.progress import ChainProgress
from pymc_bdmc.base.schedules import Schedule, adaptive, mean_between
from pymc_bdmc.base.streams import Entropy, Purpose, stream
from pymc_bdmc.base.types import Annealing, Direction, Point
from pymc_bdmc.call.options import CallOptions
from pymc_bdmc.call.session import Session
from pymc_bdmc.estimators import jeffreys_bound
from pymc_bdmc.run.recorder import Recorder
from pymc_bdmc.run.tasks import AnnealTask
from pymc_bdmc.simulations import Simulated

_log = logger(__name__)

Curve = tuple[np.ndarray, np.ndarray]
"""β and E_β[ℓ] there, nats."""


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a sandwich: the runs of one direction on one data set."""

    group: Literal["real", "real_reverse", "forward", "reverse", "burn_in"]
    dataset: int
    """Number of the data set: 0 for the real data, from 1 for simulated ones."""
    data: Mapping[str, np.ndarray]
    tuning: Any
    """`Tuning` of the kernels; None for a system that needs no pilots."""
    chains: int
    particles: int = 1
    sources: Sequence[Simulated] = ()
    """Simulated data with the states that reverse runs start from, in turn."""
    variant: int = 0
    """Number of this side among those with reverse runs on the same data."""
    block_size: int = 1
    """Chains of a task, which move side by side."""
    further_moves: int = 0
    """Moves of the particles at β = 1 after the last temperature."""

    def moves(self, n_temperatures: int) -> float:
        """Return the number of applications of the kernel to one state in a round."""
        burn_in = sum(source.burn_in for source in self.sources) / max(1, len(self.sources))
        n = n_temperatures + self.further_moves
        return self.chains * (burn_in + n * self.particles)

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the step size of the kernel at each β; NaN if it has none."""
        return self.tuning.step_size(betas) if self.tuning else np.full(len(betas), np.nan)

    @property
    def n_tasks(self) -> int:
        """Number of tasks in a round."""
        return -(-self.chains // self.block_size)

    def task(self, entropy: Entropy, betas: np.ndarray, round: int, index: int) -> AnnealTask:
        """Return one task of the round: a run of several particles, or a block of chains."""
        source = self.sources[index % len(self.sources)] if self.sources else None
        goes_up = self.group in ("real", "forward")
        direction = Direction.FORWARD if goes_up else Direction.REVERSE
        key = (Purpose.ANNEAL, self.dataset, (not goes_up) + self.variant, index, round)
        return AnnealTask(
            direction,
            self.data,
            betas,
            self.tuning,
            stream(entropy, *key),
            start=source.point if source else None,
            burn_in=source.burn_in if source else 0,
            particles=self.particles,
            chains=min(self.block_size, self.chains - index * self.block_size),
            keeps_ends=self.group == "real",
            further_moves=self.further_moves,
        )


@dataclass(frozen=True, eq=False)
class Tasks(Sequence[AnnealTask]):
    """The tasks of a round, each created on access.

    Tasks on the real data come first, so that Ctrl-C costs simulated data before it costs log ML.
    Then every side has one task in turn.
    """

    sides: Sequence[Side]
    entropy: Entropy
    betas: np.ndarray
    round: int

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Index and side of every task."""
        every = ((k, i) for i, side in enumerate(self.sides) for k in range(side.n_tasks))
        return sorted(every, key=lambda place: (self.sides[place[1]].dataset > 0, *place))

    def __getitem__(self, k):
        index, i = self.places[k]
        return self.sides[i].task(self.entropy, self.betas, self.round, index)


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan:
    """The runs of a call: all sides of its sandwiches, and the schedule of each round."""

    sides: Sequence[Side]
    """The real data first."""
    schedules: Sequence[Schedule]
    """The schedules of the planned rounds; with a target, of the first of them."""
    curves: Sequence[Curve] = ()
    """E_β[ℓ] by the pilots on each data set; empty if a schedule has its own inverse temperatures.
    Otherwise these adapt to the pilots and, with a target, to the forward chains of the round
    before. Reverse chains know θ*, so no schedule may depend on them."""
    renew: Callable[[], Sequence[Side]] | None = None
    """Returns the sides of the round that confirms a target, on new simulated data. Without it,
    only the runs of that round are new."""
    renewal_time: float = 0.0
    """Seconds that new data and their tuning take."""


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


Result = Callable[[Sequence[Round]], xr.DataTree]
"""Function that makes the result of some rounds, of which the last may be unfinished."""


def anneal_in_rounds(session: Session, plan: Plan, result: Result) -> list[Round]:
    """Return the rounds of a ladder or, with a target, all until the gap is small or a limit comes.

    The last one is the result. Store and callback see the ``result`` so far at every finished run.
    Ctrl-C before any run is finished raises KeyboardInterrupt.
    """
    rounds: list[Round] = []
    sides, curves, target_gap = plan.sides, plan.curves, session.options.target_gap
    planned: Iterable[Schedule] = plan.schedules
    if target_gap:
        planned = _until_the_gap_is_small(target_gap, session.options, plan, rounds)
    for schedule in planned:
        confirms = bool(rounds) and schedule is rounds[-1].schedule
        if curves and not confirms:
            schedule = _adapt(curves, schedule.n_temperatures)
        if confirms and plan.renew:
            try:
                sides = plan.renew()
            except KeyboardInterrupt:
                return _cut_short(rounds)
            except (FloatingPointError, ValueError) as error:
                _log.warning(
                    f"The last round is the result, but no new data could confirm it ({error})"
                )
                return rounds
        found = _anneal(session, sides, schedule, rounds, confirms, result)
        if found.interrupted:
            return _cut_short(rounds) or [found]
        rounds.append(found)
        if target_gap or len(plan.schedules) > 1:
            _log.info(f"Round {len(rounds)}: {found}")
        if curves and target_gap:  # the rounds of a ladder are independent
            forward = found.runs["forward"] + found.runs.get("real", [])
            curves = [
                _smoothed(schedule.betas, run.by_beta["log_likelihood_path"]) for run in forward
            ]
    return rounds


def _until_the_gap_is_small(
    target_gap: float, options: CallOptions, plan: Plan, rounds: Sequence[Round]
) -> Iterator[Schedule]:
    """Yield schedules whose T doubles from round to round, until the gap is small enough.

    The gap that meets the target may be noise, or due to the θ* of its data sets. So that round is
    repeated with new runs on new data, and what they find is the result, whatever it is. A limit is
    no such choice: the round that reaches it is the result itself.
    """
    started, schedule = time.perf_counter(), plan.schedules[0]
    most = options.max_temperatures or 1_000_000
    while True:
        yield schedule
        last = rounds[-1]
        schedule = last.schedule
        if last.meets(target_gap):
            yield schedule
            return
        limit = None
        next_two = 4 * last.seconds + plan.renewal_time  # with the one that would confirm it
        if 2 * schedule.n_temperatures > most:
            limit = f"max_temperatures={most}"
        elif options.max_time and time.perf_counter() - started + next_two > options.max_time:
            limit = f"max_time={options.max_time:g} s"
        if limit:
            _log.warning(
                f"target_gap={target_gap:g} not reached within {limit}: the result is the last "
                "round."
            )
            return
        schedule = schedule.refined()


def _smoothed(betas: np.ndarray, means: np.ndarray) -> Curve:
    """Return averages over 30 stretches of a curve; a schedule must not adapt to its noise."""
    blocks = np.array_split(np.arange(1, len(betas) - 1), 30)
    inner = [block for block in blocks if len(block)]

    def smooth(values: np.ndarray) -> np.ndarray:
        return np.array([values[0], *(values[block].mean() for block in inner), values[-1]])

    return smooth(betas), smooth(means)


def _adapt(curves: Sequence[Curve], n_temperatures: int) -> Schedule:
    """Return one schedule for all data sets, from (β, E_β[ℓ]) of each."""
    betas = np.unique(np.concatenate([betas for betas, _ in curves]))
    means = np.mean([mean_between(betas, *curve) for curve in curves], axis=0)
    return adaptive(betas, means, n_temperatures)


def _cut_short(rounds: Sequence[Round]) -> list[Round]:
    """Return the complete rounds, marked as interrupted."""
    return [*rounds[:-1], *(replace(each, interrupted=True) for each in rounds[-1:])]


def _anneal(
    session: Session,
    sides: Sequence[Side],
    schedule: Schedule,
    rounds: Sequence[Round],
    confirms: bool,
    result: Result,
) -> Round:
    """Run all tasks of the next round; after Ctrl-C the round has those that were finished."""
    started, betas, store = time.perf_counter(), schedule.betas, session.store
    # Few accepted proposals are no fault of a system that has no tuning.
    recorders = [Recorder(side.chains, betas, side.tuning is not None) for side in sides]
    tasks = Tasks(sides, session.entropy, betas, len(rounds))

    def found() -> Round:
        by_group: dict[str, list[Annealing]] = {}
        for side, recorder in zip(sides, recorders, strict=True):
            run = recorder.collected(side.step_size(betas))
            by_group.setdefault(side.group, []).append(run)
        ends = dict(recorders[0].ends)
        seconds = time.perf_counter() - started + (store.spent if store else 0.0)
        interrupted = sum(r.n_finished for r in recorders) < sum(side.chains for side in sides)
        return Round(schedule, sides, by_group, ends, seconds, confirms, interrupted)

    totals: Counter[str] = Counter()
    for side in sides:
        totals[side.group] += side.chains
    with ChainProgress(totals, session.options.progressbar) as progress:
        for k, run in session.run(tasks):
            index, i = tasks.places[k]
            recorders[i].add(index * sides[i].block_size, run)
            progress.finished(sides[i].group, *np.atleast_1d(run.log_weight))
            _report(session, result, lambda: _cut_short(rounds) or [found()])
    if not (rounds or any(recorder.n_finished for recorder in recorders)):
        raise KeyboardInterrupt(NOTHING_FINISHED)
    return found()


def _report(session: Session, result: Result, so_far: Callable[[], Sequence[Round]]) -> None:
    """Show the result so far to readers of the store and to the callback."""
    store, callback = session.store, session.options.callback
    if store and store.is_due and (rounds := so_far())[-1].is_readable:
        store.show(lambda: result(rounds))
    if callback:
        try:
            callback(result(so_far()))
        except KeyboardInterrupt:  # as in PyMC
            session.stop[0] = 1
