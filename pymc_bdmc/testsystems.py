"""Bayesian systems with closed-form evidence and exact posterior draws, to test with."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaln, log_ndtr, ndtri_exp, voigt_profile

from pymc_bdmc.base.arguments import check_choice
from pymc_bdmc.base.schedules import make_schedule
from pymc_bdmc.base.types import Direction
from pymc_bdmc.run.loop import anneal_block

if TYPE_CHECKING:
    import pymc as pm

__all__ = [
    "BimodalCauchy",
    "BimodalGaussian",
    "ConjugateRegression",
    "ContinuousSystem",
    "UnidentifiedBinomial",
]


class ContinuousSystem(ABC):
    """Likelihood under a normal prior, with everything that bidirectional annealing needs.

    A subclass gives the fields ``dimension`` and ``prior_std``, and the methods `log_z`,
    `log_likelihood`, `draw_posterior` and `step_size`. States have shape (dimension, n): one column
    per chain.
    """

    dimension: int
    prior_std: float

    @property
    @abstractmethod
    def log_z(self) -> float:
        """Log evidence, nats."""

    @abstractmethod
    def log_likelihood(self, x: np.ndarray) -> np.ndarray:
        """Return ℓ of states of shape (dimension, n), shape (n,), nats."""

    @abstractmethod
    def draw_posterior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n exact posterior states."""

    @abstractmethod
    def step_size(self, beta: float) -> float:
        """Return the standard deviation of Metropolis proposals at β, elementwise for an array."""

    def draw_prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n states from the prior."""
        return self.prior_std * rng.normal(size=(self.dimension, n))

    description = "random-walk Metropolis"

    def step(
        self, state: np.ndarray, betas: np.ndarray, rng: np.random.Generator, moves: int = 20
    ) -> np.ndarray:
        """Make Metropolis steps of every chain at its own β, for simulated tempering.

        Parameters
        ----------
        state : ndarray of shape (dimension, n)
        betas : ndarray of shape (n,)
            Inverse temperatures; at β = 0 the state is drawn from the prior.
        rng : Generator
        moves : int
            Number of Metropolis steps.
        """
        x = np.where(betas > 0, state, self.draw_prior(betas.size, rng))
        ell = self.log_likelihood(x)
        for _ in range(moves):
            x, ell = self._metropolis(x, ell, betas, rng)
        return x

    def anneal(
        self,
        direction: str,
        n: int,
        rng: np.random.Generator,
        *,
        schedule: ArrayLike | None = None,
        moves: int = 20,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Run n independent chains.

        Parameters
        ----------
        direction : {"forward", "reverse"}
        n : int
        rng : Generator
        schedule : array_like of shape (T + 1,), optional
            β from 0 to 1. By default 25 increments of the cubic 0.05 s + 0.95 s³.
        moves : int
            Number of Metropolis steps at each β. All steps use the same proposal, so together they
            are their own reversal.

        Returns
        -------
        log_weights : ndarray of shape (n,)
            Nats.
        states : ndarray of shape (dimension, n)
            Last states, which are near the posterior in forward runs and near the prior in
            reverse runs.

        Raises
        ------
        ValueError
            If the direction is unknown or the schedule does not increase from 0 to 1.
        """
        temperatures = 25 if schedule is None else schedule
        betas = make_schedule("cubic", temperatures, default_name="cubic").betas
        check_choice("direction", direction, ("forward", "reverse"))
        most = 10_000  # chains at a time, whose states fit into the processor's cache
        sizes = [min(most, n - done) for done in range(0, n, most)]
        batches = [self._run(direction, size, rng, betas, moves) for size in sizes]
        log_weights, states = zip(*batches, strict=True)
        return np.concatenate(log_weights), np.concatenate(states, axis=1)

    def forward(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n forward log weights with the default schedule, nats."""
        return self.anneal("forward", n, rng)[0]

    def reverse(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n reverse log weights with the default schedule, nats."""
        return self.anneal("reverse", n, rng)[0]

    def _run(self, direction, n, rng, betas, moves):
        x = self.draw_prior(n, rng) if direction == "forward" else self.draw_posterior(n, rng)
        ell = self.log_likelihood(x)

        def move(t: int) -> float:
            nonlocal x, ell
            for _ in range(moves):
                x, ell = self._metropolis(x, ell, betas[t], rng)
            return np.nan

        run = anneal_block(Direction(direction), betas, move, lambda: ell)
        return run.log_weight, x

    def _metropolis(self, x, ell, beta, rng):
        proposal = x + self.step_size(beta) * rng.normal(size=x.shape)
        proposed = self.log_likelihood(proposal)
        log_ratio = beta * (proposed - ell)
        log_ratio += (np.sum(x**2, axis=0) - np.sum(proposal**2, axis=0)) / (2 * self.prior_std**2)
        accepted = -rng.exponential(size=ell.size) < log_ratio
        return np.where(accepted, proposal, x), np.where(accepted, proposed, ell)


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
        from scipy.stats import multivariate_normal  # slow to import

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
        from scipy.stats import multivariate_normal  # slow to import

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
