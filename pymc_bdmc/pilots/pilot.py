"""Tune the compiled kernels for every β by a pilot population, which also estimates E_β[ℓ]."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import softmax, stdtr

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.base.types import MAX_RHAT, Tuning
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
from pymc_bdmc.reference.metric import Metric, deviations, estimate_metric
from pymc_bdmc.reference.student import Reference
from pymc_bdmc.run.chain import Table
from pymc_bdmc.run.resampling import systematic

PRIOR_DRAWS = 512
"""Number of prior draws with finite ℓ, over all pilots on a data set."""
MEMBERS = 32
"""Number of members of a pilot population. Chosen."""
ITERATIONS = 8
"""Number of moves of every member in a stage; the first stage has three times this number."""
MOST_ITERATIONS = 64
"""Most moves of the last stage, which is repeated with twice the length until members mix."""
LEAST_STILLNESS = 0.1
"""Members go on moving if the p-value of `_stillness` is lower. A false alarm costs a few moves."""


def collect_starts[S](
    batches: Iterable[tuple[list[S], int]], most: int, least: int = 1
) -> tuple[list[S], int]:
    """Collect prior draws with finite ℓ for a pilot; return them and the number of draws they took.

    Each batch has some starts and the number of draws they took. ``most`` starts are enough;
    ``least`` are collected for any number of draws, unless the ``batches`` end.
    """
    starts: list[S] = []
    spent = 0
    for found, drawn in batches:
        starts += found
        spent += drawn
        # If the data rule out most draws, a pilot accepts fewer.
        if len(starts) >= most or (len(starts) >= least and spent >= 10 * PRIOR_DRAWS):
            break
    return starts, spent


class MeanCurve:
    """Stages of a pilot, from the prior on, close enough to estimate E_β[ℓ] between them."""

    def __init__(self, prior_log_likelihood: np.ndarray):
        self._beta, self._ells = 0.0, prior_log_likelihood
        self._betas, self._means = [np.zeros(1)], [_mean(prior_log_likelihood)]

    def next_beta(self) -> float:
        """Return the next β that the latest samples allow, at most ten times the present one."""
        spread = max(np.ptp(self._ells), 1.0)
        highest = 10 * self._beta if self._beta else 1 / spread
        allowed = next_beta(self._ells, self._beta)
        # Only values of ℓ that differ by rounding ask for so small a step.
        return min(allowed if allowed > (1 + 1e-4) * self._beta else 1.0, highest)

    def add(self, beta: float, ells: np.ndarray) -> None:
        """Record samples of ℓ, shape (N,), at a higher β; only a wrong kernel gives −∞."""
        ells = ells[ells > -np.inf]
        if not ells.size:
            ells = self._ells
        between = _between(self._beta, beta, self._ells)
        self._betas += [between, np.array([beta])]
        self._means += [_mean_between(between, self._beta, self._ells, beta, ells), _mean(ells)]
        self._beta, self._ells = beta, ells

    @property
    def betas(self) -> np.ndarray:
        """β of the stages and between them, increasing from 0."""
        return np.concatenate(self._betas)

    @property
    def mean_log_likelihood(self) -> np.ndarray:
        """E_β[ℓ] at `betas`, nats, made monotone in β."""
        return isotonic_regression(np.concatenate(self._means)).x


def next_beta(ells: np.ndarray, beta: float) -> float:
    """Return the β ≤ 1 at which the effective size of the present samples is half their number.

    See Del Moral, Doucet and Jasra (2012), Section 3.3.
    """
    if np.ptp(ells) == 0:
        return 1.0

    def surplus(log_increment):
        weights = softmax(np.exp(log_increment) * ells)
        return 1 / np.sum(weights**2) - 0.5 * len(ells)

    top = np.log(1 - beta)
    if surplus(top) >= 0:
        return 1.0
    bottom = np.log(1e-3 / np.ptp(ells))
    return beta + np.exp(brentq(surplus, min(bottom, top - 1), top, xtol=1e-6))


def _mean(ells: np.ndarray) -> np.ndarray:
    """Return the mean of ℓ, shape (1,), without overflow of the sum."""
    return np.sum(ells / len(ells), keepdims=True)


def _between(below: float, beta: float, ells_below: np.ndarray) -> np.ndarray:
    """Return temperatures at which to estimate E[ℓ] between two stages.

    After the prior they start at the smallest β that matters, even for a heavy tail.
    """
    if below > 0:
        return np.linspace(below, beta, 7)[1:-1]
    return np.geomspace(min(beta / 2, 0.1 / max(np.ptp(ells_below), 1e-300)), beta, 80)[:-1]


def _mean_between(betas, below, ells_below, above, ells_above) -> np.ndarray:
    """Estimate E_β[ℓ] from the samples on both sides, weighted by nearness."""
    means = []
    for beta in betas:
        near = (beta - below) / (above - below)
        from_below = softmax((beta - below) * ells_below) @ ells_below
        from_above = softmax((beta - above) * ells_above) @ ells_above
        means.append((1 - near) * from_below + near * from_above)
    return np.array(means)


class Trace(NamedTuple):
    """States of one stage of a pilot."""

    ells: np.ndarray
    """ℓ of the states, shape (iterations, members)."""
    thetas: np.ndarray
    """States θ, shape (iterations, members, d)."""
    gradients: np.ndarray
    """Gradients of log p and of ℓ, shape (2, iterations, members, n)."""


def empty_trace(n_iterations: int, thetas: np.ndarray, n_continuous: int) -> Trace:
    """Return a trace to fill for the rows of ``thetas``; ℓ is NaN until then."""
    members, size = thetas.shape
    return Trace(
        np.full((n_iterations, members), np.nan),
        np.empty((n_iterations, members, size)),
        np.empty((2, n_iterations, members, n_continuous)),
    )


MoveStage = Callable[[float, Parameters, np.ndarray, Trace], tuple[float, float, int] | None]
"""Move all rows of a population by the kernel of β and parameters, and fill a trace.

Returns the adapted step size, the mean acceptance and the number of gradients; None if stopped."""


def pilot(
    thetas: np.ndarray,
    ells: np.ndarray,
    move: MoveStage,
    n: int,
    rng: np.random.Generator,
    reference: Reference | None = None,
    longest: int = MOST_ITERATIONS,
) -> Tuning | None:
    """Move a population from the prior to the posterior, and tune the kernel at every β.

    The effective sample size of the last samples limits the next β. The samples, weighted for it,
    give the metric; moves of `MEMBERS` of them give the step size and E_β[ℓ]. At β = 1 the moves go
    on until the members mix, or for ``longest`` iterations. Only the tuning is used later, so
    nothing here needs to be unbiased. ``thetas`` are draws from the prior or the ``reference``,
    ``ells`` their ℓ; the first n elements of θ are continuous. Returns None if stopped.
    """
    curve, beta, step_size, n_gradients = MeanCurve(ells), 0.0, 0.5, 0
    samples, samples_ells = thetas, ells
    gradients = np.zeros((2, 1, len(thetas), n))  # not known for prior draws
    stages: list[tuple[float, Parameters, float]] = []
    while beta < 1:
        below, beta = beta, curve.next_beta()
        weights = softmax((beta - below) * samples_ells)
        population = samples[systematic(weights, MEMBERS, rng.random())]
        n_iterations, done = ITERATIONS if stages else 3 * ITERATIONS, False
        while not done:
            metric = estimate_metric(samples[:, :n], _slopes(gradients, beta), weights)
            widths = deviations(samples[:, n:], weights)
            parameters = Parameters(metric, step_size, widths)
            moved = _stage(move, beta, parameters, population, n_iterations)
            if moved is None:
                return None
            trace, step_size, acceptance, cost, seconds = moved
            n_gradients += cost
            samples_ells, gradients = trace.ells.ravel(), trace.gradients
            samples = trace.thetas.reshape(samples_ells.size, thetas.shape[1])
            weights = np.full(len(samples), 1 / len(samples))
            n_iterations *= 2
            done = beta < 1 or _rhat(trace) <= MAX_RHAT or n_iterations > longest
        stages.append((beta, parameters._replace(step_size=step_size), acceptance))
        curve.add(beta, samples_ells)
    betas, tuned, accepted = zip(*stages, strict=True)
    return Tuning(
        reference, curve.mean_log_likelihood, ells, n_gradients, cost / trace.ells.size,
        seconds / trace.ells.size, curve.betas, _table(betas, tuned),
        rhat=_rhat(trace) if longest else np.nan, last_log_likelihood=samples_ells,
        fit=_fit(samples, gradients) if n == thetas.shape[1] else None,
        acceptance=np.array(accepted),
    )  # fmt: skip


def refit(known: Tuning, population: np.ndarray, move: MoveStage, n: int) -> Tuning | None:
    """Fit a reference to other data, starting from draws of the reference of a known tuning.

    These ``population`` rows, all of them continuous, move at β = 1 with the known metric and step
    size, until they mix. That needs far fewer gradients than a pilot from the prior. If the
    posteriors are far apart, the new ``rhat`` is above `MAX_RHAT`. Returns None if stopped.
    """
    parameters, n_gradients = known.kernels.row(-1), 0
    first, n_iterations = True, 3 * ITERATIONS
    while n_iterations <= MOST_ITERATIONS:
        moved = _stage(move, 1.0, parameters, population, n_iterations)
        if moved is None:
            return None
        trace, step_size, _, cost, _ = moved
        n_gradients += cost
        fit = _fit(trace.thetas.reshape(-1, n), trace.gradients)
        rhat = _rhat(trace) if not first and _stillness(trace) >= LEAST_STILLNESS else np.inf
        if rhat <= MAX_RHAT:
            break
        half = n_iterations // 2  # the second half is nearer to the posterior
        samples = trace.thetas[half:].reshape(-1, n)
        slopes = trace.gradients[:, half:].sum(axis=0).reshape(samples.shape)
        parameters = Parameters(estimate_metric(samples, slopes), step_size, parameters.widths)
        n_iterations, first = ITERATIONS if first else 2 * n_iterations, False
    return replace(known, fit=fit, rhat=rhat, gradient_evaluations=n_gradients)


def _stage(
    move: MoveStage,
    beta: float,
    parameters: Parameters,
    population: np.ndarray,
    n_iterations: int,
) -> tuple[Trace, float, float, int, float] | None:
    """Move a population at one β; return trace, step size, acceptance, gradients and seconds."""
    n_continuous = parameters.metric.scale.size
    trace = empty_trace(n_iterations, population, n_continuous)
    started = time.thread_time()
    moved = move(beta, parameters, population, trace)
    return None if moved is None else (trace, *moved, time.thread_time() - started)


def _fit(samples: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, Metric]:
    """Return mean and metric, from samples at β = 1 and the gradients of log p and ℓ there."""
    slopes = gradients.sum(axis=0).reshape(samples.shape)
    return samples.mean(axis=0), estimate_metric(samples, slopes, for_moves=False)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # constant or huge: say nothing
def _rhat(trace: Trace) -> float:
    """Return the largest R̂ of the elements of θ and of ℓ over members.

    The variance within members is their median. One member that moves far away would raise a mean
    so much that members that stay in different places would seem to mix.
    """
    values = np.concatenate([trace.thetas, trace.ells[..., None]], axis=2)
    within = np.median(values.var(axis=0, ddof=1), axis=0)
    between = values.mean(axis=0).var(axis=0, ddof=1)
    n = len(values)
    return float(np.sqrt((n - 1) / n + np.nanmax(between / within, initial=0.0)))


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # as in `_rhat`
def _stillness(trace: Trace) -> float:
    """Return a p-value of the hypothesis that members do not move away together, which R̂ misses.

    At the posterior, the mean over the second half of the moves less that over the first half is
    zero on average. A t test over members shows whether it is, Bonferroni corrected for θ's
    elements and ℓ.
    """
    values = np.concatenate([trace.thetas, trace.ells[..., None]], axis=2)
    half = len(values) // 2
    moved = values[half:].mean(axis=0) - values[:half].mean(axis=0)
    standard = moved.mean(axis=0) / (moved.std(axis=0, ddof=1) / np.sqrt(len(moved)))
    largest = np.nanmax(np.abs(standard), initial=0.0)
    return float(min(2 * stdtr(len(moved) - 1, -largest) * values.shape[2], 1.0))


def _table(betas: Sequence[float], parameters: Sequence[Parameters]) -> Table:
    """Join parameters in a table; metrics are padded to the largest number of directions."""
    metrics = [each.metric for each in parameters]
    rank = max(len(metric.excess) for metric in metrics)
    directions = np.zeros((len(metrics), rank, metrics[0].scale.size))
    excesses = np.zeros((len(metrics), rank))
    for g, metric in enumerate(metrics):
        own = len(metric.excess)
        directions[g, :own], excesses[g, :own] = metric.directions, metric.excess
    scales = np.array([metric.scale for metric in metrics])
    step_sizes = np.array([each.step_size for each in parameters])
    widths = np.array([each.widths for each in parameters])
    return Table(np.array(betas), step_sizes, scales, directions, excesses, widths)


def _slopes(gradients: np.ndarray, beta: float) -> np.ndarray:
    """Return gradients of log f_β by sample; not finite if ℓ is not."""
    with np.errstate(invalid="ignore"):
        return np.concatenate(gradients[0] + beta * gradients[1])


@njit(nogil=True, cache=True, title="the pilot")
def move_population(target, kernel, setting, population, adapts, rng, stop, trace):
    """Move a population at one β; return the step size that meets the target acceptance.

    Every iteration moves all rows of ``population``, is written to the ``trace``, and corrects the
    step size if ``adapts``. Also returned are the acceptance, like the step size an average over
    the second half of the iterations, and the number of gradients. If ``stop[0]`` is set, the
    results mean nothing.
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

    Stuck ones are below 0.05 in a stage: in the neck of a funnel they would need tiny steps.
    """
    moving = accepted[means >= 0.05]  # chosen
    return moving.mean() if 2 * moving.size > accepted.size else accepted.mean()
