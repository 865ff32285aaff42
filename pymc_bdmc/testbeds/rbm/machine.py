"""Restricted Boltzmann machines with block Gibbs sweeps, and exact results if small."""

from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, logsumexp

from pymc_bdmc.base.types import Direction, Run
from pymc_bdmc.testbeds.rbm import kernels as rbm_kernels
from pymc_bdmc.testbeds.rbm.kernels import Layer, Layers, Units

MAX_ENUMERATED = 25
"""Largest number of units of the smaller layer for which log Z is summed exactly."""

MAX_TABULATED = 20
"""Largest number of units of the smaller layer for exact samples from a table of all states."""

_BLOCK = 14
"""Number of units enumerated by one compiled call."""

_UNIFORM = cast(np.ndarray, None)
"""Default prior; `RBM.__post_init__` replaces None by an array."""

_NEVER = np.zeros(1, np.uint8)
"""Flag for calls that are never stopped."""


class RBMState(NamedTuple):
    """States of n chains, and their ℓ."""

    visible: np.ndarray
    """Visible units, shape (n, V), float32, 0 or 1."""
    hidden: np.ndarray
    """Hidden units, shape (n, H), float32, 0 or 1."""
    log_likelihood: np.ndarray
    """ℓ, shape (n,), nats."""


@dataclass(frozen=True, eq=False)
class RBM:
    r"""Binary restricted Boltzmann machine, f(v, h) = exp(a·v + b·h + v·W·h).

    It is annealed along f_β = p_1 exp(β ℓ) with ℓ = log f − log p_1. The normalised prior p_1 has
    independent units. So f_1 = f, and log Z is the log of the machine's whole partition function.
    Salakhutdinov and Murray (2008) introduced this path.

    Parameters
    ----------
    a : array_like of shape (V,)
        Biases of the visible units.
    b : array_like of shape (H,)
        Biases of the hidden units.
    W : array_like of shape (V, H)
        Weights.
    prior_log_odds : array_like of shape (V,), optional
        Log odds of the visible units under p_1 (see `with_base_rate`). By default p_1 is uniform.
    integrated : {"none", "hidden", "visible"}
        Layer that is summed over. Log weights then use the free energies of the other layer, such
        as log f_β(v) = log Σ_h f_β(v, h), and have a smaller spread.

    Raises
    ------
    ValueError
        If shapes do not fit, a number is not finite in float32, or ``integrated`` is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc_bdmc as bdmc
    >>> rbm = bdmc.rbm.RBM(np.zeros(3), np.zeros(2), np.zeros((3, 2)))
    >>> float(round(rbm.log_z() / np.log(2), 6))
    5.0
    """

    a: np.ndarray
    b: np.ndarray
    W: np.ndarray
    prior_log_odds: np.ndarray = _UNIFORM
    integrated: Literal["none", "hidden", "visible"] = "none"

    def __post_init__(self):
        given = {name: np.array(getattr(self, name), dtype=float) for name in ("a", "b", "W")}
        V, H = given["a"].size, given["b"].size
        odds = np.zeros(V) if self.prior_log_odds is None else np.array(self.prior_log_odds, float)
        given["prior_log_odds"] = odds
        for name, shape in {"a": (V,), "b": (H,), "W": (V, H), "prior_log_odds": (V,)}.items():
            if given[name].shape != shape:
                raise ValueError(f"{name}: expected the shape {shape}, got {given[name].shape}.")
            if not (np.abs(given[name]) <= np.finfo(np.float32).max).all():
                raise ValueError(f"{name}: must be finite, also in float32.")
            given[name].flags.writeable = False
            object.__setattr__(self, name, given[name])
        if self.integrated not in ("none", "hidden", "visible"):
            raise ValueError(
                f"integrated: {self.integrated!r} is none of 'none', 'hidden' and 'visible'."
            )

    @classmethod
    def load(cls, path: str | PathLike) -> Self:
        """Read an ``.npz`` file with the arrays a, b and W.

        Raises
        ------
        ValueError
            If arrays are missing; the message names them.
        """
        with np.load(path) as file:
            missing = {"a", "b", "W"} - set(file)
            if missing:
                raise ValueError(f"{path}: the arrays {sorted(missing)} are missing.")
            return cls(file["a"], file["b"], file["W"])

    def save(self, path: str | PathLike) -> None:
        """Write the arrays a, b and W to an ``.npz`` file for `load`."""
        np.savez_compressed(path, a=self.a, b=self.b, W=self.W)

    def with_base_rate(self, visible: ArrayLike) -> Self:
        """Return the same machine with the base rates of the visible units as its prior.

        Parameters
        ----------
        visible : array_like of shape (n, V)
            Training data, or samples of the machine. One state of ones and one of zeros are added,
            so that no probability is 0 or 1.
        """
        visible = np.asarray(visible)
        rate = (visible.sum(axis=0) + 1) / (len(visible) + 2)
        return replace(self, prior_log_odds=logit(rate))

    @property
    def description(self) -> str:
        """Return a description of a transition."""
        return f"block Gibbs, {self.integrated} integrated"

    # --- Exact answers ---

    @cached_property
    def log_prior_constant(self) -> float:
        """Return the log of the sum over states of exp(prior_log_odds·v), nats."""
        return float(np.logaddexp(0, self.prior_log_odds).sum() + self.b.size * np.log(2))

    def log_z(self, beta: float = 1.0) -> float:
        """Return log Z_β = log Σ p_1 exp(β ℓ), a sum over the smaller layer; nats.

        Parameters
        ----------
        beta : float
            Inverse temperature; at 1 the result is the machine's log partition function.

        Raises
        ------
        ValueError
            If both layers have more than 25 units.
        """
        if min(self.W.shape) > MAX_ENUMERATED:
            raise ValueError(
                f"W: both layers have more than {MAX_ENUMERATED} units, too many to enumerate; "
                "estimate log Z with rbm.anneal."
            )
        total = logsumexp([logsumexp(block) for block in self._log_marginals(beta)])
        return float(total - (1 - beta) * self.log_prior_constant)

    def _log_marginals(self, beta: float):
        """Yield log Σ f over one layer for all states of the smaller one, in blocks."""
        biases = (1 - beta) * self.prior_log_odds + beta * self.a, beta * self.b
        weights = beta * self.W
        if self.a.size > self.b.size:
            biases, weights = biases[::-1], weights.T
        own, other = biases
        low = min(_BLOCK, own.size)
        for high in range(1 << (own.size - low)):
            on = low + np.flatnonzero(high >> np.arange(own.size - low) & 1)
            yield rbm_kernels.enumerate_states(
                own[:low],
                other + weights[on].sum(axis=0),
                own[on].sum(),
                np.ascontiguousarray(weights[:low]),
            )

    def log_marginal(self, visible: ArrayLike) -> np.ndarray:
        """Return log f(v) = log Σ_h f(v, h), minus the free energy.

        Parameters
        ----------
        visible : array_like of shape (n, V)

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        visible = np.asarray(visible, dtype=float)
        return visible @ self.a + rbm_kernels.free_energies(self.b, visible @ self.W)

    # --- Chains ---

    @cached_property
    def _parts(self) -> tuple[Layer, Layer]:
        """Return the visible and the hidden layer, in the kernels' precision."""
        parts = (
            (self.prior_log_odds, self.a - self.prior_log_odds, self.W),
            (np.zeros_like(self.b), self.b, self.W.T),
        )
        visible, hidden = (Layer(*(np.ascontiguousarray(x, np.float32) for x in p)) for p in parts)
        return visible, hidden

    def _ordered(
        self, state: RBMState, visible_first: bool, rng: np.random.Generator
    ) -> tuple[Layers, Units]:
        """Order the layers for the kernels: the layer that conditions first comes first."""
        shape = (len(state.visible), 4, rbm_kernels.LANES)
        streams = rng.integers(2**32, size=shape, dtype=np.uint32)
        x, y = self._parts
        units_x, units_y = state.visible, state.hidden
        if not visible_first:
            x, y, units_x, units_y = y, x, units_y, units_x
        return Layers(x, y, self.log_prior_constant), Units(units_x, units_y, streams)

    def completed(self, visible: ArrayLike, rng: np.random.Generator) -> RBMState:
        """Draw the hidden units given visible ones of shape (n, V)."""
        visible = np.asarray(visible, dtype=float)
        chance = expit(self.b + visible @ self.W)
        return self._state(visible, rng.random(chance.shape) < chance)

    def scored(self, state: RBMState) -> RBMState:
        """Return the same units with this machine's ℓ."""
        return self._state(*state[:2])

    def _state(self, visible: np.ndarray, hidden: np.ndarray) -> RBMState:
        visible, hidden = (np.ascontiguousarray(x, dtype=np.float32) for x in (visible, hidden))
        interaction = np.einsum("ij,ij->i", visible @ self._parts[0].weights, hidden)
        fields = visible @ self._parts[0].d + hidden @ self._parts[1].d
        ell = interaction.astype(float) + fields + self.log_prior_constant
        return RBMState(visible, hidden, ell)

    def draw_prior(self, chains: int, rng: np.random.Generator) -> RBMState:
        """Draw exactly at β = 0."""
        visible = rng.random((chains, self.a.size)) < expit(self.prior_log_odds)
        return self._state(visible, rng.random((chains, self.b.size)) < 0.5)

    def draw_posterior(
        self, chains: int, rng: np.random.Generator, burn_in: int, stop: np.ndarray = _NEVER
    ) -> RBMState:
        """Draw at β = 1, exactly if a layer has at most 20 units.

        Otherwise the states are the last ones of chains that are annealed from the prior for half
        of the ``burn_in`` sweeps and stay at β = 1 for the other half. If ``stop`` is set, the
        chains end early.
        """
        if min(self.W.shape) <= MAX_TABULATED:
            return self._draw_exactly(chains, rng)
        state = self.draw_prior(chains, rng)
        if burn_in > 1:
            betas = np.linspace(0, 1, burn_in // 2 + 1)
            replace(self, integrated="none").run(state, betas, Direction.FORWARD, rng, stop)
        return self.step(state, np.ones(chains), rng, burn_in - burn_in // 2, stop)

    def posterior_status(self, burn_in: int) -> Literal["exact", "burned-in", "heuristic"]:
        """Return the kind of start that `draw_posterior` gives for an upper bound."""
        if min(self.W.shape) <= MAX_TABULATED:
            return "exact"
        return "burned-in" if burn_in else "heuristic"

    def _draw_exactly(self, chains, rng) -> RBMState:
        table = np.concatenate(list(self._log_marginals(1.0)))
        cumulative = np.cumsum(np.exp(table - table.max()))
        drawn = np.searchsorted(cumulative, cumulative[-1] * rng.random(chains), side="right")
        states = drawn[:, None] >> np.arange(min(self.W.shape)) & 1
        if self.a.size > self.b.size:
            chance = expit(self.a + states @ self.W.T)
            return self._state(rng.random(chance.shape) < chance, states)
        return self.completed(states, rng)

    def log_likelihood(self, state: RBMState) -> np.ndarray:
        """Return ℓ of the states, shape (n,), nats."""
        return state.log_likelihood

    def step(
        self,
        state: RBMState,
        betas: np.ndarray,
        rng: np.random.Generator,
        sweeps: int = 1,
        stop: np.ndarray = _NEVER,
    ) -> RBMState:
        """Sweep every chain in place at its own β, first the hidden and then the visible units.

        Parameters
        ----------
        state : RBMState
            States of n chains.
        betas : ndarray of shape (n,)
        rng : Generator
            Seeds the compiled streams.
        sweeps : int
        stop : ndarray of uint8, shape (1,)
            Flag. If it is set, the current sweep is the last one.
        """
        if sweeps == 0:
            return state
        layers, units = self._ordered(state, True, rng)
        ell = rbm_kernels.sweep(layers, units, np.asarray(betas, float), sweeps, stop)
        return state._replace(log_likelihood=ell)

    def run(
        self,
        state: RBMState,
        betas: np.ndarray,
        direction: Direction,
        rng: np.random.Generator,
        stop: np.ndarray = _NEVER,
    ) -> Run:
        """Anneal a block of chains, and overwrite ``state`` with the last states.

        A forward transition draws the hidden units and then the visible ones. Its reversal draws
        them in the opposite order. If a layer is integrated, the state is the other layer alone,
        and the transition is its own reversal.

        Parameters
        ----------
        state : RBMState
            States of n chains, from `draw_prior` or `draw_posterior`.
        betas : ndarray of shape (T + 1,)
            The schedule.
        direction : Direction
        rng : Generator
            Seeds the compiled streams.
        stop : ndarray of uint8, shape (1,)
            Flag. If it is set, the chains end early and their log weights are NaN.
        """
        forward = direction is Direction.FORWARD
        integrated = self.integrated != "none"
        visible_first = self.integrated != "visible" if integrated else forward
        layers, units = self._ordered(state, visible_first, rng)
        betas = np.array(betas, dtype=float)  # a read-only array would need another compilation
        path = rbm_kernels.anneal(layers, units, betas, forward, integrated, stop)
        return Run.of_block(direction, *path)
