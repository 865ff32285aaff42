"""Test problems of Favaro et al. (2015) with two distant modes of unequal weight."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import voigt_profile
from scipy.stats import multivariate_normal

from pymc_bdmc.testsystems.continuous import ContinuousSystem

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class _Bimodal(ContinuousSystem):
    """System with likelihood w·φ(x − d) + (1 − w)·φ(x + d), φ a product over the dimensions.

    By symmetry both modes have the same evidence, so the posterior weights of the modes equal the
    weights in the likelihood.
    """

    dimension: int = 5
    distance: float = 10.0
    likelihood_scale: float = 1.0
    prior_std: float = 10.0
    upper_weight: float = 1 / 21

    @property
    def log_weights_of_modes(self) -> tuple[float, float]:
        """Return the logs of the weights of the modes at +d and −d."""
        return float(np.log(self.upper_weight)), float(np.log1p(-self.upper_weight))

    def parallel(self, x: np.ndarray) -> np.ndarray:
        """Return the component of states along (1, …, 1), shape (n,)."""
        return x.sum(axis=0) / np.sqrt(self.dimension)

    def step_size(self, beta: float) -> float:
        """Return 2.4/√dimension times the spread of the tempered mode."""
        precision = self.prior_std**-2 + beta * self.likelihood_scale**-2
        return 2.4 / np.sqrt(self.dimension * precision)

    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states: a mode by its weight, then a state of that mode."""
        signs = np.where(rng.random(n) < self.upper_weight, 1.0, -1.0)
        return signs * self._upper_mode(n, rng)

    @abstractmethod
    def _upper_mode(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n states of the mode at +d."""


@dataclass(frozen=True)
class BimodalGaussian(_Bimodal):
    """Mixture of two Gaussians at ±(d, …, d) under a normal prior; Favaro et al. (2015), Eqs 44-47.

    Parameters
    ----------
    dimension : int
    distance : float
        d.
    likelihood_scale : float
        σ_l, the standard deviation of either Gaussian.
    prior_std : float
        σ_p.
    upper_weight : float
        Weight of the mode at +d.

    Examples
    --------
    >>> from pymc_bdmc.testsystems import BimodalGaussian
    >>> system = BimodalGaussian()
    >>> round(system.log_z, 4), round(system.mean_parallel, 4)
    (-18.6077, -20.0308)
    """

    @property
    def log_z(self) -> float:
        """Return the log evidence, a multivariate normal density, nats."""
        centre = np.full(self.dimension, self.distance)
        variance = self.prior_std**2 + self.likelihood_scale**2
        return float(multivariate_normal.logpdf(centre, np.zeros(self.dimension), variance))

    @property
    def mean_parallel(self) -> float:
        """Return the posterior mean of `parallel`."""
        shrunk = self.distance * self.prior_std**2 / (self.prior_std**2 + self.likelihood_scale**2)
        return float((2 * self.upper_weight - 1) * shrunk * np.sqrt(self.dimension))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), nats."""
        upper, lower = self.log_weights_of_modes
        variance = self.likelihood_scale**2
        pull = self.distance * x.sum(axis=0) / variance
        squares = np.sum(x**2, axis=0) + self.dimension * self.distance**2
        constant = self.dimension * np.log(2 * np.pi * variance) / 2
        return np.logaddexp(upper + pull, lower - pull) - squares / (2 * variance) - constant

    def model(self) -> "pm.Model":
        """Return the PyMC model: y = 0 observed, y ~ N(x ∓ d, σ_l²), x ~ N(0, σ_p²)."""
        import pymc as pm

        covariance = np.eye(self.dimension) * self.likelihood_scale**2
        weights = [self.upper_weight, 1 - self.upper_weight]
        with pm.Model() as model:
            x = pm.Normal("x", 0, self.prior_std, shape=self.dimension)
            modes = [pm.MvNormal.dist(x + sign * self.distance, cov=covariance) for sign in (-1, 1)]
            pm.Mixture("y", w=weights, comp_dists=modes, observed=np.zeros(self.dimension))
        return model

    def _upper_mode(self, n, rng):
        precision = self.prior_std**-2 + self.likelihood_scale**-2
        mean = self.distance * self.likelihood_scale**-2 / precision
        return mean + rng.normal(size=(self.dimension, n)) / np.sqrt(precision)


@dataclass(frozen=True)
class BimodalCauchy(_Bimodal):
    """Mixture of two products of Cauchy densities at ±(d, …, d), which has heavy-tailed work.

    The evidence is a product of Voigt profiles, which are the convolutions of the prior with a
    Cauchy density. The default parameters are those of `BimodalGaussian`; they are not published.

    Parameters
    ----------
    dimension : int
    distance : float
        d.
    likelihood_scale : float
        Half width at half maximum of the Cauchy densities.
    prior_std : float
    upper_weight : float
        Weight of the mode at +d.

    Examples
    --------
    >>> from pymc_bdmc.testsystems import BimodalCauchy
    >>> round(BimodalCauchy().log_z, 4)
    -18.7915
    """

    @property
    def log_z(self) -> float:
        """Return the log evidence, nats."""
        profile = voigt_profile(self.distance, self.prior_std, self.likelihood_scale)
        return float(self.dimension * np.log(profile))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), nats."""
        upper, lower = self.log_weights_of_modes
        return np.logaddexp(
            upper + self._log_cauchy(x - self.distance), lower + self._log_cauchy(x + self.distance)
        )

    def model(self) -> "pm.Model":
        """Return the PyMC model: y = 0 observed, y − x Cauchy about −d or +d, x ~ N(0, σ_p²)."""
        import pymc as pm
        import pytensor.tensor as pt

        upper, lower = self.log_weights_of_modes
        scale, distance, weight = self.likelihood_scale, self.distance, self.upper_weight

        def log_density(value, x):
            def mode(sign):
                standard = (value - x + sign * distance) / scale
                return -pt.sum(pt.log1p(standard**2) + np.log(np.pi * scale), axis=-1)

            return pt.logaddexp(upper + mode(1), lower + mode(-1))

        def draw(x, size):
            sign = 1 - 2 * pm.Bernoulli.dist(weight)
            return x + sign * distance + pm.Cauchy.dist(0, scale, shape=x.shape)

        with pm.Model() as model:
            x = pm.Normal("x", 0, self.prior_std, shape=self.dimension)
            given = {"signature": "(n)->(n)", "observed": np.zeros(self.dimension)}
            pm.CustomDist("y", x, dist=draw, logp=log_density, **given)
        return model

    def _log_cauchy(self, x):
        standard = x / self.likelihood_scale
        return -np.sum(np.log1p(standard**2) + np.log(np.pi * self.likelihood_scale), axis=0)

    def _upper_mode(self, n, rng):
        """Draw by rejection from the Cauchy density, since the normal prior is largest at 0."""
        accepted = np.empty(0)
        while accepted.size < n * self.dimension:
            x = self.distance + self.likelihood_scale * rng.standard_cauchy(4 * n * self.dimension)
            keep = rng.exponential(size=x.size) > (x / self.prior_std) ** 2 / 2
            accepted = np.concatenate([accepted, x[keep]])
        return accepted[: n * self.dimension].reshape(self.dimension, n)
