"""Nested reference whose latent variables are annealed to the posterior, given the others."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.reference.contract import Density
from pymc_bdmc.reference.nested import Conditional, NestedReference
from pymc_bdmc.reference.sparse import times_root, unroot_transposed

ROTATIONS = 2
"""Number of rotations of a move, which add up to a right angle. Chosen: with one, moves are
rejected from about a hundred latent variables on, and more cost more gradients than they save."""


class AnnealedReference(NamedTuple):
    r"""Distribution of annealed runs of x at fixed ψ, each of which ends in a draw θ = (ψ, x).

    A run starts at a draw from a nested reference r. Its path is r(x | ψ)^(1−β) f(ψ, x)^β with f =
    p e^ℓ. Its moves are reversible and leave the path's densities invariant, and

    .. math:: \log w = \frac{1}{T} \sum_{t=0}^{T-1} \log \frac{f(ψ, x_t)}{r(ψ, x_t)}.

    The log density has no closed form; log f(θ) − log w replaces it. If θ is given, the run is
    drawn backwards, like a reverse run. So E[w] = Z over draws and E[1/w] = 1/Z over posterior
    states, and draws have weights as if θ were the whole run: Neal (2001), Annealed importance
    sampling; Andrieu, Doucet and Holenstein (2010), Sec. 4.

    A move draws a velocity and solves the normal part of Hamilton's equations exactly: Shahbaba,
    Lan, Johnson and Neal (2014), Split Hamiltonian Monte Carlo.
    """

    core: NestedReference
    """r; its x is normal given ψ, whatever its degrees of freedom."""
    temperatures: int
    """T."""

    @property
    def effort(self) -> int:
        """The number of temperatures."""
        return self.temperatures

    @property
    def knows_tails(self) -> bool:
        """True, since ψ has few elements."""
        return True

    def sample(
        self, n: int, rng: np.random.Generator, density: Density
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw θ, one a row, and return log f(θ) − log w too, nats."""
        phis = self.core.marginal.draw(n, rng)
        bridge = _Bridge(self.core, phis, density)
        z = rng.standard_normal((n, len(self.core.latent)))
        end, log_w = self._anneal(bridge, bridge.at(z), self._betas, rng)
        return bridge.thetas(end.z), _less(end.log_f, log_w)

    def log_density(
        self, thetas: np.ndarray, density: Density, rng: np.random.Generator
    ) -> np.ndarray:
        """Return log f(θ) − log w of runs that end at the rows of ``thetas``, nats."""
        nested = self.core
        bridge = _Bridge(nested, nested.to_units(thetas[:, nested.others]), density)
        start = bridge.at(bridge.z_of(thetas))
        return _less(start.log_f, self._anneal(bridge, start, self._betas[::-1], rng)[1])

    @property
    def _betas(self) -> np.ndarray:
        return np.arange(1, self.temperatures) / self.temperatures

    def _anneal(self, bridge, state, betas, rng):
        """Return the last state of every run, and log w, nats."""
        log_w = state.excess / self.temperatures
        for beta in betas:
            state = _move(bridge, state, beta, rng)
            log_w = log_w + state.excess / self.temperatures
        return state, log_w


class _State(NamedTuple):
    """States of several runs."""

    z: np.ndarray
    """Lᵀ(x − x̂), standard normal under r; shape (n, d)."""
    log_f: np.ndarray
    """log f, shape (n,), nats."""
    excess: np.ndarray
    """log f − log r, shape (n,), nats."""
    slope: np.ndarray
    """Its gradient in z, shape (n, d), zeros if it is not finite."""


class _Bridge:
    """The functions of z = Lᵀ(x − x̂) between r and f, at several fixed ψ."""

    def __init__(self, nested: NestedReference, phis: np.ndarray, density: Density):
        nested = nested._replace(degrees_of_freedom=np.inf)
        self._nested, self._slopes = nested, density.slopes_in(nested.latent)
        self._psis = nested.from_units(phis)
        self._found: Conditional = nested.given(self._psis, density)
        self._log_marginal = nested.log_marginal(phis)

    def thetas(self, z: np.ndarray) -> np.ndarray:
        """Return θ of every row of z."""
        return self._nested.join(self._psis, self._found, z)

    def z_of(self, thetas: np.ndarray) -> np.ndarray:
        """Return z of every row of θ."""
        z = thetas[:, self._nested.latent] - self._found.modes
        times_root(self._nested.sparsity, self._found.factors, z)
        return z

    def at(self, z: np.ndarray) -> _State:
        """Return the states at every row of z."""
        log_f, gradients = self._slopes(self.thetas(z))
        slope = gradients[:, self._nested.latent]
        unroot_transposed(self._nested.sparsity, self._found.factors, slope)
        log_r = self._log_marginal + self._nested.log_conditional(self._found, z)
        with np.errstate(invalid="ignore"):  # −∞ less −∞
            excess = log_f - log_r
        is_finite = np.isfinite(slope).all(axis=1, keepdims=True)
        return _State(z, log_f, excess, np.where(is_finite, slope + z, 0.0))


def _move(bridge: _Bridge, state: _State, beta: float, rng: np.random.Generator) -> _State:
    """Move every state by Hamiltonian dynamics that leave r^(1−β) f^β invariant."""
    angle = np.pi / 2 / ROTATIONS
    velocity = rng.standard_normal(state.z.shape)
    log_accept = _energy(state, velocity, beta)
    end = state
    for _ in range(ROTATIONS):
        velocity = velocity + angle / 2 * beta * end.slope
        z = np.cos(angle) * end.z + np.sin(angle) * velocity
        velocity = np.cos(angle) * velocity - np.sin(angle) * end.z
        end = bridge.at(z)
        velocity = velocity + angle / 2 * beta * end.slope
    with np.errstate(invalid="ignore"):  # states that are impossible, or not numbers
        log_accept = log_accept - _energy(end, velocity, beta)
    accepted = np.log(rng.random(len(log_accept))) < log_accept
    return _State(*(_chosen(accepted, *each) for each in zip(end, state, strict=True)))


def _energy(state: _State, velocity: np.ndarray, beta: float) -> np.ndarray:
    """Return minus the log density of states and velocities, up to a constant; nats."""
    with np.errstate(over="ignore", invalid="ignore"):  # impossible states, or far out
        return ((state.z**2).sum(axis=1) + (velocity**2).sum(axis=1)) / 2 - beta * state.excess


def _chosen(accepted: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return the new rows if accepted, else the old ones."""
    return np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _less(log_f: np.ndarray, log_w: np.ndarray) -> np.ndarray:
    """Return log f − log w, nats; ∞ if the weight is 0."""
    with np.errstate(invalid="ignore"):  # −∞ less −∞
        return np.where(log_w == -np.inf, np.inf, log_f - log_w)
