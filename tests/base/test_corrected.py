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
from tests.density.short import QUICK
from tests.models import SIGMAS

# PyMC's, if fields with sparse weights have a shape of several rows.
pytestmark = pytest.mark.filterwarnings("ignore:Method .* not implemented for sparse:UserWarning")

W = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
MU = np.array([0.3, -1.0, 0.0, 2.0, 0.5])
COV = np.linalg.inv(2 * (np.diag(W.sum(axis=0)) - 0.7 * W))
RING = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
Y = np.array([0.5, 1.1, 0.3, -0.4, 0.2, 0.9])


def car(weights, **kwargs):
    dist = pm.CAR.dist(mu=MU, W=weights, alpha=0.7, tau=2.0, **kwargs)
    dist.owner.op = CorrectedCAR()
    return dist


def icar(sigma, zero_sum_stdev, **kwargs):
    dist = pm.ICAR.dist(W, sigma, zero_sum_stdev, **kwargs)
    correct(dist)
    return dist


def icar_covariance(weights, sigma, zero_sum_stdev=0.001):
    total = (zero_sum_stdev * len(weights)) ** 2
    return np.linalg.inv(laplacian_of(weights) / sigma**2 + 1 / total)


FIELDS = {
    "dense": (lambda **shape: car(W * 1.0, **shape), MU, COV),
    "sparse": (lambda **shape: car(sparse.csr_matrix(W * 1.0), **shape), MU, COV),
    "intrinsic": (lambda **shape: icar(1.7, 0.3, **shape), 0, icar_covariance(W, 1.7, 0.3)),
}


@pytest.mark.parametrize("field", FIELDS)
def test_the_density_is_that_of_the_normal_distribution(field):
    make, mean, cov = FIELDS[field]
    law = stats.multivariate_normal(np.zeros(5) + mean, cov)
    for shape in ((5,), (3, 5)):
        values = np.linspace(-1, 2, np.prod(shape)).reshape(shape)
        log_p = pm.logp(make(shape=shape), values).eval(mode=INTERPRETED)
        np.testing.assert_allclose(np.squeeze(log_p), law.logpdf(values), rtol=1e-9)


@pytest.mark.parametrize("field", FIELDS)
def test_draws_have_the_covariance_of_the_density(field):
    """Each element of the covariance matrix, 4.5 of its errors; α < 1e-3 over all."""
    make, mean, cov = FIELDS[field]
    draws = pm.draw(make(), 1000, random_seed=1, mode=INTERPRETED)
    assert (np.abs((draws - mean).mean(axis=0)) < 4.5 * np.sqrt(np.diag(cov) / 1000)).all()
    errors = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 1000)
    assert (np.abs(np.cov(draws.T) - cov) < 4.5 * errors).all()
    assert not (np.abs(1.5 * np.cov(draws.T) - cov) < 4.5 * errors).all()  # the twin


def test_draws_of_an_intrinsic_field_with_several_scales():
    """Variances of ten elements, α < 1e-4 over all. Twin: the scales change places."""
    draws = pm.draw(icar(np.array([1.7, 3.4]), 0.3), 500, random_seed=1, mode=INTERPRETED)
    variances = [np.diag(icar_covariance(W, sigma, 0.3)) for sigma in (1.7, 3.4)]
    for expected, is_right in ((variances, True), (variances[::-1], False)):
        apart = np.abs(draws.var(axis=0) / expected - 1).max()
        assert (apart < 4.5 * np.sqrt(2 / 500)) == is_right


@pytest.fixture
def other_pymc():
    """A version of PyMC in which some families have other log densities."""
    before = {}

    def register(kind, log_density):
        before[kind] = log_density_of.dispatch(kind)
        log_density_of.register(kind, log_density)
        is_wrong.cache_clear()

    yield register
    for kind, log_density in before.items():
        log_density_of.register(kind, log_density)
    is_wrong.cache_clear()


@pytest.mark.skipif("not is_wrong(pm.CAR.rv_type)", reason="this version of PyMC is repaired")
def test_the_constant_is_added_as_long_as_pymc_leaves_it_out(other_pymc):
    before = log_density_of.dispatch(pm.CAR.rv_type)

    def normalised(op, values, *inputs, **kwargs):
        neighbours = inputs[3].sum(axis=-2)
        return before(op, values, *inputs) + 0.5 * pt.log(neighbours / (2 * np.pi)).sum()

    other_pymc(pm.CAR.rv_type, normalised)
    assert not is_wrong(pm.CAR.rv_type)
    log_p = pm.logp(car(W * 1.0), Y[:5]).eval(mode=INTERPRETED)
    assert log_p == pytest.approx(stats.multivariate_normal(MU, COV).logpdf(Y[:5]))


def two_fields():
    """Fields with sparse weights and with an unknown scale, and noise."""
    with pm.Model() as model:
        field = pm.CAR("field", np.zeros(6), sparse.csr_matrix(RING), 0.5, 2.0)
        other = pm.ICAR("other", RING.astype(int), sigma=pm.HalfNormal("sigma"))
        pm.Normal("y", field + other, 0.5, observed=Y)
    return model


def test_fields_of_a_model_are_corrected():
    model = two_fields()
    for name in ("field", "other"):
        assert "lacks its constant" in fault(model[name].owner.op)
    density = TemperedDensity(model, QUICK)
    found = dict(density.factors({"field": Y, "other": Y, "sigma_log__": np.log(1.5)}))
    covariances = {
        "field": np.linalg.inv(2 * (2 * np.eye(6) - 0.5 * RING)),
        "other": icar_covariance(RING, 1.5),
    }
    for name, covariance in covariances.items():
        law = stats.multivariate_normal(np.zeros(6), covariance)
        assert found[name] == pytest.approx(law.logpdf(Y)), name


@pytest.mark.slow  # for the compilation of all that a call needs
def test_log_ml_with_fields(caplog):
    """Log ML of two fields and noise is within 4 standard errors of the truth (α = 6e-5).

    By quadrature over the scale of one. The twins lack the constant of either, as PyMC does.
    """
    with caplog.at_level("INFO", "pymc.bdmc"):
        dt = pm.sample_bdmc(two_fields(), random_seed=1, cores=1, progressbar=False)
    assert "other: PyMC's log density lacks its constant" in caplog.text
    rest = np.linalg.inv(2 * (2 * np.eye(6) - 0.5 * RING)) + 0.25 * np.eye(6)

    def log_ml(power):
        def density(sigma):
            law = stats.multivariate_normal(np.zeros(6), icar_covariance(RING, sigma) + rest)
            return sigma**power * stats.halfnorm.pdf(sigma) * law.pdf(Y)

        return np.log(quad(density, 1e-3, 10)[0])

    found, right = bdmc.log_ml(dt), log_ml(0)
    assert abs(found.value - right) < SIGMAS * found.error
    assert abs(found.value - log_ml(5)) > SIGMAS * found.error
    assert abs(found.value + 3 * np.log(np.pi) - right) > SIGMAS * found.error


def test_an_observed_field_is_corrected_and_simulated():
    """Simulated fields have the variance of the density: chi squared, α = 1e-3."""
    with pm.Model() as model:
        pm.CAR("y", np.zeros(6) + pm.Normal("mu"), RING, 0.5, 2.0, observed=Y)
    density, precision = TemperedDensity(model), 2 * (2 * np.eye(6) - 0.5 * RING)
    law = stats.multivariate_normal(np.full(6, 0.3), np.linalg.inv(precision))
    assert dict(density.factors({"mu": np.array(0.3)}))["y"] == pytest.approx(law.logpdf(Y))
    sampler = density.joint()
    sampler.seed(np.random.default_rng(1))
    pairs = [sampler.draw() for _ in range(300)]
    fields = np.array([data["y"] - point["mu"] for point, data in pairs])
    total = np.einsum("ij,jk,ik->", fields, precision, fields)
    assert 5e-4 < stats.chi2(6 * 300).cdf(total) < 1 - 5e-4
    assert not 5e-4 < stats.chi2(6 * 300).cdf(1.2 * total) < 1 - 5e-4  # the twin


def lkj(n, eta):
    return pm.LKJCorr.dist(n=n, eta=eta)


def lkj_cholesky(n, eta):
    sd = pm.Exponential.dist(1)
    return pm.LKJCholeskyCov.dist(n=n, eta=eta, sd_dist=sd, compute_corr=False)


CORRECTED = {
    LKJ_CORR: (lkj, CorrectedLKJCorr),
    LKJ_CHOLESKY: (lkj_cholesky, CorrectedLKJCholeskyCov),
}


@pytest.mark.skipif("is_wrong(LKJ_CORR)", reason="this version of PyMC has no right density")
@pytest.mark.parametrize("kind", LKJ)
def test_where_pymc_is_right_ours_agrees_and_pymcs_is_left_alone(kind):
    make, corrected = CORRECTED[kind]
    dist, other = make(4, 2.5), make(4, 2.5)
    other.owner.op = corrected.like(other.owner)
    (value,) = pm.draw([other], random_seed=4, mode=INTERPRETED)
    found, right = (pm.logp(each, value).eval(mode=INTERPRETED) for each in (other, dist))
    assert found == pytest.approx(right, abs=1e-9)
    if kind is LKJ_CORR:
        correct(dist)
        assert not isinstance(dist.owner.op, corrected)
        assert not fault(dist.owner.op)


def test_standard_deviations_far_apart_have_a_density():
    """PyMC subtracts squares of the first from sums of both, the twin."""
    dist, value = lkj_cholesky(2, 1.0), np.array([1e5, -6e-4, 8e-4])
    assert not np.isfinite(pm.logp(dist, value).eval(mode=INTERPRETED))
    correct(dist)
    right = -1e5 - 1e-3 - np.log(2) + np.log(0.8) - np.log(1e-3)
    assert pm.logp(dist, value).eval(mode=INTERPRETED) == pytest.approx(right, abs=1e-6)


@pytest.fixture
def wrong_sign(other_pymc):
    """A version of PyMC that adds the constants of LKJ priors, as 6.3 does."""
    for kind in LKJ:
        before = log_density_of.dispatch(kind)
        other_pymc(kind, lambda *args, f=before, **kwargs: f(*args, **kwargs) + 1.5)


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
        packed, draws = draws, np.zeros((len(draws), n, n))
        draws[:, *np.tril_indices(n)] = packed
        draws /= np.linalg.norm(draws, axis=-1, keepdims=True)
    correlations = (draws @ draws.transpose(0, 2, 1))[:, *np.triu_indices(n, 1)]

    def are_of_law(b):
        law = stats.beta(b, b).cdf
        pvalues = [stats.kstest((1 + each) / 2, law).pvalue for each in correlations.T]
        return min(pvalues) > 1e-3 / len(pvalues)

    assert are_of_law(eta - 1 + n / 2)
    assert not are_of_law(eta - 0.5 + n / 2)  # the twin
