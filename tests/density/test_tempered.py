"""The tempered graph is the model's own log density, term by term, for every kind of variable."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions import transforms
from pytensor.compile.mode import Mode
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import stack
from pymc_bdmc.density.compiled import JittedDensity
from pymc_bdmc.density.graph import TemperedModel
from pymc_bdmc.density.prior import ForwardSampler
from pymc_bdmc.density.tempered import TemperedDensity
from tests.models import eight_schools, interpreted

QUICK = {"mode": Mode("py", "fast_run")}
RNG = np.random.default_rng(5)
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


def _transforms():
    with pm.Model() as model:
        low = pm.Uniform("low", -1, 1)
        order = pm.Normal("order", 0, 1, shape=3, transform=transforms.ordered)
        weights = pm.Dirichlet("weights", np.ones(3))
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, size=2))
        pm.MvNormal("y", low, chol=chol, observed=[0.1, 0.2])
        pm.NormalMixture("m", weights, order, 1.0, observed=[0.3, -1.0, 2.0])
    return model


def _coords_and_data():
    with pm.Model(coords={"row": ["a", "b"], "col": [1, 2, 3]}) as model:
        x = pm.Data("x", np.arange(6.0).reshape(2, 3), dims=("row", "col"))
        slope = pm.Normal("slope", dims="col")
        noise = pm.HalfCauchy("noise", 1)
        mean = pm.Deterministic("mean", x * slope, dims=("row", "col"))
        pm.Normal("y", mean, noise, observed=np.ones((2, 3)), dims=("row", "col"))
        pm.Poisson("count", pm.math.exp(slope.sum()), observed=3)
    return model


def _matrix():
    with pm.Model() as model:
        chol = pm.Normal("chol", shape=(3, 2))
        pm.MatrixNormal("b", 0, rowcov=np.eye(2), colcov=np.eye(3), shape=(2, 3))
        pm.Normal("y", chol @ model["b"], 1.0, observed=np.zeros((3, 3)))
    return model


def _mutable_observed():
    with pm.Model() as model:
        y = pm.Data("values", [0.5, 1.5])
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=y)
    return model


def _masked():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=np.ma.masked_invalid([0.0, np.nan, 1.0]))
    return model


def _mixed_discrete():
    with pm.Model() as model:
        z = pm.Categorical("z", [0.2, 0.3, 0.5], shape=2)
        b = pm.Bernoulli("b", 0.4)
        k = pm.Poisson("k", 3)
        s = pm.Gamma("s", 2, 1)
        pm.Normal("y", z.sum() + b + k, s, observed=[1.0, 4.0])
    return model


def _potential():
    with pm.Model() as model:
        x = pm.Normal("x", shape=3)
        pm.Potential("soft", -0.5 * pt.sum(x**2))
        pm.Normal("y", x.sum(), 1.0, observed=0.3)
    return model


def _special_likelihoods():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Censored("censored", pm.Normal.dist(mu), lower=0, upper=None, observed=[0.0, 1.2])
        pm.Truncated("truncated", pm.Normal.dist(mu), lower=-1, observed=[0.3, 0.4])
        pm.Mixture(
            "mixture", [0.3, 0.7], [pm.Normal.dist(mu), pm.Normal.dist(mu, 2)], observed=[0.1]
        )
        pm.CustomDist(
            "custom", mu, logp=lambda v, m: -0.5 * (v - m) ** 2 - 0.5 * np.log(2 * np.pi),
            random=lambda m, rng=None, size=None: rng.normal(m, size=size), observed=[0.7],
        )  # fmt: skip
    return model


def _initial_values():
    with pm.Model() as model:
        x = pm.Normal("x", initval=3.0)
        y = pm.Normal("z", x, initval=x + 1)
        pm.Normal("y", y, observed=0.0)
    return model


ZOO = [
    _transforms, _coords_and_data, _matrix, _mutable_observed, _masked, _mixed_discrete,
    _potential, _special_likelihoods, _initial_values,
]  # fmt: skip


@pytest.mark.parametrize("make", ZOO)
def test_log_density_is_the_models_own(make):
    model = make()
    density = TemperedDensity(model, QUICK)
    reference = model.compile_logp(**QUICK)
    free = [rv.name for rv in model.free_RVs]
    assert [rv.name for rv in density.model.free_RVs] == free
    for seed in range(3):
        point, _ = density.draw_prior(np.random.default_rng(seed))
        assert [value.name for value in model.value_vars] == list(point)
        log_prior, log_likelihood = density(point)
        assert log_prior + log_likelihood == pytest.approx(float(reference(point)), rel=1e-12)
    names = [rv.name for rv in model.free_RVs + model.deterministics]
    assert sorted(density.constrain(stack([point]))) == sorted(names)


@pytest.mark.parametrize("name", ["1|g_sigma", "g,sigma", "x[1]:z (log)", "float64"])
def test_any_name_will_do(name):
    """Bambi gives such names; some look like a NumPy dtype."""
    with pm.Model() as model:
        pm.Normal("y", pm.HalfNormal(name), observed=0.5)
    density = TemperedDensity(model, QUICK)
    point, _ = density.draw_prior(np.random.default_rng(1))
    assert list(density.constrain(stack([point, point]))) == [name]
    assert np.isfinite(density(point)).all()


@pytest.mark.parametrize("make", [_transforms, _mixed_discrete, _potential])
def test_logp_of_the_tempered_model_is_linear_in_beta_with_exact_ends(make):
    density = TemperedDensity(make(), QUICK)
    logp = density.model.compile_logp(**QUICK)
    point, _ = density.draw_prior(np.random.default_rng(0))
    log_prior, log_likelihood = density(point)
    for beta in (0.0, 1e-3, 0.5, 1.0):
        density.set_beta(beta)
        assert float(logp(point)) == pytest.approx(log_prior + beta * log_likelihood, rel=1e-12)
    density.set_beta(0.0)
    assert float(logp(point)) == log_prior


def test_an_impossible_likelihood_is_absent_at_beta_0():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Uniform("y", x, x + 1, observed=0.5)
    density = TemperedDensity(model, QUICK)
    impossible = {"x": np.array(3.0)}
    assert density(impossible)[1] == -np.inf
    logp = density.model.compile_logp(**QUICK)
    density.set_beta(0.0)
    assert float(logp(impossible)) == density(impossible)[0]
    density.set_beta(1e-3)
    assert float(logp(impossible)) == -np.inf


def test_observed_data_are_swapped_without_recompiling():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=[0.0, 1.0])
        pm.Poisson("k", pm.math.exp(mu), observed=2)
    density = TemperedDensity(model)
    point = {"mu": np.array(0.3)}
    for y, k in [([0.0, 1.0], 2), ([5.0, -1.0], 7)]:
        data = {"y": np.array(y), "k": np.array(k)}
        density.set_data(data)
        expected = stats.norm.logpdf(y, 0.3).sum() + stats.poisson.logpmf(k, np.exp(0.3))
        assert density(point)[1] == pytest.approx(expected, rel=1e-12)
        density.set_data(density.data)
        assert density(point, data)[1] == pytest.approx(expected, rel=1e-12)
    assert density.data["k"] == 2
    with pytest.raises(ValueError, match="y must have the shape"):
        density.set_data({"y": np.zeros(3), "k": np.array(1)})
    with pytest.raises(ValueError, match="expected the observed variables"):
        density.set_data({"y": np.zeros(2)})


def test_data_used_as_covariate_and_as_observation_are_replaced_as_observation_only():
    with pm.Model() as model:
        y = pm.Data("series", [1.0, 2.0, 3.0])
        rho = pm.Normal("rho")
        pm.Normal("y", rho * y, 1.0, observed=y)
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
    with pm.Model(check_bounds=check_bounds) as model:
        p = pm.Normal("p")
        pm.Bernoulli("y", p, observed=1)
    density = TemperedDensity(model, QUICK)
    jitted = JittedDensity(density)
    assert jitted.with_gradient
    for terms in (density.terms, jitted):
        assert terms({"p": np.array(1.5)}, density.data)[1] == pytest.approx(ell)


def test_the_original_model_is_left_alone():
    model = _initial_values()
    before = dict(model.rvs_to_initial_values)
    TemperedModel.from_model(model)
    assert model.rvs_to_initial_values == before
    assert type(model) is pm.Model


def test_prior_draws_have_the_prior_distribution():
    """Kolmogorov-Smirnov on 2000 draws of each variable, α = 1e-3 over 4 comparisons."""
    with pm.Model() as model:
        s = pm.Gamma("s", 2, 1)
        pm.Normal("x", 0, s)
        p = pm.Dirichlet("p", [1.0, 2.0, 3.0])
        order = pm.Normal("order", 0, 1, shape=2, transform=transforms.ordered)
        pm.Normal("y", p[0] + order[0], observed=0.0)
    density = TemperedDensity(model, QUICK)
    points = [density.draw_prior(np.random.default_rng(i))[0] for i in range(2000)]
    draws = density.constrain(stack(points))

    def pvalues(draws):
        return [
            stats.kstest(draws["s"], stats.gamma(2).cdf).pvalue,
            stats.kstest(draws["x"] / draws["s"], stats.norm.cdf).pvalue,
            stats.kstest(draws["p"][:, 0], stats.beta(1, 5).cdf).pvalue,
            # The smaller of two standard normals.
            stats.kstest(draws["order"][:, 0], lambda v: 1 - stats.norm.sf(v) ** 2).pvalue,
        ]

    assert min(pvalues(draws)) > 1e-3 / 4
    broken = {**draws, "s": np.log1p(draws["s"])}
    assert min(pvalues(broken)) < 1e-3 / 4


def test_streams_decide_the_draws():
    sampler = ForwardSampler(TemperedModel.from_model(_coords_and_data()), observed=True)

    def draw(seed):
        sampler.seed(np.random.default_rng(seed))
        return sampler.draw()

    (point, data), (again, data_again), (other, _) = draw(1), draw(1), draw(2)
    assert all(np.array_equal(point[k], again[k]) for k in point)
    assert all(np.array_equal(data[k], data_again[k]) for k in data)
    assert not np.array_equal(point["slope"], other["slope"])


def test_rejection_counts_the_prior_draws():
    """Geometric numbers of draws with the known P(S); mean of 2000 within 4 standard errors."""
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("positive", pt.switch(x > 1, 0.0, -np.inf))
    density = TemperedDensity(model, QUICK)
    found = [density.draw_prior(np.random.default_rng(i)) for i in range(2000)]
    assert all(point["x"] > 1 for point, _ in found)
    counts = np.array([n for _, n in found])
    p = stats.norm.sf(1)
    error = np.sqrt((1 - p) / p**2 / 2000)
    assert abs(counts.mean() - 1 / p) < 4 * error
    assert abs((counts - 1).mean() - 1 / p) > 4 * error  # twin: the accepted draw not counted


def test_an_impossible_prior_is_refused(monkeypatch):
    monkeypatch.setattr("pymc_bdmc.density.tempered.MAX_PRIOR_DRAWS", 50)
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("never", pt.switch(x > 100, 0.0, -np.inf))
    with pytest.raises(ValueError, match=r"-inf at all of 50 prior draws, by never\. Check"):
        TemperedDensity(model, QUICK).draw_prior(RNG)


def test_a_prior_that_underflows_is_refused():
    with pm.Model() as model:
        g = pm.Weibull("g", 1e-6, 1)
        pm.Normal("y", g, observed=0.0)
    with pytest.raises(ValueError, match="g: some of its prior draws are rounded to the edge"):
        TemperedDensity(model, QUICK).draw_prior(np.random.default_rng(0))


def _dependent_sizes():
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 3, 2)
        slope = pm.Normal("slope", 0, pm.math.sqrt(scale), shape=3)
        share = pm.Dirichlet("share", np.ones(2))
        kind = pm.Categorical("kind", share, shape=2)
        walk = pm.GaussianRandomWalk("walk", sigma=scale, init_dist=pm.Normal.dist(), steps=2)
        cut = pm.Truncated("cut", pm.Normal.dist(slope[0], 1), lower=0)
        pm.Normal("y", slope.sum() + kind.sum() + walk.sum() + cut, 1.0, observed=0.0)
    return model


def test_many_draws_at_once_are_draws():
    """Two-sample tests of every element against one draw at a time; α = 1e-3 over all of them."""
    sampler = ForwardSampler(TemperedModel.from_model(_dependent_sizes()))
    assert sampler.batch
    many = sampler.draw_many(4000, np.random.default_rng(1))
    sampler.seed(np.random.default_rng(2))
    singles = [sampler.draw()[0] for _ in range(1000)]
    p_values = []
    for name, values in many.items():
        single = np.stack([point[name] for point in singles])
        assert values.shape[1:] == single.shape[1:]
        for a, b in zip(values.reshape(4000, -1).T, single.reshape(1000, -1).T, strict=True):
            p_values.append(stats.ks_2samp(a, b).pvalue)
            p_values.append(stats.spearmanr(a[:-1], a[1:]).pvalue)  # rows are independent
    assert min(p_values) > 1e-3 / len(p_values)
    dependence = stats.spearmanr(many["scale_log__"], np.abs(many["slope"][:, 0])).statistic
    assert dependence > 0.1
    again = sampler.draw_many(4000, np.random.default_rng(1))
    np.testing.assert_array_equal(again["walk"], many["walk"])


def _autoregression():
    """PyTensor does not vectorize the loop inside of it."""
    with pm.Model() as model:
        path = pm.AR("path", [0.5], sigma=1.0, init_dist=pm.Normal.dist(), steps=3)
        pm.Normal("y", path, 1.0, observed=np.zeros(4))
    return model


def _careless_draws():
    """Right for one draw, but many would share their noise."""

    def random(mu, rng=None, size=None):
        return mu + rng.normal()

    with pm.Model() as model:
        mu = pm.Normal("mu")
        path = pm.CustomDist("path", mu, logp=lambda x, m: -0.5 * (x - m) ** 2, random=random)
        pm.Normal("y", path, 1.0, observed=0.0)
    return model


@pytest.mark.parametrize("build", [_autoregression, _careless_draws])
def test_what_cannot_be_batched_is_drawn_one_by_one(build):
    sampler = ForwardSampler(TemperedModel.from_model(build()))
    assert not sampler.batch
    draws = sampler.draw_many(400, np.random.default_rng(1))
    rest = draws["path"].reshape(400, -1)[:, 0] - draws.get("mu", 0.0)
    assert stats.kstest(rest, "norm").pvalue > 1e-3  # α


def test_states_that_cannot_be_written_together_are_written_one_by_one(monkeypatch):
    """Some operations cannot take many rows, such as PyTensor's IfElse."""
    with pm.Model() as model:
        x, scale = pm.Normal("x", shape=2), pm.HalfNormal("scale")
        pm.Deterministic("mean", scale * x)
        pm.Normal("y", x, 1, observed=[1.0, 2.0])
    points = {"x": np.arange(6.0).reshape(3, 2), "scale_log__": np.array([-1.0, 1.0, 2.0])}
    together = TemperedDensity(model).constrain(points)

    def fail(*args):
        raise TypeError("no rows")

    monkeypatch.setattr("pymc_bdmc.density.graph.vectorize_graph", fail)
    one_by_one = TemperedDensity(model).constrain(points)
    assert one_by_one.keys() == together.keys() == {"x", "scale", "mean"}
    for name, values in together.items():
        np.testing.assert_allclose(one_by_one[name], values)


def test_a_density_goes_to_other_processes_without_what_is_compiled():
    """As step methods send it, where the platform does not fork, after a compiled call."""
    density = TemperedDensity(eight_schools(centred=True))
    assert density.jitted.without_gradient
    sent = cloudpickle.loads(cloudpickle.dumps(density))
    point = density.prior.draw()[0]
    assert sent(point) == pytest.approx(density(point))


def test_results_on_other_data_are_those_of_a_new_model():
    """Twin: the results on the data of before."""

    def model_of(y):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("x"), 1.0, observed=pm.Data("data", y))
        return model

    def sampled(model):
        options = {"chains": 4, "temperatures": 10, "simulate": bdmc.FromPrior(1), "cores": 1}
        return pm.sample_bdmc(model, progressbar=False, random_seed=1, **options)

    model, other = model_of([1.0, 0.0]), [1.0, 2.5]
    first = sampled(model)
    model.set_data("data", other)
    found, expected = sampled(model), sampled(model_of(other))
    for group in ("forward", "reverse", "real", "posterior", "observed_data"):
        assert found[group].dataset.equals(expected[group].dataset), group
        assert not found[group].dataset.equals(first[group].dataset)
