"""Annealing runs inside numba, for the threads of the compiled engine."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.prior_move import Draw, no_draw
from pymc_bdmc.kernels.resampling import THRESHOLD, effective_size, mean_of, resample, reweigh
from pymc_bdmc.kernels.state import (
    Parameters,
    Workspace,
    copy,
    copy_vector,
    evaluate,
    is_legal,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting
from pymc_bdmc.reference.metric import Metric

FINISHED, INFINITE, STOPPED = range(3)


class Table(NamedTuple):
    """The `Parameters` at G values of β."""

    step_sizes: np.ndarray
    """Step sizes, shape (G,), in units of ``scales``."""
    scales: np.ndarray
    """Standard deviations of the metric, shape (G, n)."""
    directions: np.ndarray
    """Directions of the metric, shape (G, k, n)."""
    excesses: np.ndarray
    """Excesses along the directions, shape (G, k); 0 beyond the directions of a metric."""
    widths: np.ndarray
    """Standard deviations of the discrete elements, shape (G, m)."""


class PathParameters(NamedTuple):
    """Parameters of K_t, interpolated between rows ``rows[t]`` and ``rows[t] + 1`` of a table."""

    table: Table
    rows: np.ndarray
    """Row below each K_t, shape (T + 1,)."""
    fractions: np.ndarray
    """Fraction of the distance to the next row, shape (T + 1,)."""


class RunPlan(NamedTuple):
    """Schedule, tuning, starts and direction of a run."""

    betas: np.ndarray
    """The schedule, shape (T + 1,)."""
    tuning: PathParameters
    starts: np.ndarray
    """Starts, shape (N, d); in a reverse run the first is θ*."""
    reverse: bool
    """Whether the run is reverse: the first particle goes from β = 1 to 0, the others upwards."""
    burn_in: int
    """Number of transitions at β = 1 before a reverse run."""
    reversal: bool
    """Whether the reversal of every kernel is applied, as in a reverse run."""
    places: np.ndarray
    """Temperatures at which particles may be resampled, shape (T + 1,)."""
    draws: np.ndarray
    """Prior draws; the next one is proposed at every multiple of ``stride``."""
    stride: int
    in_turn: bool
    """Whether the target is a path of the data."""


class RunRecord(NamedTuple):
    """Records of a run at every β."""

    path: np.ndarray
    """Weighted mean of ℓ, nats."""
    highest: np.ndarray
    """Largest ℓ of a particle with positive weight, nats."""
    rests: np.ndarray
    """Remainder that `reweigh` adds to log Ẑ, nats."""
    acceptance: np.ndarray
    """Acceptance of the discrete and of the continuous elements, shape (T + 1, 2)."""
    divergences: np.ndarray
    effective_size: np.ndarray
    resampled: np.ndarray


def empty_record(n_betas: int, n_particles: int) -> RunRecord:
    """Return a record that a run fills."""
    return RunRecord(
        np.empty(n_betas),
        np.empty(n_betas),
        np.zeros(n_betas),
        np.full((n_betas, 2), np.nan),
        np.zeros(n_betas, dtype=int),
        np.full(n_betas, float(n_particles)),
        np.zeros(n_betas, dtype=bool),
    )


@njit(nogil=True, cache=True)
def parameters_at(t, tuning, scale, widths):
    """Return the parameters of K_t; vectors are written to ``scale`` and ``widths``."""
    table, low, w = tuning.table, tuning.rows[t], tuning.fractions[t]
    high = min(low + 1, table.step_sizes.size - 1)
    for i in range(scale.size):
        scale[i] = (1.0 - w) * table.scales[low, i] + w * table.scales[high, i]
    for i in range(widths.size):
        widths[i] = (1.0 - w) * table.widths[low, i] + w * table.widths[high, i]
    nearest = low if w < 0.5 else high
    metric = Metric(scale, table.directions[nearest], table.excesses[nearest])
    step_size = (1.0 - w) * table.step_sizes[low] + w * table.step_sizes[high]
    return Parameters(metric, step_size, widths)


class Memory(NamedTuple):
    """Working memory of the loops, allocated once per run."""

    work: Workspace
    scale: np.ndarray
    """Standard deviations of the present metric, shape (n,)."""
    widths: np.ndarray
    """Present standard deviations of the discrete elements, shape (m,)."""
    kept: np.ndarray
    """θ of the first particle of a reverse run at temperatures of resampling, shape (places, d)."""


@njit(nogil=True, cache=True)
def draw_at(t, plan, nothing):
    """Return the prior draw that K_t proposes, if any."""
    place = t // plan.stride - 1
    if t % plan.stride == 0 and place < len(plan.draws):
        return Draw(True, plan.draws[place])
    return nothing


@njit(nogil=True, cache=True, title="the annealing loop")
def anneal_run(target, kernel, plan, rng, stop, record):
    """Anneal one run, as `driver.anneal` does; fills the ``record``.

    Returns
    -------
    ends : ndarray of shape (N, d)
        The last θ of each particle; in a reverse run the first is θ_0.
    weights : ndarray of shape (N,)
        Normalised weights.
    ancestors : int
        Number of starts with descendants among the last particles.
    gradient_evaluations : int
    status : int
        FINISHED; INFINITE, with the state in ``ends[0]``; or STOPPED, by a set ``stop[0]``.
    arrival : int
        Index of the last temperature that was reached.
    """
    n, size = plan.starts.shape
    n_continuous = plan.tuning.table.scales.shape[1]
    memory = Memory(
        make_workspace(size, n_continuous),
        np.empty(n_continuous),
        np.empty(plan.tuning.table.widths.shape[1]),
        np.empty((np.sum(plan.places) if plan.reverse and n > 1 else 0, size)),
    )
    ends, weights, ancestors, gradients = plan.starts.copy(), np.full(n, 1.0 / n), 1, 0
    status, arrival = FINISHED, 0
    if plan.reverse:
        gradients, status, arrival = lead(target, kernel, plan, ends[0], memory, rng, stop, record)
    if status == FINISHED and (n > 1 or not plan.reverse):
        weights, ancestors, more, status, arrival = follow(
            target, kernel, plan, ends, memory, rng, stop, record
        )
        gradients += more
    return ends, weights, ancestors, gradients, status, arrival


@njit(nogil=True, inline="always")
def face(target, plan, t, states, first):
    """Make ℓ of the states the slope of log f_β up to the next temperature, on a path of the data.

    At the last temperature, use the previous step. Return the number of gradient evaluations.
    """
    t, n = min(t, plan.betas.size - 2), len(states.theta)
    target.interval[0] = plan.betas[t]
    target.interval[1] = plan.betas[t + 1]
    for i in range(first, n):
        evaluate(target, state_at(states, i))
    return n - first


@njit(nogil=True, inline="always")
def lead(target, kernel, plan, theta, memory, rng, stop, record):
    """Anneal θ* to the prior, in place; store θ at every temperature of possible resampling.

    Returns
    -------
    gradient_evaluations, status, arrival : int
    """
    last, gradients = plan.betas.size - 1, 0
    tuning = plan.tuning  # once, since numba counts references to its arrays
    states, nothing = make_states(1, theta.size, memory.scale.size), no_draw()
    row = len(memory.kept)
    state = state_at(states, 0)
    copy_vector(theta, state.theta)
    evaluate(target, state)
    if plan.in_turn:
        face(target, plan, last, states, 0)
    total, arrival, status = plan.burn_in + last, last, FINISHED
    for k in range(total + 1):
        if k > 0:
            t = min(total + 1 - k, last)
            arrival = min(total - k, last)
            parameters = parameters_at(t, tuning, memory.scale, memory.widths)
            draw = draw_at(t, plan, nothing) if k > plan.burn_in else nothing
            setting = Setting(plan.betas[t], parameters, draw, plan.reversal)
            if plan.in_turn:
                gradients += face(target, plan, t - 1, states, 0)
            move = kernel.transitions(target, setting, states, 0, memory.work, rng)
            record.acceptance[t, 0], record.acceptance[t, 1] = move.acceptance
            record.divergences[t] = move.diverging
            gradients += move.gradient_evaluations
        record.path[arrival] = record.highest[arrival] = state.terms[1]
        if row > 0 and k >= plan.burn_in and arrival < last and plan.places[arrival + 1]:
            row -= 1
            copy_vector(state.theta, memory.kept[row])
        if not is_legal(state):
            status = INFINITE
        elif stop[0]:
            status = STOPPED
        if status != FINISHED:
            break
    copy_vector(state.theta, theta)
    return gradients, status, arrival


@njit(nogil=True, inline="always")
def follow(target, kernel, plan, thetas, memory, rng, stop, record):
    """Anneal all particles from the prior to β = 1, in place, with resampling.

    In a reverse run the first particle starts at θ_0 and follows its stored path (ℓ in the
    ``record``, θ in ``memory.kept``); other particles may be resampled onto it.

    Returns
    -------
    weights : ndarray of shape (N,)
        Normalised weights.
    ancestors, gradient_evaluations, status, arrival : int
    """
    n, size = thetas.shape
    first = 1 if plan.reverse else 0
    tuning = plan.tuning  # once, since numba counts references to its arrays
    members = make_states(n, size, memory.scale.size)
    spare = make_states(n if n > 1 else 0, size, memory.scale.size)
    weights, ells, roots = np.full(n, 1.0 / n), np.empty(n), np.arange(n)
    nothing, gradients, row = no_draw(), 0, 0
    for i in range(n):
        member = state_at(members, i)
        copy_vector(thetas[i], member.theta)
        evaluate(target, member)
    if plan.in_turn:
        face(target, plan, 0, members, 0)
    illegal = note(members, 0, ells)
    if illegal >= 0:
        copy_vector(thetas[illegal], thetas[0])
        return weights, n, gradients, INFINITE, 0
    record.path[0] = mean_of(weights, ells)
    for t in range(1, plan.betas.size):
        rise = plan.betas[t] - plan.betas[t - 1]
        record.highest[t - 1], record.rests[t] = reweigh(weights, ells, rise)
        record.effective_size[t] = effective_size(weights)
        record.resampled[t] = plan.places[t] and record.effective_size[t] < THRESHOLD * n
        if record.resampled[t]:
            ancestors = resample(weights, plan.reverse, rng)
            if plan.reverse and np.sum(ancestors == 0) > 1:
                member = state_at(members, 0)
                copy_vector(memory.kept[row], member.theta)
                evaluate(target, member)
                gradients += 1
            for i in range(first, n):
                copy(state_at(members, ancestors[i]), state_at(spare, i))
            members, spare = spare, members
            ells, roots = ells[ancestors], roots[ancestors]
            weights[:] = 1.0 / n
        row += plan.places[t]
        parameters = parameters_at(t, tuning, memory.scale, memory.widths)
        setting = Setting(plan.betas[t], parameters, draw_at(t, plan, nothing), False)
        move = kernel.transitions(target, setting, members, first, memory.work, rng)
        gradients += move.gradient_evaluations
        record.divergences[t] += move.diverging
        for part in range(2):
            kept_one = record.acceptance[t, part] if plan.reverse else 0.0
            record.acceptance[t, part] = (kept_one + move.acceptance[part]) / n
        if plan.reverse:
            ells[0] = record.path[t]
        if plan.in_turn:
            gradients += face(target, plan, t, members, first)
        illegal = note(members, first, ells)
        if illegal >= 0:
            copy_vector(members.theta[illegal], thetas[0])
            return weights, n, gradients, INFINITE, t
        if stop[0]:
            return weights, n, gradients, STOPPED, t
        record.path[t] = mean_of(weights, ells)
    for i in range(first, n):
        copy_vector(members.theta[i], thetas[i])
    return weights, count(roots, weights), gradients, FINISHED, plan.betas.size - 1


@njit(nogil=True, cache=True)
def note(members, first, ells):
    """Write ℓ of the members from ``first`` on; return the first whose density is +∞, else −1."""
    for i in range(first, ells.size):
        member = state_at(members, i)
        ells[i] = member.terms[1]
        if not is_legal(member):
            return i
    return -1


@njit(nogil=True, cache=True)
def count(roots, weights):
    """Count the different roots of particles with positive weight."""
    alive = np.zeros(roots.size, np.bool_)
    for i in range(roots.size):
        if weights[i] > 0.0:
            alive[roots[i]] = True
    return np.sum(alive)
