"""References that are normal in latent variables given the others, and those with a prior's share.

Statistical tests pass within `SIGMAS` standard errors (two-sided α = 6e-5 a comparison, seeded),
and their twins must exceed them.
"""

from contextlib import nullcontext

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats
from scipy.sparse import csr_array
from scipy.special import logsumexp

from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine
from pymc_bdmc.fits.fit import Fitting
from pymc_bdmc.fits.nested import Marginal, NoFit, fit_nested, refit_nested, wrong_modes
from pymc_bdmc.reference import nested
from pymc_bdmc.reference.contract import Defensive
from pymc_bdmc.reference.metric import Metric
from pymc_bdmc.reference.nested import NestedReference
from pymc_bdmc.reference.sparse import factorise, solve, sparsity_of, times_root, unroot
from pymc_bdmc.reference.student import make_reference
from tests.models import SIGMAS

DATA = np.array([0.9, 1.2, 1.05])


def groups(*, centred=True, counts=False):
    """Three group effects of an unknown scale; normal data, or counts."""
    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 1)
        if centred:
            effect = pm.Normal("effect", mean, scale, shape=3)
        else:
            effect = mean + scale * pm.Normal("raw", 0, 1, shape=3)
        if counts:
            pm.Poisson("y", pm.math.exp(effect), observed=[1, 0, 4])
        else:
            pm.Normal("y", effect, 0.1, observed=DATA)
    return model


def log_ml_of_groups():
    """Log ML of normal data, by quadrature over log scale."""
    grid = np.linspace(-15, 3, 4001)
    scale = np.exp(grid)
    variance = scale**2 + 0.01
    n, total, squares = len(DATA), DATA.sum(), DATA @ DATA
    found = -n / 2 * np.log(2 * np.pi * variance) - squares / variance / 2
    found += (total / variance) ** 2 / (n / variance + 1 / 4) / 2
    found -= np.log1p(4 * n / variance) / 2
    found += stats.halfnorm.logpdf(scale) + grid
    return logsumexp(found) + np.log(grid[1] - grid[0])


class Fitted:
    """A nested reference, fitted to a model's own data."""

    def __init__(self, model, seed=1):
        self.engine = CompiledEngine(TemperedDensity(model))
        self.density = self.engine.on(self.engine.density.data)
        self.split = self.engine._structure
        self.again(seed)

    def again(self, seed):
        """Fit with another seed."""
        self.rng = np.random.default_rng(seed)
        prior = self.density.draw_prior(256, self.rng)
        ells = self.density.terms(prior)[:, 1]
        try:
            self.reference, modes = fit_nested(self.density, prior, ells, self.split, self.rng)
            self.reason = modes.reason
        except NoFit as no_fit:
            self.reference, self.reason = None, str(no_fit)
        return self

    def log_weights(self, reference, n=4000):
        thetas, log_r = reference.sample(n, self.rng, self.density)
        return self.density.terms(thetas).sum(axis=1) - log_r


@pytest.fixture(scope="module")
def normal():
    return Fitted(groups())


@pytest.fixture(scope="module")
def counts():
    return Fitted(groups(counts=True))


def z_of(log_weights, log_z):
    weights = np.exp(log_weights - log_z)
    return (weights.mean() - 1) / (weights.std() / np.sqrt(len(weights)))


def test_weights_average_to_z_and_are_even(normal):
    """Though the posterior of the scale reaches 0. Twin: without the volume of x given ψ."""
    log_z, g = log_ml_of_groups(), normal.log_weights(normal.reference)
    assert abs(z_of(g, log_z)) < SIGMAS
    assert np.var(np.exp(g - log_z)) < 1
    thetas, log_r = normal.reference.sample(4000, normal.rng, normal.density)
    found = normal.reference.given(thetas[:, normal.reference.others], normal.density)
    log_volume = normal.reference._log_volume(found.factors)
    broken = normal.density.terms(thetas).sum(axis=1) - (log_r - log_volume)
    assert np.var(np.exp(broken - log_z)) > 1


@pytest.mark.parametrize(("halvings", "why"), [(None, ""), (10, "no mode")])
def test_large_counts_have_a_mode(counts, monkeypatch, halvings, why):
    """The first Newton step is millions too long. Twin: it is halved ten times at most."""
    if halvings:
        monkeypatch.setattr(nested, "MOST_HALVINGS", halvings)
    data = {"y": np.array([2_000_000, 1_500_000, 3_000_000])}
    density, rng = counts.engine.on(data), np.random.default_rng(1)
    prior = density.draw_prior(256, rng)
    with pytest.raises(NoFit, match=why) if why else nullcontext():
        refit_nested(density, counts.reference, prior, rng)


@pytest.mark.parametrize("name", ["normal", "counts"])
def test_centred_and_not_centred_have_the_same_evidence(name, request):
    """Twin: log ML by one of them without the volume of x given ψ."""
    centred = request.getfixturevalue(name)
    other = Fitted(groups(centred=False, counts=name == "counts"))
    found = [each.log_weights(each.reference) for each in (centred, other)]
    assert abs(z_between(*found)) < SIGMAS
    thetas, log_r = other.reference.sample(4000, other.rng, other.density)
    psis = thetas[:, other.reference.others]
    factors = other.reference.given(psis, other.density).factors
    g = other.density.terms(thetas).sum(axis=1) - log_r
    assert abs(z_between(found[0], g + other.reference._log_volume(factors))) > SIGMAS


def known_sum(noise):
    """Six effects of an unknown scale whose sum is known but for a little noise."""
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, pm.HalfNormal("scale", 1), shape=6)
        pm.Normal("y", effect.sum(), noise, observed=1.0)
    return model


@pytest.mark.parametrize(("noise", "used"), [(1e-5, [0]), (1e-4, range(7)), (1e-3, [6])])
def test_what_rounding_may_hide_is_refused(noise, used, monkeypatch):
    """Whatever the seed, and log ML is right if it is used. In between it may be refused.

    Twin: fits that are used all the same.
    """
    fitted = Fitted(known_sum(noise))
    grid = np.linspace(-30, 3, 40_001)
    scale = np.exp(grid)
    density = stats.norm.logpdf(1.0, 0, np.sqrt(6 * scale**2 + noise**2))
    log_z = logsumexp(density + stats.halfnorm.logpdf(scale) + grid) + np.log(grid[1] - grid[0])

    def distances():
        fits = [each for seed in range(6) if (each := fitted.again(seed).reference)]
        return [abs(z_of(fitted.log_weights(each), log_z)) for each in fits]

    found = distances()
    assert len(found) in used
    assert all(z < SIGMAS for z in found)
    monkeypatch.setattr("pymc_bdmc.fits.nested.lost_by_rounding", lambda *_: 0.0)
    assert (max(distances()) > SIGMAS) == (noise == 1e-5)


def folded():
    """Twenty latent variables of an unknown spread, of which the sines are measured."""
    rng = np.random.default_rng(0)
    y = np.sin(rng.normal(size=20)) + 0.2 * rng.normal(size=20)
    with pm.Model() as model:
        x = pm.Normal("x", 0, pm.HalfNormal("spread", 1), shape=20)
        pm.Normal("y", pm.math.sin(x), 0.2, observed=y)
    return model, y


def log_ml_of_folded(y):
    """By quadrature over the log spread, and over each variable given it."""
    grid, z = np.linspace(-9, 2.5, 600), np.linspace(-8, 8, 4001)
    spread = np.exp(grid)
    found = stats.halfnorm.logpdf(spread) + grid
    sines = np.sin(spread[:, None] * z)
    for each in y:
        found += logsumexp(stats.norm.logpdf(each, sines, 0.2) + stats.norm.logpdf(z), axis=1)
        found += np.log(z[1] - z[0])
    return logsumexp(found) + np.log(grid[1] - grid[0])


def test_modes_of_latent_variables_are_looked_for_at_several_psi(monkeypatch):
    """Whatever the seed. Twins: one ψ alone; and fits that are used, whose log ML is too low."""
    model, y = folded()
    fitted = Fitted(model)

    def refused():
        return ["several modes" in fitted.again(seed).reason for seed in range(6)]

    assert all(refused())
    search = "pymc_bdmc.fits.nested.wrong_modes"
    monkeypatch.setattr(search, lambda *given: wrong_modes(*given[:2], given[2][:1], given[3]))
    assert not all(refused())
    monkeypatch.setattr(search, lambda *_: "")
    log_z = log_ml_of_folded(y)
    fits = [fitted.again(seed).reference for seed in range(6)]
    assert min(z_of(fitted.log_weights(each), log_z) for each in fits) < -SIGMAS


def z_between(*logs):
    """Difference of two mean weights in its standard errors."""
    weights = [np.exp(g - logs[0].max()) for g in logs]
    return np.subtract(*(w.mean() for w in weights)) / np.sqrt(
        sum(w.var() / len(w) for w in weights)
    )


class OneEffect(Fitted):
    """A reference of one scale and one effect, whose density is integrated on a grid.

    At each log scale ψ the grid of the effect has a place and a width of its own. Tails beyond the
    grid hold less than 1e-4.
    """

    def __init__(self, counts):
        with pm.Model() as model:
            effect = pm.Normal("effect", 0.5, pm.HalfNormal("scale", 1), shape=1)
            if counts:
                pm.Poisson("y", pm.math.exp(effect), observed=[4])
            else:
                pm.Normal("y", effect, 0.3, observed=[0.9])
        super().__init__(model)
        assert self.split.latent.tolist() == [False, True]
        self.u = np.linspace(-5, 5, 201)
        self.psi = 25 * np.sinh(np.linspace(-4, 4, 401)) / np.sinh(4)

    def densities(self, psis, scale=1.0):
        """r(ψ, x) at all ψ and, for each, x = x̂ + sinh(u)/L; and |dx/du| there.

        With another ``scale`` than 1 the mode depends on x, by x̂ + (1 − scale)(x − x̂).
        """
        found = self.reference.given(psis[:, None], self.density)
        z = scale * np.sinh(self.u) / found.factors
        thetas = np.stack([np.repeat(psis, len(self.u)), (found.modes + z).ravel()], axis=1)
        r = np.exp(self.reference.log_density(thetas, self.density)).reshape(z.shape)
        return r, np.cosh(self.u) / found.factors

    def share_below(self, psis, xs):
        """The probability of less than x given ψ, for pairs of them."""
        found = self.reference.given(psis[:, None], self.density)
        r, slope = self.densities(psis)
        below = integrate.cumulative_trapezoid(r * slope, self.u, initial=0)
        places = np.arcsinh((xs[:, None] - found.modes) * found.factors)[:, 0]
        return [
            np.interp(place, self.u, each / each[-1])
            for place, each in zip(places, below, strict=True)
        ]


@pytest.fixture(scope="module", params=[False, True], ids=["normal", "counts"])
def one_effect(request):
    return OneEffect(counts=request.param)


def test_the_density_integrates_to_one(one_effect):
    """By quadrature. Twins: without log det, and with a mode that depends on x, as of θ*."""

    def integral(integrand):
        marginal = np.trapezoid(integrand, one_effect.u, axis=1)
        return np.trapezoid(marginal, one_effect.psi)

    r, slope = one_effect.densities(one_effect.psi)
    assert abs(integral(r * slope) - 1) < 1e-3
    factors = one_effect.reference.given(one_effect.psi[:, None], one_effect.density).factors
    assert abs(integral(r * slope / factors) - 1) > 0.05
    broken, slope = one_effect.densities(one_effect.psi, scale=0.8)
    assert abs(integral(broken * slope) - 1) > 0.05


def log_density_from_x(reference, thetas, density):
    """The broken twin, whose Newton steps start at the x of a state, such as θ*."""
    psis, xs = thetas[:, reference.others], thetas[:, reference.latent]
    found = reference.given(psis, density, xs)
    z = xs - found.modes
    times_root(reference.sparsity, found.factors, z)
    return reference.log_marginal(reference.to_units(psis)) + reference.log_conditional(found, z)


def test_newton_steps_that_start_at_a_prediction_keep_the_density_normalised(monkeypatch):
    """After a single step the modes still depend on its start, which ψ alone predicts.

    Twin: the step starts at x.
    """
    fitted = OneEffect(counts=True)
    assert fitted.reference.starts.shape == (2, 1)
    monkeypatch.setattr(nested, "MOST_STEPS", 1)

    def integral():
        r, slope = fitted.densities(fitted.psi)
        return np.trapezoid(np.trapezoid(r * slope, fitted.u, axis=1), fitted.psi)

    assert abs(integral() - 1) < 1e-3
    monkeypatch.setattr(NestedReference, "log_density", log_density_from_x)
    assert abs(integral() - 1) > 0.05


def test_states_with_one_psi_share_mode_and_precision(counts, monkeypatch):
    """log r is the same at x̂ + v and x̂ − v, whichever of them is θ*. Twin: steps start at x."""
    reference, density = counts.reference, counts.density
    assert len(reference.starts) == 1 + len(reference.others)
    monkeypatch.setattr(nested, "MOST_STEPS", 1)
    thetas, _ = reference.sample(200, counts.rng, density)
    psis = thetas[:, reference.others]
    found = reference.given(psis, density)
    z = counts.rng.normal(size=(200, len(reference.latent)))
    pair = [reference.join(psis, found, sign * z) for sign in (1, -1)]
    one, other = (reference.log_density(each, density) for each in pair)
    np.testing.assert_allclose(one, other, atol=1e-7)
    one, other = (log_density_from_x(reference, each, density) for each in pair)
    assert np.median(abs(one - other)) > 0.1


def test_predicted_starts_save_evaluations(counts):
    """Twin: every Newton step starts at the mode for the likeliest ψ."""
    predicted, density = counts.reference, counts.density
    psis = predicted.sample(200, np.random.default_rng(6), density)[0][:, predicted.others]
    mode = predicted.given(np.median(psis, axis=0)[None], density).modes
    spent = []
    for reference in (predicted, predicted._replace(starts=mode)):
        before = density.evaluations
        reference.given(psis, density)
        spent.append(density.evaluations - before)
    assert spent[0] < 0.9 * spent[1]


def test_draws_have_the_density_by_quadrature(one_effect):
    """ψ, and x given ψ, by Kolmogorov and Smirnov: α = 5e-4 each. Twins: wider draws."""
    thetas, _ = one_effect.reference.sample(1000, one_effect.rng, one_effect.density)
    psis, xs = thetas.T
    r, slope = one_effect.densities(one_effect.psi)
    marginal = np.trapezoid(r * slope, one_effect.u, axis=1)
    below = integrate.cumulative_trapezoid(marginal, one_effect.psi, initial=0)

    def p_values(psis, xs):
        shares = np.interp(psis, one_effect.psi, below), one_effect.share_below(psis, xs)
        return [stats.kstest(share, "uniform").pvalue for share in shares]

    assert min(p_values(psis, xs)) > 5e-4
    middle, modes = (
        np.median(psis),
        one_effect.reference.given(psis[:, None], one_effect.density).modes[:, 0],
    )
    assert p_values(middle + 1.6 * (psis - middle), xs)[0] < 5e-4
    assert p_values(psis, modes + 1.6 * (xs - modes))[1] < 5e-4


@pytest.mark.parametrize("name", ["normal", "counts"])
def test_a_pattern_with_a_missing_entry_makes_uneven_weights(name, request):
    """But r is normalised: E[r/r′] = 1 for draws from a wider r′ with the right pattern.

    Twin: the log det of the right precision, which is not that of the factor by which x is drawn.
    """
    fitted = request.getfixturevalue(name)
    right, density = fitted.reference, fitted.density
    pattern = np.eye(4)
    pattern[0, 2:] = pattern[2:, 0] = 1  # the mean, but not with the first effect
    missing = right._replace(sparsity=sparsity_of(csr_array(pattern)))
    weights = [np.exp(g - g.max()) for g in map(fitted.log_weights, (right, missing))]
    even, uneven = (np.var(w) / np.mean(w) ** 2 for w in weights)
    assert uneven > 3 * even
    wide = right._replace(degrees_of_freedom=5.0)
    thetas, log_wide = wide.sample(4000, fitted.rng, fitted.density)
    log_ratio = missing.log_density(thetas, fitted.density) - log_wide
    assert abs(z_of(log_ratio, 0.0)) < SIGMAS
    psis = thetas[:, right.others]
    volumes = [each._log_volume(each.given(psis, density).factors) for each in (right, missing)]
    assert abs(z_of(log_ratio + volumes[0] - volumes[1], 0.0)) > SIGMAS


def test_the_conditional_is_exact_if_the_likelihood_is_normal(normal, counts):
    """Then weights depend on ψ alone: they are those of the marginal. With counts it is a t."""
    assert np.isinf(normal.reference.degrees_of_freedom)
    assert counts.reference.degrees_of_freedom == 10
    thetas, log_r = normal.reference.sample(50, normal.rng, normal.density)
    g = normal.density.terms(thetas).sum(axis=1) - log_r
    phis = normal.reference.to_units(thetas[:, normal.reference.others])
    marginal = Marginal(normal.reference, normal.density).terms(phis)[:, 1]
    assert np.allclose(g, marginal - normal.reference.marginal.log_density(phis), atol=1e-6)


@pytest.mark.parametrize("name", ["normal", "counts"])
def test_draws_have_the_density_that_is_told(name, request):
    """E_r[r′/r] = 1 for a normalised r′, here the reference of other data, which r dominates.

    And log_density(θ) is what `sample` returns with θ. Twin: a mode that depends on x.
    """
    fitted = request.getfixturevalue(name)
    reference = fitted.reference
    thetas, log_r = reference.sample(4000, fitted.rng, fitted.density)
    assert np.allclose(reference.log_density(thetas, fitted.density), log_r, atol=1e-8)
    wide = reference._replace(degrees_of_freedom=5.0)
    thetas, log_wide = wide.sample(4000, fitted.rng, fitted.density)
    log_r = reference.log_density(thetas, fitted.density)
    assert abs(z_of(log_r - log_wide, 0.0)) < SIGMAS
    shifted = thetas.copy()
    shifted[:, reference.latent] *= 0.5  # as if the mode moved along with x
    broken = reference.log_density(shifted, fitted.density)
    assert abs(z_of(broken - log_wide, 0.0)) > SIGMAS


def test_the_split_is_that_of_the_structure(normal):
    names = normal.engine.jitted.names[0]
    assert names == ["mean", "scale", "effect"]
    assert normal.split.latent.tolist() == [True, False, True, True, True]
    assert "1 mode" in normal.reason


def arrow(d, dense):
    """A precision with dense rows, and a band."""
    precision = np.diag(np.full(d, 4.0)) - np.eye(d, k=1) - np.eye(d, k=-1)
    precision[:dense] = precision[:, :dense] = 0.1
    precision[np.arange(d), np.arange(d)] = 4.0 + d
    return precision


def entries_of(precision, sparsity):
    """Entries by differences along groups, as of gradients."""
    groups, rows, columns = sparsity[:3]
    differences = np.array(
        [precision[:, groups == group].sum(axis=1) for group in range(groups.max() + 1)]
    )
    return differences[groups[columns], rows]


@pytest.mark.parametrize(("dense", "n_groups"), [(0, 3), (1, 4), (3, 6)])
def test_few_differences_recover_a_sparse_precision(dense, n_groups):
    """Their number does not grow with d. Twin: a pattern with a missing entry."""
    d = 30
    precision = arrow(d, dense)

    def recovered(pattern):
        sparsity = sparsity_of(pattern)
        found = np.zeros((d, d))
        entries = entries_of(precision, sparsity)
        found[sparsity.rows, sparsity.columns] = found[sparsity.columns, sparsity.rows] = entries
        return found, sparsity.groups.max() + 1

    pattern = csr_array(precision != 0)
    found, needed = recovered(pattern)
    assert needed == n_groups
    assert np.allclose(found, precision)
    broken = precision.copy()
    broken[10, 11] = broken[11, 10] = 0.0
    assert not np.allclose(recovered(csr_array(broken != 0))[0], precision)


@pytest.mark.parametrize("dense", [0, 1, 3, 30])
def test_factors_are_those_of_a_dense_matrix(dense):
    """A matrix that is not positive definite is noted, and gets a factor all the same."""
    d, rng = 30, np.random.default_rng(5)
    precision = arrow(d, dense)
    sparsity = sparsity_of(csr_array(precision != 0))
    entries = np.array([entries_of(each, sparsity) for each in (precision, -precision)])
    factors, is_definite = np.empty((2, len(sparsity.indices))), np.empty(2, dtype=bool)
    factorise(sparsity, entries, factors, is_definite)
    assert is_definite.tolist() == [True, False]
    assert (factors[:, sparsity.starts[:-1]] > 0).all()
    log_volume = np.log(factors[0, sparsity.starts[:-1]]).sum()
    assert np.isclose(log_volume, np.linalg.slogdet(precision)[1] / 2)
    x = rng.normal(size=(1, d))
    solved, turned = x @ precision, x.copy()
    solve(sparsity, factors[:1], solved)
    assert np.allclose(solved, x)
    times_root(sparsity, factors[:1], turned)
    assert np.isclose(turned @ turned.T, x @ precision @ x.T)
    unroot(sparsity, factors[:1], turned)
    assert np.allclose(turned, x)


def test_an_arrow_is_eliminated_without_further_entries():
    """Its dense row comes last. Twin: in the order as it is, all of L would be filled."""
    precision = np.diag(np.full(50, 60.0))
    precision[0] = precision[:, 0] = 1.0
    precision[0, 0] = 60.0
    assert len(sparsity_of(csr_array(precision != 0)).indices) == 99
    assert np.count_nonzero(np.abs(np.linalg.cholesky(precision)) > 1e-9) == 50 * 51 / 2


def correlated():
    with pm.Model() as model:
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
        effect = pm.MvNormal("effect", np.zeros(2), chol=chol, shape=(3, 2))
        pm.Normal("y", effect, 0.2, observed=0.1 * np.arange(6).reshape(3, 2))
    return model


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_elements_of_a_covariance_are_in_units_of_its_diagonal():
    """The reference of (L11, L21, L22) is normalised on the scale of θ, here about any marginal."""
    jitted = TemperedDensity(correlated()).jitted
    latent = jitted.elements_of(["effect"])
    assert latent.sum() == 6
    marginal = make_reference(
        np.array([-0.5, 0.3, -1.0]),
        Metric(np.array([0.5, 0.8, 0.6]), np.array([[0.6, 0.8, 0.0]]), np.array([0.5])),
    )
    rest = dict.fromkeys(NestedReference._fields)
    check_units(NestedReference(**rest | dict(marginal=marginal, units=jitted.units[~latent])))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
def test_a_fit_has_elements_in_units_of_the_diagonal():
    """The density takes half a minute to compile."""
    check_units(Fitted(correlated()).reference)


def check_units(reference):
    """Twin: without the Jacobian of the units."""
    assert reference.units.tolist() == [-1, 2, -1]
    phis = np.random.default_rng(4).normal(size=(5, 3))
    psis = reference.from_units(phis)
    assert np.allclose(psis[:, 1], phis[:, 1] * np.exp(phis[:, 2]))
    assert np.allclose(reference.to_units(psis), phis)
    rng = np.random.default_rng(5)
    psis = reference.from_units(reference.marginal.draw(4000, rng))
    other = stats.multivariate_t(
        np.median(psis, axis=0), np.diag(0.1 * np.ones(3)), df=30
    )  # on the scale of ψ, and narrow
    g = other.logpdf(psis) - reference.log_marginal(reference.to_units(psis))
    assert abs(z_of(g, 0.0)) < SIGMAS
    assert abs(z_of(g - psis[:, 2], 0.0)) > SIGMAS


def separated():
    """A logistic regression that only a prior with heavy tails bounds."""
    x = np.linspace(-2, 2, 10)
    with pm.Model() as model:
        a, b = pm.Cauchy("a", 0, 2.5), pm.Cauchy("b", 0, 2.5)
        pm.Bernoulli("y", logit_p=a + b * x, observed=(x > 0).astype(int))
    return model


def test_a_share_of_the_prior_bounds_the_weights():
    """Log ML by quadrature is −2.4198. Twin: without the prior weights exceed their bound."""
    engine = CompiledEngine(TemperedDensity(separated()))
    assert engine._structure.has_heavy_tails
    density, rng = engine.on(engine.density.data), np.random.default_rng(1)
    prior = density.draw_prior(256, rng)
    fit = Fitting(density, prior, engine._structure, rng).first(None)
    reference = fit.tuning.reference
    assert isinstance(reference, Defensive)

    def log_weights(reference):
        thetas, log_r = reference.sample(20_000, rng, density)
        assert np.allclose(reference.log_density(thetas, density, rng), log_r, atol=1e-10)
        return density.terms(thetas).sum(axis=1) - log_r

    g = log_weights(reference)
    bound = -np.log(reference.share)  # a likelihood of outcomes is at most 1
    assert g.max() <= bound
    assert abs(z_of(g, -2.4198)) < SIGMAS
    assert log_weights(reference.core).max() > bound


def test_a_remote_scale_has_no_marginal_density(normal):
    """There a Newton step is as large as the log density, and rounding leaves nothing of either."""
    remote = np.full((40, 1), np.linspace(40, 80, 40)[:, None])
    found = normal.reference.given(remote, normal.density)
    best = normal.reference.given(np.log([[0.2]]), normal.density)
    assert (found.log_marginal < best.log_marginal[0] - 50).all()
