"""Corrected families have the right density and draws; a family that is right is left alone."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import sparse, stats
from scipy.integrate import quad

import pymc_bdmc as bdmc
from pymc_bdmc.base.upstream import (
    LKJ,
    LKJ_CHOLESKY,
    LKJ_CORR,
    CorrectedCAR,
    CorrectedLKJCholeskyCov,
    CorrectedLKJCorr,
    correct,
    fault,
    is_wrong,
    laplacian_of,
    log_density_of,
)
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.density.tempered import TemperedDensity
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
    dist.owner.op = CorrectedCAR()
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

    is_wrong.cache_clear()
    yield
    log_density_of.register(pm.CAR.rv_type, before)
    is_wrong.cache_clear()


@pytest.mark.skipif(not is_wrong(pm.CAR.rv_type), reason="this version of PyMC is repaired")
def test_the_constant_is_added_as_long_as_pymc_leaves_it_out(repaired):
    assert not is_wrong(pm.CAR.rv_type)
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


def icar(sigma=1.7, zero_sum_stdev=0.001, **kwargs):
    dist = pm.ICAR.dist(W, sigma, zero_sum_stdev, **kwargs)
    correct(dist)
    return dist


def icar_covariance(weights, sigma, zero_sum_stdev=0.001):
    total = (zero_sum_stdev * len(weights)) ** 2
    return np.linalg.inv(laplacian_of(weights) / sigma**2 + 1 / total)


@pytest.mark.parametrize("sigma", [1.0, 1.7])
@pytest.mark.parametrize("zero_sum_stdev", [0.001, 0.3])
def test_the_density_of_an_intrinsic_field_has_the_determinant(sigma, zero_sum_stdev):
    """The normal density by its precision matrix, at a field of sum 0 and at one of any sum."""
    precision = laplacian_of(W) / sigma**2 + 1 / (5 * zero_sum_stdev) ** 2
    fields = np.array([MU - MU.mean(), 0.01 * MU])
    found = pm.logp(icar(sigma, zero_sum_stdev, shape=(2, 5)), fields).eval(mode=INTERPRETED)
    half = 0.5 * np.einsum("ij,jk,ik->i", fields, precision, fields)
    right = 0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1] - half
    np.testing.assert_allclose(found, right, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sigma", [1.7, np.array([1.7, 3.4])])
def test_draws_of_an_intrinsic_field_have_its_covariance(sigma):
    """Each element of the covariance matrix, 4.5 of its errors; α < 1e-3 over all."""
    draws = pm.draw(icar(sigma, 0.3), 4000, random_seed=1, mode=INTERPRETED).reshape(4000, -1, 5)
    for i in range(draws.shape[1]):
        cov = icar_covariance(W, 1.7 * (i + 1), 0.3)
        errors = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 4000)
        assert (np.abs(np.cov(draws[:, i].T) - cov) < 4.5 * errors).all()
        assert not (np.abs(1.2 * np.cov(draws[:, i].T) - cov) < 4.5 * errors).all()  # the twin


RING = (ROW + np.eye(6)[::-1] * (np.arange(6) % 5 == 0)).astype(int)


def right_of_field(sigma):
    """Density of Y, an intrinsic field with noise of standard deviation 1/2."""
    cov = icar_covariance(RING, sigma) + 0.25 * np.eye(6)
    return stats.multivariate_normal(np.zeros(6), cov).pdf(Y)


def test_an_intrinsic_field_has_log_ml_and_a_verdict_by_default(caplog):
    """Log ML is within 4 standard errors of the truth (α = 6e-5). The twin has PyMC's constant."""
    with pm.Model() as model:
        pm.Normal("y", pm.ICAR("field", RING), 0.5, observed=Y)
    with caplog.at_level("INFO", "pymc.bdmc"):
        dt = pm.sample_bdmc(model, random_seed=1, cores=1, progressbar=False)
    assert "field: PyMC's log density lacks its constant" in caplog.text
    found, right = bdmc.log_ml(dt), np.log(right_of_field(1.0))
    missing = 0.5 * np.linalg.slogdet(laplacian_of(RING) + 1)[1] - 2.5 * np.log(2 * np.pi)
    assert found.valid
    assert abs(found.value - right) < SIGMAS * found.error
    assert abs(found.value - missing - right) > SIGMAS * found.error
    assert bdmc.verdict(dt).status == "good"


def test_log_ml_if_the_scale_of_an_intrinsic_field_is_unknown():
    """The same, by quadrature over the scale. The twin lacks −(N − 1) log σ."""
    with pm.Model() as model:
        field = pm.ICAR("field", RING, sigma=pm.HalfNormal("sigma"))
        pm.Normal("y", field, 0.5, observed=Y)
    found = bdmc.log_ml(
        pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    )
    weigh = stats.halfnorm.pdf
    right = np.log(quad(lambda s: weigh(s) * right_of_field(s), 1e-3, 10)[0])
    wrong = np.log(quad(lambda s: s**5 * weigh(s) * right_of_field(s), 1e-3, 10)[0])
    assert found.valid
    assert abs(found.value - right) < SIGMAS * found.error
    assert abs(found.value - wrong) > SIGMAS * found.error


def lkj(n, eta):
    return pm.LKJCorr.dist(n=n, eta=eta)


def lkj_cholesky(n, eta):
    sd = pm.Exponential.dist(1)
    return pm.LKJCholeskyCov.dist(n=n, eta=eta, sd_dist=sd, compute_corr=False)


CORRECTED = {
    LKJ_CORR: (lkj, CorrectedLKJCorr),
    LKJ_CHOLESKY: (lkj_cholesky, CorrectedLKJCholeskyCov),
}


@pytest.mark.parametrize("kind", LKJ)
@pytest.mark.skipif(is_wrong(LKJ_CORR), reason="this version of PyMC has no right density")
def test_where_pymc_is_right_ours_agrees(kind):
    make, corrected = CORRECTED[kind]
    for n, eta in ((2, 1.0), (3, 1.0), (4, 2.5)):
        dist, other = make(n, eta), make(n, eta)
        other.owner.op = corrected.like(other.owner)
        (value,) = pm.draw([other], random_seed=n, mode=INTERPRETED)
        found, right = (pm.logp(each, value).eval(mode=INTERPRETED) for each in (other, dist))
        assert found == pytest.approx(right, abs=1e-9)


@pytest.mark.skipif(is_wrong(LKJ_CORR), reason="this version of PyMC has no right density")
def test_where_pymc_is_right_it_is_left_alone():
    dist = lkj(3, 1.0)
    correct(dist)
    assert not isinstance(dist.owner.op, CorrectedLKJCorr)
    assert not fault(dist.owner.op)


def test_standard_deviations_far_apart_have_a_density():
    """PyMC subtracts squares of the first from sums of both, the twin."""
    dist, value = lkj_cholesky(2, 1.0), np.array([1e5, -6e-4, 8e-4])
    assert not np.isfinite(pm.logp(dist, value).eval(mode=INTERPRETED))
    correct(dist)
    right = -1e5 - 1e-3 - np.log(2) + np.log(0.8) - np.log(1e-3)
    assert pm.logp(dist, value).eval(mode=INTERPRETED) == pytest.approx(right, abs=1e-6)


@pytest.fixture
def wrong_sign():
    """A version of PyMC that adds the constants of LKJ priors, as 6.3 does."""
    before = {kind: log_density_of.dispatch(kind) for kind in LKJ}
    for kind, log_density in before.items():
        log_density_of.register(kind, lambda *args, f=log_density, **kws: f(*args, **kws) + 1.5)
    is_wrong.cache_clear()
    yield
    for kind, log_density in before.items():
        log_density_of.register(kind, log_density)
    is_wrong.cache_clear()


@pytest.mark.parametrize("kind", LKJ)
def test_a_wrong_constant_is_found_and_corrected(kind, wrong_sign):
    make, corrected = CORRECTED[kind]
    dist = make(2, 1.0)
    assert is_wrong(kind)
    assert "wrong constant" in fault(dist.owner.op)
    correct(dist)
    assert isinstance(dist.owner.op, corrected)
    # A correlation ~ Uniform(−1, 1) at 0, and standard deviations ~ Exponential(1) at 1.
    at, right = (np.eye(2), -np.log(2)) if kind is LKJ_CORR else ([1.0, 0, 1], -np.log(2) - 2)
    assert pm.logp(dist, np.array(at)).eval(mode=INTERPRETED) == pytest.approx(right)


@pytest.mark.parametrize("kind", LKJ)
def test_corrected_draws_have_the_law_of_correlations(kind, wrong_sign):
    """(1 + r)/2 ~ Beta(b, b) with b = η − 1 + n/2, for each pair; α = 1e-3 over all."""
    n, eta = 4, 1.5
    dist = CORRECTED[kind][0](n, eta)
    correct(dist)
    draws = pm.draw(dist, 2000, random_seed=1, mode=INTERPRETED)
    if kind is LKJ_CHOLESKY:
        packed, draws = draws, np.zeros((2000, n, n))
        draws[:, *np.tril_indices(n)] = packed
        draws /= np.linalg.norm(draws, axis=-1, keepdims=True)
    correlations = (draws @ draws.transpose(0, 2, 1))[:, *np.triu_indices(n, 1)]

    def are_of_law(b):
        law = stats.beta(b, b).cdf
        pvalues = [stats.kstest((1 + each) / 2, law).pvalue for each in correlations.T]
        return min(pvalues) > 1e-3 / len(pvalues)

    assert are_of_law(eta - 1 + n / 2)
    assert not are_of_law(eta - 0.5 + n / 2)  # the twin


def test_log_ml_with_an_lkj_prior():
    """Log ML by quadrature and importance sampling is −6.816 ± 0.002; α = 6e-5.

    The twin has the constant of PyMC 6.3, whose density integrates to 4.
    """
    with pm.Model() as model:
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=1, sd_dist=pm.Exponential.dist(1))
        y = [[0.3, -0.2], [1.0, 0.7], [-0.4, 0.1]]
        pm.MvNormal("y", np.zeros(2), chol=chol, observed=y)
    found = bdmc.log_ml(
        pm.sample_bdmc(model, simulate=None, random_seed=1, cores=1, progressbar=False)
    )
    assert found.valid
    assert abs(found.value + 6.816) < SIGMAS * np.hypot(found.error, 0.002)
    assert abs(found.value - np.log(4) + 6.816) > SIGMAS * np.hypot(found.error, 0.002)
