"""One run on given data: its starts, its annealing, and its further moves at β = 1."""

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.special import softmax

from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.density.prior import MAX_PRIOR_DRAWS, MOST_TRIALS
from pymc_bdmc.engines.problem import Problem
from pymc_bdmc.fits.draws import importance_run, log_e_value, log_weights_at, metropolis
from pymc_bdmc.kernels.transition import Setting
from pymc_bdmc.pilots.pilot import Trace, empty_trace, move_population
from pymc_bdmc.run.chain import Plan, Table, anneal_chain, anneal_population
from pymc_bdmc.run.loop import Record, Stopped
from pymc_bdmc.run.resampling import places
from pymc_bdmc.run.tasks import AnnealTask

FRESH_STRIDE = 4
"""Least number of transitions of a chain between moves to fresh prior draws. Chosen."""


def annealed(problem: Problem, task: AnnealTask, rng: Generator) -> Run | None:
    """Anneal one run from its own starts; None if it was stopped."""
    table: Table = task.tuning.kernels
    betas, n, reverse = task.betas, task.particles, task.direction is Direction.REVERSE
    rows, stride = problem.jitted.rows, _stride(problem, len(betas))
    n_fresh = 0 if rows else (len(betas) - 1) // stride
    try:
        starts, draws, prior_draws = (
            start_of_chain(problem, task, n_fresh, rng)
            if n == 1
            else starts_of_particles(problem, task, rng)
        )
        below, fractions = table.places(betas)
        plan = Plan(
            betas, table, below, fractions, reverse, task.burn_in, reverse,
            places(len(betas) - 1), draws, stride, rows > 0,
        )  # fmt: skip
        record = Record(len(betas) - 1, n, 2)
        ends, weights, ancestors = run_plan(problem, plan, starts, rng, record)
        if task.further_moves:
            trace, cost = at_the_end(problem, table, ends, task.further_moves, rng)
            if problem.stop[0]:
                return None
            record.gradients += cost
            ends = np.concatenate([ends, *trace.thetas])
            weights = np.tile(weights, 1 + task.further_moves) / (1 + task.further_moves)
    except Stopped:
        return None
    return record.run(
        betas, problem.jitted.unravel(ends), weights, ancestors, prior_draws=prior_draws,
        row_log_weight=_by_row(betas, rows, record),
    )  # fmt: skip


def run_plan(
    problem: Problem, plan: Plan, starts: ndarray, rng: Generator, record: Record
) -> tuple[ndarray, ndarray, int]:
    """Run a chain or a population, and fill the record; return ends, weights and ancestors.

    In reverse the first particle is annealed to the prior, and then the others to β = 1.
    """
    ends, weights, ancestors = starts.copy(), np.ones(1), 1
    target, moves = problem.target, problem.moves
    trail = np.empty((plan.places.sum() if plan.reverse and len(ends) > 1 else 0, ends.shape[1]))
    if plan.reverse or len(ends) == 1:
        records = record.mean, record.acceptance, record.divergences, trail
        record.gradients = anneal_chain(target, moves, plan, ends[0], rng, problem.stop, records)
        record.highest[:] = record.mean
    if len(ends) > 1:
        gradients, weights, ancestors = anneal_population(
            target, moves, plan, ends, rng, problem.stop, record.arrays, trail
        )
        record.gradients += gradients
    if problem.stop[0]:
        raise Stopped
    return ends, weights, ancestors


def _stride(problem: Problem, n_betas: int) -> int:
    """Number of transitions between moves of a chain to fresh prior draws."""
    most = 512 if problem.density.prior.batch else 32  # draws one by one take longer; chosen
    return max(FRESH_STRIDE, -(-n_betas // most))


def start_of_chain(
    problem: Problem, task: AnnealTask, n_fresh: int, rng: Generator
) -> tuple[ndarray, ndarray, int | ndarray]:
    """Return the start of a chain, prior draws to which it may move, and how many it took."""
    spent = 0
    draws = problem.draw(n_fresh + 1, rng)
    if task.start is not None:
        return problem.jitted.ravel(task.start)[None], draws[1:], 0
    while (place := _first_supported(problem, draws)) is None:
        spent += len(draws)
        if problem.stop[0]:
            raise Stopped
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


def _first_supported(problem: Problem, thetas: ndarray) -> int | None:
    """Index of the first row in S."""
    return next((i for i in range(len(thetas)) if len(problem.supported(thetas[[i]])[0])), None)


def starts_of_particles(
    problem: Problem, task: AnnealTask, rng: Generator
) -> tuple[ndarray, ndarray, int | ndarray]:
    """Return the starts of particles, no further prior draws, and how many each start took."""
    n = task.particles
    kept = [] if task.start is None else [problem.jitted.ravel(task.start)]
    needed = n - 1 if kept else max(n, task.tuning.accepted_draws)
    thetas, trials = problem.accepted(needed, n, rng)
    starts = np.array([*kept, *thetas[: n - len(kept)]])
    if len(starts) < n:
        raise Stopped
    return starts, np.empty((0, starts.shape[1])), 0 if kept else np.array(trials)


def at_the_end(
    problem: Problem, table: Table, thetas: ndarray, n: int, rng: Generator, *, adapts: bool = False
) -> tuple[Trace, int]:
    """Return the states of every row after each of n moves at β = 1, and gradient counts."""
    trace = empty_trace(n, thetas, problem.jitted.n_continuous)
    last = Setting(1.0, table.row(-1), np.empty(0), False)
    *_, gradients = move_population(
        problem.target, problem.moves, last, thetas.copy(), adapts, rng, problem.stop, trace
    )
    return trace, gradients


def _by_row(betas: ndarray, rows: int, record: Record) -> ndarray | None:
    """Return the parts of log Ẑ that came with each row, if the temperatures end with each."""
    if not rows:
        return None
    ends = np.arange(1, rows + 1) / rows
    completing = np.minimum(np.searchsorted(betas, ends - 1e-9), len(betas) - 1)
    if not np.allclose(betas[completing], ends, rtol=0, atol=1e-9):
        return None
    gains = np.diff(betas) * record.highest[:-1] + record.rests[1:]
    return np.add.reduceat(gains, [0, *completing[:-1]])


def weighted_draws(problem: Problem, task: AnnealTask, rng: Generator) -> Run | None:
    """Return draws with importance weights, θ* among them in a reverse run; None if stopped."""
    reference, n = task.tuning.reference, task.particles
    of_start: dict[str, float] = {}
    try:
        thetas, log_r = reference.sample(n, rng, problem)
        if task.start is not None:
            thetas[0] = problem.jitted.ravel(task.start)
            if task.burn_in:
                thetas[0], distance = metropolis(thetas[0], reference, problem, task.burn_in, rng)
                of_start["start_distance"] = distance
            log_r[0] = reference.log_density(thetas[:1], problem, rng)[0]
        g = log_weights_at(thetas, log_r, problem)
    except Stopped:
        return None
    if task.start is not None:
        of_start["log_e_value"] = log_e_value(softmax(g))
    return importance_run(g, problem.jitted.unravel(thetas), problem.evaluations, of_start)
