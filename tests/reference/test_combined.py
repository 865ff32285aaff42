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


def walk():
    """Steps of a random walk in units of their unknown scale, fitted to noisy data."""
    with pm.Model() as model:
        path = pm.HalfNormal("scale", 1) * pm.Normal("steps", 0, 1, shape=N).cumsum()
        pm.Normal("y", path, NOISE, observed=np.sin(np.arange(N) / 4))
    return Fitted(model)


def test_a_cumulative_sum_has_the_density_of_all_columns_by_few_gradients(monkeypatch):
    """Twins: all columns are measured, which takes more gradients; and one matrix is left out."""
    steps = walk()
    own, combination = steps.reference, steps.reference.combination
    assert len(combination.basis) == 2

    rng, thetas = np.random.default_rng(2), np.empty((5, 1 + N))
    thetas[:, own.others] = rng.normal(-1, 0.5, size=(5, 1))
    thetas[:, own.latent] = rng.normal(size=(5, N))

    def log_r(**changed):
        before = steps.density.evaluations
        found = own._replace(**changed).log_density(thetas, steps.density)
        return found, steps.density.evaluations - before

    found, few = log_r()
    all_columns, many = log_r(combination=None)
    np.testing.assert_allclose(found, all_columns, atol=1e-4)
    assert 5 * few < many
    kept = combination.basis[:1]
    solver = np.linalg.pinv(kept[:, combination.measured])
    broken = combination._replace(basis=kept, solver=solver)
    assert abs(log_r(combination=broken)[0] - all_columns).max() > 0.1

    monkeypatch.setattr(nested, "MOST_COLUMNS", N - 1)
    assert steps.again(1).reference is None
    assert steps.reason == "too many of the latent variables depend on each other"
