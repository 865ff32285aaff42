"""The tempered graph is the model's own log density, term by term, for every kind of variable."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms
from pytensor import scan
from scipy import stats

from pymc_bdmc.base.types import stack
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.graph import Layout
from pymc_bdmc.density.tempered import TemperedDensity
from tests.density.short import QUICK, density_of
from tests.models import interpreted

pytestmark = [
    pytest.mark.filterwarnings("ignore::pymc.exceptions.ImputationWarning"),
    # PyMC's matrix normal calls a PyTensor function by its former name.
    pytest.mark.filterwarnings("ignore:pytensor.tensor.linalg.trace is deprecated:FutureWarning"),
]


@pytest.fixture(autouse=True)
def inner_graphs_are_interpreted():
    """Interpret the graphs within operations such as logsumexp: numba takes a second for each."""
    with interpreted():
        yield


def transformed():
    low = pm.Uniform("low", -1, 1)
    order = pm.Normal("order", 0, 1, shape=3, transform=transforms.ordered)
    weights = pm.Dirichlet("weights", np.ones(3))
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, size=2))
    pm.MvNormal("y", low, chol=chol, observed=[0.1, 0.2])
    pm.NormalMixture("m", weights, order, 1.0, observed=[0.3, -1.0, 2.0])


def with_dims():
    """And with data, a Deterministic, a Potential and discrete variables."""
    x = pm.Data("x", np.arange(6.0).reshape(2, 3), dims=("row", "col"))
    slope = pm.Normal("slope", dims="col")
    mean = pm.Deterministic("mean", x * slope, dims=("row", "col"))
    k = pm.Categorical("k", [0.2, 0.3, 0.5], shape=2)
    b, n = pm.Bernoulli("b", 0.4), pm.Poisson("n", 3)
    pm.Normal("y", mean + b, pm.HalfCauchy("s", 1), observed=np.ones((2, 3)), dims=("row", "col"))
    pm.Poisson("count", pm.math.exp(slope.sum()) + n, observed=3)
    pm.Potential("soft", -0.5 * pt.sum(slope**2) - k.sum())
    for name in ("x[1]:z (log)", "float64"):  # as Bambi gives; some look like a NumPy dtype
        pm.Normal(f"y of {name}", pm.HalfNormal(name), observed=0.5)


def with_start():
    """And with missing values, a matrix, data that can be set, and likelihoods of other kinds."""
    x = pm.Normal("x", initval=3.0)
    mu = pm.Normal("mu", x, initval=x + 1)
    pm.MatrixNormal("b", 0, rowcov=np.eye(2), colcov=np.eye(3), shape=(2, 3))
    pm.Normal("masked", mu, 1.0, observed=np.ma.masked_invalid([0.0, np.nan, 1.0]))
    pm.Normal("y", mu, 1.0, observed=pm.Data("values", [0.5, 1.5]))
    pm.Censored("censored", pm.Normal.dist(mu), lower=0, upper=None, observed=[0.0, 1.2])
    pm.Truncated("truncated", pm.Normal.dist(mu), lower=-1, observed=[0.3, 0.4])
    pm.CustomDist(
        "custom",
        mu,
        logp=lambda v, m: -0.5 * (v - m) ** 2,
        random=lambda m, rng=None, size=None: rng.normal(m, size=size),
        observed=[0.7],
    )


@pytest.mark.parametrize("make", [transformed, with_dims, with_start])
def test_log_density_is_the_models_own(make):
    """It is linear in β with exact ends, and the original model is left alone."""
    with pm.Model(coords={"row": ["a", "b"], "col": [1, 2, 3]}) as model:
        make()
    before = dict(model.rvs_to_initial_values)
    density = TemperedDensity(model, QUICK)
    assert model.rvs_to_initial_values == before
    assert type(model) is pm.Model
    assert [rv.name for rv in density.model.free_RVs] == [rv.name for rv in model.free_RVs]
    reference, logp = model.compile_logp(**QUICK), density.model.compile_logp(**QUICK)
    for seed in range(2):
        point, _ = density.draw_prior(np.random.default_rng(seed))
        assert [value.name for value in model.value_vars] == list(point)
        log_prior, log_likelihood = density(point)
        assert log_prior + log_likelihood == pytest.approx(float(reference(point)), rel=1e-12)
        for beta in (0.5, 1.0):
            density.set_beta(beta)
            at_beta = log_prior + beta * log_likelihood
            assert float(logp(point)) == pytest.approx(at_beta, rel=1e-12)
        density.set_beta(0.0)
        assert float(logp(point)) == log_prior
    names = [rv.name for rv in model.free_RVs + model.deterministics]
    assert sorted(density.constrain(stack([point, point]))) == sorted(names)


def test_a_row_of_a_cholesky_factor_has_the_unit_of_its_diagonal():
    sd = pm.Exponential.dist(1, shape=3)
    layout = Layout(density_of(lambda: pm.LKJCholeskyCov("chol", n=3, eta=1, sd_dist=sd)))
    assert layout.units.tolist() == [-1, 2, -1, 5, 5, -1]


def test_an_impossible_likelihood_is_absent_at_beta_0():
    def after_x():
        x = pm.Normal("x")
        pm.Uniform("y", x, x + 1, observed=0.5)

    density = density_of(after_x)
    impossible, logp = {"x": np.array(3.0)}, density.model.compile_logp(**QUICK)
    log_prior, ell = density(impossible)
    assert ell == -np.inf
    for beta, expected in ((0.0, log_prior), (1e-3, -np.inf)):
        density.set_beta(beta)
        assert float(logp(impossible)) == expected


def test_observed_data_are_swapped_without_recompiling():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=[0.0, 1.0])
        pm.Poisson("k", pm.math.exp(mu), observed=2)
    density = TemperedDensity(model, QUICK)
    point = {"mu": np.array(0.3)}
    for y, k in [([0.0, 1.0], 2), ([5.0, -1.0], 7)]:
        data = {"y": np.array(y), "k": np.array(k)}
        density.set_data(data)
        expected = stats.norm.logpdf(y, 0.3).sum() + stats.poisson.logpmf(k, np.exp(0.3))
        assert density(point)[1] == pytest.approx(expected, rel=1e-12)
        density.set_data(density.data)
        assert density(point, data)[1] == pytest.approx(expected, rel=1e-12)
    assert density.data["k"] == 2


def test_data_used_as_covariate_and_as_observation_are_replaced_as_observation_only():
    with pm.Model() as model:
        y = pm.Data("series", [1.0, 2.0, 3.0])
        pm.Normal("y", pm.Normal("rho") * y, 1.0, observed=y)
    density = TemperedDensity(model, QUICK)
    density.set_data({"y": np.zeros(3)})
    expected = stats.norm.logpdf(0.0, 0.5 * np.array([1.0, 2.0, 3.0])).sum()
    assert density({"rho": np.array(0.5)})[1] == pytest.approx(expected, rel=1e-12)


def test_nan_counts_as_impossible_and_infinity_names_the_variable_and_beta():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("fine", x, 1.0, observed=0.0)
        pm.Potential("broken", pt.switch(x > 3.0, np.inf, pt.log(x)))
    density = TemperedDensity(model, QUICK)
    density.set_beta(0.25)
    assert density({"x": np.array(-1.0)}) == (pytest.approx(stats.norm.logpdf(-1.0)), -np.inf)
    assert density.is_undefined({"x": np.array(-1.0)})
    assert not density.is_undefined({"x": np.array(1.0)})
    with pytest.raises(FloatingPointError, match=r"log p of broken is \+inf.*beta=0.25, x=4"):
        density({"x": np.array(4.0)})


@pytest.mark.parametrize(("check_bounds", "ell"), [(True, -np.inf), (False, np.log(1.5))])
def test_check_bounds_of_the_model_is_respected(check_bounds, ell):
    """A probability of 1.5 has a logarithm, if nobody checks."""
    density = density_of(
        lambda: pm.Bernoulli("y", pm.Normal("p"), observed=1), check_bounds=check_bounds
    )
    for terms in (density.terms, JittedDensity(density)):
        assert terms({"p": np.array(1.5)}, density.data)[1] == pytest.approx(ell)


def test_prior_draws_have_the_prior_distribution_and_are_counted():
    """Kolmogorov-Smirnov on 200 draws of each variable, α = 1e-3 over 3 comparisons.

    The number of draws is geometric with the known P(S): its mean is within 4 standard errors.
    """
    n = 200
    with pm.Model() as model:
        s = pm.Gamma("s", 2, 1)
        x = pm.Normal("x", 0, s)
        pm.Dirichlet("p", [1.0, 2.0, 3.0])
        pm.Potential("positive", pt.switch(x > 0, 0.0, -np.inf))
    density = TemperedDensity(model, QUICK)
    found = [density.draw_prior(np.random.default_rng(i)) for i in range(n)]
    draws = density.constrain(stack([point for point, _ in found]))
    counts = np.array([count for _, count in found])

    def pvalues(draws):
        laws = [
            (draws["s"], stats.gamma(2).cdf),
            (draws["x"] / draws["s"], stats.halfnorm.cdf),
            (draws["p"][:, 0], stats.beta(1, 5).cdf),
        ]
        return [stats.kstest(*each).pvalue for each in laws]

    assert min(pvalues(draws)) > 1e-3 / 3
    assert min(pvalues({**draws, "s": np.log1p(draws["s"])})) < 1e-3 / 3  # twin
    p = 1 / 2
    error = np.sqrt((1 - p) / p**2 / n)
    assert abs(counts.mean() - 1 / p) < 4 * error
    assert abs((counts - 1).mean() - 1 / p) > 4 * error  # twin: the accepted draw not counted


def never():
    pm.Potential("never", pt.switch(pm.Normal("x") > 100, 0.0, -np.inf))


def underflow():
    pm.Normal("y", pm.Weibull("g", 1e-6, 1), observed=0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (never, r"-inf at all of 50 prior draws, by never\. Check"),
        (underflow, "g: some of its prior draws are rounded to the edge"),
    ],
)
def test_an_impossible_prior_is_refused(make, message, monkeypatch):
    monkeypatch.setattr("pymc_bdmc.density.tempered.MAX_PRIOR_DRAWS", 50)
    density = density_of(make)
    with pytest.raises(ValueError, match=message):
        density.draw_prior(np.random.default_rng(0))


def test_many_draws_at_once_are_draws():
    """Two-sample tests of every element against one draw at a time; α = 1e-3 over all of them."""
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 3, 2)
        slope = pm.Normal("slope", 0, pm.math.sqrt(scale), shape=3)
        pm.Categorical("kind", pm.Dirichlet("share", np.ones(2)), shape=2)
        pm.GaussianRandomWalk("walk", sigma=scale, init_dist=pm.Normal.dist(), steps=2)
        pm.Truncated("cut", pm.Normal.dist(slope[0], 1), lower=0)
    sampler = TemperedDensity(model, QUICK).prior
    assert sampler.batch
    many = sampler.draw_many(2000, np.random.default_rng(1))
    sampler.seed(np.random.default_rng(2))
    singles = stack([sampler.draw()[0] for _ in range(500)])
    p_values = []
    for name, values in many.items():
        assert values.shape[1:] == singles[name].shape[1:]
        pairs = zip(values.reshape(2000, -1).T, singles[name].reshape(500, -1).T, strict=True)
        for a, b in pairs:
            p_values.append(stats.ks_2samp(a, b).pvalue)
            p_values.append(stats.spearmanr(a[:-1], a[1:]).pvalue)  # rows are independent
    assert min(p_values) > 1e-3 / len(p_values)
    dependence = stats.spearmanr(many["scale_log__"], np.abs(many["slope"][:, 0])).statistic
    assert dependence > 0.1


def autoregression():
    """PyTensor does not vectorize the loop inside of it."""
    pm.AR("path", [0.5], sigma=1.0, init_dist=pm.Normal.dist(), steps=3)


def careless_draws():
    """Right for one draw, but many would share their noise."""

    def random(mu, rng=None, size=None):
        return mu + rng.normal()

    pm.CustomDist("path", pm.Normal("mu"), logp=lambda x, m: -0.5 * (x - m) ** 2, random=random)


@pytest.mark.parametrize("make", [autoregression, careless_draws])
def test_what_cannot_be_batched_is_drawn_one_by_one(make):
    sampler = density_of(make).prior
    assert not sampler.batch
    draws = sampler.draw_many(400, np.random.default_rng(1))
    rest = draws["path"].reshape(400, -1)[:, 0] - draws.get("mu", 0.0)
    assert stats.kstest(rest, "norm").pvalue > 1e-3  # α


def doubled_twice(x):
    return scan(lambda y: 2 * y, outputs_info=x, n_steps=2, return_updates=False)[-1]


@pytest.mark.parametrize("times_four", [lambda x: 4 * x, doubled_twice])
def test_states_are_written_together_or_one_by_one(times_four):
    """Some operations cannot take many rows, such as loops."""
    with pm.Model() as model:
        x, scale = pm.Normal("x", shape=2), pm.HalfNormal("scale")
        pm.Deterministic("mean", times_four(scale * x))
    points = {"x": np.arange(6.0).reshape(3, 2), "scale_log__": np.log([0.5, 2.0, 3.0])}
    found = TemperedDensity(model, QUICK).constrain(points)
    np.testing.assert_allclose(found["scale"], [0.5, 2, 3])
    np.testing.assert_allclose(found["mean"], points["x"] * [[2], [8], [12]])


def test_a_density_goes_to_other_processes_without_what_is_compiled():
    """As step methods send it, where the platform does not fork, after a compiled call."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), pm.HalfNormal("s"), observed=1.0)
    density = TemperedDensity(model)
    assert density.jitted.without_gradient
    sent = cloudpickle.loads(cloudpickle.dumps(density))
    point = density.prior.draw()[0]
    assert sent(point) == pytest.approx(density(point))


def test_new_data_have_the_density_of_a_new_model():
    """Whatever was compiled before. Twin: the density of the data of before."""

    def model_of(y):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("x"), 1.0, observed=pm.Data("data", y))
        return model

    def compiled(model):
        density = TemperedDensity(model)
        return JittedDensity(density)({"x": np.array(0.3)}, density.data)

    model, other = model_of([1.0, 0.0]), [1.0, 2.5]
    before = compiled(model)
    model.set_data("data", other)
    assert compiled(model) == compiled(model_of(other)) != before
