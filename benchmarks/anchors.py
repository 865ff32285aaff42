"""Models of published data whose log ML is known, for the benchmarks to measure themselves on.

The data are not part of the project: the environment variable BDMC_ANCHORS names the folder that
holds them as CSV files, and without it there are no such models. Normal distributions are written
with their variances: N(mean, variance).
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["ANCHORS", "LOG_ML", "available", "exchange_rates"]


def available() -> bool:
    """Whether there is a folder of data."""
    return "BDMC_ANCHORS" in os.environ


def columns(name: str) -> np.ndarray:
    """The columns of a file, each an element of the structured array."""
    path = Path(os.environ["BDMC_ANCHORS"]) / f"{name}.csv"
    return np.genfromtxt(path, delimiter=",", names=True)


def radiata_pine(column: str, conjugate: bool) -> pm.Model:
    """Williams (1959): strength of wood on its density x or its resin-adjusted density z.

    Conjugate: intercept and slope have variances in units of the noise's; else N(3000, 10⁶) and
    N(185, 10⁴).
    """
    data = columns("radiata_pine_correct")
    x = data[column] - data[column].mean()
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3, 2 * 300**2)
        scale = pm.math.sqrt(variance)
        sds = scale / np.sqrt([0.06, 6]) if conjugate else np.array([1e3, 1e2])
        intercept = pm.Normal("intercept", 3000, sds[0])
        slope = pm.Normal("slope", 185, sds[1])
        pm.Normal("y", intercept + slope * x, scale, observed=data["y"])
    return model


def pima(names: list[str], precision: float) -> pm.Model:
    """Diabetes among the Pima, 532 rows: logistic regression, weights ~ N(0, 1/precision)."""
    data = columns("pima_532_standardized")
    x = np.column_stack([np.ones(len(data)), *(data[name] for name in names)])
    with pm.Model() as model:
        weights = pm.Normal("weights", 0, precision**-0.5, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ weights, observed=data["diabetes"].astype(int))
    return model


def galaxies(components: int, equal: bool) -> pm.Model:
    """Velocities of 82 galaxies, with the misprint of Chib (1995): normals of one variance or not.

    Means ~ N(20, 100), variances ~ InverseGamma(3, 20), weights ~ Dirichlet(1).
    """
    velocity = columns("galaxies_26960_chib")["velocity_1000km_s"]
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(components))
        mu = pm.Normal("mu", 20, 10, shape=components)
        variance = pm.InverseGamma("variance", 3, 20, shape=None if equal else components)
        pm.NormalMixture("velocity", weights, mu, pm.math.sqrt(variance), observed=velocity)
    return model


def hierarchical_normal(mean_known: bool) -> pm.Model:
    """The example of R's bridgesampling: y ~ N(θ, 1), θ ~ N(μ, τ²), and μ = 0 or μ ~ N(0, 1)."""
    y = columns("hier_normal_y")["y"]
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 1, 1)
        mu = 0.0 if mean_known else pm.Normal("mu", 0, 1)
        theta = pm.Normal("theta", mu, pm.math.sqrt(variance), shape=len(y))
        pm.Normal("y", theta, 1.0, observed=y)
    return model


def turtles(clutches: bool) -> pm.Model:
    """Janzen et al. (2000): survival on birth weight, probit, with intercepts of clutches or not.

    Their variance has density (1 + s²)⁻²: its logarithm is logistic.
    """
    data = columns("turtles")
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0, np.sqrt(10))
        slope = pm.Normal("slope", 0, np.sqrt(10))
        score = intercept + slope * data["x"]
        if clutches:
            log_variance = pm.Logistic("log_variance", 0, 1)
            clutch = data["clutch"].astype(int) - 1
            effect = pm.Normal("effect", shape=int(clutch.max()) + 1)
            score = score + pm.math.exp(log_variance / 2) * effect[clutch]
        pm.Bernoulli("y", pm.math.invprobit(score), observed=data["y"].astype(int))
    return model


def sleep(effect: bool) -> pm.Model:
    """Student's sleep data: a t-test, with effect size 0 or ~ Cauchy(0, 1/√2).

    The precision ~ Gamma(a, a) with a = 10⁻⁴, most of whose draws are too small for floating point.
    So it is a product, of Gamma(1 + a, a) and a uniform to the power of 1/a (Marsaglia and Tsang
    2000), and the likelihood takes its logarithm.
    """
    difference, a = columns("sleep")["diff"], 1e-4
    with pm.Model() as model:
        gamma = pm.Gamma("gamma", 1 + a, a)
        log_precision = pm.math.log(gamma) - pm.Exponential("minus_log_uniform", 1) / a
        delta = pm.Cauchy("delta", 0, np.sqrt(0.5)) if effect else 0.0
        z = difference * pm.math.exp(log_precision / 2) - delta
        norm = 0.5 * (log_precision - np.log(2 * np.pi))
        pm.Potential("difference", pm.math.sum(norm - 0.5 * z**2))
    return model


def exchange_rates(factors: int) -> pm.Model:
    """Lopes and West (2004): six standardised currencies, normal with so many common factors.

    Loadings ~ N(0, 1), those of the first currencies half-normal or 0, so that no factor can take
    another's place; own variances ~ InverseGamma(1.1, 0.05).
    """
    data = columns("ier")
    y = np.column_stack([data[name] for name in data.dtype.names])
    rows, places = np.tril_indices(y.shape[1], -1, factors)
    with pm.Model() as model:
        own = pm.InverseGamma("own", 1.1, 0.05, shape=y.shape[1])
        diagonal = pm.HalfNormal("diagonal", 1, shape=factors)
        below = pm.Normal("below", shape=len(rows))
        loadings = pt.zeros((y.shape[1], factors))
        loadings = loadings[np.arange(factors), np.arange(factors)].set(diagonal)
        loadings = loadings[rows, places].set(below)
        covariance = loadings @ loadings.T + pt.diag(own)
        pm.MvNormal("y", np.zeros(y.shape[1]), covariance, observed=y)
    return model


PIMA_1 = ["NP", "PGC", "BMI", "DP"]
PIMA_2 = [*PIMA_1, "AGE"]

ANCHORS: dict[str, Callable[[], pm.Model]] = {
    "radiata pine, x": partial(radiata_pine, "x", conjugate=True),
    "radiata pine, z": partial(radiata_pine, "z", conjugate=True),
    "radiata pine, x, independent priors": partial(radiata_pine, "x", conjugate=False),
    "radiata pine, z, independent priors": partial(radiata_pine, "z", conjugate=False),
    "pima, model 1, τ = 0.01": partial(pima, PIMA_1, 0.01),
    "pima, model 2, τ = 0.01": partial(pima, PIMA_2, 0.01),
    "pima, model 1, τ = 1": partial(pima, PIMA_1, 1.0),
    "pima, model 2, τ = 1": partial(pima, PIMA_2, 1.0),
    "galaxies, 2 of one variance": partial(galaxies, 2, equal=True),
    "galaxies, 3 of one variance": partial(galaxies, 3, equal=True),
    "galaxies, 3": partial(galaxies, 3, equal=False),
    "hierarchical normal, μ = 0": partial(hierarchical_normal, mean_known=True),
    "hierarchical normal": partial(hierarchical_normal, mean_known=False),
    "turtles": partial(turtles, clutches=False),
    "turtles, clutches": partial(turtles, clutches=True),
    "sleep, no effect": partial(sleep, effect=False),
    "sleep": partial(sleep, effect=True),
}
LOG_ML: dict[str, float] = {
    "radiata pine, x": -310.507266,
    "radiata pine, z": -301.650158,
    "radiata pine, x, independent priors": -309.924328,
    "radiata pine, z, independent priors": -301.435102,
    "pima, model 1, τ = 0.01": -257.2317,
    "pima, model 2, τ = 0.01": -259.8574,
    "pima, model 1, τ = 1": -247.3043,
    "pima, model 2, τ = 1": -247.5624,
    "galaxies, 2 of one variance": -239.762,
    "galaxies, 3 of one variance": -226.812,
    "galaxies, 3": -226.792,
    "hierarchical normal, μ = 0": -37.534131,
    "hierarchical normal": -37.798306,
    "turtles": -156.478590,
    "turtles, clutches": -156.719725,
    "sleep, no effect": -30.020641,
    "sleep": -27.172263,
}
"""Closed forms, quadrature, or importance sampling with an error below 0.006."""
