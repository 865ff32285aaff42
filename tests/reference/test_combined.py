"""Precisions that are combinations of a few matrices, and the gradients that this saves."""

import numpy as np
import pymc as pm
import pytest

from pymc_bdmc.fits import nested
from pymc_bdmc.reference.sparse import combination_of
from tests.reference.test_nested import Fitted

D, EXAMPLES = 12, 16
COLUMNS = np.tile(np.arange(D), D)
"""Column of every entry of a full matrix."""


def entries_of(rng, rank):
    """Examples of combinations of so many symmetric matrices, and further ones; shape (n, E)."""
    basis = rng.normal(size=(rank, D, D))
    basis = (basis + np.swapaxes(basis, 1, 2)).reshape(rank, -1)
    return (rng.normal(size=(EXAMPLES, rank)) @ basis for _ in range(2))


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


@pytest.mark.parametrize(
    ("rank", "entry", "saves"),
    [(EXAMPLES // 2, 0.0, True), (EXAMPLES // 2 + 1, 0.0, False), (2, np.nan, False)],
)
def test_matrices_of_full_rank_are_no_combinations(rank, entry, saves):
    """Half as many matrices as examples are the most: with more, examples might show too few."""
    examples, _ = entries_of(np.random.default_rng(1), rank)
    examples[3, 5] += entry
    assert (combination_of(examples, COLUMNS) is not None) == saves


N, NOISE = 30, 0.3


def walk(*, centred):
    """A random walk of an unknown scale, or its steps in units of that, fitted to noisy data."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        if centred:
            start = pm.Normal.dist(0, scale)
            path = pm.GaussianRandomWalk("walk", 0, scale, init_dist=start, shape=N)
        else:
            path = scale * pm.Normal("steps", 0, 1, shape=N).cumsum()
        pm.Normal("y", path, NOISE, observed=np.sin(np.arange(N) / 4))
    return Fitted(model)


def test_a_cumulative_sum_has_the_density_of_its_centred_twin_by_few_gradients(monkeypatch):
    """log r of the walk plus log |d walk / d steps| is log r of the steps.

    Twins: all columns are measured, which takes more gradients; and one matrix is left out. Many
    columns are measured only if few of them give the others.
    """
    steps, walked = walk(centred=False), walk(centred=True)
    reference, combination = steps.reference, steps.reference.combination
    assert walked.reference.combination is None
    assert len(combination.basis) == 2

    rng = np.random.default_rng(2)
    log_scales, z = rng.normal(-1, 0.5, size=5), rng.normal(size=(5, N))
    paths = np.exp(log_scales)[:, None] * np.cumsum(z, axis=1)

    def log_r(fitted, x, **changed):
        own, thetas = fitted.reference, np.empty((5, 1 + N))
        thetas[:, own.others], thetas[:, own.latent] = log_scales[:, None], x
        before, same_marginal = (
            fitted.density.evaluations,
            own._replace(marginal=reference.marginal, **changed),
        )
        found = same_marginal.log_density(thetas, fitted.density)
        return found, fitted.density.evaluations - before

    expected = log_r(walked, paths)[0] + N * log_scales
    found, few = log_r(steps, z)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    all_columns, many = log_r(steps, z, combination=None)
    np.testing.assert_allclose(all_columns, expected, atol=1e-4)
    assert 5 * few < many
    kept = combination.basis[:1]
    solver = np.linalg.pinv(kept[:, combination.measured])
    broken = combination._replace(basis=kept, solver=solver)
    assert abs(log_r(steps, z, combination=broken)[0] - expected).max() > 0.1

    monkeypatch.setattr(nested, "MOST_COLUMNS", N - 1)
    assert len(steps.again(1).reference.combination.basis) == 2
    monkeypatch.setattr(nested, "combination_of", lambda *_: None)
    assert steps.again(1).reference is None
    assert steps.reason == "too many of the latent variables depend on each other"
