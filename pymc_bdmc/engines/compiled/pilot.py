"""Tune the compiled kernels for every β by a pilot population, which also estimates E_β[ℓ]."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import softmax, stdtr

from pymc_bdmc.base.types import MAX_RHAT
from pymc_bdmc.engines.compiled.loops import PathParameters, Table
from pymc_bdmc.engines.compiled.population import Trace
from pymc_bdmc.engines.mean_curve import MeanCurve
from pymc_bdmc.kernels.resampling import systematic
from pymc_bdmc.kernels.state import Parameters
from pymc_bdmc.reference.metric import Metric, deviations, estimate_metric
from pymc_bdmc.reference.student import Reference

MEMBERS = 32
ITERATIONS = 8
"""Number of moves of every member in a stage; the first stage has three times this number."""
MOST_ITERATIONS = 64
"""Most moves of the last stage, which is repeated with twice the length until members mix."""
LEAST_STILLNESS = 0.1
"""Members go on moving if the p-value of `_stillness` is lower. A false alarm costs a few moves."""
FIRST_STEP_SIZE = 0.5

MoveStage = Callable[[float, Parameters, np.ndarray, Trace], tuple[float, float, int] | None]
"""Type of the argument ``move`` of `pilot`."""


@dataclass(frozen=True, eq=False)
class PathTuning:
    """Parameters of the compiled kernels, and E_β[ℓ], at the stages of a pilot.

    Attributes
    ----------
    betas : ndarray of shape (G,)
        Temperatures of the stages, increasing to 1.
    table : Table
        Parameters of the stages.
    acceptance : ndarray of shape (G,)
        Acceptance at each stage.
    path_betas, mean_log_likelihood : ndarray of shape (F,)
        β from 0 to 1 and E_β[ℓ] there, nats.
    prior_log_likelihood : ndarray of shape (N,)
        ℓ of the prior draws from which the pilot started, nats.
    gradient_evaluations : int
        Cost of the pilot.
    reference : Reference or None
        Start of the path, if not the prior.
    fit : tuple of (ndarray of shape (n,), Metric) or None
        Mean and covariance of the pilot's samples of the posterior, if all elements are continuous.
    rhat : float
        Largest R̂ of the members in the last stage; NaN if the pilot did not wait for mixing.
    last_log_likelihood : ndarray of shape (S,)
        ℓ of the pilot's samples of the posterior, nats.
    accepted_draws : int
        Prior draws with ℓ > −∞ for which a forward run waits, at least one per particle; the first
        are the starts.
    seconds_a_move : float
        CPU seconds of one application of the kernel at β = 1 to one state.
    gradients_a_move : float
        Gradient evaluations of one application.
    """

    betas: np.ndarray
    table: Table
    acceptance: np.ndarray
    path_betas: np.ndarray
    mean_log_likelihood: np.ndarray
    prior_log_likelihood: np.ndarray
    gradient_evaluations: int
    reference: Reference | None
    fit: tuple[np.ndarray, Metric] | None
    rhat: float
    last_log_likelihood: np.ndarray
    accepted_draws: int = 1
    seconds_a_move: float = field(default=np.nan, compare=False)
    gradients_a_move: float = np.nan

    @property
    def peaks(self) -> int:
        """Return the number of narrow peaks added to the fit in the reference."""
        return 0 if self.reference is None else len(self.reference.locations) - 1

    def places(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the row below each β, and the fraction of the way to the next row, in log β."""
        position = np.interp(
            np.log(np.maximum(betas, self.betas[0])), np.log(self.betas), np.arange(len(self.betas))
        )
        rows = np.minimum(position.astype(np.int64), max(len(self.betas) - 2, 0))
        return rows, position - rows

    def along(self, betas: np.ndarray) -> PathParameters:
        """Return the parameters of the kernels of a schedule, for the compiled loop."""
        return PathParameters(self.table, *self.places(betas))

    def at(self, betas: np.ndarray) -> Table:
        """Return parameters interpolated at each β, with the directions of the nearest stage."""
        rows, fractions = self.places(betas)
        nearest = rows + (fractions >= 0.5)
        table = self.table
        return Table(
            self._between(table.step_sizes, betas),
            self._between(table.scales, betas),
            table.directions[nearest],
            table.excesses[nearest],
            self._between(table.widths, betas),
        )

    @property
    def last_parameters(self) -> Parameters:
        """Return the parameters at β = 1."""
        table = self.table
        metric = Metric(table.scales[-1], table.directions[-1], table.excesses[-1])
        return Parameters(metric, table.step_sizes[-1], table.widths[-1])

    def _between(self, values: np.ndarray, betas: np.ndarray) -> np.ndarray:
        rows, fractions = self.places(betas)
        above = np.minimum(rows + 1, len(self.betas) - 1)
        return ((1 - fractions) * values[rows].T + fractions * values[above].T).T.copy()

    def adapted_to(self, reference: Reference) -> "PathTuning":
        """Return the tuning for the path from a reference that is fitted to other, similar data.

        Step sizes and the spacing of β are kept. The metric at every temperature is that of the
        reference, since all densities on this path are about as wide.
        """
        n_stages = len(self.betas)

        def repeated(shape: np.ndarray) -> np.ndarray:
            return np.broadcast_to(shape, (n_stages, *shape.shape)).copy()

        table = self.table._replace(
            scales=repeated(reference.scales[0]),
            directions=repeated(reference.directions[0]),
            excesses=repeated(reference.excesses[0]),
        )
        return replace(self, table=table, reference=reference, gradient_evaluations=0)

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the step size by temperature; NaN at β = 0 or without continuous elements."""
        if self.table.scales.shape[1] == 0:
            return np.full(len(betas), np.nan)
        sizes = self._between(self.table.step_sizes, betas)
        sizes[0] = np.nan
        return sizes


def pilot(
    thetas: np.ndarray,
    ells: np.ndarray,
    move: MoveStage,
    n: int,
    rng: np.random.Generator,
    reference: Reference | None = None,
    longest: int = MOST_ITERATIONS,
) -> PathTuning | None:
    """Move a population from the prior to the posterior, and tune the kernel at every β.

    The effective sample size of the last samples limits the next β. The samples, weighted for it,
    give the metric. `MEMBERS` of them are drawn and moved `ITERATIONS` times, which gives the step
    size and E_β[ℓ]. At β = 1 the moves go on until the members mix, or for ``longest`` iterations.
    Only the tuning is used later, so nothing here needs to be unbiased.

    Parameters
    ----------
    thetas : ndarray of shape (N, d)
        Draws from the prior.
    ells : ndarray of shape (N,)
        ℓ of the draws, nats.
    move : callable
        ``move(beta, parameters, population, trace)`` applies the kernel of β to all rows of
        ``population`` as often as the `Trace`, which it fills, has iterations. It returns the
        adapted step size, the mean acceptance and the number of gradients; None if it was stopped.
    n : int
        Number of continuous elements, which come first in θ.
    rng : numpy.random.Generator
        The pilot's own stream.
    reference : Reference, optional
        Distribution of the draws, if not the prior.
    longest : int
        Most iterations of the last stage.

    Returns
    -------
    PathTuning or None
        None if it was stopped.
    """
    curve, beta, step_size, n_gradients = MeanCurve(ells), 0.0, FIRST_STEP_SIZE, 0
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
    is_real = n == thetas.shape[1]
    return PathTuning(
        np.array(betas), _table(tuned), np.array(accepted), curve.betas, curve.mean_log_likelihood,
        ells, n_gradients, reference, _fit(samples, gradients) if is_real else None,
        _rhat(trace) if longest else np.nan, samples_ells,
        seconds_a_move=seconds / trace.ells.size, gradients_a_move=cost / trace.ells.size,
    )  # fmt: skip


def refit(known: PathTuning, population: np.ndarray, move: MoveStage, n: int) -> PathTuning | None:
    """Fit a reference to other data, starting from the reference of a known tuning.

    The members start at draws from the known reference and move at β = 1, with the known metric and
    step size, until they mix; the first moves are left out. This needs far fewer gradients than a
    pilot from the prior, but fails if the posteriors are far apart.

    Parameters
    ----------
    known : PathTuning
        Tuning of the path from a reference that was fitted to other data.
    population : ndarray of shape (M, n)
        Draws from its reference, moved in place.
    move : callable
        Function as in `pilot`.
    n : int
        Number of elements; all are continuous.

    Returns
    -------
    PathTuning or None
        The known tuning with a new ``fit`` and ``rhat``, which is above `MAX_RHAT` if the members
        did not mix, or still moved away together. None if it was stopped.
    """
    parameters, n_gradients = known.last_parameters, 0
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
    """Move a population at one β.

    Returns
    -------
    tuple of (Trace, step size, acceptance, gradients, seconds) or None
        None if it was stopped.
    """
    members, size = population.shape
    trace = Trace(
        np.empty((n_iterations, members)),
        np.empty((n_iterations, members, size)),
        np.empty((2, n_iterations, members, parameters.metric.scale.size)),
    )
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

    The variance within members is the median over them. One member that moves far away would raise
    a mean so much that members which stand still in different places would seem to mix.
    """
    values = np.concatenate([trace.thetas, trace.ells[..., None]], axis=2)
    within = np.median(values.var(axis=0, ddof=1), axis=0)
    between = values.mean(axis=0).var(axis=0, ddof=1)
    n = len(values)
    return float(np.sqrt((n - 1) / n + np.nanmax(between / within, initial=0.0)))


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # as in `_rhat`
def _stillness(trace: Trace) -> float:
    """Return a p-value of the hypothesis that members do not move away together.

    R̂ over members does not see that. If they are at the posterior, the mean over the second half
    of the moves less that over the first half is zero on average, for each element of θ and ℓ. A t
    test over the independent members shows whether it is, Bonferroni corrected for the elements.
    """
    values = np.concatenate([trace.thetas, trace.ells[..., None]], axis=2)
    half = len(values) // 2
    moved = values[half:].mean(axis=0) - values[:half].mean(axis=0)
    standard = moved.mean(axis=0) / (moved.std(axis=0, ddof=1) / np.sqrt(len(moved)))
    largest = np.nanmax(np.abs(standard), initial=0.0)
    return float(min(2 * stdtr(len(moved) - 1, -largest) * values.shape[2], 1.0))


def _table(parameters: Sequence[Parameters]) -> Table:
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
    return Table(step_sizes, scales, directions, excesses, widths)


def _slopes(gradients: np.ndarray, beta: float) -> np.ndarray:
    """Return gradients of log f_β by sample; not finite if ℓ is not."""
    with np.errstate(invalid="ignore"):
        return np.concatenate(gradients[0] + beta * gradients[1])
