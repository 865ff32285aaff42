"""The small types that every layer shares: points, directions, kernels, finished runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

__all__ = [
    "MAX_RHAT",
    "UNTUNED",
    "Annealing",
    "Direction",
    "Kernel",
    "Move",
    "Point",
    "Population",
    "Populations",
    "Run",
    "Tuning",
    "Untuned",
    "stack",
]

MAX_RHAT = 1.7
"""Up to it each member of a pilot explores what all of them cover: the posterior has one mode.

Ten seeds each, in the first stage at β = 1: 1.0 to 1.5 on the benchmarks' models with one mode, but
for centred eight schools, which mixes slowly (1.4 to 2.1); 3.7 to 5.0 on their mixture. A mode that
the pilot lost does not show in it, but to the scouts."""

Point = Mapping[str, np.ndarray]
"""Values of the unconstrained free variables θ, by the name of the value variable."""


def stack(points: Sequence[Point]) -> dict[str, np.ndarray]:
    """Many points as one whose arrays have a row for each."""
    return {name: np.stack([point[name] for point in points]) for name in points[0]}


class Direction(StrEnum):
    """Which way a run goes along β, as data for the loops."""

    FORWARD = "forward"
    REVERSE = "reverse"

    def start(self, n_temperatures: int) -> int:
        """Index of the temperature at which a chain starts."""
        return 0 if self is Direction.FORWARD else n_temperatures

    def moves(self, n_temperatures: int) -> Iterator[tuple[int, int]]:
        """Pairs (t, arrival): apply K_t or its reversal, arrive at the temperature of that index.

        Forward applies K_1 … K_T and θ_t arrives at β_t; in reverse K_T† … K_1† and the state
        that K_t† yields belongs to β_{t−1}.
        """
        if self is Direction.FORWARD:
            return ((t, t) for t in range(1, n_temperatures + 1))
        return ((t, t - 1) for t in range(n_temperatures, 0, -1))


class Move(NamedTuple):
    """What one kernel application reports besides the new point."""

    acceptance: float | tuple[float, ...]
    """Acceptance statistic in [0, 1], or one of every part of a composition; NaN without any."""
    diverging: int
    """Whether a Hamiltonian trajectory diverged; of several states, how many did."""
    gradient_evaluations: int
    """Number of gradients of log f_β."""


class Kernel(Protocol):
    """A family of transitions K_1 … K_T; K_t leaves f_t(θ) = p(θ) exp(β_t ℓ(θ)) invariant."""

    def reset(self, rng: np.random.Generator) -> None:
        """Forget every earlier chain and draw from ``rng`` from now on."""

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""

    def reversal(self) -> "Kernel":
        """Return the kernel with K_t† in the place of every K_t."""


class Tuning(Protocol):
    """What pilots find on one data set: how to tune the kernels, and what the path is like."""

    @property
    def path_betas(self) -> np.ndarray:
        """From 0 to 1, shape (F,)."""

    @property
    def mean_log_likelihood(self) -> np.ndarray:
        """E_β[ℓ] at ``path_betas``, nats."""

    @property
    def prior_log_likelihood(self) -> np.ndarray:
        """ℓ of draws from the start of the path, restricted to ℓ > −∞, nats, shape (N,)."""

    @property
    def accepted_draws(self) -> int:
        """Prior draws with ℓ > −∞ that a forward run waits for, and at least one for each particle.

        The first are their starts.
        """

    @property
    def rhat(self) -> float:
        """Largest R̂ of the pilot's members at β = 1; NaN where it has none."""

    @property
    def seconds_a_move(self) -> float:
        """Of a processor, for one application of the kernel of β = 1 to one state."""

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Step size of the kernel at each β; NaN at β = 0 and where it has none."""


class Untuned:
    """The tuning of a system that has nothing to tune."""

    path_betas = np.array([0.0, 1.0])
    mean_log_likelihood = np.full(2, np.nan)
    prior_log_likelihood = np.empty(0)
    accepted_draws = 1
    rhat = seconds_a_move = np.nan

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return NaN at each β."""
        return np.full(len(betas), np.nan)


UNTUNED = Untuned()


class Population(NamedTuple):
    """How the particles of a run fared."""

    effective_size: np.ndarray
    """Effective number of particles once they have the weights of each temperature, before they
    are resampled; shape (T + 1,)."""
    resampled: np.ndarray
    """Whether they were; shape (T + 1,)."""
    ancestors: int
    """Number of starts from which the last particles descend."""


@dataclass(frozen=True)
class Run:
    """A finished run, a chain if it has one particle; or a block of chains that went side by side.

    Attributes
    ----------
    log_weight : float or ndarray of shape (number of chains,)
        log Ẑ in nats, in both directions the estimate of log Z − log P(S); log w of a chain.
    log_likelihood : ndarray of shape (T + 1,)
        Weighted mean of ℓ at each temperature, nats.
    acceptance : ndarray of shape (T + 1, P)
        Acceptance statistic of the P parts of K_t, mean over particles; NaN at t = 0 and where a
        part has none.
    divergences : ndarray of int, shape (T + 1,)
        Particles for which K_t diverged.
    gradient_evaluations : int
        Gradients computed along the run.
    ends : mapping of str to ndarray
        Last states by variable, a row for each particle, and after these as many for each further
        move at β = 1. Of a reverse run the first is θ_0.
    weights : ndarray of shape (number of rows,)
        Normalised, of the last states.
    population : Population
    prior_draws : int or ndarray of shape (A,)
        Draws from the prior until one had ℓ > −∞, A times in a row where some have not; the first
        draws so accepted were the starts. 0 for a reverse run.
    log_likelihood_sd : float or ndarray of shape (T + 1,)
        Standard deviation of ℓ over the chains of a block, nats.
    """

    log_weight: float | np.ndarray
    log_likelihood: np.ndarray
    acceptance: np.ndarray
    divergences: np.ndarray
    gradient_evaluations: int
    ends: Point
    weights: np.ndarray
    population: Population
    prior_draws: int | np.ndarray = 0
    log_likelihood_sd: float | np.ndarray = 0.0

    @classmethod
    def of_block(
        cls,
        direction: Direction,
        log_weight: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        acceptance: np.ndarray | None = None,
    ) -> "Run":
        """Return a block of chains: log weights (n,), moments of ℓ and acceptance (T + 1,)."""
        one = Population(np.ones(len(mean)), np.zeros(len(mean), dtype=bool), 1)
        return cls(
            log_weight,
            mean,
            np.full((len(mean), 0), np.nan) if acceptance is None else acceptance[:, None],
            np.zeros(len(mean), dtype=int),
            0,
            ends={},
            weights=np.empty(0),
            population=one,
            prior_draws=int(direction is Direction.FORWARD),
            log_likelihood_sd=sd,
        )


class Populations(NamedTuple):
    """How the particles of all runs of one direction on one data set fared."""

    effective_size: np.ndarray
    """Effective number of particles before they are resampled, mean over runs, shape (T + 1,)."""
    resamplings: np.ndarray
    """Number of runs that were resampled there, shape (T + 1,)."""
    least_effective_size: np.ndarray
    """By run, over the temperatures, shape (C,)."""
    ancestors: np.ndarray
    """Number of starts from which the last particles descend, shape (C,)."""


@dataclass(frozen=True, eq=False)
class Annealing:
    """What annealing all runs of one direction on one data set found, as arrays.

    Attributes
    ----------
    log_weight : ndarray of shape (C,)
        log Ẑ in nats; NaN for a run that was not finished.
    prior_draws : ndarray of shape (C,) or (C, A)
        Draws from the prior until one had ℓ > −∞, by run, A times in a row where some have not;
        0 for a run that did not start there.
    lowest_acceptance : ndarray of shape (C,)
        Smallest mean acceptance over stretches of a run, of the part of the kernel where it is
        the smallest.
    log_likelihood_mean, log_likelihood_sd : ndarray of shape (T + 1,)
        Mean and standard deviation over runs of (the weighted mean of) ℓ at each temperature, nats.
    acceptance, step_size : ndarray of shape (T + 1,)
        Acceptance statistic, mean over runs and parts, and step size of K_t; NaN where there is
        none.
    divergences : ndarray of int, shape (T + 1,)
        Number of particles of all runs for which K_t diverged.
    gradient_evaluations : int
        Gradients computed by all runs.
    populations : Populations, optional
        Of runs of several particles.
    """

    log_weight: np.ndarray
    prior_draws: np.ndarray
    lowest_acceptance: np.ndarray
    log_likelihood_mean: np.ndarray
    log_likelihood_sd: np.ndarray
    acceptance: np.ndarray
    step_size: np.ndarray
    divergences: np.ndarray
    gradient_evaluations: int
    populations: Populations | None = None
