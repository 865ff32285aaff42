"""Contracts of densities and references, and a reference that is mixed with the prior."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.sparse import csr_array
from scipy.special import chdtri

Slopes = Callable[[ndarray], tuple[ndarray, ndarray]]
"""Function that returns log p + ℓ of every row of θ, shape (n,), and the gradients, (n, size)."""


class Blocks(NamedTuple):
    """Latent variables that are independent in blocks given the others, and the terms of each.

    Terms are the elements of the log densities of all variables; those of no block have the last
    label.
    """

    number: int
    of_latent: ndarray
    """Block of every latent variable, shape (d,)."""
    of_prior: ndarray
    """Block of every term of log p."""
    of_likelihood: ndarray
    """Block of every term of ℓ."""


class Density(ABC):
    """log p + ℓ on given data, in nats, at rows of the unconstrained θ."""

    has_gradient = True
    seconds = np.nan
    """CPU seconds of an evaluation; NaN if not known."""

    def __init__(self):
        self._passed: list[tuple[ndarray, float]] = []

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Number of evaluations so far, with or without a gradient."""

    @abstractmethod
    def terms(self, thetas: ndarray) -> ndarray:
        """Return log p and ℓ of every row, shape (rows, 2)."""

    def heights(self, thetas: ndarray) -> ndarray:
        """Return log p + ℓ of every row, nats; −∞ where it is +∞, since arithmetic fails there."""
        found = self.terms(thetas).sum(axis=1)
        return np.where(found < np.inf, found, -np.inf)

    @abstractmethod
    def slopes(self, thetas: ndarray) -> tuple[ndarray, ndarray]:
        """Return log p + ℓ of every row, shape (rows,), and its gradient there."""

    @abstractmethod
    def draw_prior(self, n: int, rng: Generator) -> ndarray:
        """Draw θ from the prior, one a row."""

    def slopes_in(self, latent: ndarray) -> Slopes:
        """Return a function like `slopes` that gives at least the gradients in some elements."""
        return self.slopes

    def split(self, latent: ndarray, of_latent: ndarray, thetas: ndarray) -> Blocks | None:
        """Return the blocks of these elements of θ with the terms of each, as a few rows show them.

        None if the density cannot be taken apart, for example since a term is of two blocks.
        """
        return None

    def separate(
        self, latent: ndarray, thetas: ndarray, steps: ndarray
    ) -> tuple[Blocks, csr_array] | None:
        """Return every term as a block, and on which of these elements each depends, as rows show.

        None if the density cannot be taken apart.
        """
        return None

    def by_block(self, blocks: Blocks) -> Callable[[ndarray], ndarray]:
        """Return a function from rows of θ to log p + ℓ of every block, and what is of none."""
        raise NotImplementedError

    def likelihood(self, theta: ndarray) -> tuple[float, ndarray]:
        """Return ℓ of one θ and its gradient; all of the density if log p is 0."""
        return self(theta)

    def prior(self, theta: ndarray) -> tuple[float, ndarray]:
        """Return log p of one θ and its gradient; 0 if all of the density is ℓ."""
        return 0.0, np.zeros(len(theta))

    def __call__(self, theta: ndarray) -> tuple[float, ndarray]:
        """Return log p + ℓ of one θ and its gradient, and remember that a search passed it."""
        (value,), (gradient,) = self.slopes(theta[None])
        if value < np.inf:
            self._passed.append((theta.copy(), value))
        return float(value), gradient

    def most_likely_passed(self) -> tuple[ndarray, ndarray]:
        """Return the likely states that searches passed, and log p + ℓ there.

        Less likely ones than all but 10 % of a normal posterior of few elements are far in a tail,
        where no fit needs to be good.
        """
        if not self._passed:
            return np.empty((0, 0)), np.empty(0)
        thetas, heights = map(np.array, zip(*self._passed, strict=True))
        # Chosen: with 61 elements instead of 5, the 10 % cut lies 38 nats below the mode, and
        # searches for modes of logistic regressions pass states there that no fit needs to cover.
        likely = heights >= heights.max() - chdtri(min(thetas.shape[1], 5), 0.1) / 2
        return thetas[likely], heights[likely]


class AnyReference(Protocol):
    """Normalised distribution with exact draws, at which a path may start.

    If draws are the ends of annealed runs, the log density draws these backwards by ``rng``.
    """

    @property
    def core(self) -> Any:
        """The mixture or nested reference that was fitted, without what was added to it."""

    @property
    def knows_tails(self) -> bool:
        """Whether the structure of the model says how heavy the tails must be."""

    def sample(self, n: int, rng: Generator, density: Density) -> tuple[ndarray, ndarray]:
        """Draw θ, one a row, and return its log density too, nats."""

    def log_density(self, thetas: ndarray, density: Density, rng: Generator) -> ndarray:
        """Return the log density of every row of ``thetas``, nats."""


class Defensive(NamedTuple):
    """Mixture (1 − α) r + α p of a reference and the prior.

    Whatever r misses, g with this reference is at most ℓ − log α: Owen and Zhou (2000), Safe and
    effective importance sampling.
    """

    inner: AnyReference
    """r."""
    share: float
    """α."""

    @property
    def core(self) -> Any:
        """The mixture or nested reference in r."""
        return self.inner.core

    @property
    def knows_tails(self) -> bool:
        """True, since weights are bounded if the likelihood is."""
        return True

    def sample(self, n: int, rng: Generator, density: Density) -> tuple[ndarray, ndarray]:
        """Draw θ, one a row, and return its log density too, nats."""
        thetas, log_r = self.inner.sample(n, rng, density)
        others = rng.random(n) < self.share
        thetas[others] = density.draw_prior(int(others.sum()), rng)
        log_r[others] = self.inner.log_density(thetas[others], density, rng)
        return thetas, self.mixed(log_r, density.terms(thetas)[:, 0])

    def log_density(self, thetas: ndarray, density: Density, rng: Generator) -> ndarray:
        """Return the log density of every row of ``thetas``, nats."""
        return self.mixed(*self.parts(thetas, density, rng))

    def parts(self, thetas: ndarray, density: Density, rng: Generator) -> tuple[ndarray, ndarray]:
        """Return log r and log p of every row, nats."""
        return self.inner.log_density(thetas, density, rng), density.terms(thetas)[:, 0]

    def mixed(self, log_r: ndarray, log_prior: ndarray) -> ndarray:
        """Return the log density of the mixture, given log r and log p, nats."""
        return np.logaddexp(np.log1p(-self.share) + log_r, np.log(self.share) + log_prior)
