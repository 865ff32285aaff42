"""The eight models that the benchmarks of the compiled engine share, with log ML where it is known.

Data are made here, from fixed seeds. Variances called heavy-tailed have the prior
InverseGamma(1, 1), under which they have no mean.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp

from pymc_bdmc.estimators import Estimate, bar

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from factor_models import LowRank, Problem, anneal

__all__ = ["LOG_ML", "MODELS"]

Y_SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SD_SCHOOLS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight_schools(centred: bool) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = mu + tau * pm.Normal("z", shape=8)
        pm.Normal("y", theta, SD_SCHOOLS, observed=Y_SCHOOLS)
    return model


@cache
def linear_data() -> tuple[np.ndarray, np.ndarray]:
    """1566 rows as in a health survey: five correlated columns and an outcome, standardised."""
    rng = np.random.default_rng(1)
    covariance = 0.8 * np.eye(5) + 0.2
    x = rng.multivariate_normal(np.zeros(5), covariance, size=1566, method="cholesky")
    y = x @ rng.normal(0, 0.3, size=5) + rng.normal(size=1566)
    return tuple((each - each.mean(axis=0)) / each.std(axis=0) for each in (x, y))


def linear_regression() -> pm.Model:
    """Both variances are heavy-tailed."""
    x, y = linear_data()
    with pm.Model() as model:
        prior_variance = pm.InverseGamma("prior_variance", 1, 1)
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        intercept = pm.Normal("intercept", 0, pm.math.sqrt(prior_variance))
        slope = pm.Normal("slope", 0, pm.math.sqrt(prior_variance), shape=5)
        pm.Normal("y", intercept + x @ slope, pm.math.sqrt(noise_variance), observed=y)
    return model


def linear_regression_log_ml() -> float:
    """Quadrature over both log variances; given them y is jointly normal, and X has few columns."""
    x, y = linear_data()
    x = np.column_stack([np.ones(len(y)), x])
    squares, q = np.linalg.eigh(x.T @ x)
    projected = (q.T @ (x.T @ y)) ** 2 / squares  # squared lengths of y along the columns' axes
    step = 0.02
    prior, noise = np.meshgrid(np.arange(-8, 12, step), np.arange(-1.5, 1.5, step), indexing="ij")
    noise_ratio = np.exp(prior - noise)
    value = (
        -0.5 * len(y) * (np.log(2 * np.pi) + noise)
        - 0.5 * y @ y * np.exp(-noise)
        + stats.invgamma.logpdf(np.exp(prior), 1) + prior
        + stats.invgamma.logpdf(np.exp(noise), 1) + noise
    )  # fmt: skip
    for square, along in zip(squares, projected, strict=True):
        stretch = 1 + noise_ratio * square
        value += -0.5 * np.log(stretch) + 0.5 * along * np.exp(-noise) * (1 - 1 / stretch)
    return logsumexp(value) + 2 * np.log(step)


def importance_sampled(log_joint: Callable, *starts: list[float], n: int) -> float:
    """Log ML by n draws from t distributions where climbs from the starts end."""
    tops = [minimize(lambda x: -log_joint(x[None])[0], start) for start in starts]
    parts = [stats.multivariate_t(top.x, 2 * top.hess_inv, df=5) for top in tops]
    draws = [part.rvs(n // len(parts), random_state=k) for k, part in enumerate(parts)]
    log_weights = []
    for batch in np.array_split(np.concatenate(draws), 100):
        log_q = logsumexp([part.logpdf(batch) for part in parts], axis=0) - np.log(len(parts))
        log_weights.append(log_joint(batch) - log_q)
    return logsumexp(log_weights) - np.log(n)


@cache
def logistic_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(768, 8))
    return x, rng.random(768) < 1 / (1 + np.exp(-x @ rng.normal(0, 0.5, size=8)))


def logistic_regression() -> pm.Model:
    """768 × 8; one heavy-tailed variance for all weights."""
    x, y = logistic_data()
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 1, 1)
        weights = pm.Normal("weights", 0, pm.math.sqrt(variance), shape=8)
        pm.Bernoulli("y", logit_p=x @ weights, observed=y.astype(int))
    return model


def logistic_log_joint(points: np.ndarray) -> np.ndarray:
    """Of rows with the log variance and the weights."""
    x, y = logistic_data()
    log_variance, weights = points[:, 0], points[:, 1:]
    log_prior = stats.invgamma.logpdf(np.exp(log_variance), 1) + log_variance
    log_prior += stats.norm.logpdf(weights.T, 0, np.exp(log_variance / 2)).sum(axis=0)
    return log_prior + log_expit(weights @ x.T * np.where(y, 1, -1)).sum(axis=1)


@cache
def logistic_regression_log_ml() -> float:
    """± 0.002."""
    return importance_sampled(logistic_log_joint, [0] * 9, n=200_000)


def autoregression_data() -> np.ndarray:
    rng = np.random.default_rng(3)
    y = np.zeros(105)
    for t in range(1, 105):
        y[t] = 0.2 + 0.8 * y[t - 1] + 0.5 * rng.normal()
    return y


def autoregression() -> pm.Model:
    """AR(1) of 105 values, stationary, with heavy-tailed noise variance."""
    y = autoregression_data()
    with pm.Model() as model:
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        constant = pm.Normal("constant", 0, 1)
        memory = pm.Uniform("memory", -1, 1)
        pm.AR(
            "y",
            rho=pm.math.stack([constant, memory]),
            sigma=pm.math.sqrt(noise_variance),
            init_dist=pm.Normal.dist(0, 5, shape=1),
            constant=True,
            observed=y,
        )
    return model


def autoregression_log_ml() -> float:
    """Quadrature over memory and log noise variance, with the constant integrated out."""
    y = autoregression_data()
    n, step = len(y) - 1, 0.002
    memory, log_noise = np.meshgrid(
        np.arange(-1 + step / 2, 1, step), np.arange(-4, 2, 2 * step), indexing="ij"
    )
    noise = np.exp(log_noise)
    squares = y[1:] @ y[1:] - 2 * memory * (y[1:] @ y[:-1]) + memory**2 * (y[:-1] @ y[:-1])
    total = y[1:].sum() - memory * y[:-1].sum()
    value = (
        -0.5 * n * np.log(2 * np.pi) - 0.5 * (n - 1) * log_noise - 0.5 * np.log(noise + n)
        - 0.5 * (squares - total**2 / (noise + n)) / noise
        + stats.invgamma.logpdf(noise, 1) + log_noise - np.log(2)
    )  # fmt: skip
    return logsumexp(value) + np.log(2 * step**2) + stats.norm.logpdf(y[0], 0, 5)


@cache
def mixture_data() -> np.ndarray:
    rng = np.random.default_rng(4)
    first = rng.random(100) < 0.3
    return np.where(first, rng.normal(-2, 0.7, size=100), rng.normal(1, 1, size=100))


def mixture() -> pm.Model:
    """Two normal components whose labels can be exchanged; 100 values."""
    y = mixture_data()
    with pm.Model() as model:
        weight = pm.Beta("weight", 2, 2)
        mu = pm.Normal("mu", 0, 3, shape=2)
        sigma = pm.HalfNormal("sigma", 2, shape=2)
        pm.NormalMixture("y", pm.math.stack([weight, 1 - weight]), mu, sigma, observed=y)
    return model


def mixture_log_joint(points: np.ndarray) -> np.ndarray:
    """Of rows with the log odds of the first component, both means and both log deviations."""
    logit, mu, log_sigma = points[:, 0], points[:, 1:3], points[:, 3:]
    sigma, log_shares = np.exp(log_sigma), np.stack([log_expit(logit), log_expit(-logit)], axis=1)
    log_prior = stats.beta.logpdf(expit(logit), 2, 2) + log_shares.sum(axis=1)
    both = stats.norm.logpdf(mu, 0, 3) + stats.halfnorm.logpdf(sigma, 0, 2) + log_sigma
    y = stats.norm.logpdf(mixture_data(), mu[..., None], sigma[..., None])
    log_likelihood = logsumexp(log_shares[..., None] + y, axis=1).sum(axis=1)
    return log_prior + both.sum(axis=1) + log_likelihood


@cache
def mixture_log_ml() -> float:
    """Around both labellings; ± 0.002."""
    starts = [-1, -2, 1, 0, 0], [1, 1, -2, 0, 0]
    return importance_sampled(mixture_log_joint, *starts, n=1_000_000)


def factorisation_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(50, 5))
    return rows, rows @ rng.normal(size=(5, 25)) + rng.normal(size=(50, 25))


def matrix_factorisation() -> pm.Model:
    """50 × 25 entries of rank 5; all factors and the noise have unit scale."""
    _, y = factorisation_data()
    with pm.Model() as model:
        u = pm.Normal("u", shape=(50, 5))
        v = pm.Normal("v", shape=(5, 25))
        pm.Normal("y", u @ v, 1.0, observed=y)
    return model


FACTORISATION = -2301.00
"""Log ML by `sandwich_factorisation`, ± 0.03."""


def sandwich_factorisation(temperatures: int = 1000, chains: int = 64) -> Estimate:
    """By Gibbs moves, which share nothing with the compiled kernels: five minutes."""
    rows, y = factorisation_data()
    model = LowRank(5, n=50, size=25, row_scale=1.0, feature_scale=1.0, noise=1.0)
    dt = anneal(
        Problem(model, y, rows), particles=48, temperatures=temperatures, schedule="linear",
        chains=chains, random_seed=1, progressbar=False,
    )  # fmt: skip
    return bar(*(dt[group]["log_weight"].values.ravel() for group in ("forward", "reverse")))


@cache
def conjugate_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 100))
    return x, x @ rng.normal(size=100) + rng.normal(size=200)


def conjugate_regression() -> pm.Model:
    """100 unit-normal weights, 200 observations with unit noise: everything is Gaussian."""
    x, y = conjugate_data()
    with pm.Model() as model:
        weights = pm.Normal("weights", shape=100)
        pm.Normal("y", x @ weights, 1.0, observed=y)
    return model


def conjugate_regression_log_ml() -> float:
    x, y = conjugate_data()
    return stats.multivariate_normal.logpdf(y, np.zeros(len(y)), x @ x.T + np.eye(len(y)))


MODELS: dict[str, Callable[[], pm.Model]] = {
    "eight schools, centred": lambda: eight_schools(centred=True),
    "eight schools, non-centred": lambda: eight_schools(centred=False),
    "linear 1566×5": linear_regression,
    "logistic 768×8": logistic_regression,
    "AR(1)": autoregression,
    "mixture of two normals": mixture,
    "factorisation 50×25×5": matrix_factorisation,
    "conjugate regression, d = 100": conjugate_regression,
}
LOG_ML: dict[str, Callable[[], float]] = {
    "eight schools, centred": lambda: -31.311347,
    "eight schools, non-centred": lambda: -31.311347,
    "linear 1566×5": linear_regression_log_ml,
    "logistic 768×8": logistic_regression_log_ml,
    "AR(1)": autoregression_log_ml,
    "mixture of two normals": mixture_log_ml,
    "factorisation 50×25×5": lambda: FACTORISATION,
    "conjugate regression, d = 100": conjugate_regression_log_ml,
}
"""By quadrature, in closed form, by importance sampling, or by examples/factor_models."""
