"""Reference distribution that replaces the prior: a mixture of multivariate t distributions.

With a reference r in place of the prior the path is f_β = r^(1−β) (p e^ℓ)^β. This is the path of a
model with prior r and log likelihood g = log p + ℓ − log r, so the kernels are unchanged.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from pymc_bdmc.base.compiling import njit
from pymc_bdmc.reference.metric import Metric

FEWEST_DEGREES, MOST_DEGREES = 3, 10
"""Limits of the default degrees of freedom, which are as many as θ has elements.

Heavier tails miss less of a posterior that is wider than r expects, but make the weights of draws
less even where it is normal. The relative variance of the weights is then 0.09 to 0.22 with 1 to 10
elements, 0.36 with 20 and 1.4 with 100; with three degrees of freedom throughout it would be 0.63
with 10 elements and 1.1 with 20.
"""


Slopes = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Function that returns log p + ℓ of every row of θ, shape (n,), and the gradients, (n, size)."""


class Density(Protocol):
    """log p + ℓ on given data, as references need it."""

    @property
    def evaluations(self) -> int:
        """Return the number of evaluations so far, with or without a gradient."""

    def slopes(self, thetas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log p + ℓ of every row, shape (rows,), nats, and its gradient there."""

    def slopes_in(self, latent: np.ndarray) -> Slopes:
        """Return a function like `slopes` that gives at least the gradients in some elements."""

    def terms(self, thetas: np.ndarray) -> np.ndarray:
        """Return log p and ℓ of every row, shape (rows, 2), nats."""

    def draw_prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw θ from the prior, one a row."""


class AnyReference(Protocol):
    """Normalised distribution with exact draws, at which a path may start.

    One whose draws are the ends of annealed runs draws these backwards for its log density, by
    ``rng``; others need none.
    """

    def sample(
        self, n: int, rng: np.random.Generator, density: Density
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw θ, one a row, and return its log density too, nats."""

    def log_density(
        self, thetas: np.ndarray, density: Density, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the log density of every row of ``thetas``, nats."""


class Reference(NamedTuple):
    """Mixture of K multivariate t distributions of the unconstrained θ, or none.

    Component k has the location of row k, and the metric of row k as its scale matrix.
    """

    locations: np.ndarray
    """Locations, shape (K, n); K = 0 means no reference."""
    scales: np.ndarray
    """Scales, shape (K, n)."""
    directions: np.ndarray
    """Directions, shape (K, r, n)."""
    excesses: np.ndarray
    """Excesses, shape (K, r)."""
    degrees_of_freedom: float
    log_constants: np.ndarray
    """Log of each weight times the density at its location, shape (K,), nats."""

    def sample(
        self, n: int, rng: np.random.Generator, density: object = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw θ, one a row, and return its log density too, nats; it needs no density."""
        thetas = draw_reference(self, n, rng)
        return thetas, log_reference(self, thetas)

    def log_density(
        self, thetas: np.ndarray, density: object = None, rng: object = None
    ) -> np.ndarray:
        """Return the log density of every row of ``thetas``, nats."""
        return log_reference(self, thetas)


def make_reference(
    location: np.ndarray, metric: Metric, degrees_of_freedom: float | None = None
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
        np.array([_log_constant(n, dof) - log_volume]),
    )


def with_degrees(reference: Reference, degrees_of_freedom: float) -> Reference:
    """Return the same mixture of t distributions with other degrees of freedom."""
    n, dof = reference.locations.shape[1], float(degrees_of_freedom)
    gain = _log_constant(n, dof) - _log_constant(n, reference.degrees_of_freedom)
    return reference._replace(degrees_of_freedom=dof, log_constants=reference.log_constants + gain)


def _log_constant(n: int, dof: float) -> float:
    """Return the log density at its location of a t distribution whose scale matrix is I, nats."""
    return float(gammaln((dof + n) / 2) - gammaln(dof / 2) - n / 2 * np.log(dof * np.pi))


def shares_of(reference: Reference) -> np.ndarray:
    """Return the weights of the components of a mixture, shape (K,)."""
    n, dof = reference.locations.shape[1], reference.degrees_of_freedom
    log_volumes = (
        np.log(reference.scales).sum(axis=1) + np.log1p(reference.excesses).sum(axis=1) / 2
    )
    return softmax(reference.log_constants + log_volumes - _log_constant(n, dof))


def mix_references(references: Sequence[Reference], shares: np.ndarray | None = None) -> Reference:
    """Mix references with as many degrees of freedom, by default with equal weights."""
    weights = np.full(len(references), 1 / len(references)) if shares is None else shares
    rank = max(each.excesses.shape[1] for each in references)

    def padded(values: np.ndarray) -> np.ndarray:
        missing = rank - values.shape[1]
        return np.pad(values, [(0, 0), (0, missing)] + [(0, 0)] * (values.ndim - 2))

    return Reference(
        np.concatenate([each.locations for each in references]),
        np.concatenate([each.scales for each in references]),
        np.concatenate([padded(each.directions) for each in references]),
        np.concatenate([padded(each.excesses) for each in references]),
        references[0].degrees_of_freedom,
        np.concatenate(
            [
                each.log_constants + np.log(weight)
                for each, weight in zip(references, weights, strict=True)
            ]
        ),
    )


def metric_at(reference: Reference, k: int) -> Metric:
    """Return the scale matrix of a component as a metric."""
    return Metric(reference.scales[k], reference.directions[k], reference.excesses[k])


def parts_of(reference: Reference) -> list[Reference]:
    """Return the components of a mixture, each with its share as part of its constant."""
    r = reference
    return [
        Reference(
            r.locations[[k]], r.scales[[k]], r.directions[[k]], r.excesses[[k]],
            r.degrees_of_freedom, r.log_constants[[k]],
        )
        for k in range(len(r.locations))
    ]  # fmt: skip


def no_reference() -> Reference:
    """Return an empty reference, for the path from the prior."""
    nothing = np.zeros((0, 0))
    return Reference(nothing, nothing, np.zeros((0, 0, 0)), nothing, np.inf, np.zeros(0))


def draw_reference(reference: Reference, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw θ, one a row."""
    dof = reference.degrees_of_freedom
    components, width = reference.locations.shape
    shares = shares_of(reference)
    equal = np.allclose(shares, shares[0])
    component = rng.choice(components, n, p=None if equal else shares)
    z = rng.standard_normal((n, width))
    for k, (directions, excess) in enumerate(
        zip(reference.directions, reference.excesses, strict=True)
    ):
        own = component == k
        z[own] += (z[own] @ directions.T * (np.sqrt(1 + excess) - 1)) @ directions
    z *= np.sqrt(dof / rng.chisquare(dof, size=(n, 1)))
    return reference.locations[component] + reference.scales[component] * z


def log_reference(reference: Reference, thetas: np.ndarray) -> np.ndarray:
    """Return the log density of every row of ``thetas``, nats."""
    dof, found = reference.degrees_of_freedom, []
    for location, scale, directions, excess, log_constant in zip(
        *reference[:4], reference.log_constants, strict=True
    ):
        z = (thetas - location) / scale
        along = z @ directions.T
        squares = (z**2).sum(axis=1) - along**2 @ (excess / (1 + excess))
        found.append(log_constant - (dof + z.shape[1]) / 2 * np.log1p(squares / dof))
    return logsumexp(found, axis=0)


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
