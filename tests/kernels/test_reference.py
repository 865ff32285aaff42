"""The reference: NumPy = numba = SciPy, exact draws, and a fit that finds a normal posterior."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

from pymc_bdmc.kernels.metric import Metric
from pymc_bdmc.kernels.reference import (
    draw_reference,
    fit_reference,
    log_reference,
    make_reference,
    refer,
)
from pymc_bdmc.kernels.state import State

LOCATION = np.array([1.0, -2.0, 0.5])
METRIC = Metric(
    np.array([0.5, 2.0, 1.0]),
    np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]),
    np.array([3.0, -0.6]),
)
REFERENCE = make_reference(LOCATION, METRIC, 7.0)
SCALE = np.diag(METRIC.scale)
SHAPE = SCALE @ (np.eye(3) + METRIC.directions.T * METRIC.excess @ METRIC.directions) @ SCALE
EXACT = stats.multivariate_t(LOCATION, SHAPE, df=7)


def test_it_is_a_normalised_t_distribution():
    thetas = draw_reference(REFERENCE, 50, np.random.default_rng(1))
    np.testing.assert_allclose(log_reference(REFERENCE, thetas), EXACT.logpdf(thetas), rtol=1e-12)


def test_draws():
    """Squared distances follow F, and projections t, at α = 1e-4; the twin forgets the excess."""
    thetas = draw_reference(REFERENCE, 20_000, np.random.default_rng(2))

    def p_values(shape):
        apart = thetas - LOCATION
        squares = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(shape), apart)
        along = apart @ [1.0, 0.5, -1.0] / np.sqrt([1.0, 0.5, -1.0] @ shape @ [1.0, 0.5, -1.0])
        return stats.kstest(squares / 3, stats.f(3, 7).cdf).pvalue, stats.kstest(
            along, stats.t(7).cdf
        ).pvalue

    assert min(p_values(SHAPE)) > 1e-4
    assert max(p_values(SCALE @ SCALE)) < 1e-4


def test_terms_of_a_state_in_the_place_of_prior_and_likelihood():
    """log r and g, and their gradients by finite differences."""
    theta = np.array([0.3, 0.4, -1.0])
    gradients = np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, -3.0])
    state = State(theta, np.array([-1.5, -2.5]), *(each.copy() for each in gradients))
    refer(REFERENCE, state)
    log_r = log_reference(REFERENCE, theta[None])[0]
    np.testing.assert_allclose(state.terms, [log_r, -4.0 - log_r], rtol=1e-12)
    slope = approx_fprime(theta, lambda t: log_reference(REFERENCE, t[None])[0], 1e-7)
    np.testing.assert_allclose(state.log_prior_gradient, slope, rtol=1e-5)
    total = state.log_prior_gradient + state.log_likelihood_gradient
    np.testing.assert_allclose(total, gradients[0] + gradients[1], rtol=1e-12)


@pytest.mark.parametrize("n", [20, 2000])
def test_a_normal_posterior_is_found(n):
    """As soon as the samples span the space: from their gradients the shape is exact."""
    thetas = np.random.default_rng(3).multivariate_normal(LOCATION, SHAPE, size=n)
    fit = fit_reference(thetas, (LOCATION - thetas) @ np.linalg.inv(SHAPE))
    found = np.diag(fit.metric.scale) @ (
        np.eye(3) + fit.metric.directions.T * fit.metric.excess @ fit.metric.directions
    )
    found = found @ np.diag(fit.metric.scale)
    whitened = np.linalg.solve(np.linalg.cholesky(SHAPE), fit.location - LOCATION)
    assert np.linalg.norm(whitened) < 4 / np.sqrt(n)
    assert np.abs(np.log(np.linalg.eigvals(np.linalg.solve(SHAPE, found)).real)).max() < 0.5
