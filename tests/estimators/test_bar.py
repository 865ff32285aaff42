"""Bennett's acceptance ratio against pymbar, exact answers and broken twins."""

import numpy as np
import pymbar
import pytest
from scipy.special import expit

from pymc_bdmc.estimators import bar, overlap

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
    theirs = pymbar.bar(-forward, reverse, relative_tolerance=1e-12)
    assert ours.value == pytest.approx(-theirs["Delta_f"], abs=1e-6)
    assert ours.error == pytest.approx(theirs["dDelta_f"], rel=0.01)


def without_count_term(forward, reverse):
    """Broken twin: BAR that forgets log(n_f/n_r)."""
    grid = np.linspace(-10, 10, 20_001)
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
    from pymc_bdmc.testsystems import GaussianWork

    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(5)
    runs = [bar(work.forward(200, rng), work.reverse(100, rng)) for _ in range(1000)]
    assert np.mean([r.valid for r in runs]) > 0.9
    assert 0.93 <= np.mean([abs(r.value) < 1.96 * r.error for r in runs if r.valid]) <= 0.97


def test_says_invalid_without_overlap():
    from pymc_bdmc.testsystems import GaussianWork

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

    from pymc_bdmc.testsystems import GaussianWork

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
