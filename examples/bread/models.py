"""The five models of Grosse, Ancha and Roy (2016), with the priors of the paper.

Every variance has the prior InverseGamma(1, 1), under which it has no mean.
"""

import numpy as np
import pymc as pm
from data import load
from pymc.math import sqrt

__all__ = ["MODELS"]

MEAN_RATING = 3.52986
"""Of all 100,000 ratings, which is what the authors subtract."""


def standardised(table: np.ndarray) -> np.ndarray:
    return (table - table.mean(axis=0)) / table.std(axis=0)


def linear() -> pm.Model:
    """Change of weight in a health survey, by five columns; everything standardised."""
    table = standardised(load("nhefs"))
    x, y = table[:, :-1], table[:, -1]
    with pm.Model() as model:
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        prior_variance = pm.InverseGamma("prior_variance", 1, 1)
        intercept = pm.Normal("intercept", 0, sqrt(prior_variance))
        slope = pm.Normal("slope", 0, sqrt(prior_variance), shape=x.shape[1])
        pm.Normal("y", intercept + x @ slope, sqrt(noise_variance), observed=y)
    return model


def logistic() -> pm.Model:
    """Diabetes by eight standardised columns."""
    table = load("pima")
    x, y = standardised(table[:, :-1]), table[:, -1].astype(int)
    with pm.Model() as model:
        prior_variance = pm.InverseGamma("prior_variance", 1, 1)
        intercept = pm.Normal("intercept", 0, sqrt(prior_variance))
        slope = pm.Normal("slope", 0, sqrt(prior_variance), shape=x.shape[1])
        pm.Bernoulli("y", logit_p=intercept + x @ slope, observed=y)
    return model


def factorisation(centred: bool = True, rank: int = 5) -> pm.Model:
    """Ratings as products of factors; those that are missing are left out."""
    ratings = load("movielens_50x50").ravel() - (MEAN_RATING if centred else 0.0)
    rated = np.flatnonzero(np.isfinite(ratings))
    with pm.Model() as model:
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        user_variance = pm.InverseGamma("user_variance", 1, 1)
        film_variance = pm.InverseGamma("film_variance", 1, 1)
        u = pm.Normal("u", 0, sqrt(user_variance), shape=(50, rank))
        v = pm.Normal("v", 0, sqrt(film_variance), shape=(rank, 50))
        pm.Normal("y", (u @ v).ravel()[rated], sqrt(noise_variance), observed=ratings[rated])
    return model


def autoregression() -> pm.Model:
    """Each daily price given the one before, in dollars."""
    price = load("google_stock")
    with pm.Model() as model:
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        constant = pm.Normal("constant", 0, 1)
        memory = pm.Normal("memory", 1, 0.1)
        pm.AR(
            "y",
            rho=pm.math.stack([constant, memory]),
            sigma=sqrt(noise_variance),
            init_dist=pm.DiracDelta.dist(price[0], shape=1),
            constant=True,
            observed=price,
        )
    return model


def clustering() -> pm.Model:
    """Standardised durations and waiting times in two spherical clusters, labels summed out."""
    eruptions = standardised(load("old_faithful"))
    with pm.Model() as model:
        noise_variance = pm.InverseGamma("noise_variance", 1, 1)
        prior_variance = pm.InverseGamma("prior_variance", 1, 1)
        weight = pm.Dirichlet("weight", np.ones(2))
        centre = pm.Normal("centre", 0, sqrt(prior_variance), shape=(2, 2))
        components = [pm.MvNormal.dist(centre[k], noise_variance * np.eye(2)) for k in range(2)]
        pm.Mixture("y", weight, components, observed=eruptions)
    return model


def uncentred() -> pm.Model:
    """The same with ratings from 1 to 5 as they are, about which the model is wrong."""
    return factorisation(centred=False)


MODELS = {
    make.__name__: make
    for make in (linear, logistic, factorisation, uncentred, autoregression, clustering)
}
