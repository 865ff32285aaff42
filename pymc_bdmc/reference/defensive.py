"""Reference with a share of the prior, so that weights are bounded if the likelihood is."""

from typing import NamedTuple

import numpy as np

from pymc_bdmc.reference.student import AnyReference, Density


class Defensive(NamedTuple):
    """Mixture (1 − α) r + α p of a reference and the prior.

    Whatever r misses, g with the mixture as the reference is at most ℓ − log α: Owen and Zhou
    (2000), Safe and effective importance sampling.
    """

    reference: AnyReference
    """r."""
    share: float
    """α."""

    def sample(
        self, n: int, rng: np.random.Generator, density: Density
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw θ, one a row, and return its log density too, nats."""
        thetas, log_r = self.reference.sample(n, rng, density)
        others = rng.random(n) < self.share
        thetas[others] = density.draw_prior(int(others.sum()), rng)
        log_r[others] = self.reference.log_density(thetas[others], density, rng)
        return thetas, self.mixed(log_r, density.terms(thetas)[:, 0])

    def log_density(
        self, thetas: np.ndarray, density: Density, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the log density of every row of ``thetas``, nats."""
        return self.mixed(*self.parts(thetas, density, rng))

    def parts(
        self, thetas: np.ndarray, density: Density, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log r and log p of every row, nats."""
        return self.reference.log_density(thetas, density, rng), density.terms(thetas)[:, 0]

    def mixed(self, log_r: np.ndarray, log_prior: np.ndarray) -> np.ndarray:
        """Return the log density of the mixture, given log r and log p, nats."""
        return np.logaddexp(np.log1p(-self.share) + log_r, np.log(self.share) + log_prior)
