"""Anneal on a finite state space, exactly or by chains, from transition matrices."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, rel_entr

SIDE = 7
MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1))


@dataclass(frozen=True)
class ExactSandwich:
    """Exact expectations of an annealing run.

    Attributes
    ----------
    log_z : float
        log Σ p(s) exp ℓ(s), nats.
    lower, upper : float
        ⟨log w⟩_f and ⟨log w⟩_r, nats.
    bound : float
        B = upper − lower, the Jeffreys bound.
    jeffreys : float
        J, the Jeffreys divergence between the last state of a forward chain and the posterior.
    forward_divergence, reverse_divergence : float
        The terms KL(q‖p) and KL(p‖q) of J, nats.
    """

    log_z: float
    lower: float
    upper: float
    bound: float
    jeffreys: float
    forward_divergence: float
    reverse_divergence: float


def exact_sandwich(
    log_prior: ArrayLike,
    log_likelihood: ArrayLike,
    schedule: ArrayLike,
    transitions: Callable[[np.ndarray], np.ndarray],
) -> ExactSandwich:
    """Compute the expected sandwich of any annealing run on a finite state space.

    The distribution of the state is propagated forwards from the prior through the transition
    matrices, and backwards from the posterior through their reversals. With q_t the distribution of
    state t in a forward run, ⟨log w⟩_f = Σ_t (β_t − β_{t−1}) Σ_s q_{t−1}(s) ℓ(s). The same holds
    for reverse runs (Grosse, Ancha and Roy 2016, App. B, Eqs 22-23). J is that of the state after
    the last transition, at β = 1.

    Parameters
    ----------
    log_prior : array_like of shape (n,)
        Normalised log prior, nats.
    log_likelihood : array_like of shape (n,)
        ℓ, finite, nats.
    schedule : array_like of shape (T + 1,)
        β_0 = 0 < … < β_T = 1.
    transitions : function
        Function from m values of β_t to m row-stochastic matrices K_t, each of which leaves
        p(s) exp(β_t ℓ(s)) invariant.

    Returns
    -------
    ExactSandwich

    Examples
    --------
    Transitions that draw afresh leave no divergence, but a coarse schedule still has a gap:

    >>> import numpy as np
    >>> from tests.systems import exact_sandwich
    >>> def exact(betas):
    ...     p = np.exp(betas[:, None] * np.array([0.0, 1.0]))
    ...     return np.repeat((p / p.sum(axis=1, keepdims=True))[:, None], 2, axis=1)
    >>> run = exact_sandwich(np.log([0.5, 0.5]), [0.0, 1.0], [0.0, 0.5, 1.0], exact)
    >>> round(run.bound, 4), round(run.jeffreys, 4)
    (0.1155, 0.0)
    """
    log_prior = np.asarray(log_prior, dtype=float)
    log_likelihood = np.asarray(log_likelihood, dtype=float)
    betas = np.asarray(schedule, dtype=float)
    increments = np.diff(betas)

    def target(t):
        log_p = log_prior + betas[t] * log_likelihood
        return np.exp(log_p - logsumexp(log_p))

    posterior = target(-1)
    q, lower = np.exp(log_prior), 0.0
    for t in range(1, betas.size):
        lower += increments[t - 1] * (q @ log_likelihood)
        q = q @ transitions(betas[[t]])[0]

    r, upper = posterior, 0.0
    for t in range(betas.size - 1, 0, -1):
        # Reversal: K†(s → s′) = p(s′) K(s′ → s) / p(s)
        r = target(t) * (transitions(betas[[t]])[0] @ (r / target(t)))
        upper += increments[t - 1] * (r @ log_likelihood)

    log_z, sides = logsumexp(log_prior + log_likelihood), (lower, upper, upper - lower)
    forward, reverse = rel_entr(q, posterior).sum(), rel_entr(posterior, q).sum()
    return ExactSandwich(*map(float, (log_z, *sides, forward + reverse, forward, reverse)))


@dataclass(frozen=True)
class FiniteSystem:
    """Chains on a finite state space, with expectations from `exact_sandwich`.

    Parameters
    ----------
    log_prior, log_likelihood, schedule, transitions
        As for `exact_sandwich`.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import FiniteSystem, metropolis_transitions
    >>> log_prior, log_likelihood = np.log([0.5, 0.5]), np.array([0.0, 1.0])
    >>> kernel = metropolis_transitions(log_prior, log_likelihood, [[0, 1], [1, 0]])
    >>> system = FiniteSystem(log_prior, log_likelihood, np.array([0.0, 0.5, 1.0]), kernel)
    >>> forward = system.forward(10_000, np.random.default_rng(0))
    >>> bool(abs(np.log(np.exp(forward).mean()) - system.log_z) < 0.02)
    True
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray
    schedule: np.ndarray
    transitions: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def ising(cls, side: int, coupling: float, temperatures: int = 30) -> "FiniteSystem":
        """Make a periodic square lattice of spins with a linear schedule and 2^(side²) states.

        At each temperature, side² random spins are flipped by the Metropolis rule, one after
        another.
        """
        n = side**2
        states = np.arange(2**n)
        spins = 1 - 2 * (states[:, None] >> np.arange(n) & 1).reshape(-1, side, side)
        pairs = [spins * np.roll(spins, 1, axis) for axis in (1, 2)]
        bonds = np.sum(pairs, axis=(0, 2, 3))
        proposal = np.zeros((2**n, 2**n))
        for spin in range(n):
            proposal[states, states ^ (1 << spin)] = 1 / n
        log_prior, ell = np.full(2**n, -n * np.log(2)), coupling * bonds
        flip = metropolis_transitions(log_prior, ell, proposal)
        schedule = np.linspace(0, 1, temperatures + 1)
        return cls(log_prior, ell, schedule, lambda b: np.linalg.matrix_power(flip(b), n))

    @property
    def log_z(self) -> float:
        """Return the log evidence, nats."""
        return float(logsumexp(self.log_prior + self.log_likelihood))

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n independent forward chains, nats."""
        states = _draw_rows(np.exp(self.log_prior)[None], np.zeros(n, dtype=int), rng)
        log_weights, increments = np.zeros(n), np.diff(self.schedule)
        for t, increment in enumerate(increments[:-1]):
            log_weights += increment * self.log_likelihood[states]
            states = _draw_rows(self._kernel(t + 1)[0], states, rng)
        return log_weights + increments[-1] * self.log_likelihood[states]

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw the log weights of n independent reverse chains with separate starts, nats."""
        states = _draw_rows(self._kernel(-1)[1][None], np.zeros(n, dtype=int), rng)
        log_weights, increments = np.zeros(n), np.diff(self.schedule)
        for t in range(increments.size, 0, -1):
            matrix, target = self._kernel(t)
            states = _draw_rows(matrix.T * target / target[:, None], states, rng)
            log_weights += increments[t - 1] * self.log_likelihood[states]
        return log_weights

    def _kernel(self, t):
        """Return K_t and its invariant distribution."""
        log_p = self.log_prior + self.schedule[t] * self.log_likelihood
        matrix = self.transitions(self.schedule[[t]])[0]
        return matrix, np.exp(log_p - logsumexp(log_p))


def _draw_rows(matrix, rows, rng):
    """Draw a column for each chosen row of a stochastic matrix."""
    cumulative = np.cumsum(matrix, axis=1)
    cumulative /= cumulative[:, -1:]
    # Row i covers the numbers from i to i + 1, so one search is enough for all chains.
    edges = (cumulative + np.arange(len(matrix))[:, None]).ravel()
    found = np.searchsorted(edges, rows + rng.random(rows.size), side="right")
    return np.minimum(found - rows * matrix.shape[1], matrix.shape[1] - 1)


def metropolis_transitions(
    log_prior: ArrayLike, log_likelihood: ArrayLike, proposal: ArrayLike
) -> Callable[[np.ndarray], np.ndarray]:
    """Make Metropolis transition matrices on a finite state space, as a function of β.

    Parameters
    ----------
    log_prior, log_likelihood : array_like of shape (n,)
        Nats.
    proposal : array_like of shape (n, n)
        Symmetric, row-stochastic proposal matrix.

    Returns
    -------
    function
        Function from m values of β to an array of shape (m, n, n).

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import metropolis_transitions
    >>> kernel = metropolis_transitions(np.log([0.5, 0.5]), np.log([1.0, 0.25]), [[0, 1], [1, 0]])
    >>> kernel(np.array([1.0]))[0]
    array([[0.75, 0.25],
           [1.  , 0.  ]])
    """
    log_prior, log_likelihood = np.asarray(log_prior, float), np.asarray(log_likelihood, float)
    proposal = np.asarray(proposal, dtype=float)
    # Compute only the moves that can be proposed; grids have few.
    source, sink = np.nonzero(proposal * (1 - np.eye(proposal.shape[0])))
    rates, diagonal = proposal[source, sink], np.arange(proposal.shape[0])

    def transitions(betas):
        log_p = log_prior + np.multiply.outer(betas, log_likelihood)
        moves = rates * np.exp(np.minimum(log_p[:, sink] - log_p[:, source], 0.0))
        matrices = np.zeros((len(betas), *proposal.shape))
        matrices[:, source, sink] = moves
        matrices[:, diagonal, diagonal] = 1 - matrices.sum(axis=2)
        return matrices

    return transitions


@dataclass(frozen=True)
class Grid:
    """Square grid of states with a uniform prior, and Metropolis steps to neighbours.

    A step proposes one of the four neighbours with equal probability. Proposals outside the grid
    are rejected.

    Parameters
    ----------
    log_likelihood : ndarray of shape (side, side)
        ℓ of each state, nats.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.systems import Grid
    >>> run = Grid.barrier().sandwich(np.linspace(0, 1, 100))
    >>> round(run.jeffreys, 4), round(run.bound, 4)
    (1.6479, 1.8104)
    """

    log_likelihood: np.ndarray

    @classmethod
    def random(cls, std: float, rng: np.random.Generator) -> "Grid":
        """Draw independent ℓ ~ N(0, std²): EASY RANDOM has std 2, HARD RANDOM std 10."""
        return cls(rng.normal(0, std, size=(SIDE, SIDE)))

    @classmethod
    def barrier(cls) -> "Grid":
        """Make four rooms with walls. ℓ is −10 on the walls, 3 in one room and 0 in the others."""
        log_likelihood = np.zeros((SIDE, SIDE))
        middle = SIDE // 2
        log_likelihood[:middle, :middle] = 3.0
        log_likelihood[middle, :] = log_likelihood[:, middle] = -10.0
        return cls(log_likelihood)

    @property
    def log_prior(self) -> np.ndarray:
        """Return the uniform log prior, shape (side²,), nats."""
        return np.full(self.log_likelihood.size, -np.log(self.log_likelihood.size))

    def transitions(self, betas: np.ndarray) -> np.ndarray:
        """Return transition matrices at m values of β, shape (m, side², side²)."""
        proposal = _proposal(*self.log_likelihood.shape)
        return metropolis_transitions(self.log_prior, self.log_likelihood.ravel(), proposal)(betas)

    def sandwich(self, schedule: ArrayLike) -> ExactSandwich:
        """Compute J and B exactly for a schedule of shape (T + 1,); see `exact_sandwich`."""
        flat = self.log_likelihood.ravel()
        return exact_sandwich(self.log_prior, flat, schedule, self.transitions)


def _proposal(rows, columns):
    matrix = np.zeros((rows, columns, rows, columns))
    for i, j in np.ndindex(rows, columns):
        for di, dj in MOVES:
            inside = 0 <= i + di < rows and 0 <= j + dj < columns
            k, l = (i + di, j + dj) if inside else (i, j)
            matrix[i, j, k, l] += 1 / len(MOVES)
    return matrix.reshape(rows * columns, rows * columns)
