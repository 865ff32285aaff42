"""Shared types: points, directions, kernels, systems, finished runs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

MAX_RHAT = 1.7
"""Largest R̂ of pilot members at which they count as mixed. With ten seeds each, in the first stage
at β = 1, it is 1.0 to 1.5 on the unimodal models of the benchmarks, 1.4 to 2.1 on centred eight
schools, which mixes slowly, and 3.7 to 5.0 on their mixture. A mode that the pilot lost does not
show in it."""

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
        """Yield pairs (t, arrival): K_1 … K_T arrive at β_t, and K_T† … K_1† at β_{t−1}."""
        if self is Direction.FORWARD:
            return ((t, t) for t in range(1, n_temperatures + 1))
        return ((t, t - 1) for t in range(n_temperatures, 0, -1))


class Move(NamedTuple):
    """Report of one kernel application, besides the new point."""

    acceptance: float | tuple[float, ...] | np.ndarray
    """Acceptance statistic in [0, 1], or one for every part of a composition; NaN if none."""
    diverging: int
    """Number of states whose Hamiltonian trajectory diverged."""
    gradient_evaluations: int


class Kernel(Protocol):
    """Family of transitions K_1 … K_T; K_t leaves f_t(θ) = p(θ) exp(β_t ℓ(θ)) invariant."""

    def reset(self, rng: np.random.Generator) -> None:
        """Remove the state of earlier chains, and draw from ``rng`` from now on."""

    def step(self, t: int, point: Point) -> tuple[Point, Move]:
        """Apply K_t to a point."""

    def reversal(self) -> "Kernel":
        """Return the kernel with K_t† in place of every K_t."""


@runtime_checkable
class System(Protocol):
    """The contract of a system that `anneal` and `temper` can run, for any number of chains.

    PyMC models do not need it, since `sample_bdmc` runs them. `anneal` also requires
    ``draw_posterior(chains, rng)``, which returns states at β = 1. If these states are not exact,
    the attribute ``start_status`` must be ``"burned-in"`` or ``"heuristic"``. If `step` is not
    reversible, the method ``step_back`` must be its reversal and take the same parameters.

    If the prior is restricted to ℓ > −∞ by rejection, a system may have an attribute ``trials``: a
    list with the number of proposals for each prior draw. `temper` estimates log P(ℓ > −∞) from it.

    Examples
    --------
    A normal prior and a normal observation, moved by exact draws:

    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> class Normal:
    ...     description = "exact draws"
    ...     def draw_prior(self, chains, rng):
    ...         return rng.normal(size=chains)
    ...     def draw_posterior(self, chains, rng):
    ...         return self.step(None, np.ones(chains), rng)
    ...     def step(self, state, betas, rng):
    ...         return rng.normal(betas / (1 + betas), 1 / np.sqrt(1 + betas))
    ...     def log_likelihood(self, state):
    ...         return -0.5 * (1 - state) ** 2
    >>> isinstance(Normal(), bdmc.System)
    True
    >>> dt = bdmc.anneal(Normal(), chains=500, temperatures=20, random_seed=1, progressbar=False)
    >>> value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    >>> bool(abs(value - -0.25 - 0.5 * np.log(0.5)) < 4 * error)
    True
    """

    description: str
    """The name of a transition."""

    def draw_prior(self, chains: int, rng: np.random.Generator) -> Any:
        """Return exact states at β = 0."""

    def step(self, state: Any, betas: np.ndarray, rng: np.random.Generator) -> Any:
        """Apply a kernel that leaves f_β invariant, at every chain's own β, and return states."""

    def log_likelihood(self, state: Any) -> np.ndarray:
        """Return ℓ of every chain, shape (chains,), nats."""


@runtime_checkable
class TwoSidedSystem(System, Protocol):
    """The contract of a system that `anneal` can run in both directions."""

    def draw_posterior(self, chains: int, rng: np.random.Generator) -> Any:
        """Return states at β = 1; ``start_status`` says whether they are exact."""


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
        """Return the number of narrow components added to the fit at the start of the path."""
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

    Arrays have shape (T + 1,) unless another shape is given.
    """

    log_weight: float | np.ndarray
    """log Ẑ in nats, which estimates log Z − log P(S) in both directions; log w of a chain, or of
    each chain of a block."""
    log_likelihood: np.ndarray
    """Weighted mean of ℓ, nats."""
    acceptance: np.ndarray
    """Mean acceptance statistic of the P parts of K_t, shape (T + 1, P); NaN if there is none."""
    divergences: np.ndarray
    """Number of particles for which K_t diverged."""
    gradient_evaluations: int
    ends: Point
    """Last states, and as many rows for each further move at β = 1. In a reverse run the first row
    is θ_0."""
    weights: np.ndarray
    """Normalised weights of the rows of ``ends``."""
    effective_size: np.ndarray
    """Effective number of particles, after weighting and before resampling."""
    resampled: np.ndarray
    ancestors: int
    """Number of starts from which the last particles descend."""
    prior_draws: int | np.ndarray = 0
    """Number of prior draws until one had ℓ > −∞, or, if some were rejected, a number for each of A
    accepted draws, of which the first are the starts. 0 for a reverse run."""
    log_likelihood_sd: float | np.ndarray = 0.0
    """Standard deviation of ℓ over the chains of a block, nats."""
    row_log_weight: np.ndarray | None = None
    """Part of ``log_weight`` that each row of the data added, nats. It is known on the path of the
    data, if a temperature ends with every row."""
    of_start: Mapping[str, float] = field(default_factory=dict)
    """``log_e_value`` (nats) against the start of a reverse run as a sample of the posterior, and
    ``start_distance``, an estimate of its total variation from it."""

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
    """Results of all runs of one direction on one data set, under their names in a result."""

    by_chain: Mapping[str, np.ndarray]
    """Values of `Run` for each of C runs; NaN for a run that was not finished. If prior draws were
    rejected, ``prior_draws`` has shape (C, A). ``lowest_acceptance`` is the smallest mean over
    stretches of a run and parts of the kernel, ``least_effective_size`` the smallest over the
    temperatures. ``row_log_weight`` has shape (C, rows)."""
    by_beta: Mapping[str, np.ndarray]
    """By β, shape (T + 1,): mean ``log_likelihood_path`` and ``log_likelihood_sd`` of ℓ over runs,
    nats, mean ``acceptance`` and ``step_size`` of K_t (NaN if there is none), and ``divergences``
    of all runs. Runs of several particles also have ``effective_size``, a mean before resampling,
    and ``resamplings``, the number of resampled runs."""
    gradient_evaluations: int

    @property
    def log_weight(self) -> np.ndarray:
        """Return log Ẑ by run, nats; NaN for a run that was not finished."""
        return self.by_chain["log_weight"]
