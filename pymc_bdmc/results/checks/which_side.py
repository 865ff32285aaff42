"""Say which side misses part of the posterior, if a run and the draws of a sampler differ.

Let r be a t distribution that is fitted to the particles of the run, and u(θ) = log p(θ, y) − log r
the surplus of a state. If the run is right, u of its n effective particles and of a further draw
have the same distribution. So a region A = {u > c}, with c the largest u of the particles, holds a
share above a of the posterior with a probability of at most (1 − a)^n. Draws in A alone prove
nothing: a chain may be stuck at a narrow peak of the density. But they lead to A: importance
sampling from a fit to these draws has the mean Z_A = ∫_A p(θ, y) dθ whatever the draws are. If a
certified lower bound on Z_A/Z is too large for n particles outside of A, the run is wrong.

In the same way particles speak against the draws, if they lie where log p(θ, y) is far above what a
fit to the draws expects. Their share needs no importance sampling, since runs have weights.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy.special import stdtrit

from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.estimators import certified_lower, log_mean_exp
from pymc_bdmc.estimators.agreement import effective_runs, exceeded
from pymc_bdmc.reference.metric import estimate_metric
from pymc_bdmc.reference.student import Reference, make_reference
from pymc_bdmc.results.particles import Elements, Unconstrained

ALPHA = 1e-3
"""Probability that a side that is right is said to miss something."""


def missed_shares(
    elements: Elements, model: pm.Model, log_weights: np.ndarray, ess: tuple[float, float]
) -> tuple[float, float]:
    """Find the side that misses part of the posterior, by the density at both sides.

    Returns the nats by which log ML of the run is too low, at least, and the share of the posterior
    that the run finds where the draws have nothing, at least; both are 0 if nothing is shown, as
    for a model with discrete variables, which have no fit. ``log_weights`` are log Ẑ of the runs on
    the real data, and ``ess`` are the effective sample sizes of draws and of particles.
    """
    if any(rv.dtype.startswith(("int", "uint", "bool")) for rv in model.free_RVs):
        return 0.0, 0.0
    density = Unconstrained(TemperedDensity(model).check())

    def side(source: np.ndarray, weights: np.ndarray, most: int, ess: float) -> _Side:
        every = -(-weights.size // most)
        values, weights = elements.values(source[:, ::every]), weights[:, ::every]
        theta = density.rows({rv.name: values[rv.name] for rv in model.free_RVs})
        log_density = np.nan_to_num(density.log_joint(theta), nan=-np.inf, neginf=-np.inf)
        weights = np.where(log_density > -np.inf, weights.ravel(), 0).reshape(weights.shape)
        weights /= weights.sum()
        return _Side(theta, log_density, weights, min(ess, 1 / np.sum(weights**2)))

    try:
        with np.errstate(all="ignore"):
            # At most so many densities are evaluated.
            equal = np.ones(elements.draws.shape[:2])
            draws = side(elements.draws, equal, 2000, ess[0])
            particles = side(elements.particles, elements.weights, 4000, ess[1])
            too_low = _too_low(density.log_joint, particles, draws, log_weights)
            found = too_low, _missed_by_draws(draws, particles)
    except FloatingPointError:  # a density that is +∞ shows nothing
        return 0.0, 0.0
    return found


class _Side(NamedTuple):
    """Draws or particles on the unconstrained scale."""

    theta: np.ndarray
    """Shape (n, d)."""
    log_density: np.ndarray
    """log p(θ, y), shape (n,), nats."""
    weights: np.ndarray
    """They add up to 1, by chain or run."""
    ess: float
    """Effective number."""

    def beyond(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return a function that says which states have a surplus above all of this side.

        It takes states and their log p(θ, y).
        """
        fit = _fit(self.theta, self.weights.ravel())
        surplus = self.log_density - fit.log_density(self.theta)
        level = exceeded(surplus, self.weights, 1 / (self.ess + 1))
        return lambda theta, log_density: log_density - fit.log_density(theta) > level


def _fit(theta: np.ndarray, weights: np.ndarray) -> Reference:
    theta, weights = theta[weights > 0], weights[weights > 0]
    metric = estimate_metric(theta, np.zeros_like(theta), weights, for_moves=False)
    return make_reference(weights @ theta, metric)


def _too_low(
    log_joint: Callable[[np.ndarray], np.ndarray],
    particles: _Side,
    draws: _Side,
    log_weights: np.ndarray,
) -> float:
    """Return the nats that the posterior beyond the particles adds at least, if it refutes the run.

    The part beyond the particles adds its mass to that of the run, which has none there.
    """
    is_beyond = particles.beyond()
    inside = draws.theta[is_beyond(draws.theta, draws.log_density)]
    if len(inside) < 2 * draws.theta.shape[1]:
        return 0.0
    fit = _fit(inside, np.full(len(inside), 1 / len(inside)))
    theta = fit.draw(8000, np.random.default_rng(0))
    found = log_joint(theta)
    terms = np.where(is_beyond(theta, found), found - fit.log_density(theta), -np.inf)
    averages = [log_mean_exp(batch) for batch in terms.reshape(32, -1)]
    share = 1 - ALPHA / 3
    lower = certified_lower(averages, share, kind="order statistics").lower
    scaled = np.exp(log_weights - log_weights.max())
    error = scaled.std(ddof=1) / scaled.mean() / np.sqrt(scaled.size)
    upper = log_mean_exp(log_weights) + stdtrit(scaled.size - 1, share) * error
    missed = np.exp(min(lower - upper, 30.0))
    return float(np.log1p(missed)) if missed > _most(particles.ess, ALPHA / 3) else 0.0


def _missed_by_draws(draws: _Side, particles: _Side) -> float:
    """Return the smallest share of the particles beyond the draws, if it refutes the draws."""
    w, of_runs = particles.weights, particles.weights.sum(axis=1)
    is_beyond = draws.beyond()(particles.theta, particles.log_density).reshape(w.shape)
    by_run = (w * is_beyond).sum(axis=1)
    share, degrees = by_run.sum(), effective_runs(of_runs) - 1
    if not degrees > 0:
        return 0.0
    jackknife = (len(w) - 1) / len(w) * np.sum(((by_run - of_runs * share) / (1 - of_runs)) ** 2)
    lower = float(share - stdtrit(degrees, 1 - ALPHA / 2) * np.sqrt(jackknife))
    return lower if lower > _most(draws.ess, ALPHA / 2) else 0.0


def _most(n: float, alpha: float) -> float:
    """Return the largest share that n independent draws all miss with this probability."""
    return 1 - alpha ** (1 / n)
