"""The start of a path beside the prior: a multivariate t distribution, fitted to the posterior.

With a reference r in the place of the prior the path is f_β = r^(1−β) (p e^ℓ)^β, which is that of a
model with prior r and log likelihood g = log p + ℓ − log r. So the kernels need not know.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_bdmc.compiling import njit
from pymc_bdmc.kernels.metric import Metric, estimate_metric

__all__ = [
    "DEGREES_OF_FREEDOM",
    "Reference",
    "draw_reference",
    "fit_reference",
    "log_reference",
    "make_reference",
    "no_reference",
    "refer",
]

DEGREES_OF_FREEDOM = 10.0
"""Tails heavier than those of any posterior with exponential ones, and near enough to a normal."""


class Reference(NamedTuple):
    """Multivariate t distribution of the unconstrained θ, or none."""

    location: np.ndarray
    """Shape (n,); empty: there is none."""
    metric: Metric
    """The shape of its scale matrix."""
    degrees_of_freedom: float
    log_constant: float
    """Log density at the location, nats."""


def make_reference(
    location: np.ndarray, metric: Metric, degrees_of_freedom: float = DEGREES_OF_FREEDOM
) -> Reference:
    """The normalised distribution."""
    n, dof = len(location), degrees_of_freedom
    log_constant = (
        gammaln((dof + n) / 2)
        - gammaln(dof / 2)
        - n / 2 * np.log(dof * np.pi)
        - np.log(metric.scale).sum()
        - np.log1p(metric.excess).sum() / 2
    )
    return Reference(location, metric, float(dof), float(log_constant))


def no_reference() -> Reference:
    """For the path from the prior."""
    return Reference(
        np.zeros(0), Metric(np.zeros(0), np.zeros((0, 0)), np.zeros(0)), np.inf, np.nan
    )


def fit_reference(
    thetas: np.ndarray, gradients: np.ndarray, degrees_of_freedom: float = DEGREES_OF_FREEDOM
) -> Reference:
    """The reference from samples of the posterior and the gradients of its log density there.

    Parameters
    ----------
    thetas, gradients : ndarray of shape (N, n)
    """
    return make_reference(
        thetas.mean(axis=0), estimate_metric(thetas, gradients), degrees_of_freedom
    )


def draw_reference(reference: Reference, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of θ, one a row."""
    metric, dof = reference.metric, reference.degrees_of_freedom
    z = rng.standard_normal((n, len(reference.location)))
    z += (z @ metric.directions.T * (np.sqrt(1 + metric.excess) - 1)) @ metric.directions
    z *= np.sqrt(dof / rng.chisquare(dof, size=(n, 1)))
    return reference.location + metric.scale * z


def log_reference(reference: Reference, thetas: np.ndarray) -> np.ndarray:
    """Log density of every row of ``thetas``, nats."""
    metric, dof = reference.metric, reference.degrees_of_freedom
    z = (thetas - reference.location) / metric.scale
    along = z @ metric.directions.T
    squares = (z**2).sum(axis=1) - along**2 @ (metric.excess / (1 + metric.excess))
    return reference.log_constant - (dof + z.shape[1]) / 2 * np.log1p(squares / dof)


@njit(nogil=True, cache=True)
def refer(reference, state):
    """Put log r and g = log p + ℓ − log r, with their gradients, in the place of log p and ℓ."""
    metric, dof, n = reference.metric, reference.degrees_of_freedom, reference.location.size
    z, squares = state.log_prior_gradient, 0.0
    for i in range(n):
        state.log_likelihood_gradient[i] += z[i]
        z[i] = (state.theta[i] - reference.location[i]) / metric.scale[i]
        squares += z[i] ** 2
    for k in range(metric.excess.size):
        direction, along = metric.directions[k], 0.0
        for i in range(n):
            along += direction[i] * z[i]
        factor = along * metric.excess[k] / (1.0 + metric.excess[k])
        for i in range(n):
            z[i] -= factor * direction[i]
        squares -= factor * along
    for i in range(n):
        z[i] *= -(dof + n) / (dof + squares) / metric.scale[i]
        state.log_likelihood_gradient[i] -= z[i]
    log_reference = reference.log_constant - 0.5 * (dof + n) * np.log1p(squares / dof)
    if state.terms[0] == -np.inf:  # where ℓ need not be a number
        state.terms[1] = -np.inf
    else:
        state.terms[1] += state.terms[0] - log_reference
    state.terms[0] = log_reference
