"""What the tests of the lattice models share: exact distributions and plain chi-square tests."""

import numpy as np
from scipy import stats

from pymc_bdmc.lattice import density_of_states

ALPHA = 1e-3


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


def bond_distribution(system, beta=1.0):
    """Probabilities of the numbers of satisfied bonds at β, by enumeration."""
    density = density_of_states(system.L, system.n_colours)
    weights = density * np.exp(beta * system.bond_strength * np.arange(len(density)))
    return weights / weights.sum()
