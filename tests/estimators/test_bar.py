"""Bennett's acceptance ratio and the histogram: pymbar, exact answers and broken twins."""

import numpy as np
import pymbar
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

from pymc_bdmc import estimators as est
from pymc_bdmc.estimators.bar import crooks_misfit, log_acceptances
from tests.systems import GammaWork, GaussianWork

WORK = GaussianWork(stds=(1.5,), log_z=3.0)
Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def test_agrees_with_pymbar():
    work, rng = GammaWork(shape=5.0, rate=0.5), np.random.default_rng(1)
    forward, reverse = work.forward(3000, rng), work.reverse(300, rng)
    ours = est.bar(forward, reverse)
    # pymbar takes the work of each process: −log w forward, and +log w for the reverse one.
    theirs = [
        pymbar.bar(-forward, reverse, relative_tolerance=1e-12, uncertainty_method=method)
        for method in ("BAR", "MBAR")
    ]
    assert ours.value == pytest.approx(-theirs[0]["Delta_f"], abs=1e-6)
    assert ours.error == pytest.approx(max(each["dDelta_f"] for each in theirs), rel=0.01)


def tight(apart, n, rng, std=0.1):
    """Works so many nats apart that vary by far less, which Crooks' relation forbids."""
    return rng.normal(0, std, n), rng.normal(apart, std, n)


@pytest.mark.parametrize(("apart", "n"), [(70, 16), (1e5, 200)])
def test_tight_works_that_lie_apart_do_not_overlap(apart, n):
    """Broken twin: chains that cross are counted by their relative variance."""
    forward, reverse = tight(apart, n, np.random.default_rng(10))
    estimate = est.bar(forward, reverse)
    assert not estimate.valid
    assert estimate.error > 1000
    assert "hardly overlap" in estimate.reason
    crossing = log_acceptances(forward, reverse, estimate.value)
    sizes = np.array([est.effective_sample_size(a) for a in crossing])
    assert sizes.min() >= 5
    assert np.sqrt(np.sum((n / sizes - 1) / (n - 1))) < 0.1


def test_tight_works_that_overlap_must_keep_to_crooks_relation():
    """The means must differ by the variance, 0.01 nats. With 16 chains, z is 4 to 5 otherwise."""
    rng = np.random.default_rng(11)
    found = [est.bar(*tight(apart, 16, rng)) for apart in (0.3, 1.0) * 10]
    assert not any(each.valid for each in found)
    assert all("Crooks" in each.reason for each in found)
    assert all(est.bar(*tight(0.01, 16, rng)).valid for _ in range(20))


@pytest.mark.parametrize(("std", "n_f", "n_r"), [(0.1, 16, 16), (3.0, 100, 20)])
def test_correct_weights_keep_to_crooks_relation(std, n_f, n_r):
    """The misfit is standard normal: 200 replicates, α = 5e-4 a mean and 1e-3 a variance.

    Broken twin: one nat is added to every reverse weight, which BAR's equation absorbs.
    """
    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(12)
    pairs = [(work.forward(n_f, rng), work.reverse(n_r, rng)) for _ in range(200)]
    for shift, holds in ((0.0, True), (1.0, False)):
        shifted = [(f, r + shift) for f, r in pairs]
        found = np.array([crooks_misfit(*pair, est.bar(*pair).value) for pair in shifted])
        moments = np.mean(found), np.mean(found**2) - 1
        bounds = Z_ALPHA / np.sqrt(200) + 0.1, Z_ALPHA * np.sqrt(2 / 200) + 0.1
        assert all(np.abs(moments) < bounds) is holds


def test_zero_weights_count_as_chains():
    """Half of the forward weights are zero: the prior mass of the rest is 1/2, so Z halves."""
    rng = np.random.default_rng(8)
    forward, reverse = WORK.forward(4000, rng), WORK.reverse(4000, rng)
    found = est.bar(np.concatenate([forward, np.full(4000, -np.inf)]), reverse)
    assert abs(found.value - 3.0 + np.log(2)) < Z_ALPHA * found.error


def test_overlap_is_its_integral():
    n_f, n_r, std = 40_000, 20_000, 2.0
    p_f, p_r = norm(-2, std).pdf, norm(2, std).pdf
    exact, _ = quad(
        lambda x: (n_f + n_r) * p_f(x) * p_r(x) / (n_f * p_f(x) + n_r * p_r(x)), -15, 15
    )
    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(9)
    found = est.overlap(work.forward(n_f, rng), work.reverse(n_r, rng), 0.0)
    assert found == pytest.approx(exact, abs=0.01)


# ---- The histogram ----


def test_value_is_the_fixed_point():
    """It solves the equations of the two-state weighted histogram; the error is Bennett's."""
    rng = np.random.default_rng(1)
    weights = WORK.forward(300, rng), WORK.reverse(120, rng)
    pooled, log_z = np.concatenate(weights), 0.0
    for _ in range(500):
        masses = 1 / (weights[0].size + weights[1].size * np.exp(pooled - log_z))
        log_z = np.log(np.sum(masses * np.exp(pooled)) / masses.sum())
    assert log_z == pytest.approx(est.histogram(*weights).value, abs=1e-9)
    work = GaussianWork()
    pair = work.forward(5000, rng), work.reverse(2000, rng)
    assert est.histogram(*pair).error == pytest.approx(est.bar(*pair).error, rel=0.03)


def test_distributions_obey_crooks_and_match_the_exact_densities():
    """α = 1e-3 over 16 intervals. Twin: the sign of log Z."""
    work, rng = GaussianWork(log_z=2.0), np.random.default_rng(4)
    found = est.work_distribution(work.forward(20_000, rng), work.reverse(20_000, rng))
    assert logsumexp(found.log_forward) == pytest.approx(0, abs=1e-9)
    assert logsumexp(found.log_reverse) == pytest.approx(0, abs=1e-9)
    crooks = found.log_forward - found.work - found.log_z
    np.testing.assert_allclose(found.log_reverse, crooks, atol=1e-12)
    edges = np.linspace(-6, 2, 17)
    # W = −log w: forward N(−log Z + 1/2, 1), reverse N(−log Z − 1/2, 1)
    for density, centre in zip(found.densities(edges), (-1.5, -2.5), strict=True):
        masses, twin = (np.diff(norm(c, 1).cdf(edges)) for c in (centre, -4 - centre))
        error = np.sqrt(masses / 20_000) + 1e-4
        assert (np.abs(density * np.diff(edges) - masses) < 4 * error).all()
        assert (np.abs(density * np.diff(edges) - twin) > 4 * error).any()


@pytest.mark.parametrize("concentration", [0.0, 0.5])
def test_posterior_agrees_with_importance_sampling(concentration):
    """Draws are thinned, yet count as a third. Twin: reverse works taken for forward ones."""
    forward, reverse = np.array([-1.0, 0.3, -0.5]), np.array([0.8, 1.0])
    masses = np.random.default_rng(6).dirichlet(np.full(5, 1 + concentration), size=50_000)
    log_z = np.log(masses @ np.exp([*forward, *reverse]))
    importance = np.exp(-2 * log_z)
    importance /= importance.sum()
    exact_mean = importance @ log_z
    exact_std = np.sqrt(importance @ (log_z - exact_mean) ** 2)
    found = est.histogram_posterior(
        forward, reverse, draws=3000, concentration=concentration, random_seed=7
    )
    draws, (lower, upper) = found.log_z, found.interval(0.95)
    assert lower < exact_mean < upper
    error = exact_std / np.sqrt(3000 / 3)
    assert abs(draws.mean() - exact_mean) < Z_ALPHA * error
    assert abs(draws.std() - exact_std) < Z_ALPHA * error
    assert abs(draws.mean() - log_z.mean()) > Z_ALPHA * error


def test_zero_and_vast_weights():
    found = est.work_distribution([-np.inf, -1e5, 0.0], [1e5, 0.0, np.inf])
    assert logsumexp(found.log_forward) == pytest.approx(0, abs=1e-9)
    posterior = est.histogram_posterior([-np.inf, -1e5, 0.0], [1e5, 0.0], draws=50, random_seed=1)
    assert np.isfinite(posterior.log_z).all()


@pytest.mark.parametrize(
    ("call", "forward", "reverse", "message"),
    [
        (est.bar, [], [1.0], "forward: no log weights"),
        (est.bar, [1.0], [np.nan], "reverse: log weights are NaN"),
        (est.bar, [np.inf], [1.0], "probability zero"),
        (est.bar, [1.0], [-np.inf], "probability zero"),
        (est.work_distribution, [-np.inf], [0.0], "no finite"),
        (est.histogram_posterior, [-np.inf], [0.0], "finite forward"),
    ],
)
def test_refuses(call, forward, reverse, message):
    with pytest.raises(ValueError, match=message):
        call(forward, reverse)
