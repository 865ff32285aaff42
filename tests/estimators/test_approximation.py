"""Divergences of an approximation have closed forms and honest errors, or are called invalid."""

import numpy as np
import pytest
from scipy import stats

from pymc_bdmc import estimators as est

TRIALS = 200
MOST_MISSES = int(stats.binom.isf(1e-4, TRIALS, 0.05))
"""Most 95 % intervals that may miss; α = 1e-4 for each of six comparisons, 6e-4 in all."""
RUNS, PARTICLES = 16, 32


def normal_terms(theta, deviation):
    """Log p − log q of p = N(0, 1) and q = N(0.2, deviation²) in every element of θ."""
    log_q = -0.5 * ((theta - 0.2) / deviation) ** 2 - np.log(deviation)
    return np.sum(-0.5 * theta**2 - log_q, axis=-1)


def kl_of_normals(d, deviation):
    """KL(q‖p) and KL(p‖q) of the same."""
    to = 0.5 * (deviation**2 + 0.04 - 1) - np.log(deviation)
    back = np.log(deviation) + (1 + 0.04) / (2 * deviation**2) - 0.5
    return d * to, d * back


def misses(truth, pairs, degrees):
    """Count the 95 % intervals of (value, error) that do not contain the truth."""
    reach = stats.t.isf(0.025, degrees)
    return sum(abs(value - truth) > reach * error for value, error in pairs)


def weighted_runs(terms, rng, spread=0.3):
    """Mean over the posterior, by runs whose weights are unbiased for Z = 1, and log Ẑ."""
    log_weights = rng.normal(-(spread**2) / 2, spread, RUNS)
    shares = np.full((RUNS, PARTICLES), 1 / PARTICLES)
    found = est.posterior_log_ratio(terms, shares, log_weights)
    return found, np.log(np.mean(np.exp(log_weights)))


@pytest.mark.parametrize(("d", "deviation"), [(1, 1.3), (5, 0.7)])
def test_closed_forms_of_normals(d, deviation):
    """Broken twins: another sign, and log ML of another model."""
    rng, (to, back) = np.random.default_rng(d), kl_of_normals(d, deviation)
    elbos, returns = [], []
    for _ in range(TRIALS):
        elbo = est.evidence_lower_bound(
            normal_terms(0.2 + deviation * rng.normal(size=(1000, d)), deviation)
        )
        theta = rng.normal(size=(RUNS, PARTICLES, d))
        mean, log_ml = weighted_runs(normal_terms(theta, deviation), rng)
        assert elbo.valid
        elbos.append((-elbo.value, elbo.error))
        returns.append((mean.estimate.value - log_ml, mean.difference_error))
    assert misses(to, elbos, 499) <= MOST_MISSES < misses(-to, elbos, 499)
    assert misses(back, returns, RUNS - 1) <= MOST_MISSES < misses(back - 0.5, returns, RUNS - 1)


def test_the_covariance_with_log_ml_counts():
    """If terms depend on the weight of a run, errors added in quadrature are wrong.

    E[w log w]/E[w] = 0.125 for these weights, so the truth is 0.
    """
    rng, found = np.random.default_rng(1), []
    for _ in range(TRIALS):
        log_weights = rng.normal(-0.125, 0.5, RUNS)
        # If a run is unbiased, p = N(0, 1) is the mean over runs by weight, not that of a run.
        terms = (log_weights - 0.125)[:, None] + 0.1 * rng.normal(size=(RUNS, PARTICLES))
        mean = est.posterior_log_ratio(terms, np.full(terms.shape, 1 / PARTICLES), log_weights)
        value = mean.estimate.value - np.log(np.mean(np.exp(log_weights)))
        found.append((value, mean.difference_error, mean.estimate.error))
    values, right, alone = np.array(found).T
    assert abs(values.std() / right.mean() - 1) < 0.3
    assert not abs(values.std() / np.hypot(alone, 0.5 / 4).mean() - 1) < 0.3  # broken twin


@pytest.mark.parametrize("spread", [0.5, 1.5])
def test_errors_on_a_funnel_are_honest_or_withheld(spread):
    """q normal and p a funnel: log p has the tail of a log-normal variable."""
    rng, found = np.random.default_rng(7), []
    truth = -(spread**2) / 18 - np.log(3) - 0.5 * np.exp(spread**2 / 2) + 1 + np.log(spread)
    for _ in range(TRIALS):
        v, x = rng.normal(size=(2, 10_000)) * [[spread], [1]]
        log_p = -(v**2) / 18 - np.log(3) - v / 2 - 0.5 * x**2 * np.exp(-v)
        log_q = -0.5 * (v / spread) ** 2 - np.log(spread) - 0.5 * x**2
        elbo = est.evidence_lower_bound(log_p - log_q)
        if elbo.valid:
            found.append((elbo.value, elbo.error))
        assert est.certified_divergence(log_p - log_q, 0.0, 0.999) <= -truth
    assert len(found) > 0.8 * TRIALS
    assert misses(truth, found, 4999) <= MOST_MISSES


def test_tails_without_a_mean_are_told():
    """A Cauchy posterior and a normal q: KL(p‖q) is infinite, and no row may print a number."""
    rng, heavy, light = np.random.default_rng(1), [], []
    for _ in range(200):
        theta = rng.standard_cauchy((RUNS, PARTICLES))
        terms = stats.cauchy.logpdf(theta) - stats.norm.logpdf(theta)
        heavy.append(weighted_runs(terms, rng)[0].estimate)
        terms = normal_terms(rng.normal(size=(RUNS, PARTICLES, 1)), 0.7)
        light.append(weighted_runs(terms, rng)[0].estimate)
    assert sum(each.valid for each in heavy) <= 4
    assert sum(each.valid for each in light) >= 196
    assert "Pareto k" in heavy[-1].reason


def test_the_certified_bound_holds_and_is_sharp():
    """At a confidence of 50 %, a bound without its confidence terms fails too often.

    Draws can miss an upper tail, too: a spike of p that one draw of q in 10,000 finds.
    """
    assert est.evidence_lower_bound(np.full(1000, 3.5)).value == 3.5
    assert est.certified_divergence(np.full(1000, 3.5), 3.4) == 0.0
    rng, (to, _) = np.random.default_rng(3), kl_of_normals(2, 1.5)
    terms = [normal_terms(0.2 + 1.5 * rng.normal(size=(4000, 2)), 1.5) for _ in range(TRIALS)]
    bounds = np.array([est.certified_divergence(each, 0.0, 0.5) for each in terms])
    assert np.sum(bounds > to) <= stats.binom.isf(1e-4, TRIALS, 0.5)
    assert np.median(bounds) > 0.8 * to
    naive = np.array([-each.mean() for each in terms])  # broken twin
    assert np.sum(naive > to) > np.sum(bounds > to) + 50
    spike = np.where(rng.random((TRIALS, 4000)) < 1e-4, np.log(0.5 / 1e-4), np.log(0.5))
    truth = -(1e-4 * np.log(0.5 / 1e-4) + (1 - 1e-4) * np.log(0.5 / (1 - 1e-4)))
    bounds = np.array([est.certified_divergence(each, 0.0, 0.95) for each in spike])
    assert (bounds <= truth).mean() >= 0.95


def test_where_one_density_is_zero():
    """Particles of weight zero do not count."""
    rng = np.random.default_rng(1)
    terms = np.append(rng.normal(size=999), -np.inf)
    elbo = est.evidence_lower_bound(terms)
    assert (elbo.value, elbo.valid) == (-np.inf, True)
    assert "−∞ at 1 of 1000 draws" in elbo.reason
    assert np.isfinite(est.certified_divergence(terms, 2.0))
    values = rng.normal(size=(16, 32))
    values[0, 0] = np.inf
    mean, _ = weighted_runs(values, rng)
    assert mean.estimate.value == np.inf
    assert mean.estimate.reason.startswith("q is zero on 0.00")
    values[0, 0] = np.nan
    assert "edge of the support" in weighted_runs(values, rng)[0].estimate.reason
    values[:, 0], shares = 0.0, np.tile([0.0] + [1 / 31] * 31, (16, 1))
    lost, log_weights = values.copy(), np.linspace(-0.1, 0.1, 16)
    lost[:, 0] = np.nan
    first, second = (est.posterior_log_ratio(each, shares, log_weights) for each in (values, lost))
    assert first == second
    nothing = est.posterior_log_ratio(values, shares, np.full(16, -np.inf)).estimate
    assert (nothing.valid, nothing.reason) == (False, "every weight is zero")


def test_bad_weights_and_few_draws_are_told():
    rng = np.random.default_rng(1)
    mean, _ = weighted_runs(rng.normal(size=(16, 32)), rng, spread=3.0)
    assert not mean.estimate.valid
    assert "weights of the runs: effective sample size" in mean.estimate.reason
    assert "too few to judge a tail" in est.evidence_lower_bound(rng.normal(size=150)).reason
    for bad, message in (([0.0, 1.0], "4 are needed"), ([0.0, np.nan, 1, 2], "is NaN or")):
        with pytest.raises(ValueError, match=message):
            est.evidence_lower_bound(bad)


def test_total_variation_is_bounded():
    """The total variation of N(0, 1) and N(shift, 1) is known, and KL = shift²/2."""
    for shift in (0.05, 0.5, 2.0, 5.0):
        exact = 2 * stats.norm.cdf(shift / 2) - 1
        assert exact <= est.total_variation_of_divergence(shift**2 / 2) <= 1
        assert not exact <= est.total_variation_of_divergence(shift**2 / 9)  # broken twin
    assert est.total_variation_of_divergence(-1.0) == 0.0
    assert est.total_variation_of_divergence(np.inf) == 1.0
