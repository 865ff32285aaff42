"""Precisions that are combinations of a few matrices, and the gradients that this saves."""

import numpy as np
import pymc as pm
import pytest

from pymc_bdmc.fits import nested
from pymc_bdmc.reference.sparse import combination_of
from tests.reference.test_nested import Fitted

D, EXAMPLES = 12, 16


def entries_of(rng, rank, n=EXAMPLES):
    """Examples of combinations of so many symmetric matrices, and further ones; shape (n, E)."""
    basis = rng.normal(size=(rank, D, D))
    basis = (basis + np.swapaxes(basis, 1, 2)).reshape(rank, -1)
    return (rng.normal(size=(n, rank)) @ basis for _ in range(2))


COLUMNS = np.tile(np.arange(D), D)
"""Column of every entry of a full matrix."""


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_few_columns_give_all_entries(rank):
    """Matrices that were no examples are found exactly. Twin: one that is no such combination."""
    rng = np.random.default_rng(rank)
    examples, others = entries_of(rng, rank)
    found = combination_of(examples, COLUMNS)
    assert len(found.basis) == rank >= len(np.unique(COLUMNS[found.measured]))
    np.testing.assert_allclose(found.complete(others[:, found.measured]), others, atol=1e-9)
    broken = others + rng.normal(size=D * D)
    assert abs(found.complete(broken[:, found.measured]) - broken).max() > 0.1


@pytest.mark.parametrize(("rank", "saves"), [(EXAMPLES // 2, True), (EXAMPLES // 2 + 1, False)])
def test_matrices_of_full_rank_are_no_combinations(rank, saves):
    """Half as many matrices as examples are the most: with more, examples might show too few."""
    examples, _ = entries_of(np.random.default_rng(1), rank)
    assert (combination_of(examples, COLUMNS) is not None) == saves


def test_examples_that_are_not_finite_give_no_combination():
    examples, _ = entries_of(np.random.default_rng(1), 2)
    assert combination_of(examples, COLUMNS) is not None
    examples[3, 5] = np.nan
    assert combination_of(examples, COLUMNS) is None


N, NOISE = 30, 0.3


def walk(*, centred, counts=False):
    """A random walk of an unknown scale, or its steps in units of that; with noise or counts."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        if centred:
            start = pm.Normal.dist(0, scale)
            path = pm.GaussianRandomWalk("walk", 0, scale, init_dist=start, shape=N)
        else:
            path = scale * pm.Normal("steps", 0, 1, shape=N).cumsum()
        if counts:
            pm.Poisson("y", pm.math.exp(path), observed=np.arange(N) % 3)
        else:
            pm.Normal("y", path, NOISE, observed=np.sin(np.arange(N) / 4))
    return model


def test_a_cumulative_sum_has_the_density_of_its_centred_twin_by_few_gradients():
    """log r of the walk plus log |d walk / d steps| is log r of the steps.

    Twins: all columns are measured, which takes more gradients; and one matrix is left out.
    """
    steps, walked = Fitted(walk(centred=False)), Fitted(walk(centred=True))
    reference, combination = steps.reference, steps.reference.combination
    assert walked.reference.combination is None
    assert len(combination.basis) == 2

    rng = np.random.default_rng(2)
    log_scales, z = rng.normal(-1, 0.5, size=5), rng.normal(size=(5, N))
    paths = np.exp(log_scales)[:, None] * np.cumsum(z, axis=1)

    def log_r(fitted, reference, x):
        thetas = np.empty((5, 1 + N))
        thetas[:, reference.others], thetas[:, reference.latent] = log_scales[:, None], x
        before = fitted.density.evaluations
        same_marginal = reference._replace(marginal=steps.reference.marginal)
        return same_marginal.log_density(thetas, fitted.density), (
            fitted.density.evaluations - before
        )

    expected = log_r(walked, walked.reference, paths)[0] + N * log_scales
    found, few = log_r(steps, reference, z)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    all_columns, many = log_r(steps, reference._replace(combination=None), z)
    np.testing.assert_allclose(all_columns, expected, atol=1e-4)
    assert 5 * few < many
    kept = combination.basis[:1]
    solver = np.linalg.pinv(kept[:, combination.measured])
    broken = combination._replace(basis=kept, solver=solver)
    assert abs(log_r(steps, reference._replace(combination=broken), z)[0] - expected).max() > 0.1


@pytest.mark.parametrize("counts", [False, True])
def test_many_columns_are_measured_only_if_few_give_the_others(counts, monkeypatch):
    """With counts the precisions are no combinations of a few matrices."""
    monkeypatch.setattr(nested, "MOST_COLUMNS", N - 1)
    fitted = Fitted(walk(centred=False, counts=counts))
    if counts:
        assert fitted.reference is None
        assert fitted.reason == "too many of the latent variables depend on each other"
    else:
        assert len(fitted.reference.combination.basis) == 2
