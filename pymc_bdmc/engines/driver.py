"""Annealing loop for both directions, any number of particles and any kernel."""

from collections.abc import Callable, Sequence

import numpy as np

from pymc_bdmc.base.types import Direction, Kernel, Move, Point, Population, Run, stack
from pymc_bdmc.kernels.resampling import (
    THRESHOLD,
    effective_size,
    mean_of,
    places,
    resample,
    reweigh,
)

LogLikelihood = Callable[[Point], float]


def anneal(
    kernel: Kernel,
    log_likelihood: LogLikelihood,
    betas: np.ndarray,
    starts: Sequence[Point],
    direction: Direction,
    rng: np.random.Generator,
    burn_in: int = 0,
) -> Run:
    r"""Run particles along β and return log Ẑ, the log weight of the run.

    A single particle is a chain. Forward, θ_0 comes from the prior and θ_t ~ K_t(·|θ_{t−1}). In
    reverse, θ_T comes from the posterior and θ_{t−1} ~ K_t†(·|θ_t). Either way

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1}),

    so E_f[w] = Z and E_r[1/w] = 1/Z (Neal 2001; Grosse, Ghahramani and Adams 2015, Eqs 3 and 8).

    Several particles are annealed together. If their weights become too uneven, the logarithm of
    the mean weight is added to log Ẑ, and the particles are resampled (Del Moral, Doucet and Jasra
    2006). In reverse, one particle is first annealed from the posterior to the prior. Then the
    others run forward together with its path, which is never replaced. This is a conditional run,
    so E_f[Ẑ] = Z and E_r[1/Ẑ] = 1/Z still hold (Andrieu, Doucet and Holenstein 2010; Grosse,
    Ghahramani and Adams 2015, Sec. 4.2).

    Parameters
    ----------
    kernel : Kernel
        K_1 … K_T; in reverse the first particle moves by its reversal.
    log_likelihood : callable
        ℓ of a point, nats.
    betas : ndarray of shape (T + 1,)
        The schedule.
    starts : sequence of N Point
        θ_0 of every particle; in reverse the first is θ_T.
    direction : Direction
        Forward or reverse.
    rng : numpy.random.Generator
        The run's stream.
    burn_in : int, default 0
        Applications of K_T† before a reverse run.

    Returns
    -------
    Run
        Log weight and records along β.

    Examples
    --------
    With a single temperature the weight is importance sampling from the prior:

    >>> import numpy as np
    >>> from pymc_bdmc.engines import anneal
    >>> from pymc_bdmc.base.types import Direction, Move
    >>> class Stay:
    ...     def reset(self, rng):
    ...         pass
    ...     def step(self, t, point):
    ...         return point, Move(1.0, False, 0)
    >>> starts, rng = [dict(x=np.array(2.0))], np.random.default_rng(1)
    >>> run = anneal(Stay(), lambda p: -float(p["x"]), np.array([0, 1]), starts, Direction.FORWARD,
    ...              rng)
    >>> run.log_weight
    -2.0
    """
    n, last, reverse = len(starts), len(betas) - 1, int(direction is Direction.REVERSE)
    record = _Record(last, n)
    ends, weights, ancestors = list(starts), np.full(n, 1 / n), 1
    if reverse:
        ends[0], trail = _lead(kernel.reversal(), log_likelihood, starts[0], burn_in, record, rng)
    if n > reverse:
        ancestors = _follow(
            kernel, log_likelihood, betas, ends, weights, trail if reverse else None, record, rng
        )
    by_temperature = record.moves[1:]
    parts = np.array([[move.acceptance for move in moves] for moves in by_temperature])
    parts = parts.reshape(*parts.shape[:2], -1).mean(axis=1)
    acceptance = np.full((last + 1, parts.shape[1]), np.nan)
    acceptance[1:] = parts
    return Run(
        float(np.diff(betas) @ record.highest[:-1] + record.rests.sum()),
        record.path,
        acceptance,
        np.array([0, *(sum(move.diverging for move in moves) for moves in by_temperature)]),
        sum(move.gradient_evaluations for moves in by_temperature for move in moves),
        stack(ends),
        weights,
        Population(record.effective_size, record.resampled, ancestors),
    )


class _Record:
    """Records of a run at every β."""

    def __init__(self, n_temperatures: int, n: int):
        self.path, self.highest = np.empty((2, n_temperatures + 1))
        self.rests = np.zeros(n_temperatures + 1)
        self.moves: list[list[Move]] = [[] for _ in self.path]
        self.effective_size = np.full(n_temperatures + 1, float(n))
        self.resampled = np.zeros(n_temperatures + 1, dtype=bool)


def _lead(
    kernel: Kernel,
    log_likelihood: LogLikelihood,
    point: Point,
    burn_in: int,
    record: _Record,
    rng: np.random.Generator,
) -> tuple[Point, dict[int, Point]]:
    """Anneal θ* to the prior; return θ_0, and θ_{t−1} wherever particles may be resampled."""
    last, trail = len(record.path) - 1, {}
    allowed = places(last)
    kernel.reset(rng)
    for _ in range(burn_in):
        point, _ = kernel.step(last, point)
    record.path[last] = record.highest[last] = log_likelihood(point)
    for t in range(last, 0, -1):
        point, move = kernel.step(t, point)
        record.moves[t].append(move)
        record.path[t - 1] = record.highest[t - 1] = log_likelihood(point)
        if allowed[t]:
            trail[t] = point
    return point, trail


def _follow(
    kernel: Kernel,
    log_likelihood: LogLikelihood,
    betas: np.ndarray,
    points: list[Point],
    weights: np.ndarray,
    trail: dict[int, Point] | None,
    record: _Record,
    rng: np.random.Generator,
) -> int:
    """Anneal all particles from the prior to β = 1, in place; return the number of ancestors.

    In a reverse run the first particle follows its stored ``trail``; others may be resampled onto
    it.
    """
    n, first = len(points), 0 if trail is None else 1
    roots, allowed = np.arange(n), places(len(betas) - 1)
    ells = np.array([log_likelihood(point) for point in points])
    theta_0 = points[0]
    kernel.reset(rng)
    record.path[0] = mean_of(weights, ells)
    for t in range(1, len(betas)):
        record.highest[t - 1], record.rests[t] = reweigh(weights, ells, betas[t] - betas[t - 1])
        record.effective_size[t] = effective_size(weights)
        if allowed[t] and record.effective_size[t] < THRESHOLD * n:
            record.resampled[t] = True
            if trail is not None:
                points[0] = trail[t]
            ancestors = resample(weights, trail is not None, rng)
            points[:] = [points[i] for i in ancestors]
            ells, roots = ells[ancestors], roots[ancestors]
            weights[:] = 1 / n
        if trail is not None:
            ells[0] = record.path[t]
        for i in range(first, n):
            points[i], move = kernel.step(t, points[i])
            record.moves[t].append(move)
            ells[i] = log_likelihood(points[i])
        record.path[t] = mean_of(weights, ells)
    if trail is not None:
        points[0] = theta_0
    return len(np.unique(roots[weights > 0]))
