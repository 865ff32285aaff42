"""One run on given data: its starts, its annealing, and its further moves at β = 1."""

import numpy as np
from scipy.special import softmax

from pymc_bdmc.base.types import Direction, Population, Run
from pymc_bdmc.density.graph import row_ends
from pymc_bdmc.density.prior import MAX_PRIOR_DRAWS, MOST_TRIALS
from pymc_bdmc.engines.compiled import ahead
from pymc_bdmc.engines.compiled.counted import Counted, Stopped
from pymc_bdmc.engines.compiled.draws import log_e_value, settled, weigh
from pymc_bdmc.engines.compiled.improving import log_weights_at
from pymc_bdmc.engines.compiled.loops import (
    INFINITE,
    STOPPED,
    RunPlan,
    RunRecord,
    anneal_run,
    empty_record,
)
from pymc_bdmc.engines.compiled.pilot import PathTuning
from pymc_bdmc.engines.compiled.population import Trace, move_population
from pymc_bdmc.engines.compiled.problem import Problem
from pymc_bdmc.engines.tasks import AnnealTask
from pymc_bdmc.kernels.prior_move import no_draw
from pymc_bdmc.kernels.resampling import places
from pymc_bdmc.kernels.transition import CompiledKernel, Setting

FRESH_STRIDE = 4
FRESH, FRESH_ONE_BY_ONE = 512, 32
"""Most moves of a chain to fresh prior draws: if these are made in batches, and one by one."""

Starts = tuple[np.ndarray, np.ndarray, int | np.ndarray]
"""Starts, one a row; further prior draws; and the numbers of draws per accepted one."""


def annealed(
    problem: Problem, moves: CompiledKernel, task: AnnealTask[PathTuning], rng: np.random.Generator
) -> Run | None:
    """Anneal one run from its own starts; None if it was stopped.

    A chain may move to prior draws along the path; populations do not need this.

    Raises
    ------
    FloatingPointError
        If a log density is +∞; the message names β and the variables.
    """
    betas, reverse = task.betas, task.direction is Direction.REVERSE
    in_turn, stride = problem.jitted.rows > 0, _stride(problem, len(betas))
    n_fresh = 0 if in_turn else (len(betas) - 1) // stride
    started = (
        start_of_chain(problem, task, n_fresh, rng)
        if task.particles == 1
        else starts_of_particles(problem, task, rng)
    )
    if started is None:
        return None
    starts, draws, prior_draws = started
    plan = RunPlan(
        betas, task.tuning.along(betas), starts, reverse, task.burn_in, reverse,
        places(len(betas) - 1), draws, stride, in_turn,
    )  # fmt: skip
    record = empty_record(len(betas), len(starts))
    ahead.wait()
    ends, weights, ancestors, gradients, status, arrival = anneal_run(
        problem.target, moves, plan, rng, problem.stop, record
    )
    if status == STOPPED:
        return None
    if status == INFINITE:
        problem.raise_at(betas[arrival], ends[0])
    if task.further_moves:
        states, cost = _further(problem, moves, task, ends, rng)
        if problem.stop[0]:
            return None
        ends = np.concatenate([ends, *states])
        weights = np.tile(weights, 1 + task.further_moves) / (1 + task.further_moves)
        gradients += cost
    return Run(
        float(np.diff(betas) @ record.highest[:-1] + record.rests.sum()),
        record.path,
        record.acceptance,
        record.divergences,
        gradients,
        problem.jitted.unravel(ends),
        weights,
        Population(record.effective_size, record.resampled, ancestors),
        prior_draws,
        row_log_weight=_by_row(betas, problem.jitted.rows, record),
    )


def _stride(problem: Problem, n_betas: int) -> int:
    """Return the number of transitions between moves of a chain to fresh prior draws."""
    fresh = FRESH if problem.density.prior.batches else FRESH_ONE_BY_ONE
    return max(FRESH_STRIDE, -(-n_betas // fresh))


def start_of_chain(
    problem: Problem, task: AnnealTask[PathTuning], n_fresh: int, rng: np.random.Generator
) -> Starts | None:
    """Return the start of a chain, with prior draws to which it may move; None if stopped."""
    spent = 0
    draws = problem.draw(n_fresh + 1, rng)
    if task.start is not None:
        return problem.jitted.ravel(task.start)[None], draws[1:], 0
    while (place := _first_supported(problem, draws)) is None:
        spent += len(draws)
        if problem.stop[0]:
            return None
        if spent > MAX_PRIOR_DRAWS:
            raise problem.impossible(draws, spent)
        draws = problem.draw(n_fresh + 1, rng)
    fresh = draws[place + 1 :]
    if place:
        fresh = np.concatenate([fresh, problem.draw(place, rng)])
    trials = [spent + place + 1]
    if task.tuning.accepted_draws > 1:
        trials += problem.accepted(task.tuning.accepted_draws - 1, MOST_TRIALS, rng)[1]
    return draws[[place]], fresh, np.array(trials)


def _first_supported(problem: Problem, thetas: np.ndarray) -> int | None:
    """Return the index of the first row in S."""
    return next((i for i in range(len(thetas)) if len(problem.supported(thetas[[i]])[0])), None)


def starts_of_particles(
    problem: Problem, task: AnnealTask[PathTuning], rng: np.random.Generator
) -> Starts | None:
    """Return the starts of particles, without further prior draws; None if stopped."""
    n = task.particles
    kept = [] if task.start is None else [problem.jitted.ravel(task.start)]
    needed = n - 1 if kept else max(n, task.tuning.accepted_draws)
    thetas, trials = problem.accepted(needed, n, rng)
    starts = np.array([*kept, *thetas[: n - len(kept)]])
    if len(starts) < n:
        return None
    return starts, np.empty((0, starts.shape[1])), 0 if kept else np.array(trials)


def _further(
    problem: Problem,
    moves: CompiledKernel,
    task: AnnealTask[PathTuning],
    ends: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """Return the states of all particles after each further move at β = 1, and gradients."""
    trace, gradients = at_the_end(
        problem, moves, task.tuning, ends, task.further_moves, rng, adapts=False
    )
    return trace.thetas, gradients


def at_the_end(
    problem: Problem,
    moves: CompiledKernel,
    tuning: PathTuning,
    thetas: np.ndarray,
    n: int,
    rng: np.random.Generator,
    *,
    adapts: bool,
) -> tuple[Trace, int]:
    """Return the states of every row after each of n moves at β = 1, and gradient counts."""
    rows, size = thetas.shape
    trace = Trace(
        np.full((n, rows), np.nan),
        np.empty((n, rows, size)),
        np.empty((2, n, rows, problem.jitted.n_continuous)),
    )
    last = Setting(1.0, tuning.last_parameters, no_draw(), False)
    *_, gradients = move_population(
        problem.target, moves, last, thetas.copy(), adapts, rng, problem.stop, trace
    )
    return trace, gradients


def _by_row(betas: np.ndarray, rows: int, record: RunRecord) -> np.ndarray | None:
    """Return the parts of log Ẑ that came with each row, if the temperatures end with each."""
    ends = row_ends(betas, rows) if rows else None
    if ends is None:
        return None
    gains = np.diff(betas) * record.highest[:-1] + record.rests[1:]
    return np.add.reduceat(gains, [0, *ends[:-1]])


def weighed(problem: Problem, task: AnnealTask, rng: np.random.Generator) -> Run | None:
    """Weigh draws from the reference, with θ* among them in a reverse run; None if stopped."""
    reference, n, density = task.tuning.reference, task.particles, Counted(problem)
    of_start: dict[str, float] = {}
    try:
        thetas, log_r = reference.sample(n, rng, density)
        if task.start is not None:
            thetas[0] = problem.jitted.ravel(task.start)
            if task.burn_in:
                thetas[0], distance = settled(thetas[0], reference, density, task.burn_in, rng)
                of_start["start_distance"] = distance
            log_r[0] = reference.log_density(thetas[:1], density, rng)[0]
        g = log_weights_at(thetas, log_r, density)
    except Stopped:
        return None
    for theta in thetas[~(g < np.inf)]:
        problem.raise_at(1.0, theta)
    if task.start is not None:
        of_start["log_e_value"] = log_e_value(softmax(g))
    return weigh(g, problem.jitted.unravel(thetas), density.evaluations, of_start)
