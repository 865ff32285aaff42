"""Bennett's acceptance ratio against pymbar, exact answers and broken twins."""

import numpy as np
import pymbar
import pytest
from scipy.special import expit

from pymc_bdmc.estimators import bar, effective_sample_size, overlap
from pymc_bdmc.estimators.bar import crooks_misfit, log_acceptances

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def off_by(estimate, truth):
    return abs(estimate.value - truth) / estimate.error


@pytest.mark.parametrize(("n_f", "n_r"), [(500, 500), (3000, 300), (300, 3000)])
@pytest.mark.parametrize("work", ["gaussian_work", "skewed_work"])
def test_agrees_with_pymbar(work, n_f, n_r, request):
    work, rng = request.getfixturevalue(work), np.random.default_rng(1)
    forward, reverse = work.forward(n_f, rng), work.reverse(n_r, rng)
    ours = bar(forward, reverse)
    # pymbar takes the work of each process: −log w forward, and +log w for the reverse one.
    theirs = [
        pymbar.bar(-forward, reverse, relative_tolerance=1e-12, uncertainty_method=method)
        for method in ("BAR", "MBAR")
    ]
    assert ours.value == pytest.approx(-theirs[0]["Delta_f"], abs=1e-6)
    assert ours.error == pytest.approx(max(each["dDelta_f"] for each in theirs), rel=0.01)


def without_count_term(forward, reverse):
    """Broken twin: BAR that forgets log(n_f/n_r)."""
    grid = np.linspace(-10, 10, 1001)
    excess = [expit(forward - x).sum() - expit(x - reverse).sum() for x in grid]
    return grid[np.argmin(np.abs(excess))]


def test_unequal_count_term_dropped(gaussian_work):
    rng = np.random.default_rng(2)
    forward, reverse = gaussian_work.forward(20_000, rng), gaussian_work.reverse(2000, rng)
    estimate = bar(forward, reverse)
    assert off_by(estimate, 3.0) < Z_ALPHA
    assert abs(without_count_term(forward, reverse) - 3.0) > 20 * estimate.error


def test_swapped_sign_of_reverse_work(gaussian_work):
    rng = np.random.default_rng(3)
    forward, reverse = gaussian_work.forward(2000, rng), gaussian_work.reverse(2000, rng)
    assert off_by(bar(forward, reverse), 3.0) < Z_ALPHA
    swapped = bar(forward, -reverse)
    assert abs(swapped.value - 3.0) > 1.0
    assert not swapped.valid
    assert "Crooks" in swapped.reason


def test_error_is_the_spread_of_replicates(gaussian_work):
    rng = np.random.default_rng(4)
    runs = [
        bar(gaussian_work.forward(150, rng), gaussian_work.reverse(50, rng)) for _ in range(600)
    ]
    values, errors = np.array([(r.value, r.error) for r in runs]).T
    covered = np.sum(np.abs(values - 3.0) < 1.96 * errors)
    # 95 % ± 3.5 binomial standard deviations, and a twin with errors too small by a half
    tolerance = Z_ALPHA * np.sqrt(600 * 0.95 * 0.05)
    assert abs(covered - 570) < tolerance
    assert abs(np.sum(np.abs(values - 3.0) < 1.96 * errors / 2) - 570) > tolerance


@pytest.mark.slow
@pytest.mark.parametrize("std", [0.3, 1.0, 2.0, 3.0])
def test_coverage_where_valid(std):
    from tests.systems import GaussianWork

    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(5)
    runs = [bar(work.forward(200, rng), work.reverse(100, rng)) for _ in range(1000)]
    assert np.mean([r.valid for r in runs]) > 0.9
    assert 0.93 <= np.mean([abs(r.value) < 1.96 * r.error for r in runs if r.valid]) <= 0.97


def tight(apart, n, rng, std=0.1):
    """Works so many nats apart that vary by far less, which Crooks' relation forbids."""
    return rng.normal(0, std, n), rng.normal(apart, std, n)


def by_kish_alone(forward, reverse, log_z):
    """Broken twin: the error and the check count chains that cross by their relative variance."""
    sizes = [effective_sample_size(a) for a in log_acceptances(forward, reverse, log_z)]
    n = len(forward)
    return min(sizes) >= 5, np.sqrt(sum((n / size - 1) / (n - 1) for size in sizes))


@pytest.mark.parametrize("apart", [70, 1000, 1e5])
@pytest.mark.parametrize("n", [16, 200])
def test_tight_works_that_lie_apart_do_not_overlap(apart, n):
    forward, reverse = tight(apart, n, np.random.default_rng(10))
    estimate = bar(forward, reverse)
    assert not estimate.valid
    assert estimate.error > 1000
    assert "hardly overlap" in estimate.reason
    valid, error = by_kish_alone(forward, reverse, estimate.value)
    assert valid
    assert error < 0.1


@pytest.mark.parametrize("apart", [0.3, 1.0])
def test_tight_works_that_overlap_must_keep_to_crooks_relation(apart):
    """The means must differ by the variance, 0.01 nats. With 16 chains, z is 4 to 5 otherwise."""
    rng = np.random.default_rng(11)
    found = [bar(*tight(apart, 16, rng)) for _ in range(20)]
    assert not any(each.valid for each in found)
    assert all("Crooks" in each.reason for each in found)
    assert all(bar(*tight(0.01, 16, rng)).valid for _ in range(20))


@pytest.mark.parametrize(("std", "n_f", "n_r"), [(0.1, 16, 16), (1.0, 100, 20), (3.0, 100, 100)])
def test_correct_weights_keep_to_crooks_relation(std, n_f, n_r):
    """The misfit is standard normal: 400 replicates, α = 5e-4 a mean and 1e-3 a variance.

    Broken twin: one nat is added to every reverse weight, which BAR's equation absorbs.
    """
    from tests.systems import GaussianWork

    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(12)
    pairs = [(work.forward(n_f, rng), work.reverse(n_r, rng)) for _ in range(400)]
    for shift, holds in ((0.0, True), (1.0, False)):
        found = np.array([crooks_misfit(f, r + shift, bar(f, r + shift).value) for f, r in pairs])
        moments = np.mean(found), np.mean(found**2) - 1
        bounds = Z_ALPHA / np.sqrt(400) + 0.1, Z_ALPHA * np.sqrt(2 / 400) + 0.1
        assert all(np.abs(moments) < bounds) is holds


def test_says_invalid_without_overlap():
    from tests.systems import GaussianWork

    work, rng = GaussianWork(stds=(6.0,)), np.random.default_rng(6)
    runs = [bar(work.forward(200, rng), work.reverse(200, rng)) for _ in range(100)]
    assert np.mean([r.valid for r in runs]) < 0.05  # a 95 % interval covers 85 % here
    assert all("overlap" in r.reason for r in runs)


def test_sees_the_spike_that_forward_chains_miss(spike_work):
    rng = np.random.default_rng(7)
    estimate = bar(spike_work.forward(1000, rng), spike_work.reverse(1000, rng))
    assert estimate.valid
    assert off_by(estimate, 3.0) < Z_ALPHA


def test_zero_weights_count_as_chains(gaussian_work):
    # Half of the forward weights zero: the prior mass of the rest is 1/2, so Z halves.
    rng = np.random.default_rng(8)
    forward, reverse = gaussian_work.forward(4000, rng), gaussian_work.reverse(4000, rng)
    forward = np.concatenate([forward, np.full(4000, -np.inf)])
    assert off_by(bar(forward, reverse), 3.0 - np.log(2)) < Z_ALPHA


def test_all_weights_zero():
    estimate = bar([-np.inf, -np.inf], [1.0, 2.0])
    assert estimate.value == -np.inf
    assert np.isnan(estimate.error)
    assert not estimate.valid


def test_one_chain_a_direction_has_no_error():
    estimate = bar([0.0], [1.0])
    assert estimate.value == pytest.approx(0.5)
    assert np.isnan(estimate.error)
    assert not estimate.valid


def test_overlap_is_its_integral():
    from scipy.integrate import quad
    from scipy.stats import norm

    from tests.systems import GaussianWork

    n_f, n_r, std = 40_000, 20_000, 2.0
    p_f, p_r = norm(-2, std).pdf, norm(2, std).pdf
    exact = quad(lambda x: (n_f + n_r) * p_f(x) * p_r(x) / (n_f * p_f(x) + n_r * p_r(x)), -15, 15)[
        0
    ]
    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(9)
    assert overlap(work.forward(n_f, rng), work.reverse(n_r, rng), 0.0) == pytest.approx(
        exact, abs=0.01
    )


@pytest.mark.parametrize(
    ("forward", "reverse", "message"),
    [
        ([], [1.0], "forward: no log weights"),
        ([1.0], [np.nan], "reverse: log weights are NaN"),
        ([np.inf], [1.0], "probability zero"),
        ([1.0], [-np.inf], "probability zero"),
    ],
)
def test_refuses(forward, reverse, message):
    with pytest.raises(ValueError, match=message):
        bar(forward, reverse)
