"""Every family that the package takes as normalised is: by sums, quadrature or another formula."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph.replace import vectorize_graph
from scipy import stats

from pymc_bdmc.density.graph import INTERPRETED, TemperedModel
from pymc_bdmc.density.prior import ForwardSampler
from pymc_bdmc.density.structure import NORMALISED, distribution, unknown_family

# PyMC's matrix normal calls a PyTensor function by its former name.
pytestmark = pytest.mark.filterwarnings(
    "ignore:pytensor.tensor.linalg.trace is deprecated:FutureWarning"
)

N = pm.Normal.dist
LINE, POSITIVE, UNIT = (-np.inf, np.inf), (0, np.inf), (0, 1)

CONTINUOUS = {
    "Normal": (lambda: N(1, 2), LINE),
    "Cauchy": (lambda: pm.Cauchy.dist(1, 2), LINE),
    "StudentT": (lambda: pm.StudentT.dist(3.0, mu=1, sigma=2), LINE),
    "Laplace": (lambda: pm.Laplace.dist(0, 2), LINE),
    "AsymmetricLaplace": (lambda: pm.AsymmetricLaplace.dist(kappa=2, mu=0, b=1.5), LINE),
    "Logistic": (lambda: pm.Logistic.dist(1, 2), LINE),
    "Gumbel": (lambda: pm.Gumbel.dist(1, 2), LINE),
    "Moyal": (lambda: pm.Moyal.dist(1, 2), LINE),
    "SkewNormal": (lambda: pm.SkewNormal.dist(mu=1, sigma=2, alpha=4), LINE),
    "SkewStudentT": (lambda: pm.SkewStudentT.dist(a=2, b=3, mu=1, sigma=2), LINE),
    "ExGaussian": (lambda: pm.ExGaussian.dist(0.5, 1, nu=2), LINE),
    "Mixture": (lambda: pm.Mixture.dist([0.3, 0.7], [N(0, 1), pm.Laplace.dist(1, 2)]), LINE),
    "NormalMixture": (lambda: pm.NormalMixture.dist([0.3, 0.7], [-3, 2], 1.0), LINE),
    "HalfNormal": (lambda: pm.HalfNormal.dist(2), POSITIVE),
    "HalfCauchy": (lambda: pm.HalfCauchy.dist(2), POSITIVE),
    "HalfStudentT": (lambda: pm.HalfStudentT.dist(nu=2.0, sigma=2), POSITIVE),
    "Exponential": (lambda: pm.Exponential.dist(3), POSITIVE),
    "Gamma": (lambda: pm.Gamma.dist(0.5, 2), POSITIVE),
    "InverseGamma": (lambda: pm.InverseGamma.dist(1.5, 2), POSITIVE),
    "LogNormal": (lambda: pm.LogNormal.dist(0.5, 2), POSITIVE),
    "Weibull": (lambda: pm.Weibull.dist(0.7, 2), POSITIVE),
    "ChiSquared": (lambda: pm.ChiSquared.dist(3), POSITIVE),
    "Wald": (lambda: pm.Wald.dist(mu=1, lam=2, alpha=0.5), (0.5, np.inf)),
    "Rice": (lambda: pm.Rice.dist(nu=1, sigma=2), POSITIVE),
    "Pareto": (lambda: pm.Pareto.dist(1.5, 2), (2, np.inf)),
    "Beta": (lambda: pm.Beta.dist(0.5, 2), UNIT),
    "Kumaraswamy": (lambda: pm.Kumaraswamy.dist(0.5, 2), UNIT),
    "LogitNormal": (lambda: pm.LogitNormal.dist(0.5, 2), UNIT),
    "Uniform": (lambda: pm.Uniform.dist(-1, 3), (-1, 3)),
    "Triangular": (lambda: pm.Triangular.dist(lower=-1, upper=3, c=0.5), (-1, 3)),
    "VonMises": (lambda: pm.VonMises.dist(0.5, 2), (-np.pi, np.pi)),
    "TruncatedNormal": (lambda: pm.TruncatedNormal.dist(1, 2, lower=-1, upper=3), (-1, 3)),
    "Truncated": (lambda: pm.Truncated.dist(pm.Gamma.dist(2, 1), 0.5, 4), (0.5, 4)),
    "Interpolated": (lambda: pm.Interpolated.dist(np.array([0, 1, 3.0]), np.ones(3)), (0, 3)),
    "PolyaGamma": (lambda: pm.PolyaGamma.dist(h=1.5, z=0.3), (0.01, 6)),
    "CustomDist": (lambda: pm.CustomDist.dist(dist=lambda size: N(1, 2, size=size)), LINE),
}

ATOMS = {
    "HurdleGamma": (lambda: pm.HurdleGamma.dist(0.7, 2, 1), POSITIVE, [0.0]),
    "HurdleLogNormal": (lambda: pm.HurdleLogNormal.dist(0.7, 0, 1), POSITIVE, [0.0]),
    "Censored": (lambda: pm.Censored.dist(N(0, 1), -1, 0.5), (-1, 0.5), [-1.0, 0.5]),
}

CUTS = [-1, 0.5, 2]
DISCRETE = {
    "Bernoulli": lambda: pm.Bernoulli.dist(0.3),
    "Bernoulli of logits": lambda: pm.Bernoulli.dist(logit_p=0.3),
    "Binomial": lambda: pm.Binomial.dist(7, 0.3),
    "BetaBinomial": lambda: pm.BetaBinomial.dist(2, 3, 7),
    "Categorical": lambda: pm.Categorical.dist([0.2, 0.3, 0.5]),
    "DiscreteUniform": lambda: pm.DiscreteUniform.dist(2, 9),
    "DiscreteWeibull": lambda: pm.DiscreteWeibull.dist(0.8, 0.9),
    "Geometric": lambda: pm.Geometric.dist(0.2),
    "HyperGeometric": lambda: pm.HyperGeometric.dist(20, 7, 12),
    "NegativeBinomial": lambda: pm.NegativeBinomial.dist(mu=5, alpha=1.5),
    "Poisson": lambda: pm.Poisson.dist(5),
    "ZeroInflatedPoisson": lambda: pm.ZeroInflatedPoisson.dist(0.7, 5),
    "ZeroInflatedBinomial": lambda: pm.ZeroInflatedBinomial.dist(0.7, 7, 0.3),
    "ZeroInflatedNegativeBinomial": lambda: pm.ZeroInflatedNegativeBinomial.dist(0.7, 5, 1.5),
    "HurdlePoisson": lambda: pm.HurdlePoisson.dist(0.7, 5),
    "HurdleNegativeBinomial": lambda: pm.HurdleNegativeBinomial.dist(0.7, 5, 1.5),
    "OrderedLogistic": lambda: pm.OrderedLogistic.dist(eta=0.3, cutpoints=CUTS, compute_p=False),
    "OrderedProbit": lambda: pm.OrderedProbit.dist(eta=0.3, cutpoints=CUTS, compute_p=False),
    "Truncated": lambda: pm.Truncated.dist(pm.Poisson.dist(5), lower=2, upper=9),
    "Censored": lambda: pm.Censored.dist(pm.Poisson.dist(5), lower=2, upper=9),
    "Mixture": lambda: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(5), pm.Geometric.dist(0.3)]),
    "DiracDelta": lambda: pm.DiracDelta.dist(4),
}

COUNTS = {
    "Multinomial": (lambda: pm.Multinomial.dist(5, [0.2, 0.3, 0.5]), 3),
    "DirichletMultinomial": (lambda: pm.DirichletMultinomial.dist(5, [0.5, 2, 1.0]), 3),
    "OrderedMultinomial": (
        lambda: pm.OrderedMultinomial.dist(eta=0.3, cutpoints=CUTS, n=5, compute_p=False), 4
    ),
}  # fmt: skip

X = np.array([0.3, -0.2, 0.5, 1.4])
ROWS = np.array([[0.2, -1.3, 0.4], [0.9, 0.1, -0.6], [-0.4, 0.3, 1.1]])
MU, S = np.array([0.5, -1, 2]), np.array([[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 3]])
C = np.eye(2) + 1
STEPS = np.diff(ROWS, axis=0)
START = stats.norm(0, 2).logpdf(X[0])
FIRST = stats.multivariate_normal(np.zeros(3)).logpdf(ROWS[0])


def start():
    return pm.MvNormal.dist(np.zeros(3), np.eye(3))


def garch():
    """Log density of X by the recursion of the variance."""
    variances = [1.2**2]
    for x in X[:-1]:
        variances.append(0.5 + 0.3 * x**2 + 0.4 * variances[-1])
    return stats.norm(0, np.sqrt(variances)).logpdf(X).sum()


OTHERS = {
    "MvNormal": (lambda: pm.MvNormal.dist(MU, cov=S), X[:3], stats.multivariate_normal(MU, S)),
    "MvNormal of a precision": (
        lambda: pm.MvNormal.dist(MU, tau=np.linalg.inv(S)), X[:3], stats.multivariate_normal(MU, S),
    ),
    "MvStudentT": (
        lambda: pm.MvStudentT.dist(nu=3.0, mu=MU, scale=S), X[:3], stats.multivariate_t(MU, S, 3),
    ),
    "Dirichlet": (
        lambda: pm.Dirichlet.dist([0.5, 2, 1.0]),
        np.array([0.2, 0.3, 0.5]), stats.dirichlet([0.5, 2, 1.0]),
    ),
    "Wishart": (lambda: pm.Wishart.dist(nu=5, V=S), np.eye(3) + 0.1, stats.wishart(5, S)),
    "MatrixNormal": (
        lambda: pm.MatrixNormal.dist(mu=np.zeros((3, 2)), rowcov=S, colcov=C),
        ROWS[:, :2], stats.matrix_normal(np.zeros((3, 2)), S, C),
    ),
    "KroneckerNormal": (
        lambda: pm.KroneckerNormal.dist(mu=np.zeros(6), covs=[S, C], sigma=0.5),
        ROWS[:2].ravel(), stats.multivariate_normal(np.zeros(6), np.kron(S, C) + np.eye(6) / 4),
    ),
    # In two orthonormal coordinates of the plane it is a normal distribution.
    "ZeroSumNormal": (
        lambda: pm.ZeroSumNormal.dist(sigma=2.0, shape=3), np.array([1.0, 0.5, -1.5]),
        stats.multivariate_normal(np.zeros(2), 4 * np.eye(2)).logpdf([np.sqrt(3.5), 0]),
    ),
    "AR": (
        lambda: pm.AR.dist(rho=[0.1, 0.5], constant=True, sigma=1.5, init_dist=N(0, 2), steps=3),
        X, START + stats.norm(0.1 + 0.5 * X[:-1], 1.5).logpdf(X[1:]).sum(),
    ),
    "GaussianRandomWalk": (
        lambda: pm.GaussianRandomWalk.dist(mu=0.1, sigma=1.5, init_dist=N(0, 2), steps=3),
        X, START + stats.norm(0.1, 1.5).logpdf(np.diff(X)).sum(),
    ),
    "RandomWalk": (
        lambda: pm.RandomWalk.dist(N(0, 2), pm.StudentT.dist(3.0), steps=3),
        X, START + stats.t(3).logpdf(np.diff(X)).sum(),
    ),
    "MvGaussianRandomWalk": (
        lambda: pm.MvGaussianRandomWalk.dist(mu=MU, cov=S, init_dist=start(), steps=2),
        ROWS, FIRST + stats.multivariate_normal(MU, S).logpdf(STEPS).sum(),
    ),
    "MvStudentTRandomWalk": (
        lambda: pm.MvStudentTRandomWalk.dist(nu=4.0, mu=MU, scale=S, init_dist=start(), steps=2),
        ROWS, FIRST + stats.multivariate_t(MU, S, 4).logpdf(STEPS).sum(),
    ),
    "GARCH11": (
        lambda: pm.GARCH11.dist(omega=0.5, alpha_1=0.3, beta_1=0.4, initial_vol=1.2, steps=3),
        X, garch(),
    ),
    "EulerMaruyama": (
        lambda: pm.EulerMaruyama.dist(
            0.1, lambda x, a: (-a * x, 0.7), (1.3,), init_dist=N(0, 2), steps=3
        ),
        X, START + stats.norm(0.87 * X[:-1], 0.7 * np.sqrt(0.1)).logpdf(X[1:]).sum(),
    ),
}  # fmt: skip

W = np.array([[0, 1, 1, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]])
VECTORS = {name: make for name, (make, *_) in OTHERS.items()} | {
    "CAR": lambda: pm.CAR.dist(np.zeros(5), W, alpha=0.7, tau=2.0),
    "ICAR": lambda: pm.ICAR.dist(W, sigma=1.7),
    "LKJCorr": lambda: pm.LKJCorr.dist(n=4, eta=1.0),
    "LKJCholeskyCov": lambda: pm.LKJCholeskyCov.dist(
        n=3, eta=1.0, sd_dist=pm.LogNormal.dist(0, 0.3), compute_corr=False
    ),
    "StickBreakingWeights": lambda: pm.StickBreakingWeights.dist(alpha=1.5, K=3),
}

GRIDS = {
    "LKJCorr": (lambda: pm.LKJCorr("x", n=2, eta=2.0), 1, 61, 4.0),
    "LKJCorr, uniform": (lambda: pm.LKJCorr("x", n=2, eta=1.0), 1, 61, 4.0),
    "LKJCholeskyCov": (
        lambda: pm.LKJCholeskyCov("x", n=2, eta=2.0, sd_dist=pm.LogNormal.dist(0, 0.3)),
        3, 61, 2.2,
    ),
    "ICAR": (lambda: pm.ICAR("x", W[:2, :2], sigma=1.7, zero_sum_stdev=0.5), 2, 121, 5.0),
    "StickBreakingWeights": (lambda: pm.StickBreakingWeights("x", alpha=1.5, K=2), 2, 61, 4.0),
}  # fmt: skip


def rows_of(model, nodes):
    """The log density of a free variable, as the package corrects it, at unconstrained values."""
    (value,) = model.value_vars
    rows = vectorize_graph(model.logp(), {value: pt.as_tensor(nodes)})
    return rows.eval(mode=INTERPRETED)


def log_density(dist, values):
    """PyMC's log density at every value; interpreted, which compiles fastest."""
    return pm.logp(dist, pt.as_tensor(values), warn_rvs=False).eval(mode=INTERPRETED)


def integral(dist, lower, upper):
    """Integral over an interval, by double exponential quadrature (Takahasi and Mori 1974)."""
    t, step = np.linspace(-3.6, 3.6, 7201, retstep=True)
    u, du = np.pi / 2 * np.sinh(t), np.pi / 2 * np.cosh(t) * step
    if np.isinf(lower):
        x, dx = np.sinh(u), np.cosh(u) * du
    elif np.isinf(upper):
        x, dx = lower + np.exp(u), np.exp(u) * du
    else:
        x, dx = lower + (upper - lower) / (1 + np.exp(-2 * u)), du * (upper - lower) / 2
        dx /= np.cosh(u) ** 2
    inside = (x > lower) & (x < upper)
    return np.sum(np.exp(log_density(dist, x[inside])) * dx[inside])


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_densities_integrate_to_one(name):
    if name == "PolyaGamma":  # which needs a package that PyMC does not install
        pytest.importorskip("polyagamma")
    make, support = CONTINUOUS[name]
    assert integral(make(), *support) == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("name", ATOMS)
def test_densities_with_atoms_add_up_to_one(name):
    make, support, atoms = ATOMS[name]
    mass = integral(make(), *support) + np.exp(log_density(make(), np.array(atoms))).sum()
    assert mass == pytest.approx(1, abs=2e-6)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_add_up_to_one(name):
    values = np.arange(400)
    assert np.exp(log_density(DISCRETE[name](), values)).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", COUNTS)
def test_probabilities_of_count_vectors_add_up_to_one(name):
    make, k = COUNTS[name]
    counts = [each for each in product(range(6), repeat=k) if sum(each) == 5]
    assert np.exp(log_density(make(), np.array(counts))).sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_densities_of_vectors_agree_with_another_formula(name):
    make, value, other = OTHERS[name]
    expected = other if isinstance(other, float) else other.logpdf(value)
    assert np.squeeze(log_density(make(), value)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", GRIDS)
def test_matrices_and_weights_integrate_to_one(name):
    """The trapezoidal rule on the unconstrained scale, with sinh-spaced nodes."""
    make, size, n, reach = GRIDS[name]
    with pm.Model() as model:
        make()
    u, step = np.linspace(-reach, reach, n, retstep=True)
    nodes = np.array(list(product(np.sinh(u), repeat=size)))
    weights = np.prod(list(product(np.cosh(u) * step, repeat=size)), axis=1)
    density = np.exp(rows_of(TemperedModel.from_model(model), nodes))
    assert density @ weights == pytest.approx(1, abs=1e-3)


def importance(make):
    """The integral of a density and its error, by draws from a t distribution fitted to its draws.

    The fit knows the draws alone. Half a unit more variance keeps weights bounded in the bulk.
    """
    with pm.Model() as model:
        model.register_rv(make(), "x")
    model, rng = TemperedModel.from_model(model), np.random.default_rng(1)
    (draws,) = ForwardSampler(model).draw_many(1000, rng).values()
    flat = draws.reshape(len(draws), -1)
    proposal = stats.multivariate_t(flat.mean(axis=0), 1.3 * np.cov(flat.T), df=5, seed=rng)
    thetas = proposal.rvs(4000).reshape(4000, -1)
    log_p = rows_of(model, thetas.reshape(-1, *draws.shape[1:]))
    weights = np.exp(log_p - proposal.logpdf(thetas))
    return weights.mean(), weights.std() / np.sqrt(len(weights))


@pytest.mark.parametrize("name", VECTORS)
def test_densities_of_vectors_integrate_to_one(name):
    """Within 4 standard errors (α = 6e-5), which are below a tenth."""
    mass, error = importance(VECTORS[name])
    assert error < 0.1
    assert abs(mass - 1) < 4 * error


def test_four_times_a_density_is_found():
    """The broken twin."""

    def times_four(x, mu):
        return pm.logp(pm.MvNormal.dist(mu, S), x) + np.log(4)

    def draws(mu, rng=None, size=None):
        return rng.multivariate_normal(mu, S)

    mass, error = importance(
        lambda: pm.CustomDist.dist(
            MU, logp=times_four, random=draws, signature="(n)->(n)", dtype="float64"
        )
    )
    assert abs(mass - 1) > 4 * error
    assert abs(mass - 4) < 16 * error


def test_no_family_is_taken_as_normalised_without_a_test():
    made = [make for make, *_ in [*CONTINUOUS.values(), *ATOMS.values()]]
    made += VECTORS.values()
    made += [*DISCRETE.values(), *(make for make, _ in COUNTS.values())]
    tested, alone = set(), pm.Model()
    for make in made:
        tested |= {type(op) for op in distribution(make(), alone)}
        assert not unknown_family(make(), alone)
    assert set(NORMALISED) - tested == {PartialObservedRV}


@pytest.mark.parametrize("constant", [0.0, 0.5 * np.log(np.pi)])
def test_a_density_without_its_constant_is_found(constant):
    """The broken twin, and the same density with its constant."""
    dist = pm.CustomDist.dist(logp=lambda x: -(x**2) - constant)
    assert (integral(dist, *LINE) == pytest.approx(1, abs=1e-6)) == (constant > 0)
