"""Contract of a system for annealing or simulated tempering without a PyMC model."""

from typing import Any, Protocol, runtime_checkable

import numpy as np


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
