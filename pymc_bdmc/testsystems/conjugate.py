"""Bayesian models with closed-form evidence and exact posterior draws."""

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln, log_ndtr, ndtri_exp
from scipy.stats import multivariate_normal

from pymc_bdmc.testsystems.continuous import ContinuousSystem


@dataclass(frozen=True)
class ConjugateRegression(ContinuousSystem):
    """Linear regression y ~ N(Xθ, 1) with θ ~ N(0, I).

    Parameters
    ----------
    x : ndarray of shape (n, dimension)
    y : ndarray of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_bdmc.testsystems import ConjugateRegression
    >>> system = ConjugateRegression(np.ones((1, 1)), np.zeros(1))
    >>> round(system.log_z, 4)  # y ~ N(0, 2)
    -1.2655
    """

    x: np.ndarray
    y: np.ndarray
    prior_std: float = 1.0

    @classmethod
    def random(
        cls, dimension: int, observations: int, rng: np.random.Generator
    ) -> "ConjugateRegression":
        """Draw X from a standard normal distribution, and y from the model."""
        x = rng.normal(size=(observations, dimension))
        return cls(x, x @ rng.normal(size=dimension) + rng.normal(size=observations))

    @property
    def dimension(self) -> int:  # type: ignore[override] # a field in other systems
        """Return the number of coefficients."""
        return self.x.shape[1]

    @property
    def log_z(self) -> float:
        """Return the log evidence, a multivariate normal density, nats."""
        covariance = np.eye(self.y.size) + self.prior_std**2 * self.x @ self.x.T
        return float(multivariate_normal.logpdf(self.y, np.zeros(self.y.size), covariance))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), nats."""
        squares = np.sum((self.y[:, None] - self.x @ x) ** 2, axis=0)
        return -(squares + self.y.size * np.log(2 * np.pi)) / 2

    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states."""
        covariance = np.linalg.inv(self._precision(1.0))
        mean = covariance @ self.x.T @ self.y
        return rng.multivariate_normal(mean, covariance, size=n).T

    def step_size(self, beta: float) -> float:
        """Return 2.4/√dimension times the geometric mean of the tempered posterior's spreads."""
        _, log_volume = np.linalg.slogdet(self._precision(beta))
        return 2.4 / np.sqrt(self.dimension) * np.exp(-log_volume / (2 * self.dimension))

    def _precision(self, beta):
        return np.eye(self.dimension) / self.prior_std**2 + beta * self.x.T @ self.x


@dataclass(frozen=True)
class UnidentifiedBinomial(ContinuousSystem):
    """Model y ~ Binomial(trials, p₁p₂) with uniform p₁, p₂, of which data identify the product.

    The state is z with p = Φ(z), so the prior of z is standard normal. The product r = p₁p₂ has the
    prior density −log r, so the evidence is (ψ(trials + 2) − ψ(successes + 1)) / (trials + 1).

    Parameters
    ----------
    trials, successes : int

    Examples
    --------
    >>> from pymc_bdmc.testsystems import UnidentifiedBinomial
    >>> [round(UnidentifiedBinomial(2 * k, k).log_z, 5) for k in (50, 50_000)]
    [-4.97455, -11.87944]
    """

    trials: int = 100
    successes: int = 50
    dimension: int = 2
    prior_std: float = 1.0

    @property
    def log_z(self) -> float:
        """Return the log evidence, nats."""
        slope = digamma(self.trials + 2) - digamma(self.successes + 1)
        return float(np.log(slope) - np.log(self.trials + 1))

    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (2, n), nats."""
        n, k = self.trials, self.successes
        log_r = log_ndtr(x).sum(axis=0)
        with np.errstate(divide="ignore"):  # at r = 1 a failure is impossible
            log_failure = np.log(-np.expm1(log_r))
        choices = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return choices + k * log_r + np.where(n > k, (n - k) * log_failure, 0.0)

    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states: r by rejection (−r log r ≤ 1/e), then p₁ = r^u."""
        r = np.empty(0)
        while r.size < n:
            proposal = rng.beta(self.successes, self.trials - self.successes + 1, size=4 * n)
            keep = rng.random(proposal.size) < -np.e * proposal * np.log(proposal)
            r = np.concatenate([r, proposal[keep]])
        log_r, u = np.log(r[:n]), rng.random(n)
        return ndtri_exp(np.array([u * log_r, (1 - u) * log_r]))

    def step_size(self, beta: float) -> float:
        """Return a step size that shrinks from the width of the prior to that of the ridge."""
        return 2.4 / np.sqrt(2 * (1 + beta * self.trials / 10))
