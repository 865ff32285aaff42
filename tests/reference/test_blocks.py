"""Draws whose blocks of latent variables are weighed one by one.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5 a comparison, seeded),
and their twins must exceed them.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import digamma

from pymc_bdmc.reference import blocks
from pymc_bdmc.reference.blocks import BlockReference, parts_of, separating
from pymc_bdmc.reference.contract import Blocks
from tests.models import SIGMAS
from tests.reference.test_annealed import NESTED, SHAPE, SIZE, LogGammas, z_of

N = 10_000
OF_LATENT = {"one each": [0, 1, 2, 3], "two": [0, 1, 0, 1], "three and one": [0, 0, 1, 0]}


class InBlocks(LogGammas):
    def __init__(self, of_terms):
        self.of_terms = np.array(of_terms)

    def by_block(self, of):
        @np.errstate(over="ignore")
        def terms(thetas):
            v = thetas[:, 1:] - thetas[:, :1]
            each = self.shape * v - np.exp(v)
            sums = [each[:, self.of_terms == j].sum(axis=1) for j in range(of.number)]
            return np.column_stack([*sums, np.full(len(v), 7.0)])

        return terms


def reference(of_latent, draws, is_on_grid=False):
    of = Blocks(max(of_latent) + 1, np.array(of_latent), np.empty(0, int), np.empty(0, int))
    return BlockReference(NESTED._replace(blocks=of, is_on_grid=is_on_grid), draws)


@pytest.mark.parametrize(("draws", "is_on_grid"), [(8, False), (16, False), (8, True)])
@pytest.mark.parametrize("of_latent", OF_LATENT.values(), ids=OF_LATENT)
def test_weights_average_to_z_and_to_its_inverse(of_latent, draws, is_on_grid):
    """Over draws and over posterior states; draws by weight have the posterior mean of x."""
    rng, density = np.random.default_rng(1), InBlocks(of_latent)
    r = reference(of_latent, draws, is_on_grid)
    thetas, log_r = r.sample(N, rng, density)
    weights = np.exp(density.slopes(thetas)[0] - log_r)
    assert abs(z_of(weights, 1)) < SIGMAS
    assert abs(z_of(weights * (thetas[:, 1 + SIZE // 2] - digamma(SHAPE)), 0)) < SIGMAS
    states = density.draw(N, rng)
    inverse = np.exp(r.log_density(states, density, rng) - density.slopes(states)[0])
    assert abs(z_of(inverse, 1)) < SIGMAS
    assert r.log_density(states[:0], density, rng).shape == (0,)


def test_blocks_that_are_not_chosen_by_weight_are_exposed(monkeypatch):
    """The broken twin: their places are uniform, so that draws have the mean of r."""

    def chosen(log_w, places, is_kept, rng):
        found = choose_blocks(log_w, places, is_kept, rng)
        places[:] = rng.integers(log_w.shape[1], size=places.shape)
        return found

    choose_blocks = blocks.choose_blocks
    monkeypatch.setattr(blocks, "choose_blocks", chosen)
    rng, density = np.random.default_rng(1), InBlocks(range(SIZE))
    thetas, log_r = reference(range(SIZE), 8).sample(N, rng, density)
    weights = np.exp(density.slopes(thetas)[0] - log_r)
    assert abs(z_of(weights * (thetas[:, 1] - digamma(SHAPE)), 0)) > SIGMAS


def test_a_kept_draw_that_is_left_out_is_exposed():
    """The broken twin: the inverse weight of other draws at the same ψ, without the state."""
    rng, density, r = np.random.default_rng(1), InBlocks([0] * SIZE), reference([0] * SIZE, 8)
    states = density.draw(N, rng)
    others, log_r = r._weighed(r.core.to_units(states[:, :1]), None, density, rng)
    inverse = np.exp(log_r - density.slopes(others)[0])
    assert abs(z_of(inverse, 1)) > SIGMAS


def test_a_grid_follows_a_skewed_density():
    """At one ψ, of log Gamma variables of shape 0.1: log Z, and the variance of log weights.

    By the curvature the approximation is half a nat off an element, and tails lack draws.
    """
    rng, density = np.random.default_rng(1), InBlocks(range(SIZE))
    density.shape = 0.1
    at, off, spread = np.zeros((4000, 1)), {}, {}
    for is_on_grid in (False, True):
        r = reference(range(SIZE), 16, is_on_grid)
        off[is_on_grid] = r.core.given(at[:1], density).log_marginal[0] + np.log(2 * np.pi) / 2
        thetas, log_r = r._weighed(at, None, density, rng)
        spread[is_on_grid] = np.var(density.slopes(thetas)[0] - log_r)
    assert abs(off[True]) < 0.01 * SIZE < 0.4 * SIZE < abs(off[False])
    assert spread[True] < spread[False] / 20


def test_points_of_a_lattice_are_more_even_than_independent_ones():
    """With four times as many, the variance of log weights at one ψ falls by 4² or more, not by 4.

    By 57 to 64 in twelve samples; its own error is 3 %.
    """
    rng, density = np.random.default_rng(1), InBlocks(range(SIZE))

    def variance(draws):
        thetas, log_r = reference(range(SIZE), draws)._weighed(
            np.zeros((4000, 1)), None, density, rng
        )
        return np.var(density.slopes(thetas)[0] - log_r)

    assert variance(32) < variance(8) / 16


def test_blocks_are_the_connected_parts_of_a_pattern():
    """Three groups of two, and a coefficient that all share, which is taken out."""
    pattern = np.kron(np.eye(3), np.ones((2, 2)))
    assert parts_of(csr_array(pattern)).tolist() == [0, 0, 1, 1, 2, 2]
    many = np.kron(np.eye(9), np.ones((2, 2)))
    shared = np.block([[many, np.ones((18, 1))], [np.ones((1, 19))]])
    assert separating(csr_array(shared), 3).tolist() == [18]
    assert separating(csr_array(shared), 0).tolist() == []
    assert separating(csr_array(np.ones((9, 9))), 3).tolist() == []
