"""The reference: NumPy = numba = SciPy, exact draws, of one component or two."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

from pymc_bdmc.kernels.state import State
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.student import make_reference, mix_references, refer

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
PLACE, WIDTH = np.array([0.0, 1.0, -1.0]), np.full(3, 0.3)
MIXTURE = mix_references(
    [REFERENCE, make_reference(PLACE, Metric(WIDTH, np.zeros((0, 3)), np.zeros(0)), 7.0)]
)
OTHER = stats.multivariate_t(PLACE, np.diag(WIDTH**2), df=7)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        (REFERENCE, [EXACT]),
        (MIXTURE, [EXACT, OTHER]),
        (
            MIXTURE.with_degrees(4),
            [stats.multivariate_t(each.loc, each.shape, df=4) for each in (EXACT, OTHER)],
        ),
    ],
    ids=["one", "two", "other degrees of freedom"],
)
def test_it_is_a_normalised_mixture_of_t_distributions(reference, parts):
    thetas = reference.draw(50, np.random.default_rng(1))
    expected = np.mean([part.pdf(thetas) for part in parts], axis=0)
    np.testing.assert_allclose(np.exp(reference.log_density(thetas)), expected, rtol=1e-10)


@pytest.mark.parametrize(("n", "degrees"), [(1, 3), (7, 7), (50, 10)])
def test_tails_are_heavier_where_there_are_few_elements(n, degrees):
    shape = Metric(np.ones(n), np.zeros((0, n)), np.zeros(0))
    assert make_reference(np.zeros(n), shape).degrees_of_freedom == degrees
    assert make_reference(np.zeros(n), shape, 4.5).degrees_of_freedom == 4.5


def test_draws_of_a_mixture():
    """E_r[q/r] = 1 for the density q of either component, within 4 errors; α = 6e-5 each."""
    thetas = MIXTURE.draw(20_000, np.random.default_rng(2))
    for own, other in [(EXACT, OTHER), (OTHER, EXACT)]:
        weights = np.exp(own.logpdf(thetas) - MIXTURE.log_density(thetas))
        assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(len(weights))
        # Broken twin: draws of one component are taken for those of both
        part = weights[own.logpdf(thetas) > other.logpdf(thetas)]
        assert abs(part.mean() - 1) > 4 * part.std() / np.sqrt(len(part))


def test_draws():
    """Squared distances follow F, and projections t, at α = 1e-4; the twin forgets the excess."""
    thetas = REFERENCE.draw(20_000, np.random.default_rng(2))

    def p_values(shape):
        apart = thetas - LOCATION
        squares = np.einsum("ni,ij,nj->n", apart, np.linalg.inv(shape), apart)
        along = apart @ [1.0, 0.5, -1.0] / np.sqrt([1.0, 0.5, -1.0] @ shape @ [1.0, 0.5, -1.0])
        return stats.kstest(squares / 3, stats.f(3, 7).cdf).pvalue, stats.kstest(
            along, stats.t(7).cdf
        ).pvalue

    assert min(p_values(SHAPE)) > 1e-4
    assert max(p_values(SCALE @ SCALE)) < 1e-4


@pytest.mark.parametrize("reference", [REFERENCE, MIXTURE], ids=["one", "two"])
def test_terms_of_a_state_in_the_place_of_prior_and_likelihood(reference):
    """log r and g, and their gradients by finite differences, where both components matter."""
    theta = np.array([0.1, 0.4, -0.6])
    gradients = np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, -3.0])
    state = State(theta, np.array([-1.5, -2.5]), *(each.copy() for each in gradients))
    refer(reference, state)
    log_r = reference.log_density(theta[None])[0]
    np.testing.assert_allclose(state.terms, [log_r, -4.0 - log_r], rtol=1e-12)
    slope = approx_fprime(theta, lambda t: reference.log_density(t[None])[0], 1e-7)
    np.testing.assert_allclose(state.log_prior_gradient, slope, rtol=1e-5)
    total = state.log_prior_gradient + state.log_likelihood_gradient
    np.testing.assert_allclose(total, gradients[0] + gradients[1], rtol=1e-12)
