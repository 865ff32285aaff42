"""Reference distribution that replaces the prior: a mixture of multivariate t distributions.

With a reference r in place of the prior the path is f_β = r^(1−β) (p e^ℓ)^β. This is the path of a
model with prior r and log likelihood g = log p + ℓ − log r, so the kernels are unchanged.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from numpy.random import Generator
from scipy.special import gammaln, logsumexp, softmax

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.metric import Metric

FEWEST_DEGREES, MOST_DEGREES = 3, 10
"""Limits of the default degrees of freedom, which are as many as θ has elements.

Heavier tails miss less of a posterior that is wider than r expects, but make the weights of draws
less even if it is normal. The relative variance of the weights is then 0.09 to 0.22 with 1 to 10
elements, 0.36 with 20 and 1.4 with 100; with three degrees of freedom throughout it would be 0.63
with 10 elements and 1.1 with 20.
"""


class Reference(NamedTuple):
    """Mixture of K multivariate t distributions of the unconstrained θ, or none.

    Component k has the location of row k, and the metric of row k as its scale matrix.
    """

    locations: ndarray
    """Locations, shape (K, n); K = 0 means no reference."""
    scales: ndarray
    """Scales, shape (K, n)."""
    directions: ndarray
    """Directions, shape (K, r, n)."""
    excesses: ndarray
    """Excesses, shape (K, r)."""
    degrees_of_freedom: float
    log_constants: ndarray
    """Log of each weight times the density at its location, shape (K,), nats."""

    @property
    def core(self) -> "Reference":
        """The mixture itself."""
        return self

    @property
    def knows_tails(self) -> bool:
        """False, since the posterior may have heavier tails."""
        return False

    @property
    def shares(self) -> ndarray:
        """Weights of the components, shape (K,)."""
        log_volumes = np.log(self.scales).sum(axis=1) + np.log1p(self.excesses).sum(axis=1) / 2
        log_constant = log_constant_of(self.locations.shape[1], self.degrees_of_freedom)
        return softmax(self.log_constants + log_volumes - log_constant)

    def metric(self, k: int) -> Metric:
        """Return the scale matrix of a component."""
        return Metric(self.scales[k], self.directions[k], self.excesses[k])

    def draw(self, n: int, rng: Generator) -> ndarray:
        """Draw θ, one a row."""
        dof, shares = self.degrees_of_freedom, self.shares
        components, width = self.locations.shape
        equal = np.allclose(shares, shares[0])
        component = rng.choice(components, n, p=None if equal else shares)
        z = rng.standard_normal((n, width))
        for k, (directions, excess) in enumerate(zip(self.directions, self.excesses, strict=True)):
            own = component == k
            z[own] += (z[own] @ directions.T * (np.sqrt(1 + excess) - 1)) @ directions
        z *= np.sqrt(dof / rng.chisquare(dof, size=(n, 1)))
        return self.locations[component] + self.scales[component] * z

    def sample(self, n: int, rng: Generator, density: object = None) -> tuple[ndarray, ndarray]:
        """Draw θ, one a row, and return its log density too, nats; it needs no density."""
        thetas = self.draw(n, rng)
        return thetas, self.log_density(thetas)

    def log_density(self, thetas: ndarray, density: object = None, rng: object = None) -> ndarray:
        """Return the log density of every row of ``thetas``, nats."""
        return logsumexp(self._log_components(thetas), axis=0)

    def memberships(self, thetas: ndarray) -> ndarray:
        """Return the probability of each component, given the draw in each row; shape (K, rows)."""
        return softmax(self._log_components(thetas), axis=0)

    def _log_components(self, thetas: ndarray) -> list[ndarray]:
        dof, found = self.degrees_of_freedom, []
        for k, location in enumerate(self.locations):
            scale, directions, excess = self.metric(k)
            z = (thetas - location) / scale
            along = z @ directions.T
            squares = (z**2).sum(axis=1) - along**2 @ (excess / (1 + excess))
            log_kernel = (dof + z.shape[1]) / 2 * np.log1p(squares / dof)
            found.append(self.log_constants[k] - log_kernel)
        return found

    def with_degrees(self, degrees_of_freedom: float) -> "Reference":
        """Return the same mixture with other degrees of freedom."""
        n, dof = self.locations.shape[1], float(degrees_of_freedom)
        gain = log_constant_of(n, dof) - log_constant_of(n, self.degrees_of_freedom)
        return self._replace(degrees_of_freedom=dof, log_constants=self.log_constants + gain)


def make_reference(
    location: ndarray, metric: Metric, degrees_of_freedom: float | None = None
) -> Reference:
    """Make a reference with one component, whose tails are heavy if θ has few elements."""
    n = len(location)
    dof = degrees_of_freedom or min(max(n, FEWEST_DEGREES), MOST_DEGREES)
    log_volume = np.log(metric.scale).sum() + np.log1p(metric.excess).sum() / 2
    return Reference(
        location[None].copy(),
        metric.scale[None].copy(),
        metric.directions[None].copy(),
        metric.excess[None].copy(),
        float(dof),
        np.array([log_constant_of(n, dof) - log_volume]),
    )


def mix_references(references: Sequence[Reference], shares: ndarray | None = None) -> Reference:
    """Mix references with as many degrees of freedom, by default with equal weights."""
    weights = np.full(len(references), 1 / len(references)) if shares is None else shares
    rank = max(each.excesses.shape[1] for each in references)

    def padded(values: ndarray) -> ndarray:
        missing = rank - values.shape[1]
        return np.pad(values, [(0, 0), (0, missing)] + [(0, 0)] * (values.ndim - 2))

    constants = [r.log_constants + np.log(w) for r, w in zip(references, weights, strict=True)]
    parts = [(r.locations, r.scales, padded(r.directions), padded(r.excesses)) for r in references]
    locations, scales, directions, excesses = map(np.concatenate, zip(*parts, strict=True))
    dof = references[0].degrees_of_freedom
    return Reference(locations, scales, directions, excesses, dof, np.concatenate(constants))


def no_reference() -> Reference:
    """Return an empty reference, for the path from the prior."""
    nothing = np.zeros((0, 0))
    return Reference(nothing, nothing, np.zeros((0, 0, 0)), nothing, np.inf, np.zeros(0))


def log_constant_of(n: int, dof: float) -> float:
    """Return the log density at its location of a t distribution whose scale matrix is I, nats."""
    return float(gammaln((dof + n) / 2) - gammaln(dof / 2) - n / 2 * np.log(dof * np.pi))


@njit(nogil=True, cache=True)
def refer(reference, state):
    """Replace log p and ℓ by log r and g = log p + ℓ − log r, with their gradients."""
    gradient, rest = state.log_prior_gradient, state.log_likelihood_gradient
    for i in range(gradient.size):
        rest[i] += gradient[i]
    log_reference = _component(reference, 0, state.theta, gradient)
    if len(reference.locations) > 1:
        log_reference = _add_others(reference, state.theta, log_reference, gradient)
    for i in range(gradient.size):
        rest[i] -= gradient[i]
    if state.terms[0] == -np.inf:  # log r may be −∞ too
        state.terms[1] = -np.inf
    else:
        state.terms[1] += state.terms[0] - log_reference
    state.terms[0] = log_reference


@njit(nogil=True, cache=True, allocates=False)
def _component(reference, k, theta, gradient):
    """Write ∇ log r_k; return log r_k plus its log weight."""
    location, scale, excess = reference.locations[k], reference.scales[k], reference.excesses[k]
    dof, n, squares = reference.degrees_of_freedom, theta.size, 0.0
    for i in range(n):
        gradient[i] = (theta[i] - location[i]) / scale[i]
        squares += gradient[i] ** 2
    for j in range(excess.size):
        direction, along = reference.directions[k, j], 0.0
        for i in range(n):
            along += direction[i] * gradient[i]
        factor = along * excess[j] / (1.0 + excess[j])
        for i in range(n):
            gradient[i] -= factor * direction[i]
        squares -= factor * along
    for i in range(n):
        gradient[i] *= -(dof + n) / (dof + squares) / scale[i]
    return reference.log_constants[k] - 0.5 * (dof + n) * np.log1p(squares / dof)


@njit(nogil=True, cache=True)
def _add_others(reference, theta, log_first, gradient):
    """Change the first component's gradient and log density to those of the mixture."""
    log_sum, own = log_first, np.empty(theta.size)
    for k in range(1, len(reference.locations)):
        log_k = _component(reference, k, theta, own)
        log_sum = np.logaddexp(log_sum, log_k)
        share = np.exp(log_k - log_sum)
        for i in range(theta.size):
            gradient[i] += share * (own[i] - gradient[i])
    return log_sum
