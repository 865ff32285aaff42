"""Normal draws: bulk, layers' edges and tail, each at α = 1e-3."""

import numba
import numpy as np
from scipy import stats

from pymc_bdmc.reference.metric import standard_normal

ALPHA = 1e-3


@numba.njit
def draws(rng, n):
    return np.array([standard_normal(rng) for _ in range(n)])


def test_distribution():
    """χ² over 1000 equally likely cells; twin: a scale of 1.015, seen but for 3e-8."""
    x = draws(np.random.default_rng(2), 1_000_000)

    def p_value(sample):
        counts = np.histogram(stats.norm.cdf(sample), bins=1000, range=(0, 1))[0]
        return stats.chisquare(counts).pvalue

    assert p_value(x) > ALPHA
    assert p_value(1.015 * x) < ALPHA
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 4 / np.sqrt(len(x))


def test_tail():
    """Beyond the ziggurat's edge, where one draw in 3900 falls; twin: a tail half too long."""
    x = np.abs(draws(np.random.default_rng(3), 4_000_000))
    edge = 3.6541528853610088
    tail = x[x > edge]
    assert stats.binomtest(len(tail), len(x), 2 * stats.norm.sf(edge)).pvalue > ALPHA
    uniform = stats.norm.sf(tail) / stats.norm.sf(edge)
    assert stats.kstest(uniform, "uniform").pvalue > ALPHA
    longer = edge + 1.5 * (tail - edge)
    twin = stats.norm.sf(longer) / stats.norm.sf(edge)
    assert stats.kstest(twin, "uniform").pvalue < ALPHA
