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
NESTED = NestedReference(
    make_reference(np.zeros(1), metric_of(np.eye(1)), 10.0), np.zeros((1, 1)), np.array([0]),
    np.array([-1]), np.arange(1, 1 + SIZE), np.full((1, SIZE), np.log(SHAPE)),
    np.full(SIZE, 1e-4), sparsity_of(eye_array(SIZE, format="csr")), 5.0, 1e-3,
)  # fmt: skip


class LogGammas:
    """ψ ~ N(0, 1), and x less ψ are logarithms of Gamma variables; the integral of f is 1."""

    evaluations, shape = 0, SHAPE

    @np.errstate(over="ignore")
    def slopes(self, thetas):
        psi, v = thetas[:, :1], thetas[:, 1:] - thetas[:, :1]
        log_f = -(psi[:, 0] ** 2) / 2 - np.log(2 * np.pi) / 2 - SIZE * gammaln(self.shape)
        slope = self.shape - np.exp(v)
        log_f = log_f + (self.shape * v - np.exp(v)).sum(axis=1)
        return log_f, np.column_stack([-psi[:, 0] - slope.sum(axis=1), slope])

    def slopes_in(self, latent):
        return self.slopes

    def draw(self, n, rng):
        psi = rng.normal(size=(n, 1))
        return np.hstack([psi, psi + np.log(rng.gamma(self.shape, size=(n, SIZE)))])


def z_of(values, mean):
    return (values.mean() - mean) / (values.std() / np.sqrt(len(values)))


def weights(temperatures, seed):
    rng, density = np.random.default_rng(seed), LogGammas()
    thetas, log_r = AnnealedReference(NESTED, temperatures).sample(N, rng, density)
    return np.exp(density.slopes(thetas)[0] - log_r)


def accept_all(patch):
    patch.setattr(annealed, "_energy", lambda state, *_: np.zeros(len(state.z)))


def test_weights_of_draws_average_to_z(monkeypatch):
    """And annealing makes them more even. Twin: the move accepts every proposal."""
    assert abs(z_of(weights(4, 1), 1)) < SIGMAS
    assert np.var(weights(16, 4)) < np.var(weights(1, 4)) / 2
    accept_all(monkeypatch)
    assert abs(z_of(weights(4, 1), 1)) > SIGMAS


@pytest.mark.parametrize("is_sound", [True, False])
def test_weights_of_posterior_states_average_to_its_inverse(is_sound):
    """Twin: x is half as far from ψ as it should be."""
    rng, density = np.random.default_rng(2), LogGammas()
    thetas = density.draw(N, rng)
    if not is_sound:
        thetas[:, 1:] = (thetas[:, 1:] + thetas[:, :1]) / 2
    log_r = AnnealedReference(NESTED, 4).log_density(thetas, density, rng)
    inverse = np.exp(log_r - density.slopes(thetas)[0])
    assert (abs(z_of(inverse, 1)) < SIGMAS) == is_sound


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_move_leaves_the_posterior_invariant(is_sound, monkeypatch):
    """At β = 1, by means of x − ψ. Twin: every proposal is accepted."""
    if not is_sound:
        accept_all(monkeypatch)
    rng = np.random.default_rng(3)
    thetas = LogGammas().draw(N, rng)
    bridge = annealed._Bridge(NESTED, thetas[:, :1], LogGammas())
    state = bridge.at(bridge.z_of(thetas))
    for _ in range(3):
        state = annealed._move(bridge, state, 1.0, rng)
    moved = bridge.thetas(state.z)
    assert not np.allclose(moved, thetas)
    v = (moved[:, 1:] - moved[:, :1]).mean(axis=1)
    assert (abs(z_of(v, digamma(SHAPE))) < SIGMAS) == is_sound
