"""The corrected `CAR` has the density and the draws of a normal distribution."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import sparse, stats
from scipy.integrate import quad

import pymc_bdmc as bdmc
from pymc_bdmc.base import corrected as module
from pymc_bdmc.base.upstream import log_density_of
from pymc_bdmc.model.forward_graph import INTERPRETED
from pymc_bdmc.model.tempered import TemperedDensity
from tests.models import SIGMAS

# PyMC's, if fields with sparse weights have a shape of several rows.
pytestmark = pytest.mark.filterwarnings("ignore:Method .* not implemented for sparse:UserWarning")

W = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
MU = np.array([0.3, -1.0, 0.0, 2.0, 0.5])
COV = np.linalg.inv(2 * (np.diag(W.sum(axis=0)) - 0.7 * W))
ROW = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
Y = np.array([0.5, 1.1, 0.3, -0.4, 0.2, 0.9])


def corrected(weights, **kwargs):
    dist = pm.CAR.dist(mu=MU, W=weights, alpha=0.7, tau=2.0, **kwargs)
    dist.owner.op = car.CorrectedCAR()
    return dist


@pytest.mark.parametrize("as_weights", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("shape", [(5,), (3, 5)])
def test_the_density_is_that_of_the_normal_distribution(as_weights, shape):
    values = np.linspace(-1, 2, np.prod(shape)).reshape(shape)
    log_p = pm.logp(corrected(as_weights(W * 1.0), shape=shape), values).eval(mode=INTERPRETED)
    np.testing.assert_allclose(np.squeeze(log_p), stats.multivariate_normal(MU, COV).logpdf(values))


def squares(dist):
    """Sum of squares of 2000 draws in coordinates in which COV is the unit matrix."""
    draws = pm.draw(dist, 2000, random_seed=1, mode=INTERPRETED) - MU
    return np.einsum("ij,ji->", draws, np.linalg.solve(COV, draws.T))


def in_law(total):
    """Return whether the sum of squares may be a draw of chi squared (α = 1e-3)."""
    return 5e-4 < stats.chi2(5 * 2000).cdf(total) < 1 - 5e-4


@pytest.mark.parametrize("as_weights", [np.asarray, sparse.csr_matrix])
def test_draws_have_the_covariance_of_the_density(as_weights):
    assert in_law(squares(corrected(as_weights(W * 1.0))))
    draws = pm.draw(corrected(as_weights(W * 1.0)), 2000, random_seed=2, mode=INTERPRETED)
    # Each element of the covariance matrix, 4.5 of its errors; α < 1e-3 over all.
    errors = np.sqrt((np.outer(np.diag(COV), np.diag(COV)) + COV**2) / 2000)
    assert (np.abs(np.cov(draws.T) - COV) < 4.5 * errors).all()


def test_draws_of_another_precision_are_found():
    """The broken twin."""
    assert not in_law(squares(pm.MvNormal.dist(MU, cov=1.1 * COV)))


@pytest.fixture
def repaired():
    """A version of PyMC whose log density is normalised."""
    before = log_density_of.dispatch(pm.CAR.rv_type)

    @log_density_of.register(pm.CAR.rv_type)
    def normalised(op, values, *inputs, **kwargs):
        neighbours = inputs[3].sum(axis=-2)
        return before(op, values, *inputs) + 0.5 * pt.log(neighbours / (2 * np.pi)).sum()

    car.constant_is_missing.cache_clear()
    yield
    log_density_of.register(pm.CAR.rv_type, before)
    car.constant_is_missing.cache_clear()


@pytest.mark.skipif(not car.constant_is_missing(), reason="this version of PyMC is repaired")
def test_the_constant_is_added_as_long_as_pymc_leaves_it_out(repaired):
    assert not car.constant_is_missing()
    log_p = pm.logp(corrected(W * 1.0), Y[:5]).eval(mode=INTERPRETED)
    assert log_p == pytest.approx(stats.multivariate_normal(MU, COV).logpdf(Y[:5]))


def precision(alpha):
    return 2 * (np.diag(ROW.sum(axis=0)) - alpha * ROW)


def exact(noise):
    """Log ML of Y by quadrature over α ~ Uniform(0, 1)."""

    def density(alpha):
        cov = np.linalg.inv(precision(alpha)) + noise**2 * np.eye(6)
        return stats.multivariate_normal(np.zeros(6), cov).pdf(Y)

    return np.log(quad(density, 0, 1)[0])


@pytest.mark.parametrize("is_latent", [False, True])
def test_log_ml_of_observed_and_latent_fields(is_latent):
    """Log ML is within 4 standard errors of the truth (α = 6e-5). The twin has PyMC's constant."""
    with pm.Model() as model:
        alpha = pm.Uniform("alpha", 0, 1)
        observed = {} if is_latent else {"observed": Y}
        field = pm.CAR("field", np.zeros(6), sparse.csr_matrix(ROW), alpha, 2.0, **observed)
        if is_latent:
            pm.Normal("y", field, 0.5, observed=Y)
    dt = pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    found, missing = bdmc.log_ml(dt), 0.5 * np.log(ROW.sum(axis=0) / (2 * np.pi)).sum()
    assert found.valid
    right = exact(0.5 if is_latent else 0.0)
    assert abs(found.value - right) < SIGMAS * found.error
    assert abs(found.value - missing - right) > SIGMAS * found.error


def test_data_are_simulated_from_the_density():
    """Simulated fields have the variance of the density: chi squared, α = 1e-3."""
    with pm.Model() as model:
        pm.CAR("y", np.zeros(6) + pm.Normal("mu"), ROW, 0.5, 2.0, observed=Y)
    sampler = TemperedDensity(model).joint()
    sampler.seed(np.random.default_rng(1))
    pairs = [sampler.draw() for _ in range(300)]
    fields = np.array([data["y"] - point["mu"] for point, data in pairs])
    total = np.einsum("ij,jk,ik->", fields, precision(0.5), fields)
    assert 5e-4 < stats.chi2(6 * 300).cdf(total) < 1 - 5e-4
