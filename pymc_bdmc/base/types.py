"""Shared types: points, directions, kernels, finished runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np

MAX_RHAT = 1.7
"""Largest R̂ of pilot members at which they count as mixed.

With ten seeds each, in the first stage at β = 1, it is 1.0 to 1.5 on the unimodal models of the
benchmarks, 1.4 to 2.1 on centred eight schools, which mixes slowly, and 3.7 to 5.0 on their
mixture. It does not show a mode that the pilot lost; the scouts may."""

Point = Mapping[str, np.ndarray]
"""Values of the unconstrained free variables θ, by the name of the value variable."""


def stack(points: Sequence[Point]) -> dict[str, np.ndarray]:
    """Stack points; the arrays of the result have a row for each."""
    return {name: np.stack([point[name] for point in points]) for name in points[0]}


class Direction(StrEnum):
    """Direction of a run along β."""

    FORWARD = "forward"
    REVERSE = "reverse"

    def start(self, n_temperatures: int) -> int:
        """Return the index of the temperature at which a chain starts."""
        return 0 if self is Direction.FORWARD else n_temperatures

    def moves(self, n_temperatures: int) -> Iterator[tuple[int, int]]:
        """Yield pairs (t, arrival): apply K_t or its reversal, and arrive at β_arrival.

        A forward run applies K_1 … K_T, and θ_t belongs to β_t. A reverse run applies K_T† … K_1†,
        and the result of K_t† belongs to β_{t−1}.
        """
        if self is Direction.FORWARD:
            return ((t, t) for t in range(1, n_temperatures + 1))
        return ((t, t - 1) for t in range(n_temperatures, 0, -1))


class Move(NamedTuple):
    """Report of one kernel application, besides the new point."""

    acceptance: float | tuple[float, ...] | np.ndarray
    """Acceptance statistic in [0, 1], or one for every part of a composition; NaN if there is
    none."""
    diverging: int
    """Number of states whose Hamiltonian trajectory diverged."""
    gradient_evaluations: int
    """Number of gradients of log f_β."""


class Kernel(Protocol):
    """Family of transitions K_1 … K_T; K_t leaves f_t(θ) = p(θ) exp(β_t ℓ(θ)) invariant."""

    def reset(self, rng: np.random.Generator) -> None:
        """Remove the state of earlier chains, and draw from ``rng`` from now on."""

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""

    def reversal(self) -> "Kernel":
        """Return the kernel with K_t† in place of every K_t."""


@dataclass(frozen=True, eq=False)
class Tuning:
    """Results of pilots on one data set: E_β[ℓ], parameters of the kernels, and costs."""

    reference: Any
    """Start of the path; None for the prior."""
    mean_log_likelihood: np.ndarray
    """E_β[ℓ] at ``path_betas``, nats."""
    prior_log_likelihood: np.ndarray
    """ℓ > −∞ of draws from the start of the path, nats, shape (N,)."""
    gradient_evaluations: int
    """Cost of the pilots."""
    gradients_a_move: float = np.nan
    """Gradient evaluations of one application of the kernel at β = 1 to one state."""
    seconds_a_move: float = field(default=np.nan, compare=False)
    """CPU seconds of one application."""
    path_betas: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0]))
    """β from 0 to 1, shape (F,)."""
    kernels: Any = None
    """Parameters of the kernels, interpolated in β; None if no kernel moves."""
    accepted_draws: int = 1
    """Prior draws with ℓ > −∞ that a forward run needs, at least one per particle; the first are
    the starts."""
    rhat: float = np.nan
    """Largest R̂ of the pilot's members at β = 1; NaN if there is none."""
    last_log_likelihood: np.ndarray = field(default_factory=lambda: np.empty(0))
    """ℓ, or g, of the pilot's samples of the posterior, nats, shape (S,)."""
    fit: tuple[np.ndarray, Any] | None = None
    """Mean and `Metric` of the pilot's samples of the posterior, if all elements are continuous."""
    acceptance: np.ndarray = field(default_factory=lambda: np.empty(0))
    """Mean acceptance at each stage of a compiled pilot."""

    @property
    def peaks(self) -> int:
        """Return the number of narrow peaks added to the fit at the start of the path."""
        if self.kernels is None or self.reference is None:
            return 0
        return len(self.reference.locations) - 1

    def step_size(self, betas: np.ndarray) -> np.ndarray:
        """Return the step size of the kernel at each β, NaN at β = 0 or if there is none."""
        if self.kernels is None:
            return np.full(len(betas), np.nan)
        return self.kernels.step_size(betas)


@dataclass(frozen=True)
class Run:
    """A finished run, which is a chain if it has one particle, or a block of parallel chains.

    Attributes
    ----------
    log_weight : float or ndarray of shape (number of chains,)
        log Ẑ in nats, which estimates log Z − log P(S) in both directions. For a chain it is log w.
    log_likelihood : ndarray of shape (T + 1,)
        Weighted mean of ℓ at each temperature, nats.
    acceptance : ndarray of shape (T + 1, P)
        Acceptance statistic of the P parts of K_t, mean over particles. NaN at t = 0, and if a part
        has none.
    divergences : ndarray of int, shape (T + 1,)
        Number of particles for which K_t diverged.
    gradient_evaluations : int
        Number of gradients computed along the run.
    ends : mapping of str to ndarray
        Last states by variable, with a row for each particle, followed by the same number of rows
        for each further move at β = 1. In a reverse run the first row is θ_0.
    weights : ndarray of shape (number of rows,)
        Normalised weights of the last states.
    effective_size : ndarray of shape (T + 1,)
        Effective number of particles, after weighting and before resampling.
    resampled : ndarray of bool, shape (T + 1,)
        Whether particles were resampled.
    ancestors : int
        Number of starts from which the last particles descend.
    prior_draws : int or ndarray of shape (A,)
        Number of prior draws until one had ℓ > −∞. If some were rejected, there is a number for
        each of A accepted draws, of which the first are the starts. 0 for a reverse run.
    log_likelihood_sd : float or ndarray of shape (T + 1,)
        Standard deviation of ℓ over the chains of a block, nats.
    row_log_weight : ndarray of shape (number of rows of the data,), optional
        Part of ``log_weight`` that each row of the data added, nats. It is known on the path of
        the data, if a temperature ends with every row.
    of_start : mapping of str to float
        What a reverse run tells of its start as a sample of the posterior: ``log_e_value`` (nats),
        evidence against it, and ``start_distance``, an estimate of its total variation from it.
    """

    log_weight: float | np.ndarray
    log_likelihood: np.ndarray
    acceptance: np.ndarray
    divergences: np.ndarray
    gradient_evaluations: int
    ends: Point
    weights: np.ndarray
    effective_size: np.ndarray
    resampled: np.ndarray
    ancestors: int
    prior_draws: int | np.ndarray = 0
    log_likelihood_sd: float | np.ndarray = 0.0
    row_log_weight: np.ndarray | None = None
    of_start: Mapping[str, float] = field(default_factory=dict)

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
        return cls(
            log_weight,
            mean,
            np.full((len(mean), 0), np.nan) if acceptance is None else acceptance[:, None],
            np.zeros(len(mean), dtype=int),
            0,
            ends={},
            weights=np.empty(0),
            effective_size=np.ones(len(mean)),
            resampled=np.zeros(len(mean), dtype=bool),
            ancestors=1,
            prior_draws=int(direction is Direction.FORWARD),
            log_likelihood_sd=sd,
        )


class Moves(NamedTuple):
    """Names of the kernels of a transition."""

    is_compiled: bool
    names: tuple[str, ...]
    """Names in the order of application, such as ``Metropolis`` and ``HMC``."""


@dataclass(frozen=True, eq=False)
class Annealing:
    """Results of all runs of one direction on one data set, under their names in a result.

    Attributes
    ----------
    by_chain : dict of str to ndarray
        By run; NaN for a run that was not finished. ``log_weight`` is log Ẑ in nats.
        ``prior_draws`` is the number of prior draws until one had ℓ > −∞; if some were rejected,
        there is one for each of A accepted draws, shape (C, A); it is 0 for a run that did not
        start from the prior. ``lowest_acceptance`` is the smallest mean acceptance over stretches
        of a run and parts of the kernel. Of runs with several particles ``least_effective_size`` is
        the smallest effective size over the temperatures, and ``ancestors`` the number of starts
        from which the last particles descend. ``row_log_weight`` are the parts of the log weights
        that each row of the data added, shape (C, rows), nats. What reverse runs tell of
        their starts: see `Run`.
    by_beta : dict of str to ndarray of shape (T + 1,)
        ``log_likelihood_path`` and ``log_likelihood_sd``: mean and standard deviation over runs of
        (the weighted mean of) ℓ, nats. ``acceptance`` (mean over runs and parts) and ``step_size``
        of K_t; NaN if there is none. ``divergences``: particles of all runs for which K_t diverged.
        Only runs with several particles have ``effective_size``, their mean effective size before
        resampling, and ``resamplings``, the number of runs that were resampled.
    gradient_evaluations : int
        Number of gradients computed by all runs.
    """

    by_chain: Mapping[str, np.ndarray]
    by_beta: Mapping[str, np.ndarray]
    gradient_evaluations: int

    @property
    def log_weight(self) -> np.ndarray:
        """Return log Ẑ by run, nats; NaN for a run that was not finished."""
        return self.by_chain["log_weight"]
