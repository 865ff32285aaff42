"""What every estimator must do for any log weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pymc_bdmc import estimators as est
from tests.estimators.table import ESTIMATORS
from tests.systems import GaussianWork

MIRRORED = {
    "forward average": "reverse average",
    "cumulant forward": "cumulant reverse",
    "cumulant combined": "cumulant combined",
    "bar": "bar",
    "histogram": "histogram",
}

every = pytest.mark.parametrize("name", ESTIMATORS)
quick = settings(max_examples=25, deadline=None, derandomize=True)


def weights(size, bound=50.0):
    values = st.floats(-bound, bound, allow_nan=False).map(lambda x: round(x, 6))
    return arrays(float, st.integers(1, size), elements=values)


@every
@quick
@given(forward=weights(12), reverse=weights(9), shift=st.floats(-1e3, 1e3), seed=st.integers(0, 99))
def test_shift_equivariance_and_permutation_invariance(name, forward, reverse, shift, seed):
    rng = np.random.default_rng(seed)
    before = ESTIMATORS[name](forward, reverse)
    after = ESTIMATORS[name](rng.permutation(forward) + shift, rng.permutation(reverse) + shift)
    assert after.value == pytest.approx(before.value + shift, abs=1e-6, nan_ok=True)
    assert after.error == pytest.approx(before.error, abs=1e-5, rel=1e-5, nan_ok=True)


@pytest.mark.parametrize("name", MIRRORED)
@quick
@given(forward=weights(12), reverse=weights(9))
def test_exchange_symmetry(name, forward, reverse):
    """Calling p posterior and posterior prior turns w into 1/w and Z into 1/Z."""
    one = ESTIMATORS[name](forward, reverse)
    other = ESTIMATORS[MIRRORED[name]](-reverse, -forward)
    assert other.value == pytest.approx(-one.value, abs=1e-8, nan_ok=True)
    assert other.error == pytest.approx(one.error, abs=1e-6, nan_ok=True)
    for kind in ("mean", "order statistics"):
        lower = est.certified_lower(forward, 0.97, kind=kind).lower
        assert est.certified_upper(-forward, 0.97, kind=kind).upper == -lower


@every
@quick
@given(forward=weights(6, bound=1e5), reverse=weights(6, bound=1e5))
def test_no_overflow(name, forward, reverse):
    """Warnings are errors here, so an overflow anywhere fails."""
    estimate = ESTIMATORS[name](forward, reverse)
    assert np.isfinite(estimate.value) or np.isnan(estimate.error)
    assert not (np.isinf(estimate.error) and estimate.valid)
    assert isinstance(estimate.valid, bool)


@quick
@given(forward=weights(6, bound=1e5), reverse=weights(6, bound=1e5))
def test_no_overflow_elsewhere(forward, reverse):
    """BAR's root cannot leave the pooled weights, whatever the numbers of chains."""
    assert np.isfinite(est.log_e_values([forward], [reverse])).all()
    assert np.isfinite(est.weighted_average(forward, forward).value)
    assert np.isfinite(est.certified_lower(forward, kind="order statistics").lower)
    pooled = np.concatenate([forward, reverse])
    assert pooled.min() - 1e-9 <= est.bar(forward, reverse).value <= pooled.max() + 1e-9


@every
def test_all_forward_weights_zero(name):
    estimate = ESTIMATORS[name](np.full(5, -np.inf), np.array([0.0, 1.0, 2.0]))
    if "reverse" not in name:
        assert not estimate.valid
        assert np.isnan(estimate.value) if "cumulant" in name else estimate.value == -np.inf
        assert np.isnan(estimate.error)
        assert "no cumulants" in estimate.reason or "cumulant" not in name


@every
def test_too_few_chains_are_told(name):
    """One has no error, and for cumulants 16 are too few."""
    estimate = ESTIMATORS[name](np.array([1.0]), np.array([2.0]))
    assert np.isnan(estimate.error)
    assert not estimate.valid
    if "cumulant" in name:
        assert "one chain" in estimate.reason
        work, rng = GaussianWork(stds=(0.1,)), np.random.default_rng(4)
        few, many = (ESTIMATORS[name](work.forward(n, rng), work.reverse(n, rng)) for n in (16, 64))
        assert not few.valid
        assert "16 chains where" in few.reason
        assert "where" not in many.reason


@every
def test_equal_weights_are_exact(name):
    """Every log weight is log Z. Those of one direction tell nothing of what no chain has found."""
    noise = np.random.default_rng(1).normal(size=120)
    for size in (0.0, 1e-9):
        estimate = ESTIMATORS[name](7.0 + size * noise, 7.0 + size * noise[:100])
        assert estimate.value == pytest.approx(7.0, abs=1e-9 + 5 * size)  # none is 5 sizes off
        assert estimate.error == pytest.approx(0.0, abs=1e-6)
        assert estimate.valid == (name in ("bar", "histogram", "cumulant combined"))
