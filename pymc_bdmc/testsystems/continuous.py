"""Anneal systems with exact posterior draws and known log Z by vectorised Metropolis."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from pymc_bdmc.base.schedules import make_schedule

BATCH = 10_000
"""Number of chains moved at a time, chosen so that their states fit into the processor's cache."""


class ContinuousSystem(ABC):
    """Likelihood under a normal prior, with everything that bidirectional annealing needs.

    A subclass gives the fields ``dimension`` and ``prior_std``, and the methods `log_z`,
    `log_likelihood`, `draw_posterior` and `step_size`. States have shape (dimension, n): one column
    per chain.
    """

    dimension: int
    prior_std: float

    @property
    @abstractmethod
    def log_z(self) -> float:
        """Log evidence, nats."""

    @abstractmethod
    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), shape (n,), nats."""

    @abstractmethod
    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states."""

    @abstractmethod
    def step_size(self, beta: float) -> float:
        """Return the standard deviation of Metropolis proposals at β, elementwise for an array."""

    def draw_prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n states from the prior."""
        return self.prior_std * rng.normal(size=(self.dimension, n))

    description = "random-walk Metropolis"

    def step(
        self, state: np.ndarray, betas: np.ndarray, rng: np.random.Generator, moves: int = 20
    ) -> np.ndarray:
        """Make Metropolis steps of every chain at its own β, for simulated tempering.

        Parameters
        ----------
        state : ndarray of shape (dimension, n)
        betas : ndarray of shape (n,)
            Inverse temperatures; at β = 0 the state is drawn from the prior.
        rng : Generator
        moves : int
            Number of Metropolis steps.
        """
        x = np.where(betas > 0, state, self.draw_prior(betas.size, rng))
        ell = self.log_likelihood(x)
        for _ in range(moves):
            x, ell = self._metropolis(x, ell, betas, rng)
        return x

    def anneal(
        self,
        direction: str,
        n: int,
        rng: np.random.Generator,
        *,
        schedule: ArrayLike | None = None,
        moves: int = 20,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run n independent chains.

        Parameters
        ----------
        direction : {"forward", "reverse"}
        n : int
        rng : Generator
        schedule : array_like of shape (T + 1,), optional
            β from 0 to 1. By default 25 increments of the cubic 0.05 s + 0.95 s³.
        moves : int
            Number of Metropolis steps at each β. All steps use the same proposal, so together they
            are their own reversal.

        Returns
        -------
        log_weights : ndarray of shape (n,)
            Nats.
        states : ndarray of shape (dimension, n)
            Last states, which are near the posterior in forward runs and near the prior in
            reverse runs.

        Raises
        ------
        ValueError
            If the direction is unknown or the schedule does not increase from 0 to 1.
        """
        temperatures = 25 if schedule is None else schedule
        betas = make_schedule("cubic", temperatures, default_name="cubic").betas
        if direction not in ("forward", "reverse"):
            raise ValueError(f"direction must be 'forward' or 'reverse', not {direction!r}.")
        sizes = [min(BATCH, n - done) for done in range(0, n, BATCH)]
        batches = [self._run(direction, size, rng, betas, moves) for size in sizes]
        log_weights, states = zip(*batches, strict=True)
        return np.concatenate(log_weights), np.concatenate(states, axis=1)

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n forward log weights with the default schedule, nats."""
        return self.anneal("forward", n, rng)[0]

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n reverse log weights with the default schedule, nats."""
        return self.anneal("reverse", n, rng)[0]

    def _run(self, direction, n, rng, betas, moves):
        log_weights, increments = np.zeros(n), np.diff(betas)
        forward = direction == "forward"
        x = self.draw_prior(n, rng) if forward else self.draw_posterior(n, rng)
        ell = self.log_likelihood(x)
        steps = range(1, betas.size)
        for t in steps if forward else reversed(steps):
            if forward:
                log_weights += increments[t - 1] * ell
            for _ in range(moves):
                x, ell = self._metropolis(x, ell, betas[t], rng)
            if not forward:
                log_weights += increments[t - 1] * ell
        return log_weights, x

    def _metropolis(self, x, ell, beta, rng):
        proposal = x + self.step_size(beta) * rng.normal(size=x.shape)
        proposed = self.log_likelihood(proposal)
        log_ratio = beta * (proposed - ell)
        log_ratio += (np.sum(x**2, axis=0) - np.sum(proposal**2, axis=0)) / (2 * self.prior_std**2)
        accepted = -rng.exponential(size=ell.size) < log_ratio
        return np.where(accepted, proposal, x), np.where(accepted, proposed, ell)
