"""Whole chains and pilot populations inside numba: what the threads of the compiled engine run."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.metric import Metric
from pymc_bdmc.kernels.prior_move import Draw, no_draw
from pymc_bdmc.kernels.state import Parameters, evaluate, is_legal, make_state, make_workspace
from pymc_bdmc.kernels.transition import transition

__all__ = [
    "FINISHED",
    "NOT_A_NUMBER",
    "STOPPED",
    "ChainPlan",
    "ChainRecord",
    "PathParameters",
    "Table",
    "Trace",
    "anneal_chain",
    "move_chains",
    "pilot_stage",
]

FINISHED, NOT_A_NUMBER, STOPPED = range(3)


class Table(NamedTuple):
    """The `Parameters` of G values of β."""

    step_sizes: np.ndarray
    """Shape (G,), in units of ``scales``."""
    scales: np.ndarray
    """Shape (G, n)."""
    directions: np.ndarray
    """Shape (G, k, n)."""
    excesses: np.ndarray
    """Shape (G, k); where a metric has fewer than k directions, the others are 0."""
    widths: np.ndarray
    """Shape (G, m)."""


class PathParameters(NamedTuple):
    """Those of K_t lie between the rows ``rows[t]`` and ``rows[t] + 1`` of a table."""

    table: Table
    rows: np.ndarray
    """Shape (T + 1,)."""
    fractions: np.ndarray
    """How far on the way to the next row, shape (T + 1,)."""


class ChainPlan(NamedTuple):
    """Where a chain starts and which way it goes."""

    betas: np.ndarray
    start: np.ndarray
    burn_in: int
    """Transitions at β = 1 before it."""
    descending: bool
    """In β, as a reverse chain is."""
    reversal: bool
    """Whether it applies the reversal of every kernel, as a reverse chain does."""
    draws: np.ndarray
    """From the prior; the next one is proposed at every multiple of ``stride``."""
    stride: int


class ChainRecord(NamedTuple):
    """What a chain writes down at every β."""

    path: np.ndarray
    """ℓ, nats."""
    acceptance: np.ndarray
    """Of the discrete and of the continuous elements, shape (T + 1, 2)."""
    diverging: np.ndarray


class Trace(NamedTuple):
    """All states of a stage of a pilot."""

    ells: np.ndarray
    """Shape (iterations, members)."""
    thetas: np.ndarray
    """Shape (iterations, members, d)."""
    gradients: np.ndarray
    """Of log p and of ℓ, shape (2, iterations, members, n)."""


@njit(nogil=True, cache=True)
def parameters_at(t, tuning, scale, widths):
    """Those of K_t; vectors are written to ``scale`` and ``widths``."""
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


@njit(nogil=True, cache=True)
def anneal_chain(target, kernel, tuning, plan, rng, stop, record):
    """The loop of `annealing.anneal` for one chain; fills the ``record``.

    Returns
    -------
    end : ndarray
        The last θ.
    gradient_evaluations : int
    status : int
        FINISHED; NOT_A_NUMBER with ``end`` where it happened; STOPPED, by a set ``stop[0]``.
    arrival : int
        Index of the last temperature that was reached.
    """
    last = plan.betas.size - 1
    n_continuous = tuning.table.scales.shape[1]
    state = make_state(plan.start.size, n_continuous)
    work = make_workspace(plan.start.size, n_continuous)
    scale, widths = np.empty(n_continuous), np.empty(tuning.table.widths.shape[1])
    nothing = no_draw()
    state.theta[:] = plan.start
    evaluate(target.with_gradient, target.data, state)
    gradients = 0
    total = plan.burn_in + last
    for k in range(total + 1):
        if k > 0:
            if k <= plan.burn_in:
                t = arrival = last
            elif plan.descending:
                t, arrival = total + 1 - k, total - k
            else:
                t = arrival = k
            place = t // plan.stride - 1
            draw = nothing
            if k > plan.burn_in and t % plan.stride == 0 and place < len(plan.draws):
                draw = Draw(True, plan.draws[place])
            move = transition(
                target, kernel, parameters_at(t, tuning, scale, widths), plan.betas[t], draw,
                state, work, plan.reversal, rng,
            )  # fmt: skip
            record.acceptance[t, 0], record.acceptance[t, 1] = move.acceptance
            record.diverging[t] = move.diverging
            gradients += move.gradient_evaluations
        else:
            arrival = last if plan.descending else 0
        record.path[arrival] = state.terms[1]
        if not is_legal(state):
            return state.theta, gradients, NOT_A_NUMBER, arrival
        if stop[0]:
            return state.theta, gradients, STOPPED, arrival
    return state.theta, gradients, FINISHED, arrival


@njit(nogil=True, cache=True)
def pilot_stage(target, kernel, parameters, beta, population, rng, stop, trace):
    """Move a population at one β; return the step size that meets the target acceptance.

    Every iteration moves all rows of ``population``, corrects the step size by their mean
    acceptance, and is written to the ``trace``. Where ``stop[0]`` is set it ends early, and what
    it leaves means nothing.

    Returns
    -------
    step_size, acceptance : float
        Averages over the second half of the iterations.
    gradient_evaluations : int
    """
    n_iterations, n_members = trace.ells.shape
    metric, widths = parameters.metric, parameters.widths
    part = 1 if metric.scale.size else 0  # the step size decides about the continuous elements
    members = [make_state(population.shape[1], metric.scale.size) for _ in range(n_members)]
    for j in range(n_members):
        members[j].theta[:] = population[j]
        evaluate(target.with_gradient, target.data, members[j])
    work = make_workspace(population.shape[1], metric.scale.size)
    nothing, log_step, gradients = no_draw(), np.log(parameters.step_size), 0
    largest = np.log(kernel.largest_step_size)
    average, late_acceptance, n_late = 0.0, 0.0, 0
    for k in range(n_iterations):
        total = 0.0
        present = Parameters(metric, np.exp(log_step), widths)
        for j in range(n_members):
            state = members[j]
            move = transition(target, kernel, present, beta, nothing, state, work, False, rng)
            total += move.acceptance[part]
            gradients += move.gradient_evaluations
            trace.ells[k, j] = state.terms[1]
            trace.thetas[k, j] = state.theta
            trace.gradients[0, k, j] = state.log_prior_gradient
            trace.gradients[1, k, j] = state.log_likelihood_gradient
        if stop[0]:
            break
        log_step = min(log_step + total / n_members - kernel.target_acceptance, largest)
        if k >= n_iterations // 2:
            average += log_step
            late_acceptance += total / n_members
            n_late += 1
    for j in range(n_members):
        population[j] = members[j].theta
    return np.exp(average / max(n_late, 1)), late_acceptance / max(n_late, 1), gradients


@njit(nogil=True, cache=True)
def move_chains(target, kernel, table, betas, thetas, rng, terms):
    """Apply a kernel to every row of ``thetas``, each with its own β and row of the table.

    Rows at β = 0 stay where they are. Log p and ℓ are written to ``terms``, of shape (rows, 2).
    """
    state = make_state(thetas.shape[1], table.scales.shape[1])
    work, nothing = make_workspace(thetas.shape[1], table.scales.shape[1]), no_draw()
    for j in range(betas.size):
        state.theta[:] = thetas[j]
        evaluate(target.with_gradient, target.data, state)
        if betas[j] > 0.0:
            metric = Metric(table.scales[j], table.directions[j], table.excesses[j])
            parameters = Parameters(metric, table.step_sizes[j], table.widths[j])
            transition(target, kernel, parameters, betas[j], nothing, state, work, False, rng)
        thetas[j] = state.theta
        terms[j] = state.terms
