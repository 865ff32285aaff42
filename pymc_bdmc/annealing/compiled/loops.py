"""Whole chains and pilot populations inside numba: what the threads of the compiled engine run."""

import numpy as np

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.compiled import HMC, TRAJECTORY, transition
from pymc_bdmc.kernels.metric import Metric
from pymc_bdmc.kernels.state import evaluate, is_legal, make_state, make_workspace

__all__ = [
    "FINISHED",
    "NOT_A_NUMBER",
    "STOPPED",
    "anneal_chain",
    "move_chains",
    "pilot_stage",
]

FINISHED, NOT_A_NUMBER, STOPPED = range(3)


@njit(nogil=True, cache=True)
def anneal_chain(
    kind, with_gradient, without_gradient, data, betas, places, fractions,
    length, step_sizes, scales, directions, excesses, widths, categories, start, descending,
    reversal, burn_in, draws, stride, rng, stop, path, acceptance, diverging,
):  # fmt: skip
    """The loop of `annealing.anneal` for one chain; fills ``path``, ``acceptance``, ``diverging``.

    A reverse chain is ``descending`` in β and takes the ``reversal`` of every kernel.
    The parameters of K_t lie between the rows ``places[t]`` and ``places[t] + 1`` of the tuning. At
    every multiple of ``stride`` it proposes the next of ``draws``, which are from the prior.

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
    n_temperatures = betas.size - 1
    nothing = start[:0]
    state = make_state(start.size, scales.shape[1])
    work = make_workspace(start.size, scales.shape[1])
    scale, width = np.empty(scales.shape[1]), np.empty(widths.shape[1])
    state.theta[:] = start
    evaluate(with_gradient, data, state)
    gradients = 0
    total = burn_in + n_temperatures
    for k in range(total + 1):
        if k > 0:
            if k <= burn_in:
                t = arrival = n_temperatures
            elif descending:
                t, arrival = total + 1 - k, total - k
            else:
                t = arrival = k
            low, w = places[t], fractions[t]
            high = min(low + 1, step_sizes.size - 1)
            for i in range(scale.size):
                scale[i] = (1.0 - w) * scales[low, i] + w * scales[high, i]
            for i in range(width.size):
                width[i] = (1.0 - w) * widths[low, i] + w * widths[high, i]
            place = t // stride if k > burn_in and t % stride == 0 else 0
            draw = draws[place - 1] if 0 < place <= len(draws) else nothing
            nearest = low if w < 0.5 else high
            metric = Metric(scale, directions[nearest], excesses[nearest])
            acceptance[t], _, diverging[t], n = transition(
                kind, with_gradient, without_gradient, data, betas[t], state, work,
                metric, (1.0 - w) * step_sizes[low] + w * step_sizes[high], length,
                draw, width, categories, reversal, rng,
            )  # fmt: skip
            gradients += n
        else:
            arrival = n_temperatures if descending else 0
        path[arrival] = state.terms[1]
        if not is_legal(state):
            return state.theta, gradients, NOT_A_NUMBER, arrival
        if stop[0]:
            return state.theta, gradients, STOPPED, arrival
    return state.theta, gradients, FINISHED, arrival


@njit(nogil=True, cache=True)
def pilot_stage(
    kind, with_gradient, without_gradient, data, beta, population,
    length, step_size, metric, widths, categories, target, rng, stop, ells, trace, gradients,
):  # fmt: skip
    """Move a population at one β; return the step size that meets the target acceptance.

    Every iteration moves all rows of ``population`` and corrects the step size by their mean
    acceptance. Every state is recorded: ℓ in ``ells``, of shape (iterations, members), θ in
    ``trace``, of shape (iterations, members, d), and the gradients of log p and of ℓ in
    ``gradients``, of shape (2, iterations, members, n).

    Returns
    -------
    step_size, acceptance : float
        Averages over the second half of the iterations.
    gradient_evaluations : int
    """
    n_iterations, n_members = ells.shape
    members = [make_state(population.shape[1], metric.scale.size) for _ in range(n_members)]
    for j in range(n_members):
        members[j].theta[:] = population[j]
        evaluate(with_gradient, data, members[j])
    work = make_workspace(population.shape[1], metric.scale.size)
    log_step, n_gradients = np.log(step_size), 0
    largest = np.log(TRAJECTORY) if kind == HMC else np.inf  # it cuts longer ones anyway
    average, late_acceptance, n_late = 0.0, 0.0, 0
    for k in range(n_iterations):
        total = 0.0
        for j in range(n_members):
            state = members[j]
            _, rate, _, n = transition(
                kind, with_gradient, without_gradient, data, beta, state, work,
                metric, np.exp(log_step), length, population[0, :0], widths, categories, False, rng,
            )  # fmt: skip
            total += rate
            n_gradients += n
            ells[k, j] = state.terms[1]
            trace[k, j] = state.theta
            gradients[0, k, j] = state.log_prior_gradient
            gradients[1, k, j] = state.log_likelihood_gradient
        if stop[0]:
            break
        log_step = min(log_step + total / n_members - target, largest)
        if k >= n_iterations // 2:
            average += log_step
            late_acceptance += total / n_members
            n_late += 1
    for j in range(n_members):
        population[j] = members[j].theta
    return np.exp(average / max(n_late, 1)), late_acceptance / max(n_late, 1), n_gradients


@njit(nogil=True, cache=True)
def move_chains(
    kind, with_gradient, without_gradient, data, betas, thetas,
    length, step_sizes, scales, directions, excesses, widths, categories, rng, terms,
):  # fmt: skip
    """Apply a kernel to every row of ``thetas``, each with its own β and parameters.

    Rows at β = 0 stay where they are. Log p and ℓ are written to ``terms``, of shape (rows, 2).
    """
    state = make_state(thetas.shape[1], scales.shape[1])
    work = make_workspace(thetas.shape[1], scales.shape[1])
    for j in range(betas.size):
        state.theta[:] = thetas[j]
        evaluate(with_gradient, data, state)
        if betas[j] > 0.0:
            transition(
                kind, with_gradient, without_gradient, data, betas[j], state, work,
                Metric(scales[j], directions[j], excesses[j]), step_sizes[j],
                length, thetas[0, :0], widths[j], categories, False, rng,
            )  # fmt: skip
        thetas[j] = state.theta
        terms[j] = state.terms
