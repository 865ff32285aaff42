"""What the tests of the lattice models share: exact distributions and plain chi-square tests."""

import importlib.util
from pathlib import Path

import numpy as np
from scipy import stats

from pymc_bdmc.lattice import density_of_states

ALPHA = 1e-3


def benchmark():
    """The module benchmarks/lattice.py, which has the plain scalar loops."""
    path = Path(__file__).parents[3] / "benchmarks" / "lattice.py"
    spec = importlib.util.spec_from_file_location("benchmark_lattice", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chi_square_fits(counts, probabilities):
    """Whether counts are a sample from the probabilities, at level ALPHA; rare cells are joined."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities) * np.sum(counts)
    if counts[expected == 0].any():
        return False
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    n_rare = np.searchsorted(np.cumsum(expected), 10) + 1
    counts, expected = (np.r_[x[:n_rare].sum(), x[n_rare:]] for x in (counts, expected))
    statistic = np.sum((counts - expected) ** 2 / expected)
    return bool(stats.chi2.sf(statistic, len(counts) - 1) > ALPHA)


def same_distribution(first, second):
    """Whether two samples of whole numbers share a distribution, at level ALPHA."""
    n = max(first.max(), second.max()) + 1
    table = np.array([np.bincount(x, minlength=n) for x in (first, second)])
    common = table.sum(axis=0) >= 20
    table = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    table = table[:, table.sum(axis=0) > 0]
    return bool(stats.chi2_contingency(table).pvalue > ALPHA)


def bond_distribution(system, beta=1.0):
    """Probabilities of the numbers of satisfied bonds at β, by enumeration."""
    density = density_of_states(system.L, system.n_colours)
    weights = density * np.exp(beta * system.bond_strength * np.arange(len(density)))
    return weights / weights.sum()
