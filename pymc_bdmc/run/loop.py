"""Anneal particles along β, with any kernel, in both directions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pymc_bdmc.base.types import Direction, Kernel, Move, Point, Run, stack
from pymc_bdmc.run.resampling import (
    THRESHOLD,
    effective_size,
    mean_of,
    places,
    resample,
    update_weights,
)


class Stopped(Exception):
    """Ctrl-C, or the end of the call, stopped a computation."""


class Record:
    """Records of a run with n particles at every temperature, in the form of a `Run`."""

    def __init__(self, n_temperatures: int, n: int, n_parts: int = 0):
        shape = n_temperatures + 1
        self.mean, self.highest, self.rests = np.zeros((3, shape))
        self.acceptance = np.zeros((shape, n_parts))
        self.divergences = np.zeros(shape, dtype=int)
        self.effective_size = np.full(shape, float(n))
        self.resampled = np.zeros(shape, dtype=bool)
        self.n, self.gradients = n, 0

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays that the compiled loop of a population fills."""
        return (
            self.mean, self.highest, self.rests, self.acceptance, self.divergences,
            self.effective_size, self.resampled,
        )  # fmt: skip

    def add(self, t: int, move: Move) -> None:
        """Add the sums over some particles that K_t moved."""
        acceptance = np.atleast_1d(move.acceptance)
        if not self.acceptance.size:
            self.acceptance = np.zeros((len(self.mean), len(acceptance)))
        self.acceptance[t] += acceptance
        self.divergences[t] += move.diverging
        self.gradients += move.gradient_evaluations

    def run(
        self, betas: np.ndarray, ends: Point, weights: np.ndarray, ancestors: int, **more: Any
    ) -> Run:
        """Return the run of this record."""
        self.acceptance[0] = np.nan
        return Run(
            float(np.diff(betas) @ self.highest[:-1] + self.rests.sum()),
            self.mean,
            self.acceptance / self.n,
            self.divergences,
            self.gradients,
            ends,
            weights,
            self.effective_size,
            self.resampled,
            ancestors,
            **more,
        )


def _moved(kernel: Kernel, t: int, points: Sequence[Point]) -> tuple[list[Point], Move]:
    """Apply K_t to every point; return the new ones, and the sums of the reports."""
    moved, reports = zip(*(kernel.step(t, point) for point in points), strict=True)
    acceptance, diverging, gradients = zip(*reports, strict=True)
    return list(moved), Move(np.sum(acceptance, axis=0), sum(diverging), sum(gradients))


def anneal_particles(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    betas: np.ndarray,
    points: list[Point],
    record: Record,
    rng: np.random.Generator,
    trail: Mapping[int, Point] | None = None,
) -> tuple[list[Point], np.ndarray, int]:
    """Anneal particles from β = 0 to 1; return them, their weights, and the number of ancestors.

    In a reverse run, particle 0 does not move but has its recorded ℓ and the ``trail``: its states
    before K_t, by t. Others may be resampled onto it (Andrieu, Doucet and Holenstein 2010).
    """
    kernel.reset(rng)
    n, first = record.n, 0 if trail is None else 1
    weights, roots, allowed = np.full(n, 1 / n), np.arange(n), places(len(betas) - 1)
    ells = np.array([log_likelihood(point) for point in points])
    record.mean[0] = mean_of(weights, ells)
    for t in range(1, len(betas)):
        increment = betas[t] - betas[t - 1]
        record.highest[t - 1], record.rests[t] = update_weights(weights, ells, increment)
        record.effective_size[t] = effective_size(weights)
        if allowed[t] and record.effective_size[t] < THRESHOLD * n:
            record.resampled[t] = True
            ancestors = resample(weights, trail is not None, rng.random())
            if trail is not None:
                points[0] = trail[t]
            points = [points[i] for i in ancestors]
            roots, weights[:] = roots[ancestors], 1 / n
        points[first:], move = _moved(kernel, t, points[first:])
        record.add(t, move)
        ells[first:] = [log_likelihood(point) for point in points[first:]]
        if first:
            ells[0] = record.mean[t]
        record.mean[t] = mean_of(weights, ells)
    return points, weights, len(np.unique(roots[weights > 0]))


def _reverse_path(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    point: Point,
    record: Record,
    rng: np.random.Generator,
    burn_in: int,
) -> tuple[Point, dict[int, Point]]:
    """Anneal a particle from the posterior to the prior; return it, and its states after K_t†."""
    kernel.reset(rng)
    last, trail = len(record.mean) - 1, {}
    for _ in range(burn_in):
        point, _ = kernel.step(last, point)
    record.mean[last] = log_likelihood(point)
    for t in range(last, 0, -1):
        point, move = kernel.step(t, point)
        record.add(t, move)
        record.mean[t - 1] = log_likelihood(point)
        if places(last)[t]:  # others may be resampled onto it there
            trail[t] = point
    record.highest[:] = record.mean
    return point, trail


def anneal(
    kernel: Kernel,
    log_likelihood: Callable[[Point], float],
    betas: np.ndarray,
    starts: Sequence[Point],
    direction: Direction,
    rng: np.random.Generator,
    burn_in: int = 0,
) -> Run:
    r"""Run particles along β and return log Ẑ, the log weight of the run.

    A single particle is a chain. Forward, θ_0 comes from the prior and θ_t ~ K_t(·|θ_{t−1}). In
    reverse, θ_T comes from the posterior, first moved ``burn_in`` times by K_T†, and θ_{t−1} ~
    K_t†(·|θ_t). Either way

    .. math:: \log w = \sum_{t=1}^T (\beta_t - \beta_{t-1})\, \ell(\theta_{t-1}),

    so E_f[w] = Z and E_r[1/w] = 1/Z (Neal 2001; Grosse, Ghahramani and Adams 2015, Eqs 3 and 8).

    Several particles are annealed together. If their weights become too uneven, the logarithm of
    the mean weight is added to log Ẑ, and the particles are resampled (Del Moral, Doucet and Jasra
    2006). In reverse, the first is annealed from the posterior to the prior, and the others then
    run forward together with its path, which is never replaced. This is a conditional run, so
    E_f[Ẑ] = Z and E_r[1/Ẑ] = 1/Z still hold (Andrieu, Doucet and Holenstein 2010; Grosse,
    Ghahramani and Adams 2015, Sec. 4.2).
    """
    ends, trail, first = list(starts), None, 0
    record = Record(len(betas) - 1, len(starts))
    weights, ancestors = np.ones(1), 1
    if direction is Direction.REVERSE:
        back, first = kernel.reversal(), 1
        ends[0], trail = _reverse_path(back, log_likelihood, ends[0], record, rng, burn_in)
    if len(ends) > first:
        moved, weights, ancestors = anneal_particles(
            kernel, log_likelihood, betas, list(ends), record, rng, trail
        )
        ends[first:] = moved[first:]
    return record.run(betas, stack(ends), weights, ancestors)
