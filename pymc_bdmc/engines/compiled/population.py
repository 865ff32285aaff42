"""Move a population at one β inside numba, as a pilot does."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.state import (
    Parameters,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    part_of,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting

STUCK = 0.05
"""Mean acceptance in a stage below which a member of a pilot counts as stuck."""


class Trace(NamedTuple):
    """States of one stage of a pilot."""

    ells: np.ndarray
    """ℓ of the states, shape (iterations, members)."""
    thetas: np.ndarray
    """States θ, shape (iterations, members, d)."""
    gradients: np.ndarray
    """Gradients of log p and of ℓ, shape (2, iterations, members, n)."""


@njit(nogil=True, cache=True, title="the pilot")
def move_population(target, kernel, setting, population, adapts, rng, stop, trace):
    """Move a population at one β; return the step size that meets the target acceptance.

    Every iteration moves all rows of ``population`` and is written to the ``trace``. If ``adapts``
    is true, it corrects the step size by the usual acceptance. If ``stop[0]`` is set it ends early,
    with meaningless results.

    Returns
    -------
    step_size, acceptance : float
        Averages over the second half of the iterations.
    gradient_evaluations : int
    """
    n_iterations, n_members = trace.ells.shape
    beta, (metric, step_size, widths), draw, reverse = setting
    part = 1 if metric.scale.size else 0  # the step size belongs to the continuous elements
    members = make_states(n_members, population.shape[1], metric.scale.size)
    for j in range(n_members):
        copy_vector(population[j], members.theta[j])
        evaluate(target, state_at(members, j))
    work = make_workspace(population.shape[1], metric.scale.size)
    log_step, gradients = np.log(step_size), 0
    largest = np.log(kernel.largest_step_size)
    average, late_acceptance, n_late = 0.0, 0.0, 0
    accepted, totals = np.empty(n_members), np.zeros(n_members)
    for k in range(n_iterations):
        parameters = Parameters(metric, np.exp(log_step), widths)
        present = Setting(beta, parameters, draw, reverse)
        for j in range(n_members):
            alone = part_of(members, j, j + 1)
            move = kernel.transitions(target, present, alone, 0, work, rng)
            gradients += move.gradient_evaluations
            accepted[j] = move.acceptance[part]
            totals[j] += accepted[j]
            state = state_at(members, j)
            trace.ells[k, j] = state.terms[1]
            copy_vector(state.theta, trace.thetas[k, j])
            copy_vector(state.log_prior_gradient, trace.gradients[0, k, j])
            copy_vector(state.log_likelihood_gradient, trace.gradients[1, k, j])
        if stop[0]:
            break
        acceptance = usual_acceptance(accepted, totals / (k + 1))
        if adapts:
            log_step = min(log_step + acceptance - kernel.target_acceptance, largest)
        if k >= n_iterations // 2:
            average += log_step
            late_acceptance += acceptance
            n_late += 1
    for j in range(n_members):
        copy_vector(members.theta[j], population[j])
    return np.exp(average / max(n_late, 1)), late_acceptance / max(n_late, 1), gradients


@njit(nogil=True, cache=True)
def usual_acceptance(accepted, means):
    """Return the mean acceptance of the members that are not stuck, or of all if half of them are.

    Members in the neck of a funnel would need steps so short that no other member would move.
    """
    moving = accepted[means >= STUCK]
    return moving.mean() if 2 * moving.size > accepted.size else accepted.mean()
