"""Block analysis of exponential averages: spread, bias, limits and the central-limit check."""

import numpy as np
import pytest

from pymc_bdmc.estimators import error_analysis, jarzynski_forward
from pymc_bdmc.testsystems import BimodalGaussian
from tests.systems import GaussianWork

Z_ALPHA = 3.5  # two-sided α = 4.7e-4 of one comparison


def replicate_averages(work, m, rng, replicates=4000):
    draws = work.forward(m * replicates, rng).reshape(replicates, m)
    return np.log(np.exp(draws).mean(axis=1))


def test_spread_and_bias_of_block_averages():
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(1)
    analysis = error_analysis(work.forward(2**17, rng))
    for index in (0, 3):
        m = analysis.block_sizes[index]
        averages = replicate_averages(work, m, rng)
        assert analysis.variance[index] == pytest.approx(averages.var(), rel=0.1)
        # B(M) = C + D, with D(N) out of sight but tiny here
        error = averages.std() * np.sqrt(1 / 4000 + m / 2**17)
        assert abs(analysis.drift[index] - averages.mean()) < Z_ALPHA * error
        assert abs(-analysis.drift[index] - averages.mean()) > Z_ALPHA * error  # sign swapped
    # M = 1 is the mean of the logs: −σ²/2
    assert analysis.drift[0] == pytest.approx(-0.5, abs=0.02)


def test_limits_cover():
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(2)
    runs = [error_analysis(work.forward(1000, rng)) for _ in range(500)]
    errors = np.array([jarzynski_forward_value(r) for r in runs])  # L_N − log Z, since log Z = 0
    inside = [r.limits[0] <= e <= r.limits[1] for r, e in zip(runs, errors, strict=True)]
    tolerance = Z_ALPHA * np.sqrt(500 * 0.95 * 0.05)
    assert abs(sum(inside) - 475) < tolerance
    narrow = [r.limits[0] / 2 <= e <= r.limits[1] / 2 for r, e in zip(runs, errors, strict=True)]
    assert abs(sum(narrow) - 475) > tolerance
    assert np.mean([r.estimate.valid for r in runs]) > 0.9


def test_limits_cover_better_than_those_of_a_symmetric_interval_for_z():
    """−log(1 ∓ zs), which Favaro et al. use, is ±zs + z²s²/2 in second order: too high."""
    work, rng = GaussianWork(stds=(1.2,)), np.random.default_rng(9)
    runs = [error_analysis(work.forward(100, rng)) for _ in range(2000)]
    errors = np.array([jarzynski_forward_value(r) for r in runs])
    low, high = np.transpose([r.limits for r in runs])
    reach = (high - low) / 2
    np.testing.assert_allclose((low + high) / 2, -(reach**2) / (2 * 1.959964**2), rtol=1e-5)
    theirs = -np.log1p(reach), -np.log1p(-np.minimum(reach, 0.999))
    small = reach < 0.1
    np.testing.assert_allclose(theirs[0][small], (-reach + reach**2 / 2)[small], atol=4e-4)
    ours_cover = np.mean((low <= errors) & (errors <= high))
    theirs_cover = np.mean((theirs[0] <= errors) & (errors <= theirs[1]))
    assert ours_cover > theirs_cover
    below, above = np.mean(errors < low), np.mean(errors > high)
    assert below > above  # and theirs are higher still
    assert np.mean(errors < theirs[0]) > below


def jarzynski_forward_value(analysis):
    middle = (analysis.limits[0] + analysis.limits[1]) / 2
    return analysis.estimate.value + middle


def test_estimate_is_the_average_less_its_bias():
    forward = GaussianWork().forward(1000, np.random.default_rng(3))
    analysis = error_analysis(forward)
    assert jarzynski_forward_value(analysis) == pytest.approx(jarzynski_forward(forward).value)
    assert analysis.estimate.value > jarzynski_forward(forward).value
    weights = np.exp(forward)
    delta = weights.std(ddof=1) / weights.mean() / np.sqrt(1000)
    assert analysis.estimate.error == pytest.approx(delta)


@pytest.mark.parametrize(("std", "n"), [(3.0, 2000), (4.0, 2000), (5.0, 20_000)])
def test_says_invalid_until_the_central_limit_holds(std, n):
    # 95 % limits cover 68, 47 and 35 % here.
    work, rng = GaussianWork(stds=(std,)), np.random.default_rng(4)
    runs = [error_analysis(work.forward(n, rng)) for _ in range(50)]
    assert not any(r.estimate.valid for r in runs)


def test_agreement_needs_larger_blocks_for_harder_work():
    rng = np.random.default_rng(5)
    found = [
        error_analysis(GaussianWork(stds=(std,)).forward(2**16, rng)).agreement
        for std in (0.1, 1.0, 1.5)
    ]
    assert found == sorted(found)
    assert found[0] == 1 < found[-1]


def test_reverse_mirrors_forward():
    values = GaussianWork().forward(500, np.random.default_rng(6))
    forward, reverse = error_analysis(values), error_analysis(-values, "reverse")
    assert reverse.estimate.value == -forward.estimate.value
    assert reverse.estimate.error == forward.estimate.error
    assert reverse.limits == forward.limits


def test_mean_square_error_limits_hold_the_truth():
    work, rng = GaussianWork(stds=(1.0,)), np.random.default_rng(7)
    analysis = error_analysis(work.forward(2**15, rng))
    truth = np.mean(replicate_averages(work, 16, rng) ** 2)
    lower, upper = analysis.mean_square_error[:, list(analysis.block_sizes).index(16)]
    assert 0.9 * lower <= truth <= 1.1 * upper


def test_bimodal_evidence_within_limits():
    system, rng = BimodalGaussian(), np.random.default_rng(8)
    analysis = error_analysis(system.forward(10_000, rng), probability=0.999)
    lower, upper = analysis.limits
    assert lower <= jarzynski_forward_value(analysis) - system.log_z <= upper


def test_zero_weights():
    values = np.where(np.arange(4096) % 2, 0.0, -np.inf)
    analysis = error_analysis(values)
    assert analysis.block_sizes[0] > 1  # single weights have no finite logs
    assert analysis.estimate.value == pytest.approx(np.log(0.5), abs=1e-3)
    sparse = np.full(4096, -np.inf)
    sparse[0] = 0.0
    assert not error_analysis(sparse).estimate.valid


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(63),), "64 chains"),
        ((np.full(64, -np.inf),), "every weight is zero"),
        ((np.zeros(64), "sideways"), "direction"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        error_analysis(*arguments)
