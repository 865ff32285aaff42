"""Annealing inside numba: one state along all of β, in either direction, and all particles."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.kernels.state import (
    Parameters,
    copy,
    copy_vector,
    evaluate,
    make_states,
    make_workspace,
    state_at,
)
from pymc_bdmc.kernels.transition import Setting
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.resampling import THRESHOLD, effective_size, mean_of, resample, update_weights


class Table(NamedTuple):
    """Parameters of the compiled kernels at G values of β, of n continuous and m other elements."""

    betas: np.ndarray
    """Temperatures, increasing to 1, shape (G,)."""
    step_sizes: np.ndarray
    """Step sizes, shape (G,), in units of ``scales``."""
    scales: np.ndarray
    """Standard deviations of the metric, shape (G, n)."""
    directions: np.ndarray
    excesses: np.ndarray
    """Excesses along the directions, shape (G, k); 0 beyond the directions of a metric."""
    widths: np.ndarray
    """Standard deviations of the discrete elements, shape (G, m)."""

    def places(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row below each β, and the fraction of the way to the next row, in log β."""
        position = np.interp(
            np.log(np.maximum(betas, self.betas[0])), np.log(self.betas), np.arange(len(self.betas))
        )
        rows = np.minimum(position.astype(np.int64), max(len(self.betas) - 2, 0))
        return rows, position - rows

    def at(self, betas: np.ndarray) -> "Table":
        """Return parameters interpolated at each β, with the directions of the nearest row."""
        rows, fractions = self.places(betas)
        nearest, above = rows + (fractions >= 0.5), np.minimum(rows + 1, len(self.betas) - 1)

        def between(values: np.ndarray) -> np.ndarray:
            return ((1 - fractions) * values[rows].T + fractions * values[above].T).T.copy()

        return Table(
            betas,
            between(self.step_sizes),
            between(self.scales),
            self.directions[nearest],
            self.excesses[nearest],
            between(self.widths),
        )

    def row(self, g: int) -> Parameters:
        """Return the parameters of one row."""
        metric = Metric(self.scales[g], self.directions[g], self.excesses[g])
        return Parameters(metric, self.step_sizes[g], self.widths[g])

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the step size by temperature; NaN at β = 0 or without continuous elements."""
        sizes = self.at(betas).step_sizes
        sizes[0 if self.scales.shape[1] else slice(None)] = np.nan
        return sizes

    def adapted_to(self, reference: Reference) -> "Table":
        """Return the same step sizes with the metric of a reference, fitted to other data.

        All densities on the path from a reference are about as wide.
        """
        new = {name: getattr(reference, name) for name in ("scales", "directions", "excesses")}
        g = len(self.betas)
        return self._replace(**{name: np.repeat(part[:1], g, axis=0) for name, part in new.items()})


@njit(nogil=True, cache=True)
def parameters_between(table, row, fraction, scale, widths):
    """Return parameters between a row and the next; vectors are written to the last arguments."""
    high, w = min(row + 1, table.step_sizes.size - 1), fraction
    for i in range(scale.size):
        scale[i] = (1.0 - w) * table.scales[row, i] + w * table.scales[high, i]
    for i in range(widths.size):
        widths[i] = (1.0 - w) * table.widths[row, i] + w * table.widths[high, i]
    nearest = row if w < 0.5 else high
    metric = Metric(scale, table.directions[nearest], table.excesses[nearest])
    step_size = (1.0 - w) * table.step_sizes[row] + w * table.step_sizes[high]
    return Parameters(metric, step_size, widths)


class Plan(NamedTuple):
    """Schedule, kernels and direction of a run."""

    betas: np.ndarray
    """Shape (T + 1,)."""
    table: Table
    rows: np.ndarray
    """Row of the table below each K_t, shape (T + 1,)."""
    fractions: np.ndarray
    """Fraction of the distance to the next row, shape (T + 1,)."""
    reverse: bool
    """Whether the state goes from β = 1 to 0."""
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


@njit(nogil=True, cache=True, title="the annealing loop")
def anneal_chain(target, kernel, plan, theta, rng, stop, records):
    """Anneal θ along β, in place.

    The ``records`` are arrays to fill: ℓ (T + 1,), the acceptance of the discrete and of the
    continuous elements (T + 1, 2), divergences (T + 1,), and θ after K_t† at the n ``places`` of
    resampling (n, d), or (0, d) if not asked for. Returns the number of gradient evaluations. If
    ``stop[0]`` is set, the results mean nothing.
    """
    ells, acceptance, divergences, trail = records
    row = len(trail)
    last, gradients = plan.betas.size - 1, 0
    table = plan.table  # once, since numba counts references to its arrays
    n_continuous = table.scales.shape[1]
    scale, widths = np.empty(n_continuous), np.empty(table.widths.shape[1])
    states, work = (
        make_states(1, theta.size, n_continuous),
        make_workspace(theta.size, n_continuous),
    )
    state, nothing = state_at(states, 0), np.empty(0)
    copy_vector(theta, state.theta)
    evaluate(target, state)
    arrival = last if plan.reverse else 0
    if plan.in_turn:
        turn(target, plan.betas, arrival, states, 0)
    for k in range(plan.burn_in + last + 1):
        if k > 0:
            t = k
            if plan.reverse:
                t = min(plan.burn_in + last + 1 - k, last)
                if plan.in_turn:
                    gradients += turn(target, plan.betas, t - 1, states, 0)
            arrival = min(plan.burn_in + last - k, last) if plan.reverse else t
            draw, place = nothing, t // plan.stride - 1
            if k > plan.burn_in and t % plan.stride == 0 and place < len(plan.draws):
                draw = plan.draws[place]
            parameters = parameters_between(table, plan.rows[t], plan.fractions[t], scale, widths)
            setting = Setting(plan.betas[t], parameters, draw, plan.reversal)
            move = kernel.transitions(target, setting, states, 0, work, rng)
            acceptance[t, 0], acceptance[t, 1] = move.acceptance
            divergences[t] = move.diverging
            gradients += move.gradient_evaluations
            if plan.in_turn and not plan.reverse:
                gradients += turn(target, plan.betas, t, states, 0)
            if row > 0 and k > plan.burn_in and plan.places[t]:
                row -= 1
                copy_vector(state.theta, trail[row])
        ells[arrival] = state.terms[1]
        if stop[0]:
            break
    copy_vector(state.theta, theta)
    return gradients


@njit(nogil=True, cache=True)
def turn(target, betas, t, states, first):
    """On a path of the data, make ℓ the slope of log f_β from β_t to the next temperature.

    At the last temperature, use the previous step. Return the number of gradient evaluations.
    """
    t, n = min(t, betas.size - 2), len(states.theta)
    target.interval[0] = betas[t]
    target.interval[1] = betas[t + 1]
    for i in range(first, n):
        evaluate(target, state_at(states, i))
    return n - first


@njit(nogil=True, cache=True, title="the annealing loop of particles")
def anneal_population(target, kernel, plan, thetas, rng, stop, records, trail):
    """Anneal particles from β = 0 to 1, in place, as `pymc_bdmc.run.loop.anneal_particles` does.

    The ``records`` are arrays to fill, see `Record.arrays`. In a reverse run particle 0 does not
    move: its ℓ is recorded, and its states are the ``trail`` of `anneal_chain`. Others may be
    resampled onto it. Returns what `anneal_chain` returns, weights, and the number of ancestors.
    """
    means, highest, rests, acceptance, divergences, sizes, resampled = records
    n, size = thetas.shape
    first = 1 if plan.reverse else 0
    table = plan.table  # once, since numba counts references to its arrays
    n_continuous = table.scales.shape[1]
    scale, widths = np.empty(n_continuous), np.empty(table.widths.shape[1])
    states, spare = make_states(n, size, n_continuous), make_states(n, size, n_continuous)
    work, nothing = make_workspace(size, n_continuous), np.empty(0)
    weights, ells, roots = np.full(n, 1.0 / n), np.empty(n), np.arange(n)
    gradients, row, last = 0, 0, plan.betas.size - 1
    for i in range(n):
        copy_vector(thetas[i], states.theta[i])
        evaluate(target, state_at(states, i))
    for t in range(last + 1):
        moving = first if t > 0 else 0
        if t > 0:
            increment = plan.betas[t] - plan.betas[t - 1]
            highest[t - 1], rests[t] = update_weights(weights, ells, increment)
            sizes[t] = effective_size(weights)
            resampled[t] = plan.places[t] and sizes[t] < THRESHOLD * n
            if resampled[t]:
                ancestors = resample(weights, plan.reverse, rng.random())
                if plan.reverse and np.sum(ancestors == 0) > 1:
                    copy_vector(trail[row], states.theta[0])
                    evaluate(target, state_at(states, 0))
                    gradients += 1
                for i in range(first, n):
                    copy(state_at(states, ancestors[i]), state_at(spare, i))
                states, spare = spare, states
                roots = roots[ancestors]
                weights[:] = 1.0 / n
            row += plan.places[t]
            parameters = parameters_between(table, plan.rows[t], plan.fractions[t], scale, widths)
            setting = Setting(plan.betas[t], parameters, nothing, False)
            move = kernel.transitions(target, setting, states, first, work, rng)
            acceptance[t, 0] += move.acceptance[0]
            acceptance[t, 1] += move.acceptance[1]
            divergences[t] += move.diverging
            gradients += move.gradient_evaluations
        if plan.in_turn:
            turned = turn(target, plan.betas, t, states, moving)
            gradients += turned if t > 0 else 0
        for i in range(moving, n):
            ells[i] = states.terms[i, 1]
        if stop[0]:
            break
        if moving > 0:
            ells[0] = means[t]
        means[t] = mean_of(weights, ells)
    for i in range(first, n):
        copy_vector(states.theta[i], thetas[i])
    return gradients, weights, np.unique(roots[weights > 0.0]).size
