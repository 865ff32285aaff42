"""Prior draws are compared with their density: right ones pass, wrong ones are named."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms

import pymc_bdmc as bdmc
from pymc_bdmc.density import support
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.support import (
    DRAWS,
    check_prior,
    repeated_elements,
    suspicious_variables,
)
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import make_engine

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    # PyMC's matrix normal calls a PyTensor function by its former name.
    pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace is deprecated:FutureWarning"),
]

N, HN = pm.Normal.dist, pm.HalfNormal.dist
COV = np.array([[1.0, 0.9], [0.9, 1.0]])

PRIORS = {
    "location": [
        lambda n: pm.Normal(n, 3, 2),
        lambda n: pm.Cauchy(n, 1, 2),
        lambda n: pm.StudentT(n, nu=1.5),
        lambda n: pm.StudentT(n, nu=4, shape=5),
        lambda n: pm.Laplace(n, 1, 2),
        lambda n: pm.AsymmetricLaplace(n, kappa=2, mu=0, b=1),
        lambda n: pm.Logistic(n, 1, 2),
        lambda n: pm.Gumbel(n, 1, 2),
        lambda n: pm.Moyal(n, 1, 2),
        lambda n: pm.SkewNormal(n, alpha=4),
        lambda n: pm.SkewStudentT(n, a=2, b=3),
        lambda n: pm.ExGaussian(n, 0, 1, nu=2),
        lambda n: pm.VonMises(n, 0, 2),
        lambda n: pm.VonMises(n, 2, 0.1, shape=2),
        lambda n: pm.NormalMixture(n, [0.3, 0.7], [-3, 2], 1.0),
        lambda n: pm.Mixture(n, [0.2, 0.8], [N(0, 0.1), pm.Laplace.dist(0, 3)], shape=3),
        lambda n: pm.Normal(n, 0, 1e-4),
        lambda n: pm.Normal(n, 1e6, 1e3),
    ],
    "positive": [
        lambda n: pm.HalfNormal(n, 2),
        lambda n: pm.HalfCauchy(n, 2),
        lambda n: pm.HalfStudentT(n, nu=2),
        lambda n: pm.Exponential(n, 3),
        lambda n: pm.Gamma(n, 2, 1),
        lambda n: pm.Gamma(n, 0.2, 1),
        lambda n: pm.Gamma(n, 0.01, 0.01),
        lambda n: pm.InverseGamma(n, 1, 1),
        lambda n: pm.LogNormal(n, 0, 2),
        lambda n: pm.Weibull(n, 0.7, 1),
        lambda n: pm.ChiSquared(n, 3),
        lambda n: pm.Wald(n, 1, 2),
        lambda n: pm.Rice(n, nu=1, sigma=1),
        lambda n: pm.Pareto(n, 1.5, 2),
        lambda n: pm.Truncated(n, pm.Gamma.dist(2, 1), lower=1),
    ],
    "bounded": [
        lambda n: pm.Uniform(n, -1, 3),
        lambda n: pm.Uniform(n, -1, 3, default_transform=None),
        lambda n: pm.Beta(n, 0.5, 0.5),
        lambda n: pm.Beta(n, 5, 1, shape=3),
        lambda n: pm.Kumaraswamy(n, 2, 3),
        lambda n: pm.LogitNormal(n, 0, 2),
        lambda n: pm.Triangular(n, lower=0, upper=2, c=0.5),
        lambda n: pm.TruncatedNormal(n, 0, 1, lower=-0.5, upper=2),
        lambda n: pm.Truncated(n, pm.Cauchy.dist(0, 1), lower=-1, upper=4),
        lambda n: pm.Interpolated(n, np.linspace(0, 1, 30), np.linspace(0.1, 1, 30)),
        lambda n: pm.Exponential(n, 1, default_transform=None),
        lambda n: pm.Beta(n, 2, 2, default_transform=None),
        lambda n: pm.CustomDist(
            n, logp=lambda v: pt.switch((v > 0) & (v < 1), 0.0, -np.inf),
            random=lambda rng=None, size=None: rng.random(size),
        ),
    ],
    "vectors": [
        lambda n: pm.MvNormal(n, [1, 2], COV),
        lambda n: pm.MvStudentT(n, nu=3, mu=[0, 0], scale=COV),
        lambda n: pm.Dirichlet(n, [0.5, 1, 3]),
        lambda n: pm.Dirichlet(n, np.ones(4), shape=(2, 4)),
        lambda n: pm.StickBreakingWeights(n, alpha=2, K=3),
        lambda n: pm.ZeroSumNormal(n, shape=4),
        lambda n: pm.MatrixNormal(n, 0, rowcov=COV, colcov=np.eye(3), shape=(2, 3)),
        lambda n: pm.LKJCorr(n, n=3, eta=2),
        lambda n: pm.LKJCholeskyCov(n, n=3, eta=1, sd_dist=HN(1, size=3))[0],
        lambda n: pm.Normal(n, shape=3, transform=transforms.ordered),
        lambda n: pm.Normal(n, shape=(2, 3)),
    ],
    "series": [
        lambda n: pm.GaussianRandomWalk(n, init_dist=N(0, 3), sigma=0.5, steps=20),
        lambda n: pm.RandomWalk(n, init_dist=N(), innovation_dist=pm.Laplace.dist(0, 1), steps=8),
        lambda n: pm.MvGaussianRandomWalk(
            n, mu=[0, 0], cov=COV, init_dist=pm.MvNormal.dist([0, 0], COV), steps=5
        ),
        lambda n: pm.Normal(n, pm.Normal(n + "_mean"), pm.HalfCauchy(n + "_scale", 1), shape=5),
        lambda n: pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, 0.5)).prior(
            n, np.linspace(0, 2, 6)[:, None]
        ),
        lambda n: pm.Normal(n, 0, pm.math.exp(pm.Normal(n + "_log_scale", 0, 3)), shape=4),
        lambda n: pm.Normal(n, pm.Poisson(n + "_count", 3), 1, shape=3),
        lambda n: pm.Normal(n, observed=np.ma.masked_invalid([0.0, np.nan, np.nan])),
    ],
    "scans": [
        lambda n: pm.AR(n, [0.5, 0.3], init_dist=N(0, 1), steps=10),
        lambda n: pm.GARCH11(n, 1, 0.2, 0.3, initial_vol=1, steps=5),
        lambda n: pm.EulerMaruyama(
            n, 0.1, lambda x, a: (-a * x, 1.0), (1.0,), init_dist=N(), steps=5
        ),
    ],
}  # fmt: skip


def verdict(builders, gradient=True):
    """What both checks say of a model of all these priors, which has names for its variables."""
    with pm.Model() as model:
        for i, build in enumerate(builders):
            build(f"x{i}")
        pm.Normal("y", observed=0.0)
    density, rng = TemperedDensity(model), np.random.default_rng(1)
    draws = density.prior.draw_many(DRAWS, rng)
    jitted = JittedDensity(density) if gradient else None
    repeated = list(repeated_elements(density, draws))
    return repeated + suspicious_variables(density, draws, rng, jitted)


def test_many_right_priors_in_the_sweep():
    assert sum(map(len, PRIORS.values())) >= 60


@pytest.mark.slow  # minutes of compilation
@pytest.mark.filterwarnings("ignore:SplineWrapper:FutureWarning")  # PyTensor's of Interpolated
@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
@pytest.mark.parametrize("kind", PRIORS)
def test_no_false_alarm(kind):
    """α = 1e-3 a model of up to 17 priors, 6 models; numba takes too long for two of them."""
    assert verdict(PRIORS[kind], gradient=kind not in ("vectors", "scans")) == []


@pytest.mark.parametrize("gradient", [True, False])
def test_right_draws_pass(gradient):
    """α = 1e-3: tails, a hierarchy, an edge, a discrete parent; a CAR, a cut, a simplex."""
    few = [
        lambda n: pm.Cauchy(n, 1, 2),
        lambda n: pm.Normal(n, pm.Poisson(n + "_count", 3), pm.HalfCauchy(n + "_scale", 1)),
        lambda n: pm.Uniform(n, -1, 3, default_transform=None),
    ]
    slow_to_compile = [
        lambda n: pm.Normal(n, shape=3, transform=transforms.ordered),
        lambda n: pm.Dirichlet(n, [0.5, 1, 3]),
    ]
    slow_without_gradient = [lambda n: pm.CAR(n, np.zeros(3), 1 - np.eye(3), alpha=0.5, tau=0.3)]
    assert verdict(few + (slow_without_gradient if gradient else slow_to_compile), gradient) == []


@pytest.mark.parametrize("gradient", [True, False])
def test_angles_are_compared_within_one_period(gradient, monkeypatch):
    """α = 1e-3; twin: on the whole line the log density is periodic, and draws disagree with it."""
    wide = [lambda n: pm.VonMises(n, 2, 0.1, shape=2)]
    assert verdict(wide, gradient) == []
    monkeypatch.setattr(support, "angles", lambda model: [])
    assert verdict(wide, gradient) == ["x0"]


def custom(random):
    """A standard normal density with other draws."""
    return lambda n: pm.CustomDist(n, logp=lambda v: pm.logp(N(), v), random=random)


WRONG = {
    "scale": custom(lambda rng=None, size=None: rng.normal(scale=1.4, size=size)),
    "location": custom(lambda rng=None, size=None: rng.normal(0.4, size=size)),
    "shape": custom(lambda rng=None, size=None: rng.logistic(scale=1, size=size)),
    "atom": custom(lambda rng=None, size=None: np.maximum(rng.normal(size=size), -1.5)),
    "censored": lambda n: pm.Censored(n, N(), lower=0, upper=None),
}


@pytest.mark.parametrize(
    ("kind", "gradient"),
    [*((kind, False) for kind in WRONG), ("scale", True), ("location", True)],
)
def test_wrong_draws_are_named(kind, gradient):
    """The broken twins of the right ones: the wrong variable alone, between two right ones."""
    builders = [lambda n: pm.Normal(n), WRONG[kind], lambda n: pm.HalfCauchy(n, 1)]
    assert set(verdict(builders, gradient)) == {"x1"}


def two(**wrong):
    """A model with a right variable and with another prior."""
    with pm.Model() as model:
        pm.Normal("right")
        ((name, build),) = wrong.items()
        pm.Normal("y", build(name).sum() + model["right"], 1.0, observed=1.0)
    return model


@pytest.mark.parametrize("step", [None, "metropolis", pm.NUTS])
def test_both_engines_warn_by_name(step, caplog):
    make_engine(TemperedDensity(two(bad=WRONG["scale"])), np.array([0.0, 1.0]), step)
    assert "Prior draws of bad disagree with the log density" in caplog.text


def test_temper_checks_too():
    with pytest.raises(ValueError, match=r"^bad: its prior draws repeat a value"):
        bdmc.temper(two(bad=WRONG["atom"]), progressbar=False)


def test_one_model_has_one_verdict(caplog):
    density = TemperedDensity(two(bad=WRONG["scale"]))
    check_prior(density)
    first = caplog.text
    caplog.clear()
    check_prior(density)
    assert caplog.text == first != ""


def test_a_prior_that_depends_on_data_is_checked_given_them():
    with pm.Model() as model:
        y = pm.Normal("y", pm.Normal("x"), 1.0, observed=3.0)
        pm.Normal("z", y, 0.1)
        pm.Uniform("u", y - 5, y + 5)
    density, rng = TemperedDensity(model), np.random.default_rng(1)
    draws = density.prior.draw_many(DRAWS, rng)
    assert suspicious_variables(density, draws, rng) == []
    density.set_data({"y": 3.5})  # the twin: the density of other data
    assert suspicious_variables(density, draws, rng)
