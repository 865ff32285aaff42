"""What every estimator must do for any log weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pymc_bdmc.estimators import (
    bar,
    certified_lower,
    certified_upper,
    cumulant_combined,
    cumulant_forward,
    cumulant_reverse,
    histogram,
    jarzynski_forward,
    jarzynski_reverse,
    log_e_values,
    weighted_average,
)

TWO_SIDED = {
    "jarzynski forward": lambda f, r: jarzynski_forward(f),
    "jarzynski reverse": lambda f, r: jarzynski_reverse(r),
    "cumulant forward": lambda f, r: cumulant_forward(f),
    "cumulant reverse": lambda f, r: cumulant_reverse(r),
    "cumulant combined": cumulant_combined,
    "bar": bar,
    "histogram": histogram,
}
MIRRORED = {
    "jarzynski forward": "jarzynski reverse",
    "cumulant forward": "cumulant reverse",
    "cumulant combined": "cumulant combined",
    "bar": "bar",
    "histogram": "histogram",
}

every = pytest.mark.parametrize("name", TWO_SIDED)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def weights(size, bound=50.0):
    values = st.floats(-bound, bound, allow_nan=False).map(lambda x: round(x, 6))
    return arrays(float, st.integers(1, size), elements=values)


@every
@quick
@given(forward=weights(12), reverse=weights(9), shift=st.floats(-1e3, 1e3))
def test_shift_equivariance(name, forward, reverse, shift):
    before = TWO_SIDED[name](forward, reverse)
    after = TWO_SIDED[name](forward + shift, reverse + shift)
    assert after.value == pytest.approx(before.value + shift, abs=1e-6, nan_ok=True)
    assert after.error == pytest.approx(before.error, abs=1e-5, rel=1e-5, nan_ok=True)


@every
@quick
@given(forward=weights(12), reverse=weights(9), seed=st.integers(0, 99))
def test_permutation_invariance(name, forward, reverse, seed):
    rng = np.random.default_rng(seed)
    before = TWO_SIDED[name](forward, reverse)
    after = TWO_SIDED[name](rng.permutation(forward), rng.permutation(reverse))
    assert after.value == pytest.approx(before.value, abs=1e-8, nan_ok=True)
    assert after.error == pytest.approx(before.error, abs=1e-6, nan_ok=True)
    assert certified_lower(rng.permutation(forward)).lower == pytest.approx(
        certified_lower(forward).lower
    )


@pytest.mark.parametrize("name", MIRRORED)
@quick
@given(forward=weights(12), reverse=weights(9))
def test_exchange_symmetry(name, forward, reverse):
    # Calling p posterior and posterior prior turns w into 1/w and Z into 1/Z.
    one = TWO_SIDED[name](forward, reverse)
    other = TWO_SIDED[MIRRORED[name]](-reverse, -forward)
    assert other.value == pytest.approx(-one.value, abs=1e-8, nan_ok=True)
    assert other.error == pytest.approx(one.error, abs=1e-6, nan_ok=True)
    assert certified_upper(-forward).upper == -certified_lower(forward).lower


@every
@quick
@given(forward=weights(6, bound=1e5), reverse=weights(6, bound=1e5))
def test_no_overflow(name, forward, reverse):
    # Warnings are errors here, so an overflow anywhere fails.
    estimate = TWO_SIDED[name](forward, reverse)
    assert np.isfinite(estimate.value) or np.isnan(estimate.error)
    assert not (np.isinf(estimate.error) and estimate.valid)
    assert isinstance(estimate.valid, bool)


@quick
@given(forward=weights(6, bound=1e5), reverse=weights(6, bound=1e5))
def test_no_overflow_elsewhere(forward, reverse):
    assert np.isfinite(log_e_values([forward], [reverse])).all()
    assert np.isfinite(weighted_average(forward, forward).value)
    assert np.isfinite(certified_lower(forward, kind="order statistics").lower)


@quick
@given(forward=weights(12), reverse=weights(9))
def test_two_sided_values_lie_among_the_weights(forward, reverse):
    # BAR's root cannot leave the pooled weights, whatever the numbers of chains.
    pooled = np.concatenate([forward, reverse])
    value = bar(forward, reverse).value
    assert pooled.min() - 1e-9 <= value <= pooled.max() + 1e-9


@every
def test_all_forward_weights_zero(name):
    estimate = TWO_SIDED[name](np.full(5, -np.inf), np.array([0.0, 1.0, 2.0]))
    if "reverse" not in name:
        assert not estimate.valid
        assert estimate.value == -np.inf or np.isnan(estimate.value)
        assert np.isnan(estimate.error)


@every
def test_one_chain_has_no_error(name):
    estimate = TWO_SIDED[name](np.array([1.0]), np.array([2.0]))
    assert np.isnan(estimate.error)
    assert not estimate.valid


@every
def test_equal_weights_are_exact(name):
    # Exact sampling: every log weight is log Z, whatever the numbers of chains.
    estimate = TWO_SIDED[name](np.full(120, 7.0), np.full(100, 7.0))
    assert estimate.value == pytest.approx(7.0, abs=1e-9)
    assert estimate.error == pytest.approx(0.0, abs=1e-6)
    # Of one direction they tell nothing of what no chain has found, rounding or not.
    both = name in ("bar", "histogram", "cumulant combined")
    assert estimate.valid == both
    noise = 1e-9 * np.random.default_rng(1).normal(size=120)
    assert TWO_SIDED[name](7.0 + noise, 7.0 + noise[:100]).valid == both
