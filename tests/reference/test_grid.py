"""Densities of one number by their heights at nodes."""

import numpy as np
import pytest
from scipy.stats import norm, t

from pymc_bdmc.reference import grid

SKEWED = np.where(grid.NODES < 0, -2.0, -0.2) * np.abs(grid.NODES)
TWO_MODES = np.logaddexp(norm.logpdf(grid.NODES), norm.logpdf(grid.NODES, 24, 2) - 1)


@pytest.mark.parametrize("heights", [grid.HEIGHTS_OF_T4, SKEWED, TWO_MODES, 0 * SKEWED])
def test_the_quantile_function_is_the_inverse_and_has_the_density_as_slope(heights):
    """Within cells, and in both tails beyond the nodes."""
    masses = np.empty(len(heights) + 1)
    grid.masses_of(heights, masses)
    u = np.concatenate([[1e-6], np.random.default_rng(1).uniform(size=200), [1 - 1e-6]])
    z, log_r = np.array([grid.quantile(each, heights, masses) for each in u]).T
    again = np.array([grid.cdf(each, heights, masses) for each in z])
    assert again[:, 0] == pytest.approx(u, rel=1e-6)
    assert again[:, 1] == pytest.approx(log_r, abs=1e-9)
    total = np.log(masses[-1])
    assert grid.log_density_at(z, heights) - total == pytest.approx(log_r, abs=1e-8)
    step = 1e-4 * np.minimum(u, 1 - u)
    shares = masses / masses[-1]
    is_within = np.searchsorted(shares, u - step) == np.searchsorted(shares, u + step)
    ends = [[grid.quantile(p, heights, masses)[0] for p in u + s * step] for s in (-1, 1)]
    slopes = np.diff(ends, axis=0)[0] / (2 * step)
    assert is_within.sum() > 195
    assert np.log(slopes[is_within]) == pytest.approx(-log_r[is_within], abs=1e-3)


def test_a_normal_density_is_within_its_chords_and_t4_within_its_own():
    heights = grid.with_tails(norm.logpdf(grid.NODES) + 3)
    z = np.linspace(-3.5, 3.5, 1000)
    mixed = np.logaddexp(np.log(0.9) + norm.logpdf(z), np.log(0.1) + grid.log_t4(z))
    assert grid.log_density_at(z, heights) == pytest.approx(mixed, abs=0.04)
    assert grid.log_integral(norm.logpdf(grid.NODES)) == pytest.approx(0, abs=2e-3)
    assert grid.log_t4(z) == pytest.approx(t.logpdf(z, 4, scale=grid.SCALE))
