"""Conjugate systems: evidence by quadrature, both directions, exact posterior draws."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import ndtr
from scipy.stats import kstest

from pymc_bdmc.estimators import bar, jarzynski_reverse
from pymc_bdmc.testsystems import ConjugateRegression, UnidentifiedBinomial

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 for each of at most eight comparisons

REGRESSION = ConjugateRegression.random(2, 5, np.random.default_rng(1))
BINOMIAL = UnidentifiedBinomial(20, 12)
SYSTEMS = pytest.mark.parametrize("system", [REGRESSION, BINOMIAL], ids=["regression", "binomial"])


@SYSTEMS
def test_log_evidence(system):
    def joint(a, b):
        log_prior = -(a**2 + b**2) / 2 - np.log(2 * np.pi)
        return np.exp(log_prior + system.log_likelihood(np.array([[a], [b]]))[0])

    integral = dblquad(joint, -8, 8, -8, 8, epsabs=1e-14, epsrel=1e-7)[0]
    assert np.log(integral) == pytest.approx(system.log_z, abs=1e-5)


@SYSTEMS
def test_both_directions_estimate_log_z(system):
    rng = np.random.default_rng(2)
    forward, reverse = system.forward(4000, rng), system.reverse(4000, rng)
    estimate = bar(forward, reverse)
    assert abs(estimate.value - system.log_z) < Z_ALPHA * estimate.error
    average = jarzynski_reverse(reverse)
    assert abs(average.value - system.log_z) < Z_ALPHA * average.error
    # Broken twin: reverse chains that start from the prior
    broken = bar(forward, system.forward(4000, rng))
    assert abs(broken.value - system.log_z) > Z_ALPHA * estimate.error


def test_posterior_draws_of_the_binomial_are_exact():
    """The product against its density −log r · Beta; Kolmogorov-Smirnov at α = 1e-3."""
    draws = BINOMIAL.draw_posterior(20_000, np.random.default_rng(3))
    r = np.prod(ndtr(draws), axis=0)
    grid = np.linspace(0, 1, 20_001)[1:-1]
    density = -np.log(grid) * grid**12 * (1 - grid) ** 8
    distribution = np.cumsum(density) / density.sum()

    def cdf(x):
        return np.interp(x, grid, distribution)

    assert kstest(r, cdf).pvalue > 1e-3
    # Broken twin: the posterior of a uniform product
    uniform = np.random.default_rng(4).beta(13, 9, size=20_000)
    assert kstest(uniform, cdf).pvalue < 1e-3
    # Given the product, either factor is as likely to be the larger one.
    assert abs(np.mean(draws[0] > draws[1]) - 0.5) < Z_ALPHA * 0.5 / np.sqrt(20_000)
