"""Models with known answers, for all tests and benchmarks of them."""

from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor import wrap_py
from scipy import integrate, stats
from scipy.special import betaln, logsumexp

SIGMAS = 4.0
"""Known answers must lie within this many standard errors: α = 6e-5 a comparison."""

Y_SCHOOLS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SD_SCHOOLS = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def interpreted():
    """Context for graphs that PyTensor takes far longer to compile than they run in Python."""
    return pytensor.config.change_flags(mode="FAST_COMPILE", cxx="")


def eight_schools(centred: bool) -> pm.Model:
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        if centred:
            theta = pm.Normal("theta", mu, tau, dims="school")
        else:
            z = pm.Normal("z", dims="school")
            theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, SD_SCHOOLS, observed=Y_SCHOOLS, dims="school")
    return model


def eight_schools_log_ml() -> float:
    """Quadrature over τ; given τ the data are jointly normal, with the mean integrated out."""

    def integrand(tau):
        cov = np.diag(SD_SCHOOLS**2 + tau**2) + 25.0
        return np.exp(
            stats.multivariate_normal.logpdf(Y_SCHOOLS, np.zeros(8), cov)
            + stats.halfcauchy.logpdf(tau, scale=5)
            + 31
        )

    return np.log(integrate.quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-10)[0]) - 31


def beta_bernoulli() -> tuple[pm.Model, float]:
    """50 heads in 100 ordered tosses, uniform prior."""
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=np.repeat([0, 1], 50))
    return model, betaln(51, 51)


def unidentified_binomial() -> tuple[pm.Model, float]:
    """Bin(100, p1·p2) with uniform p: only the product is identified."""
    with pm.Model() as model:
        p1, p2 = pm.Uniform("p1"), pm.Uniform("p2")
        pm.Binomial("y", 100, p1 * p2, observed=50)
    # p1·p2 = r has density −log r; the integral of r^50 (1−r)^50 (−log r) by quadrature.
    log_choose = -betaln(51, 51) - np.log(101)
    value = integrate.quad(
        lambda r: -np.log(r) * stats.beta.pdf(r, 51, 51), 0, 1, points=[0.5], epsrel=1e-10
    )[0]
    return model, np.log(value) + betaln(51, 51) + log_choose


def conjugate_regression(d: int = 20, n: int = 100) -> tuple[pm.Model, float]:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d))
    y = x @ rng.normal(size=d) + rng.normal(size=n)
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=d)
        pm.Normal("y", pm.Data("x", x) @ beta, 1.0, observed=y)
    return model, stats.multivariate_normal.logpdf(y, np.zeros(n), x @ x.T + np.eye(n))


Y_COUNTS = (4, 6, 3, 5)


@cache
def rates(counts: tuple[int, ...] = Y_COUNTS) -> tuple[pm.Model, Any, float]:
    """Counts with an unknown rate, the posterior of the rate, and log ML."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        pm.Poisson("y", rate, observed=counts)
    posterior = stats.gamma(2 + sum(counts), scale=1 / (1 + len(counts)))
    log_joint = stats.gamma.logpdf(4, 2) + stats.poisson.logpmf(counts, 4).sum()
    return model, posterior, log_joint - posterior.logpdf(4)


def discrete_mixture() -> tuple[pm.Model, float]:
    """Four observations, each from one of three components; 81 assignments."""
    y, centres, weights = (
        np.array([-1.0, 0.3, 0.8, 2.5]),
        np.array([-1.0, 0.5, 2.0]),
        [0.2, 0.5, 0.3],
    )
    with pm.Model() as model:
        z = pm.Categorical("z", weights, shape=4)
        pm.Normal("y", pm.math.constant(centres)[z], 0.7, observed=y)
    terms = np.log(weights)[:, None] + stats.norm.logpdf(y, centres[:, None], 0.7)
    return model, logsumexp(terms, axis=0).sum()


def missing_values() -> tuple[pm.Model, float]:
    """Normal mean with three of eight values missing; log ML is that of the other five."""
    y = np.array([0.2, 1.1, np.nan, 0.7, np.nan, -0.4, np.nan, 1.9])
    seen = y[~np.isnan(y)]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, 1.0, observed=np.ma.masked_invalid(y))
    cov = np.eye(len(seen)) + 4.0
    return model, stats.multivariate_normal.logpdf(seen, np.zeros(len(seen)), cov)


def random_trials() -> tuple[pm.Model, float]:
    """Binomial with a random number of trials: n < 12 makes the data impossible."""
    with pm.Model() as model:
        n = pm.Poisson("n", 10)
        p = pm.Beta("p", 2, 2)
        pm.Binomial("y", n, p, observed=12)
    ns = np.arange(12, 200)
    terms = stats.poisson.logpmf(ns, 10) + stats.betabinom.logpmf(12, ns, 2, 2)
    return model, logsumexp(terms)


def hard_constraint() -> tuple[pm.Model, float]:
    """A Potential that allows x > 1 only."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("constraint", pm.math.switch(x > 1, 0.0, -np.inf))
        pm.Normal("y", x, 1.0, observed=0.5)
    log_ml = stats.norm.logpdf(0.5, 0, np.sqrt(2)) + stats.norm.logsf(1, 0.25, np.sqrt(0.5))
    return model, log_ml


def gaussian_random_walk() -> tuple[pm.Model, float]:
    """Thirty correlated steps in the plane, seen with noise: walk and data are jointly normal."""
    n, noise, covariance, rng = (
        30,
        0.5,
        np.array([[1.0, 0.6], [0.6, 1.0]]),
        np.random.default_rng(1),
    )
    steps = rng.multivariate_normal(np.zeros(2), covariance, size=n, method="cholesky")
    y = np.cumsum(steps, axis=0) + noise * rng.normal(size=(n, 2))
    with pm.Model() as model:
        first = pm.MvNormal.dist(np.zeros(2), covariance)
        x = pm.MvGaussianRandomWalk("x", np.zeros(2), cov=covariance, init_dist=first, shape=(n, 2))
        pm.Normal("y", x, noise, observed=y)
    times = np.arange(1, n + 1)
    joint = np.kron(np.minimum.outer(times, times), covariance) + noise**2 * np.eye(2 * n)
    return model, stats.multivariate_normal.logpdf(y.ravel(), np.zeros(2 * n), joint)


def stochastic_volatility() -> tuple[pm.Model, float]:
    """Log variances walk from a start that may be anywhere; log ML by filtering on a grid."""
    n, step, wide, rng = 100, 0.2, 20.0, np.random.default_rng(2)
    y = np.exp(0.5 * (step * np.cumsum(rng.normal(size=n)) - 3)) * rng.normal(size=n)
    with pm.Model() as model:
        first = pm.Normal.dist(0, wide)
        log_variance = pm.GaussianRandomWalk("log_variance", 0, step, init_dist=first, shape=n)
        pm.Normal("y", 0, pm.math.exp(log_variance / 2), observed=y)
    width = 0.02
    grid = np.arange(-25, 25, width)  # outside of it y is impossible
    transition = width * stats.norm.pdf(width * np.arange(-100, 101), 0, step)
    density, log_ml = stats.norm.pdf(grid, 0, wide), 0.0
    for t, value in enumerate(y):
        if t > 0:
            density = np.convolve(density, transition, mode="same")
        density = density * stats.norm.pdf(value, 0, np.exp(grid / 2))
        log_ml += np.log(width * density.sum())
        density /= width * density.sum()
    return model, log_ml


Y_BLACK_BOX = np.random.default_rng(3).normal(3.0, 0.5, size=40)


@wrap_py([pt.dscalar, pt.dscalar], [pt.dscalar])
def likelihood_in_python(mean, log_sd):
    """Log likelihood of normal values; PyTensor can only call it, and has no gradient."""
    squares = np.sum((Y_BLACK_BOX - mean) ** 2) * np.exp(-2 * log_sd)
    return np.array(-0.5 * squares - len(Y_BLACK_BOX) * (log_sd + 0.5 * np.log(2 * np.pi)))


def black_box() -> tuple[pm.Model, float]:
    """Mean and log standard deviation by a likelihood in Python; log ML by quadrature."""
    with pm.Model() as model:
        mean, log_sd = pm.Normal("mean", 0, 10), pm.Normal("log_sd", 0, 2)
        pm.Potential("likelihood", likelihood_in_python(mean, log_sd))

    def joint(log_sd, mean):
        log_likelihood = stats.norm.logpdf(Y_BLACK_BOX, mean, np.exp(log_sd)).sum()
        return np.exp(
            log_likelihood + 36 + stats.norm.logpdf(mean, 0, 10) + stats.norm.logpdf(log_sd, 0, 2)
        )

    return model, np.log(integrate.dblquad(joint, 2, 4, -2, 1, epsabs=0, epsrel=1e-5)[0]) - 36


@cache
def small_regression() -> tuple[pm.Model, float]:
    """Five slopes and forty rows, compiled once for all tests of a process."""
    return conjugate_regression(d=5, n=40)


@cache
def repeated_normal() -> pm.Model:
    """Four normal values of one mean, compiled once for all tests of a process."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, 2), 1.0, observed=[1.0, 2.5, 0.3, 1.1])
    return model


@cache
def centred_schools() -> pm.Model:
    """Eight schools with effects that are centred, compiled once for all tests of a process."""
    return eight_schools(centred=True)
