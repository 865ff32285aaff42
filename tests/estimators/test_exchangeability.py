"""Moves are reversible and the p-values hold for any tails and edges; wrong draws are found."""

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc.estimators.exchangeability import exchangeability, moved, symmetry_pvalues


def cauchy(x):
    return -np.log1p(x**2).sum(axis=1), -2 * x / (1 + x**2)


def uniform(x):
    return np.where(((x > 0) & (x < 1)).all(axis=1), 0.0, -np.inf), np.zeros_like(x)


def without_gradient(log_density):
    return lambda x: (log_density(x)[0], None)


CASES = [
    (cauchy, lambda rng, n: rng.standard_cauchy((n, 2))),
    (without_gradient(uniform), lambda rng, n: rng.random((n, 2))),
]


@pytest.mark.parametrize(("log_density", "draw"), CASES)
def test_false_alarms_are_as_rare_as_said(log_density, draw):
    """At most 5 % of 200 minimal p-values are below 0.05 (α = 1e-4). The twin draws too widely."""
    rng = np.random.default_rng(1)

    def alarms(widening):
        found = [
            exchangeability(widening * draw(rng, 640), log_density, {"x": slice(2)}, rng).values()
            for _ in range(200)
        ]
        assert all(0 <= p <= 1 for each in found for p in each)
        return sum(min(each) < 0.05 for each in found)

    most = stats.binom.isf(1e-4, 200, 0.05)
    assert alarms(1.0) <= most
    assert alarms(1.5) > most


def test_hoeffdings_bound_holds_where_it_can_be_counted():
    """No probability over all signs of six values is above its bound."""
    sizes = np.array([1.0, 2.0, 2.5, 3.0, 5.0, 1e200])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    pvalues = symmetry_pvalues(sizes[:, None] * signs)
    for bound in np.unique(pvalues):
        assert np.mean(pvalues <= bound) <= bound + 1e-12


def test_columns_of_no_group_stay():
    """Too few draws say nothing."""

    def log_density(x):
        return -0.5 * (x[:, 0] - x[:, 1]) ** 2, x[:, 1:] - x[:, :1]

    thetas = np.random.default_rng(3).normal(size=(50, 2))
    after, rise = moved(thetas, log_density, np.ones(1), np.random.default_rng(4))
    np.testing.assert_array_equal(after[:, 1], thetas[:, 1])
    change = log_density(after)[0] - log_density(thetas)[0]
    np.testing.assert_allclose(rise, change, atol=1e-12)
    assert exchangeability(np.zeros((10, 1)), cauchy, {"x": slice(1)}, None) == {}
