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


class _Points:
    """States of all particles of a run, which a `Kernel` moves one after the other."""

    def __init__(
        self, kernel: Kernel, log_likelihood: Callable[[Point], float], points: Sequence[Point]
    ):
        self.kernel, self._log_likelihood = kernel, log_likelihood
        self.points = list(points)
        self._ells = np.empty(len(self.points))

    def log_likelihoods(self, t: int, first: int) -> np.ndarray:
        self._ells[first:] = [self._log_likelihood(point) for point in self.points[first:]]
        return self._ells

    def move(self, t: int, first: int) -> Move:
        moved = [self.kernel.step(t, point) for point in self.points[first:]]
        self.points[first:] = [point for point, _ in moved]
        acceptance, diverging, gradients = zip(*(move for _, move in moved), strict=True)
        return Move(np.sum(acceptance, axis=0), sum(diverging), sum(gradients))

    def take(self, ancestors: np.ndarray, kept: Point | None) -> None:
        self.points[0] = self.points[0] if kept is None else kept
        self.points = [self.points[i] for i in ancestors]


def anneal_particles(
    particles: _Points,
    betas: np.ndarray,
    record: Record,
    rng: np.random.Generator,
    trail: Mapping[int, Any] | None = None,
) -> tuple[np.ndarray, int]:
    """Anneal particles from β = 0 to 1; return their weights and the number of ancestors.

    In a reverse run, particle 0 does not move but has its recorded ℓ and the ``trail``: its states
    before K_t, by t. Others may be resampled onto it (Andrieu, Doucet and Holenstein 2010).
    """
    n, first = record.n, 0 if trail is None else 1
    weights, roots, allowed = np.full(n, 1 / n), np.arange(n), places(len(betas) - 1)
    ells = particles.log_likelihoods(0, 0)
    record.mean[0] = mean_of(weights, ells)
    for t in range(1, len(betas)):
        increment = betas[t] - betas[t - 1]
        record.highest[t - 1], record.rests[t] = update_weights(weights, ells, increment)
        record.effective_size[t] = effective_size(weights)
        if allowed[t] and record.effective_size[t] < THRESHOLD * n:
            record.resampled[t] = True
            ancestors = resample(weights, trail is not None, rng.random())
            particles.take(ancestors, None if trail is None else trail[t])
            roots, weights[:] = roots[ancestors], 1 / n
        record.add(t, particles.move(t, first))
        ells = particles.log_likelihoods(t, first)
        if first:
            ells[0] = record.mean[t]
        record.mean[t] = mean_of(weights, ells)
    return weights, len(np.unique(roots[weights > 0]))


def _reverse_path(
    path: _Points, record: Record, rng: np.random.Generator, burn_in: int
) -> dict[int, Point]:
    """Anneal a particle from the posterior to the prior; return its states after K_t†, by t."""
    last, trail = len(record.mean) - 1, {}
    path.kernel.reset(rng)
    for _ in range(burn_in):
        path.move(last, 0)
    record.mean[last] = path.log_likelihoods(last, 0)[0]
    for t in range(last, 0, -1):
        record.add(t, path.move(t, 0))
        record.mean[t - 1] = path.log_likelihoods(t - 1, 0)[0]
        if places(last)[t]:
            trail[t] = path.points[0]
    record.highest[:] = record.mean
    return trail


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
    ends, trail = list(starts), None
    record = Record(len(betas) - 1, len(starts))
    weights, ancestors, first = np.ones(1), 1, 0
    if direction is Direction.REVERSE:
        path, first = _Points(kernel.reversal(), log_likelihood, starts[:1]), 1
        trail = _reverse_path(path, record, rng, burn_in)
        ends[0] = path.points[0]
    if len(ends) > first:
        kernel.reset(rng)
        particles = _Points(kernel, log_likelihood, ends)
        weights, ancestors = anneal_particles(particles, betas, record, rng, trail)
        ends[first:] = particles.points[first:]
    return record.run(betas, stack(ends), weights, ancestors)
