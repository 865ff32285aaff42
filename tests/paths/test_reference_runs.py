"""E_f[Ẑ] = Z, E_r[1/Ẑ] = 1/Z and Crooks' relation on paths from a reference, with broken twins.

At 25,000 runs; a test passes within 3 standard errors (α = 2.7e-3 a
comparison, seeded), and its twins must exceed them.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_bdmc.base.types import Direction
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import make_reference, mix_references
from tests.engines.test_identities import (
    STANDARD_ERRORS,
    assert_identities,
    forward_score,
    reverse_score,
)
from tests.engines.test_populations import log_weights, short_runs

FORWARD, REVERSE = Direction


class FromReference:
    """Runs start at the reference."""

    def prior(self, rng, *shape):
        thetas = self.reference.draw(int(np.prod(shape)), rng)
        return thetas.reshape(*shape, -1)


class Scale(FromReference):
    """A positive variable on the log scale, and a coin that comes up the oftener the larger it is.

    The reference lies beside the posterior and is narrower, so that weights have a variance in both
    directions.
    """

    kernel, width = "hmc", 1

    def __init__(self):
        with pm.Model() as model:
            tau = pm.HalfCauchy("tau", 1)
            pm.Bernoulli("y", 0.05 + 0.9 * tau / (1 + tau), observed=1)
        self.model = model
        self.log_z = np.log(0.5)  # by symmetry in log tau
        shape = Metric(np.array([1.1]), np.zeros((0, 1)), np.zeros(0))
        self.shape, self.reference = shape, make_reference(np.array([0.3]), shape, 100.0)

    def posterior(self, rng, *shape):
        """By rejection from the prior."""
        (n,) = shape
        tau = np.abs(rng.standard_cauchy(4 * n))
        kept = np.log(tau[rng.random(4 * n) < 0.05 + 0.9 * tau / (1 + tau)])
        return kept[:n, None]


class Sum(FromReference):
    """Two unit normals of which the sum is seen; the reference knows that they are correlated."""

    kernel, width, y, noise = "hmc", 2, 2.0, 0.8

    def __init__(self):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("x", shape=2).sum(), self.noise, observed=self.y)
        self.model = model
        variance = 2 + self.noise**2
        self.log_z = stats.norm.logpdf(self.y, 0, variance**0.5)
        self.mean = np.full(2, self.y / variance)
        self.covariance = np.eye(2) - 1 / variance
        along = np.full((1, 2), 0.5**0.5)
        shape = Metric(np.full(2, 0.9), along, np.array([-0.75]))
        self.reference = make_reference(np.array([0.5, 1.0]), shape, 1000.0)

    def posterior(self, rng, *shape):
        return rng.multivariate_normal(self.mean, self.covariance, size=shape)


scale, total = cache(Scale), cache(Sum)


@cache
def two():
    """Two components, at either side of the posterior."""
    system = Scale()
    places = np.array([[-1.0], [1.5]])
    parts = [make_reference(place, system.shape, 100.0) for place in places]
    system.reference = mix_references(parts)
    return system


@pytest.mark.parametrize(("make", "particles"), [(scale, 1), (two, 3), (total, 1)])
def test_identities(make, particles):
    system = make()
    assert_identities(system, *(log_weights(system, d, particles) for d in Direction))


def test_a_reference_that_is_not_normalised_is_exposed():
    system = Sum()
    wrong = system.reference.log_constants + 0.05
    system.reference = system.reference._replace(log_constants=wrong)
    forward, reverse = (log_weights(system, d, 1) for d in Direction)
    assert forward_score(system, forward) > STANDARD_ERRORS
    assert reverse_score(system, reverse) > STANDARD_ERRORS


def test_a_reference_fitted_with_the_start_in_view_is_exposed():
    """E_f[min(w/Z, 1)] = E_r[min(Z/w, 1)] for narrow references at states of the posterior.

    At each of 1000 go 25 runs in both directions (α = 2.7e-3). The reverse runs start at another
    state; those of the twin at that of their reference. Z/w itself has no variance.
    """
    system, rng = scale(), np.random.default_rng(1)
    places = system.posterior(rng, 1000)
    narrow = system.shape._replace(scale=np.array([0.4]))
    references = [make_reference(place, narrow, 100.0) for place in places]

    def means(direction, starts):
        runs = zip(starts, references, strict=True)
        found = [short_runs(system, direction, start, fit, rng) for start, fit in runs]
        sign = 1 if direction is FORWARD else -1
        return np.exp(np.minimum(sign * (np.array(found) - system.log_z), 0)).mean(axis=1)

    forward = means(FORWARD, [fit.draw(25, rng)[:, None] for fit in references])
    for starts, is_sound in ((np.roll(places, 1), True), (places, False)):
        apart = means(REVERSE, np.tile(starts[:, None, None], (1, 25, 1, 1))) - forward
        error = apart.std() / np.sqrt(len(apart))
        assert (abs(apart.mean()) < STANDARD_ERRORS * error) == is_sound
