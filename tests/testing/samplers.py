"""Samplers on trial: sound ones, and twins with one fault each."""

import numpy as np
import pymc as pm


def pair() -> pm.Model:
    """Normal data with unknown mean and scale."""
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=np.zeros(3))
    return model


def walk(point, target, rng):
    """Random walk Metropolis."""
    new = {name: value + rng.normal(size=value.shape) for name, value in point.items()}
    return new if np.log(rng.random()) < target(new) - target(point) else point


def stretch(point, target, rng, hastings=1.0):
    """Multiplies mu by a factor, which is also the ratio of the proposal densities."""
    factor = np.exp(rng.normal())
    new = {**point, "mu": point["mu"] * factor}
    log_ratio = target(new) - target(point) + hastings * np.log(factor)
    return new if np.log(rng.random()) < log_ratio else point


def no_hastings(point, target, rng):
    """Forgets the ratio of the proposal densities."""
    return stretch(point, target, rng, hastings=0.0)


def no_jacobian(point, target, rng):
    """Forgets the volume of the log transform."""
    new = {name: value + rng.normal(size=value.shape) for name, value in point.items()}
    log_ratio = target(new) - target(point) - (new["sigma_log__"] - point["sigma_log__"])
    return new if np.log(rng.random()) < log_ratio else point


def wrong_beta(point, target, rng):
    """Uses a wrong temperature, which makes no difference at β = 1."""
    beta, target.beta = target.beta, target.beta**0.5
    try:
        return walk(point, target, rng)
    finally:
        target.beta = beta


def alternating(point, target, rng):
    """Updates each variable given the old value of the other, which gives right marginals."""
    moved = {}
    for name in point:
        new = {**point, name: point[name] + rng.normal()}
        accepted = np.log(rng.random()) < target(new) - target(point)
        moved[name] = (new if accepted else point)[name]
    return moved


for _sampler in (walk, stretch, no_hastings, no_jacobian, wrong_beta):
    _sampler.reversal = _sampler
