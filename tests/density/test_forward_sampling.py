"""Draws of a model's variables: exact on the log scale, and as often as they are asked for."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import special, stats

from pymc_bdmc.density import prior
from pymc_bdmc.density.tempered import TemperedDensity
from tests.density.short import QUICK, density_of


def test_draws_survive_other_graphs_of_the_same_constants():
    """PyTensor writes to constants while it compiles the log density, which shares them."""
    with pm.Model() as model:
        scales = pm.HalfNormal.dist([5, 3], shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=1, sd_dist=scales)
        effects = pm.MvNormal("effects", np.zeros(2), chol=chol, shape=(4, 2))
        pm.Normal("y", effects.sum(axis=1), pm.HalfNormal("s"), observed=np.zeros(4))
    density = TemperedDensity(model, QUICK)
    density.check()
    for sampler in (density.prior, density.joint()):
        for _ in range(3):
            assert np.isfinite(sampler.draw()[0]["chol_cholesky-cov-packed__"]).all()
    density.prior.draw_many(5, np.random.default_rng(1))


def joint_sampler(make):
    sampler = density_of(make).joint()
    sampler.seed(np.random.default_rng(1))
    return sampler


def counts(rate):
    """A count whose log rate is normal, with a standard deviation of 40."""
    return joint_sampler(lambda: pm.Poisson("y", rate(pm.Normal("x", 0, 40)), observed=3))


def test_counts_that_no_integer_holds_are_drawn_again():
    """θ of the pairs that remain is normal up to the log of the largest count.

    Kolmogorov-Smirnov on 500 draws, α = 1e-3; twin: the prior, which is not cut.
    """
    sampler = counts(pm.math.exp)
    pairs = [sampler.draw_supported() for _ in range(500)]
    logs = np.array([point["x"] for point, _, _ in pairs])
    assert max(trials for *_, trials in pairs) > 1
    assert all(0 <= data["y"] <= 2**53 for _, data, _ in pairs)
    assert stats.kstest(logs, stats.truncnorm(-np.inf, np.log(2.0**53) / 40, 0, 40).cdf)[1] > 1e-3
    assert stats.kstest(logs, stats.norm(0, 40).cdf).pvalue < 1e-3


def test_draws_that_never_fit_are_named(monkeypatch):
    """To draw free counts again would cut their prior."""
    monkeypatch.setattr(prior, "MOST_FAILED", 20)
    with pytest.raises(ValueError, match=r"20 successive draws of the model.*simulate=Given"):
        counts(lambda x: pm.math.exp(300 + 0 * x)).draw_supported()
    free = joint_sampler(lambda: pm.Poisson("z", pm.math.exp(pm.Normal("x", 0, 40))))
    with pytest.raises(ValueError, match="z: it cannot be drawn"):
        [free.draw_supported() for _ in range(100)]


@pytest.mark.parametrize(
    ("data", "edges"),
    [
        (lambda a: pm.Beta("y", a, a, observed=[0.5]), (0.0, 1.0)),
        (lambda a: pm.Gamma("y", a, 1, observed=[0.5]), (0.0,)),
        (lambda a: pm.Dirichlet("y", pm.math.stack([a, a]), observed=[0.5, 0.5]), (0.0,)),
    ],
    ids=["beta", "gamma", "dirichlet"],
)
def test_data_rounded_to_the_edge_of_their_support_are_drawn_again(data, edges):
    """The density may be infinite there; twin: without the edges such data are drawn."""
    sampler, at_edge = joint_sampler(lambda: data(pm.LogNormal("a", -4, 2))), []
    assert sampler._observed["y"] == edges
    for known in (edges, ()):
        sampler._observed = {"y": known}
        values = np.array([sampler.draw_supported()[1]["y"] for _ in range(100)])
        at_edge.append(np.isin(values, edges).any())
    assert at_edge == [False, True]


def test_zeros_that_have_mass_are_kept():
    sampler = joint_sampler(
        lambda: pm.HurdleGamma("y", 0.5, pm.LogNormal("a"), 1, observed=[0.0, 0.5])
    )
    values = np.array([sampler.draw_supported()[1]["y"] for _ in range(20)])
    assert 0 < (values == 0).mean() < 1


def log_gamma_cdf(z, shape):
    """CDF of the logarithm of a Gamma variable; its leading term where exp(z) underflows."""
    tail = np.exp(shape * np.minimum(z, -300) - special.gammaln(shape + 1))
    return np.where(z < -300, tail, special.gammainc(shape, np.exp(np.clip(z, -300, 300))))


def log_odds_cdf(z, a, b):
    """CDF of the log-odds of a Beta variable, likewise at both ends."""
    below, above = (
        np.where(x < -300, np.exp(p * x - special.betaln(p, q)) / p,
                 special.betainc(p, q, special.expit(np.maximum(x, -300))))
        for x, p, q in ((np.minimum(z, 0), a, b), (np.minimum(-z, 0), b, a))
    )  # fmt: skip
    return np.where(z < 0, below, 1 - above)


TINY = np.array([0.001, 0.01])
UNDERFLOWING = [
    (pm.Gamma, (TINY, 3.0), lambda z: log_gamma_cdf(z + np.log(3), TINY)),
    (pm.InverseGamma, (TINY, 3.0), lambda z: 1 - log_gamma_cdf(np.log(3) - z, TINY)),
    (pm.Beta, (TINY, TINY[::-1]), lambda z: log_odds_cdf(z, TINY, TINY[::-1])),
    (pm.Gamma, (2 * TINY + 1, 3.0), lambda z: log_gamma_cdf(z + np.log(3), 2 * TINY + 1)),
]


@pytest.mark.parametrize(("family", "parameters", "cdf"), UNDERFLOWING)
def test_draws_on_the_log_scale_are_exact(family, parameters, cdf):
    """Kolmogorov-Smirnov on 2000 draws of every element, and one by one; α = 1e-4 a comparison.

    Twin: a shape larger by 1, as before the last step of the construction.
    """
    sampler = density_of(lambda: family("x", *parameters, shape=(3, 2))).prior
    (draws,) = sampler.draw_many(2000, np.random.default_rng(1)).values()
    assert draws.shape == (2000, 3, 2)
    assert np.isfinite(draws).all()
    sampler.seed(np.random.default_rng(2))
    single = np.stack([next(iter(sampler.draw()[0].values())) for _ in range(200)])
    for found in (draws, single):
        columns = cdf(found).reshape(-1, 2).T
        assert min(stats.kstest(column, "uniform").pvalue for column in columns) > 1e-4
    late = draws + np.random.default_rng(3).exponential(1 / 0.01, draws.shape)
    assert stats.kstest(cdf(late).ravel(), "uniform").pvalue < 1e-4


@pytest.mark.parametrize("shape", [(2,), (3, 2)])
def test_dirichlet_draws_are_exact_though_they_underflow(shape):
    """Log-odds of two weights are those of a Beta variable; α = 1e-4. Twin: the parameters swapped.

    On centred logarithms w₁ − w₂ = 2 z₁, and the density is finite at every draw.
    """
    density = density_of(lambda: pm.Dirichlet("w", TINY, shape=shape))
    (draws,) = density.prior.draw_many(2000, np.random.default_rng(1)).values()
    assert draws.shape == (2000, *shape[:-1], 1)
    for a, b, is_right in ((*TINY, True), (*TINY[::-1], False)):
        columns = log_odds_cdf(2 * draws.reshape(2000, -1), a, b).T
        assert all((stats.kstest(each, "uniform").pvalue > 1e-4) == is_right for each in columns)
    assert all(np.isfinite(density.log_prior({"w_simplex__": z}, density.data)) for z in draws[:50])


def test_children_see_what_was_drawn_on_the_log_scale():
    density = density_of(lambda: pm.Normal("x", pm.Gamma("rate", 0.5, 1), 1e-6))
    draws = density.prior.draw_many(50, np.random.default_rng(1))
    assert np.abs(np.exp(draws["rate_log__"]) - draws["x"]).max() < 1e-4


def test_effects_whose_precision_rounds_to_zero_are_left_out_and_counted():
    """P(τ < 1e-308) is 0.049 to 0.051 for Gamma(0.0042, 0.0042): 400 draws, α = 1e-6."""
    sampler = density_of(
        lambda: pm.Normal("effect", 0, tau=pm.Gamma("precision", 0.0042, 0.0042), shape=3)
    ).prior
    sampler.seed(np.random.default_rng(1))
    drawn = [sampler.draw_supported() for _ in range(400)]
    assert all(np.isfinite(value).all() for point, *_ in drawn for value in point.values())
    trials = sum(trials for *_, trials in drawn)
    share = log_gamma_cdf(np.log(5e-324) + np.log(0.0042), 0.0042)
    low, high = stats.binom.interval(1 - 1e-6, trials, share)
    assert low <= trials - 400 <= high


def sticks(alpha):
    return pm.StickBreakingWeights("w", alpha, K=4)


def sticks_as_told(alpha):
    v = pm.Beta("v", 1, alpha, shape=4)
    return pt.concatenate([[1.0], pt.cumprod(1 - v)]) * pt.concatenate([v, [1.0]])


def mixture(weights):
    w = weights(pm.Gamma("alpha", 1, 1))
    pm.NormalMixture("y", w, np.arange(5.0), 1, observed=0)


@pytest.mark.parametrize(
    ("weights", "remedy", "as_told"),
    [
        (sticks, r"w: .* v = pm.Beta\(.v., 1, alpha, shape=K\)", sticks_as_told),
    ],
)
def test_weights_that_are_rounded_to_zero_are_refused_with_another_form(weights, remedy, as_told):
    """Draws of the other form, the weights of a mixture, have a finite log density."""
    with pytest.raises(ValueError, match=remedy):
        density_of(lambda: mixture(weights)).check()
    density = density_of(lambda: mixture(as_told)).check()
    draws = density.prior.draw_many(50, np.random.default_rng(1))
    for i in range(50):
        point = {name: values[i] for name, values in draws.items()}
        assert not density.prior.supports(point) or np.isfinite(density.log_joint(point))


@pytest.mark.filterwarnings("error")
def test_draws_that_overflow_warn_of_nothing():
    """SciPy's Pareto overflows at small α."""
    sampler = joint_sampler(lambda: pm.Pareto("x", pm.LogNormal("alpha", 0, 5), 0.1))
    assert not np.isfinite([sampler.draw()[0]["x_interval__"] for _ in range(200)]).all()


def test_sums_of_many_terms_are_evaluated():
    """NumPy takes 32 arrays at a time, and rewrites join terms to one sum or product."""
    n = 100
    with pm.Model() as model:
        x = pm.Normal("x", shape=n)
        pm.Potential("sum", sum(-(x[i] ** 2) for i in range(n)))
        pm.Normal("y", sum(pt.exp(x[i]) for i in range(n)), 1, observed=0.0)
    density, values = TemperedDensity(model), np.linspace(-1, 1, n)
    factors = dict(density.factors({"x": values}))
    assert factors["sum"] == pytest.approx(-(values**2).sum())
    assert factors["y"] == pytest.approx(stats.norm(np.exp(values).sum()).logpdf(0))
    density.check()
