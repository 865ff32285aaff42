"""Draws whose latent variables are annealed, given the others.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5 a comparison, seeded),
and their twins must exceed them.
"""

import numpy as np
import pytest
from scipy.sparse import eye_array
from scipy.special import digamma, gammaln

from pymc_bdmc.reference import annealed
from pymc_bdmc.reference.annealed import AnnealedReference
from pymc_bdmc.reference.metric import metric_of
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.reference.sparse import sparsity_of
from pymc_bdmc.reference.student import make_reference
from tests.models import SIGMAS

SHAPE, SIZE, N = 2.0, 4, 20_000


class LogGammas:
    """ψ ~ N(0, 1), and x less ψ are logarithms of Gamma variables; the integral of f is 1."""

    evaluations = 0

    @np.errstate(over="ignore")
    def slopes(self, thetas):
        psi, v = thetas[:, :1], thetas[:, 1:] - thetas[:, :1]
        log_f = -(psi[:, 0] ** 2) / 2 - np.log(2 * np.pi) / 2 - SIZE * gammaln(SHAPE)
        slope = SHAPE - np.exp(v)
        log_f = log_f + (SHAPE * v - np.exp(v)).sum(axis=1)
        return log_f, np.column_stack([-psi[:, 0] - slope.sum(axis=1), slope])

    def slopes_in(self, latent):
        return self.slopes

    def draw(self, n, rng):
        psi = rng.normal(size=(n, 1))
        return np.hstack([psi, psi + np.log(rng.gamma(SHAPE, size=(n, SIZE)))])


@pytest.fixture(scope="module")
def reference():
    nested = NestedReference(
        make_reference(np.zeros(1), metric_of(np.eye(1)), 10.0), np.zeros((1, 1)), np.array([0]),
        np.array([-1]), np.arange(1, 1 + SIZE), np.full((1, SIZE), np.log(SHAPE)),
        np.full(SIZE, 1e-4), sparsity_of(eye_array(SIZE, format="csr")), 5.0, 1e-3,
    )  # fmt: skip
    return AnnealedReference(nested, 4)


def z_of(values, mean):
    return (values.mean() - mean) / (values.std() / np.sqrt(len(values)))


def log_weights(reference, rng):
    thetas, log_r = reference.sample(N, rng, LogGammas())
    return LogGammas().slopes(thetas)[0] - log_r


def test_weights_of_draws_average_to_z(reference):
    """Twin: the move accepts every proposal."""
    g = log_weights(reference, np.random.default_rng(1))
    assert abs(z_of(np.exp(g), 1)) < SIGMAS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(annealed, "_energy", lambda state, velocity, beta: np.zeros(len(state.z)))
        g = log_weights(reference, np.random.default_rng(1))
    assert abs(z_of(np.exp(g), 1)) > SIGMAS


def test_weights_of_posterior_states_average_to_its_inverse(reference):
    """Twin: x is half as far from ψ as it should be."""
    rng, density = np.random.default_rng(2), LogGammas()
    exact = density.draw(N, rng)
    broken = np.hstack([exact[:, :1], (exact[:, 1:] + exact[:, :1]) / 2])
    for thetas, is_sound in ((exact, True), (broken, False)):
        log_r = reference.log_density(thetas, density, rng)
        inverse = np.exp(log_r - density.slopes(thetas)[0])
        assert (abs(z_of(inverse, 1)) < SIGMAS) == is_sound


def test_a_move_leaves_the_posterior_invariant(reference):
    """At β = 1, by means of x − ψ and their squares. Twin: every proposal is accepted."""
    for energy, is_sound in ((annealed._energy, True), (lambda state, *_: np.zeros(N), False)):
        rng = np.random.default_rng(3)
        thetas, nested = LogGammas().draw(N, rng), reference.core
        bridge = annealed._Bridge(nested, thetas[:, :1], LogGammas())
        state = bridge.at(bridge.z_of(thetas))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(annealed, "_energy", energy)
            for _ in range(3):
                state = annealed._move(bridge, state, 1.0, rng)
        moved = bridge.thetas(state.z)
        assert not np.allclose(moved, thetas)
        v = (moved[:, 1:] - moved[:, :1]).mean(axis=1)
        assert (abs(z_of(v, digamma(SHAPE))) < SIGMAS) == is_sound


def test_annealing_makes_weights_more_even(reference):
    rng = np.random.default_rng(4)
    few, many = (log_weights(reference._replace(temperatures=n), rng) for n in (1, 16))
    assert np.var(np.exp(many)) < np.var(np.exp(few)) / 2
