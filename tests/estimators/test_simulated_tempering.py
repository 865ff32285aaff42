"""Estimators along a ladder, on independent draws whose partition functions are sums."""

import numpy as np
import pytest
from pymbar import MBAR
from scipy.special import logsumexp, softmax

from pymc_bdmc import estimators as est
from pymc_bdmc.estimators.simulated_tempering import log_mean_probabilities

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 a comparison, at most 30 comparisons

LEVELS = np.linspace(-8, 10, 19)
LOG_PRIOR = np.log(softmax(-0.3 * (LEVELS + 4) ** 2))
BETAS = np.linspace(0, 1, 6)
LOG_Z = logsumexp(LOG_PRIOR + BETAS[:, None] * LEVELS, axis=1)
GUESS = LOG_Z + np.array([0, 0.3, -0.4, 0.2, 0.5, -0.3])


def probabilities(betas):
    """Probabilities of the levels, a row for each temperature."""
    return softmax(LOG_PRIOR + betas[:, None] * LEVELS, axis=1)


def draw(chains, draws, rng, guess=GUESS):
    """ℓ and place of independent draws from p(x, k) ∝ f_k(x)/Ẑ_k."""
    places = rng.choice(len(BETAS), p=softmax(LOG_Z - guess), size=(chains, draws))
    ell = np.empty(places.shape)
    for k, p in enumerate(probabilities(BETAS)):
        here = places == k
        ell[here] = rng.choice(LEVELS, p=p, size=here.sum())
    return ell, places


def test_error_and_bias_of_rts_are_those_of_replicates():
    """Twins: the first temperature is taken to be known, or its visits are left out."""
    rng = np.random.default_rng(2)
    samples = [draw(10, 20, rng)[0] for _ in range(500)]
    runs = [est.rao_blackwellized(ell, BETAS, GUESS) for ell in samples]
    assert runs[0].log_z[0] == runs[0].error[0] == 0
    errors = np.array([run.log_z - LOG_Z for run in runs])[:, 1:]
    claimed = np.array([run.error**2 for run in runs])[:, 1:].mean(axis=0)
    spread = errors.var(axis=0)
    # A variance of 500 replicates is known to about √(2/500) = 6.3 %; four of those
    np.testing.assert_allclose(claimed, spread, rtol=0.25)
    bias = np.array([run.bias for run in runs])[:, 1:].mean(axis=0)
    noise = np.sqrt(spread / len(runs))
    assert (np.abs(errors.mean(axis=0) - bias) < Z_ALPHA * noise).all()
    log_c = np.array([log_mean_probabilities(ell, BETAS, GUESS) for ell in samples])
    c = np.exp(log_c)
    alone = (c.var(axis=1, ddof=1) / 10 / c.mean(axis=1) ** 2).mean(axis=0)[1:]
    assert (np.abs(alone / spread - 1) > 0.5).all()
    left_out = GUESS + np.log(c.mean(axis=1)) - LOG_Z
    assert abs(left_out[:, -1].mean()) > Z_ALPHA * noise[-1]


def test_sequential_likelihood_joins_runs_with_different_guesses():
    """Twin: the guesses are taken to be the same."""
    rng, draws = np.random.default_rng(4), [50, 200, 800]
    guesses = LOG_Z + rng.normal(0, [[2.0], [0.5], [0.1]], size=(3, 6))
    guesses -= guesses[:, :1]
    values, errors = [], []
    for _ in range(80):
        log_c = [
            log_mean_probabilities(draw(10, n, rng, guess)[0], BETAS, guess)
            for n, guess in zip(draws, guesses, strict=True)
        ]
        found = est.sequential_likelihood(log_c, guesses, draws)
        values.append(found.log_z[1:] - LOG_Z[1:])
        errors.append(found.error[1:])
    values, errors = np.array(values), np.array(errors)
    noise = values.std(axis=0) / np.sqrt(80)
    assert (np.abs(values.mean(axis=0)) < Z_ALPHA * noise + 0.002).all()
    # four times √(2/80)
    np.testing.assert_allclose((errors**2).mean(axis=0), values.var(axis=0), rtol=0.63)
    wrong = est.sequential_likelihood(log_c, np.repeat(guesses[:1], 3, axis=0), draws)
    assert abs(wrong.log_z[-1] - LOG_Z[-1]) > 10 * errors[:, -1].mean()


def test_mbar_error_of_independent_draws_is_that_of_pymbar():
    """Chains that repeat every draw four times know half as much."""
    ell, places = draw(200, 20, np.random.default_rng(5))
    order = np.argsort(places, axis=None, kind="stable")
    energies = -BETAS[:, None] * ell.ravel()[order]
    protocol = ({"method": "adaptive"},)
    solved = MBAR(energies, np.bincount(places.ravel()), solver_protocol=protocol)
    theirs = solved.compute_free_energy_differences()["dDelta_f"][0]
    ours = est.mbar_error(ell, places, BETAS, -solved.f_k)
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=0.2)  # 200 chains: √(1/400) = 5 %
    repeated = np.repeat(ell, 4, axis=1), np.repeat(places, 4, axis=1)
    np.testing.assert_allclose(est.mbar_error(*repeated, BETAS, -solved.f_k), ours, rtol=1e-6)


def test_places():
    q = np.tile([0.2, 0.5, 0.3], (30_000, 1))
    counts = np.bincount(est.draw_places(q, np.random.default_rng(7)), minlength=3)
    expected = 30_000 * q[0]
    assert (np.abs(counts - expected) < Z_ALPHA * np.sqrt(expected)).all()
    assert est.draw_places(np.full((5, 2), 0.4), np.random.default_rng(8)).max() == 1
    np.testing.assert_array_equal(
        est.place_probabilities(-np.inf, [0, 0.5, 1], [0, 0, 0]), [1, 0, 0]
    )


def test_one_chain_has_no_error_and_stuck_chains_are_called_invalid():
    found = est.rao_blackwellized(draw(1, 50, np.random.default_rng(9))[0], BETAS, GUESS)
    assert np.isnan(found.error).all()
    assert not found.estimate.valid
    log_c = log_mean_probabilities(np.zeros((1, 5)), BETAS, GUESS)
    assert np.isnan(est.sequential_likelihood(log_c[None], GUESS[None], [5]).error).all()
    ell = np.repeat(np.where(np.arange(10) == 0, 10.0, -8.0)[:, None], 100, axis=1)
    assert not est.rao_blackwellized(ell, BETAS, GUESS).estimate.valid


# ---- Thermodynamic integration ----


def moments(betas):
    mean = probabilities(betas) @ LEVELS
    return mean, probabilities(betas) @ LEVELS**2 - mean**2


@pytest.mark.parametrize(("rule", "order"), [("riemann", 1), ("trapezoid", 2), ("corrected", 4)])
def test_rules_have_their_orders(rule, order):
    ladders = [np.linspace(0, 1, n + 1) for n in (20, 40)]
    errors = [abs(est.integrate_path(b, *moments(b), rule) - LOG_Z[-1]) for b in ladders]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize("weights", ["places", "log_z"])
def test_error_is_the_spread_of_replicates(weights):
    """The variance of 200 replicates is known to √(2/200) = 10 %. Twin: another ladder."""
    rng, runs = np.random.default_rng(1), []
    exact = est.integrate_path(BETAS, *moments(BETAS), "corrected")
    for _ in range(200):
        ell, places = draw(12, 100, rng)
        given = {"places": places, "log_z": GUESS}[weights]
        runs.append(est.thermodynamic_integration(ell, BETAS, rule="corrected", **{weights: given}))
    values, errors = np.array([(run.value, run.error) for run in runs]).T
    assert abs(values.mean() - exact) < Z_ALPHA * values.std() / np.sqrt(200)
    assert np.mean(errors**2) == pytest.approx(values.var(), rel=0.4)
    assert all(run.valid for run in runs)
    wrong = est.thermodynamic_integration(ell, BETAS**2, rule="corrected", places=places)
    assert abs(wrong.value - exact) > 5 * values.std()
    few = est.thermodynamic_integration(ell, BETAS, places=np.minimum(places, 4))
    assert not few.valid
    assert "1 temperatures without" in few.reason


# ---- Flow along the ladder ----


def test_flow_is_balanced_in_equilibrium_and_not_in_a_drift():
    """Twin: chains that only ever cool, since ℓ is ahead of the place that it was drawn at."""
    ell, places = draw(10, 5000, np.random.default_rng(6))
    flow = est.temperature_flow(ell, places, BETAS, GUESS)
    np.testing.assert_allclose(flow.transition.sum(axis=1), 1)
    exact = probabilities(BETAS) @ est.place_probabilities(LEVELS, BETAS, GUESS)
    np.testing.assert_allclose(flow.transition, exact, atol=0.02)
    assert flow.relative < 0.02
    assert (flow.conductance > 0.1).all()
    ahead = est.temperature_flow(ell + 3, places, BETAS, GUESS)
    assert ahead.relative > 0.1
    assert ahead.symmetric_difference > 5 * flow.symmetric_difference


def test_conductance_finds_the_knot():
    """Of two states, one belongs to the lower half of the ladder, and one to the upper."""
    places = np.array([[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]])
    ell = np.where(places < 3, -60.0, 60.0)
    guess = np.where(BETAS < 0.5, -60 * BETAS, 60 * BETAS - 60.0)
    flow = est.temperature_flow(ell, places, BETAS, guess)
    assert np.argmin(flow.conductance) == 2
    assert flow.conductance[2] < 1e-5
    assert est.count_passages([[0, 0, 1, 2, 2, 0], [1, 1, 1, 1, 1, 1]], 3).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: est.rao_blackwellized(np.zeros(3), BETAS, GUESS), "expected"),
        (lambda: est.rao_blackwellized([[0.0, np.nan]], BETAS, GUESS), "NaN"),
        (lambda: est.rao_blackwellized(np.zeros((8, 10)), [0, 0.5, 1], [0, 1]), "betas, log_z"),
        (lambda: est.place_probabilities(np.zeros(3), [0, 0.5, 1], 0.0), "betas, log_z"),
        (lambda: est.thermodynamic_integration([[0.0]], [0, 1]), "exactly one"),
        (lambda: est.thermodynamic_integration([[0]], [0, 1], log_z=[0, 0], rule="no"), "rule"),
    ],
)
def test_refuses(call, message):
    with pytest.raises(ValueError, match=message):
        call()
