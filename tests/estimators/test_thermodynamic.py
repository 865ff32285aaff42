"""Thermodynamic integration: exact moments, then draws."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_bdmc.estimators import integrate_path, rao_blackwellized, thermodynamic_integration
from tests.estimators.test_simulated_tempering import (
    BETAS,
    GUESS,
    LEVELS,
    LOG_PRIOR,
    LOG_Z,
    Z_ALPHA,
    draw,
)


def moments(betas):
    log_p = LOG_PRIOR + betas[:, None] * LEVELS
    p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
    mean = p @ LEVELS
    return mean, p @ LEVELS**2 - mean**2


def test_rules_have_their_orders():
    errors = {}
    for n in (20, 40):
        betas = np.linspace(0, 1, n + 1)
        for rule in ("riemann", "trapezoid", "corrected"):
            value = integrate_path(betas, *moments(betas), rule)
            errors[rule, n] = abs(value - LOG_Z[-1])
    for rule, order in (("riemann", 1), ("trapezoid", 2), ("corrected", 4)):
        assert np.log2(errors[rule, 20] / errors[rule, 40]) == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize("weights", ["places", "log_z"])
def test_error_is_the_spread_of_replicates(weights):
    rng = np.random.default_rng(1)
    exact = integrate_path(BETAS, *moments(BETAS), "corrected")
    runs = []
    for _ in range(400):
        ell, places = draw(12, 100, rng)
        given = {"places": places, "log_z": GUESS}[weights]
        runs.append(thermodynamic_integration(ell, BETAS, rule="corrected", **{weights: given}))
    values, errors = np.array([(run.value, run.error) for run in runs]).T
    assert abs(values.mean() - exact) < Z_ALPHA * values.std() / 20
    # The variance of 400 replicates is known to √(2/400) = 7 %
    assert np.mean(errors**2) == pytest.approx(values.var(), rel=0.28)
    assert all(run.valid for run in runs)
    # Broken twin: another ladder than that of the draws
    wrong = thermodynamic_integration(ell, BETAS**2, rule="corrected", places=places)
    assert abs(wrong.value - exact) > 5 * values.std()


def test_many_temperatures_make_it_equal_to_rts():
    """Carlson et al. (2016): RTS is the limit of TI-RB, and free of the rule's error."""
    rng = np.random.default_rng(2)
    ell, _ = draw(10, 500, rng)
    differences = []
    for n in (5, 20, 80):
        betas = np.linspace(0, 1, n + 1)
        guess = np.interp(betas, BETAS, GUESS)
        rts = rao_blackwellized(ell, betas, guess).estimate.value
        ti = thermodynamic_integration(ell, betas, log_z=guess).value
        differences.append(abs(ti - rts))
    assert differences[0] > 5 * differences[1] > 25 * differences[2]


def test_temperatures_without_draws():
    ell, places = draw(8, 50, np.random.default_rng(3))
    found = thermodynamic_integration(ell, BETAS, places=np.minimum(places, 4))
    assert not found.valid
    assert "1 temperatures without" in found.reason


def test_refuses():
    with pytest.raises(ValueError, match="exactly one"):
        thermodynamic_integration([[0.0]], [0, 1])
    with pytest.raises(ValueError, match="rule"):
        thermodynamic_integration([[0.0]], [0, 1], log_z=[0, 0], rule="simpson")
