"""A pilot population that tunes the compiled kernels for every β and finds E_β[ℓ] along the way."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, isotonic_regression
from scipy.special import softmax

from pymc_bdmc.kernels.metric import deviations, estimate_metric

__all__ = ["MEMBERS", "PRIOR_DRAWS", "PathTuning", "run_pilot"]

PRIOR_DRAWS = 512
MEMBERS = 32
ITERATIONS = 8
"""Moves of every member in a stage; the first stage has three times as many."""
OVERLAP = 0.5
"""Effective share of the samples of one stage at the β of the next."""
FIRST_STEP_SIZE = 0.5

MoveStage = Callable[..., tuple[float, float, int]]
"""The argument ``move`` of `run_pilot`."""


@dataclass(frozen=True, eq=False)
class PathTuning:
    """Parameters of the compiled kernels, and E_β[ℓ], at the stages of a pilot.

    Attributes
    ----------
    betas : ndarray of shape (G,)
        Temperatures of the stages, increasing to 1.
    step_sizes : ndarray of shape (G,)
        In units of ``scales``.
    scales : ndarray of shape (G, n)
    directions : ndarray of shape (G, k, n)
    excesses : ndarray of shape (G, k)
        Of the `Metric` of the continuous elements; where it has fewer than k, the others are 0.
    widths : ndarray of shape (G, m)
        Standard deviations of the discrete elements.
    acceptance : ndarray of shape (G,)
        What the pilot saw.
    path_betas, mean_log_likelihood : ndarray of shape (F,)
        β from 0 to 1 and E_β[ℓ] there, nats.
    gradient_evaluations : int
        Cost of the pilot.
    starts : int
        Accepted prior draws of which a forward chain counts the trials.
    """

    betas: np.ndarray
    step_sizes: np.ndarray
    scales: np.ndarray
    directions: np.ndarray
    excesses: np.ndarray
    widths: np.ndarray
    acceptance: np.ndarray
    path_betas: np.ndarray
    mean_log_likelihood: np.ndarray
    gradient_evaluations: int
    starts: int = 1

    def places(self, betas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row below each β, and how far β is on the way to the next row, in log β."""
        position = np.interp(
            np.log(np.maximum(betas, self.betas[0])), np.log(self.betas), np.arange(len(self.betas))
        )
        rows = np.minimum(position.astype(np.int64), max(len(self.betas) - 2, 0))
        return rows, position - rows

    def between(self, values: np.ndarray, betas: np.ndarray) -> np.ndarray:
        """One of the parameters at each β."""
        rows, fractions = self.places(betas)
        above = np.minimum(rows + 1, len(self.betas) - 1)
        return ((1 - fractions) * values[rows].T + fractions * values[above].T).T.copy()

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Step size by temperature; NaN at β = 0 and where no element is continuous."""
        if self.scales.shape[1] == 0:
            return np.full(len(betas), np.nan)
        sizes = self.between(self.step_sizes, betas)
        sizes[0] = np.nan
        return sizes


def run_pilot(
    thetas: np.ndarray, ells: np.ndarray, move: MoveStage, n: int, rng: np.random.Generator
) -> PathTuning:
    """Lead a population from the prior to the posterior and note what every β asks for.

    From stage to stage β rises as far as the samples of the last one bear. Weighted, they give the
    metric, and `MEMBERS` of them are drawn to move `ITERATIONS` times, which finds the step size
    and E_β[ℓ]. It is the tuning alone that remains, so nothing here needs to be unbiased.

    Parameters
    ----------
    thetas : ndarray of shape (N, d)
        Draws from the prior.
    ells : ndarray of shape (N,)
        ℓ of the draws, nats.
    move : callable
        ``move(beta, population, metric, widths, step_size, ells, trace, gradients)`` applies the
        kernel of β to all rows of ``population`` as often as ``ells``, of shape (iterations,
        members), has rows. It records ℓ there, the states in ``trace`` and the gradients of both
        terms in ``gradients``, and returns the adapted step size, the mean acceptance and the
        number of gradients.
    n : int
        Number of continuous elements, which come first in θ.
    rng : numpy.random.Generator
        The pilot's own stream.
    """
    beta, step_size, n_gradients = 0.0, FIRST_STEP_SIZE, 0
    gradients = np.zeros((2, 1, len(thetas), n))  # not known of the prior draws
    stages: list[tuple] = []
    path_betas, means = [np.zeros(1)], [_mean(ells)]
    while beta < 1:
        below, ells_below = beta, ells
        highest = 10 * below if stages else 1 / max(np.ptp(ells), 1.0)
        beta = min(next_beta(ells, below), highest)
        weights = softmax((beta - below) * ells)
        metric = estimate_metric(thetas[:, :n], _slopes(gradients, beta), weights)
        widths = deviations(thetas[:, n:], weights)
        population = thetas[_systematic(weights, MEMBERS, rng)]
        n_iterations = ITERATIONS if stages else 3 * ITERATIONS
        ells = np.empty((n_iterations, MEMBERS))
        trace = np.empty((n_iterations, *population.shape))
        gradients = np.empty((2, n_iterations, MEMBERS, n))
        step_size, acceptance, cost = move(
            beta, population, metric, widths, step_size, ells, trace, gradients
        )
        n_gradients += cost
        thetas, ells = trace.reshape(ells.size, thetas.shape[1]), ells.ravel()
        stages.append((beta, step_size, metric, widths, acceptance))
        between = _between(below, beta, ells_below)
        path_betas += [between, np.array([beta])]
        means += [_mean_between(between, below, ells_below, beta, ells), _mean(ells)]
    betas, step_sizes, metrics, widths, accepted = zip(*stages, strict=True)
    ranks = [len(metric.excess) for metric in metrics]
    directions = np.zeros((len(stages), max(ranks), n))
    excesses = np.zeros((len(stages), max(ranks)))
    for g, metric in enumerate(metrics):
        directions[g, : ranks[g]], excesses[g, : ranks[g]] = metric.directions, metric.excess
    return PathTuning(
        np.array(betas),
        np.array(step_sizes),
        np.array([metric.scale for metric in metrics]),
        directions,
        excesses,
        np.array(widths),
        np.array(accepted),
        np.concatenate(path_betas),
        isotonic_regression(np.concatenate(means)).x,
        n_gradients,
    )


def next_beta(ells: np.ndarray, beta: float) -> float:
    """The β at which samples of ℓ at the present β are worth `OVERLAP` of their number; at most 1.

    Del Moral, Doucet and Jasra (2012), Section 3.3.
    """
    if np.ptp(ells) == 0:
        return 1.0

    def surplus(log_increment):
        weights = softmax(np.exp(log_increment) * ells)
        return 1 / np.sum(weights**2) - OVERLAP * len(ells)

    top = np.log(1 - beta)
    if surplus(top) >= 0:
        return 1.0
    bottom = np.log(1e-3 / np.ptp(ells))
    return beta + np.exp(brentq(surplus, min(bottom, top - 1), top, xtol=1e-6))


def _mean(ells: np.ndarray) -> np.ndarray:
    """Mean of ℓ, shape (1,), also where their sum would overflow."""
    return np.sum(ells / len(ells), keepdims=True)


def _slopes(gradients: np.ndarray, beta: float) -> np.ndarray:
    """Gradients of log f_β by sample; not finite where ℓ is not."""
    with np.errstate(invalid="ignore"):
        return np.concatenate(gradients[0] + beta * gradients[1])


def _systematic(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of n draws by systematic resampling."""
    heights = (rng.random() + np.arange(n)) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), heights), len(weights) - 1)


def _between(below: float, beta: float, ells_below: np.ndarray) -> np.ndarray:
    """Temperatures at which to estimate E[ℓ] between two stages.

    From the prior on they start where β first matters, however far its tail reaches.
    """
    if below > 0:
        return np.linspace(below, beta, 7)[1:-1]
    return np.geomspace(min(beta / 2, 0.1 / max(np.ptp(ells_below), 1e-300)), beta, 80)[:-1]


def _mean_between(betas, below, ells_below, above, ells_above) -> np.ndarray:
    """E_β[ℓ] from the samples on both sides, the nearer the more."""
    means = []
    for beta in betas:
        near = (beta - below) / (above - below)
        from_below = softmax((beta - below) * ells_below) @ ells_below
        from_above = softmax((beta - above) * ells_above) @ ells_above
        means.append((1 - near) * from_below + near * from_above)
    return np.array(means)
