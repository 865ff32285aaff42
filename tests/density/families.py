"""Every family that the package takes as normalised, with its support or another formula.

The tables are of functions that make a distribution.
"""

import numpy as np
import pymc as pm
from scipy import stats

N, MVN = pm.Normal.dist, pm.MvNormal.dist
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
    "HalfNormal": (lambda: pm.HalfNormal.dist(2), POSITIVE),
    "HalfCauchy": (lambda: pm.HalfCauchy.dist(2), POSITIVE),
    "HalfStudentT": (lambda: pm.HalfStudentT.dist(nu=2.0, sigma=2), POSITIVE),
    "Exponential": (lambda: pm.Exponential.dist(3), POSITIVE),
    "Gamma": (lambda: pm.Gamma.dist(0.5, 2), POSITIVE),
    "InverseGamma": (lambda: pm.InverseGamma.dist(1.5, 2), POSITIVE),
    "LogNormal": (lambda: pm.LogNormal.dist(0.5, 2), POSITIVE),
    "Weibull": (lambda: pm.Weibull.dist(0.7, 2), POSITIVE),
    "Wald": (lambda: pm.Wald.dist(mu=1, lam=2, alpha=0.5), (0.5, np.inf)),
    "Rice": (lambda: pm.Rice.dist(nu=1, sigma=2), POSITIVE),
    "Pareto": (lambda: pm.Pareto.dist(1.5, 2), (2, np.inf)),
    "Beta": (lambda: pm.Beta.dist(0.5, 2), UNIT),
    "Kumaraswamy": (lambda: pm.Kumaraswamy.dist(0.5, 2), UNIT),
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
    "Censored": (lambda: pm.Censored.dist(N(0, 1), -1, 0.5), (-1, 0.5), [-1.0, 0.5]),
}

DISCRETE = {
    "Bernoulli": lambda: pm.Bernoulli.dist(0.3),
    "Binomial": lambda: pm.Binomial.dist(7, 0.3),
    "BetaBinomial": lambda: pm.BetaBinomial.dist(2, 3, 7),
    "Categorical": lambda: pm.Categorical.dist([0.2, 0.3, 0.5]),
    "DiscreteUniform": lambda: pm.DiscreteUniform.dist(2, 9),
    "DiscreteWeibull": lambda: pm.DiscreteWeibull.dist(0.8, 0.9),
    "Geometric": lambda: pm.Geometric.dist(0.2),
    "HyperGeometric": lambda: pm.HyperGeometric.dist(20, 7, 12),
    "NegativeBinomial": lambda: pm.NegativeBinomial.dist(mu=5, alpha=1.5),
    "Poisson": lambda: pm.Poisson.dist(5),
    "HurdlePoisson": lambda: pm.HurdlePoisson.dist(0.7, 5),
    "Truncated": lambda: pm.Truncated.dist(pm.Poisson.dist(5), lower=2, upper=9),
    "Censored": lambda: pm.Censored.dist(pm.Poisson.dist(5), lower=2, upper=9),
    "Mixture": lambda: pm.Mixture.dist([0.3, 0.7], [pm.Poisson.dist(5), pm.Geometric.dist(0.3)]),
    "DiracDelta": lambda: pm.DiracDelta.dist(4),
}

COUNTS = {
    "Multinomial": (lambda: pm.Multinomial.dist(5, [0.2, 0.3, 0.5]), 3),
    "DirichletMultinomial": (lambda: pm.DirichletMultinomial.dist(5, [0.5, 2, 1.0]), 3),
}  # fmt: skip

X = np.array([0.3, -0.2, 0.5, 1.4])
ROWS = np.array([[0.2, -1.3, 0.4], [0.9, 0.1, -0.6], [-0.4, 0.3, 1.1]])
MU, S = np.array([0.5, -1, 2]), np.array([[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 3]])
C = np.eye(2) + 1
START = stats.norm(0, 2).logpdf(X[0])


def garch():
    """Log density of X by the recursion of the variance."""
    variances = [1.2**2]
    for x in X[:-1]:
        variances.append(0.5 + 0.3 * x**2 + 0.4 * variances[-1])
    return stats.norm(0, np.sqrt(variances)).logpdf(X).sum()


OTHERS = {
    "MvNormal": (lambda: MVN(MU, cov=S), X[:3], stats.multivariate_normal(MU, S)),
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
    "RandomWalk": (
        lambda: pm.RandomWalk.dist(N(0, 2), pm.StudentT.dist(3.0), steps=3),
        X, START + stats.t(3).logpdf(np.diff(X)).sum(),
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
