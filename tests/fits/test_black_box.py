"""Densities without gradients, such as those that call a solver in Python."""

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor import wrap_py
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.fits import modes
from pymc_bdmc.fits.modes import find_modes
from pymc_bdmc.reference.metric import Metric

TIMES = np.linspace(0, 1, 12)
Y = 1 + 2 * TIMES + 0.3 * np.sin(9 * np.arange(12))
ROWS = np.stack([np.ones(12), TIMES])
EXACT = stats.multivariate_normal(np.zeros(12), 0.09 * np.eye(12) + 9 * ROWS.T @ ROWS).logpdf(Y)
ALPHA = 1e-4


def model(calls, noise=0.0, fails_beyond=np.inf):
    """A line by a "solver" that lists its calls."""

    @wrap_py([pt.dscalar, pt.dscalar], [pt.dvector])
    def solve(level, slope):
        calls.append((float(level), float(slope)))
        if level > fails_beyond:
            raise ArithmeticError(f"no solution at {level}")
        return level + slope * TIMES + noise * np.sin(1e6 * level)

    with pm.Model() as made:
        level, slope = pm.Normal("level", 0, 3), pm.Normal("slope", 0, 3)
        pm.Normal("y", solve(level, slope), 0.3, observed=Y)
    return made


def test_a_near_normal_posterior_takes_few_evaluations(caplog):
    """With simulated data too, and with a solver that has tolerances of its own."""
    calls = []
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        dt = bdmc.sample_bdmc(
            model(calls, noise=1e-4), simulate=bdmc.FromHyperparameters(datasets=2), random_seed=2,
            cores=1, progressbar=False,
        )  # fmt: skip
    found = bdmc.log_ml(dt)
    assert found.valid
    assert abs(found.value - EXACT) < stats.norm.isf(ALPHA / 2) * found.error
    assert found.error < 0.05
    assert len(calls) <= 18_000
    assert "The call takes about 9e+03 evaluations of the density on all data sets" in caplog.text
    assert "s of one core besides compiling" in caplog.text


def test_the_error_of_a_solver_is_told_as_the_user_wrote_it():
    """Prior draws reach it, and compiled code cannot raise it. Nothing is lost by it."""
    dt = bdmc.sample_bdmc(
        model([], fails_beyond=8.0), simulate=None, random_seed=1, progressbar=False
    )
    found = bdmc.log_ml(dt)
    assert found.valid
    assert abs(found.value - EXACT) < stats.norm.isf(ALPHA / 2) * found.error
    assert "of the prior draws (ArithmeticError: no solution at " in found.notes


def normal(precision, noise=0.0):
    return lambda x: (-0.5 * x @ precision @ x + noise * np.sin(1e7 * x.sum()), None)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_shape_of_a_narrow_normal_density_is_found_by_values(noise):
    """Deviations from 0.01 to 1, correlations of 0.9, and starts up to 300 deviations away."""
    deviations = np.array([1.0, 0.1, 0.01])
    covariance = np.outer(deviations, deviations) * (0.1 * np.eye(3) + 0.9)
    starts = np.random.default_rng(1).normal(size=(16, 3)) * 3.0
    wide = Metric(np.full(3, 3.0), np.zeros((0, 3)), np.zeros(0))
    density = normal(np.linalg.inv(covariance), noise)
    found = find_modes(density, starts, wide, 16, 1e6, has_gradient=False)
    assert found.is_all
    assert len(found.reference.locations) == 1
    at = np.random.default_rng(2).multivariate_normal(np.zeros(3), covariance, size=400)
    away, twin = (
        np.abs(found.reference.log_density(at) - stats.multivariate_normal.logpdf(at, cov=each))
        for each in (covariance, 1.1 * covariance)
    )
    assert away.max() < (0.02 if noise == 0 else 1.5)
    assert noise or twin.max() > 0.02


def test_a_saddle_is_no_top():
    height, mode = modes._mode_by_values(normal(np.diag([1.0, -1.0])), np.zeros(2), np.ones(2))
    assert mode is None
    assert height >= 0
