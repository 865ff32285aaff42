"""Nominal 95 % intervals on five systems; docs/estimator_tables.md has more, with the figures."""

import numpy as np
import pytest

from pymc_bdmc import testsystems
from pymc_bdmc.estimators import (
    bar,
    certified_bounds,
    cumulant_combined,
    cumulant_forward,
    cumulant_reverse,
    histogram_posterior,
    jarzynski_forward,
    jarzynski_reverse,
)

REPLICATES, CHAINS = 1000, 100
FEWEST_VALID = 200
SYSTEMS = {
    "bridge": testsystems.GaussianBridge.equal_divergence(200, correlation=0.5),
    "regression": testsystems.ConjugateRegression.random(3, 20, np.random.default_rng(1)),
    "binomial": testsystems.UnidentifiedBinomial(),
    "ising": testsystems.FiniteSystem.ising(3, 0.44),
    "spike": testsystems.SpikeAndSlab(),
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=SYSTEMS)
def replicates(request):
    system, rng = SYSTEMS[request.param], np.random.default_rng(1)
    draws = [d(REPLICATES * CHAINS, rng) for d in (system.forward, system.reverse)]
    rows = [each.reshape(REPLICATES, CHAINS) - system.log_z for each in draws]
    return request.param, list(zip(*rows, strict=True))


@pytest.mark.parametrize("kind", ["mean", "order statistics", ("order statistics", "mean")])
def test_certified_interval(replicates, kind):
    bounds = [certified_bounds(*pair, 0.95, kind=kind) for pair in replicates[1]]
    assert np.mean([b.lower <= 0 <= b.upper for b in bounds]) >= 0.95


@pytest.mark.parametrize(
    "estimator",
    [
        bar,
        cumulant_combined,
        lambda f, r: cumulant_forward(f),
        lambda f, r: cumulant_reverse(r),
        lambda f, r: jarzynski_forward(f),
        lambda f, r: jarzynski_reverse(r),
    ],
    ids=[
        "bar",
        "cumulant combined",
        "cumulant forward",
        "cumulant reverse",
        "forward average",
        "reverse average",
    ],
)
def test_asymptotic_interval_where_valid(replicates, estimator, request):
    """93 to 97 %, give or take three standard deviations of the replicates that are valid."""
    name, pairs = replicates
    if name == "spike" and "forward" in request.node.name:
        pytest.skip("one direction alone cannot know what only the other finds")
    found = [estimator(*pair) for pair in pairs]
    valid = np.array([e.valid for e in found])
    covers = np.array([abs(e.value) < 1.96 * e.error for e in found])
    if covers.mean() < 0.9:
        assert valid.mean() < FEWEST_VALID / REPLICATES
    if valid.sum() >= FEWEST_VALID:
        slack = 3 * np.sqrt(0.05 * 0.95 / valid.sum())
        assert 0.95 - 0.02 - slack < covers[valid].mean() < 0.95 + 0.02 + slack
        # Broken twin: half the error
        halved = np.array([abs(e.value) < 1.96 * e.error / 2 for e in found])
        assert halved[valid].mean() < 0.95 - 0.02 - slack


HELD_OUT = {
    "gamma work (6, 5)": testsystems.GammaWork(shape=6.0, rate=5.0),
    "gamma work (50, 12)": testsystems.GammaWork(shape=50.0, rate=12.0),
    "two modes": testsystems.GaussianWork((0.0, 0.5), (0.35, 0.45), (0.7, 0.3)),
    "two widths": testsystems.GaussianWork((0.0, 0.0), (0.35, 0.7), (0.85, 0.15)),
    "few steps": testsystems.GaussianBridge.geometric(
        3, start=(0.4, 1.4), end=(0.0, 1.0), correlation=0.1
    ),
    "warm ising": testsystems.FiniteSystem.ising(3, 0.35),
}


@pytest.mark.parametrize("name", HELD_OUT)
def test_systems_that_no_threshold_was_chosen_by(name):
    """Where most replicates are valid, 92 to 98 %: for 1000 of 95 % α = 3e-5 an interval."""
    system, rng = HELD_OUT[name], np.random.default_rng(21)
    forward, reverse = (
        draw(REPLICATES * 200, rng).reshape(REPLICATES, 200) - system.log_z
        for draw in (system.forward, system.reverse)
    )
    judged = 0
    for estimator, *arguments in [
        (jarzynski_forward, forward),
        (jarzynski_reverse, reverse),
        (cumulant_forward, forward),
        (cumulant_reverse, reverse),
        (cumulant_combined, forward, reverse),
    ]:
        found = [estimator(*rows) for rows in zip(*arguments, strict=True)]
        valid = np.array([e.valid for e in found])
        if valid.mean() < 0.5:
            continue
        values, errors = (
            np.array([getattr(e, each) for e in found]) for each in ("value", "error")
        )
        covers, halved = (np.abs(values) < k * errors for k in (1.96, 1.96 / 2))
        assert 0.92 < covers[valid].mean() < 0.98
        assert halved[valid].mean() < 0.92  # broken twin: half the error
        judged += 1
    assert judged > 0


def test_posterior_interval(replicates):
    pairs = replicates[1][:300]
    draws = [histogram_posterior(*pair, draws=200, random_seed=i) for i, pair in enumerate(pairs)]
    valid = [each for each in draws if each.estimate.valid]
    slack = 0.02 + 3 * np.sqrt(0.05 * 0.95 / len(valid))

    def covered(probability):
        intervals = [each.interval(probability) for each in valid]
        return np.mean([low <= 0 <= high for low, high in intervals])

    assert abs(covered(0.95) - 0.95) < slack
    assert abs(covered(0.67) - 0.95) > slack  # broken twin: half as wide
