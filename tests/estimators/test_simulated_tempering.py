"""Estimators along a ladder, on independent draws whose partition functions are sums."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from pymc_bdmc.estimators import (
    draw_places,
    mbar_error,
    place_probabilities,
    rao_blackwellized,
    sequential_likelihood,
)
from pymc_bdmc.estimators.simulated_tempering import log_mean_probabilities

Z_ALPHA = 4.0  # two-sided α = 6.3e-5 a comparison, at most 30 comparisons

LEVELS = np.linspace(-8, 10, 19)
LOG_PRIOR = np.log(softmax(-0.3 * (LEVELS + 4) ** 2))
BETAS = np.linspace(0, 1, 6)
LOG_Z = logsumexp(LOG_PRIOR + BETAS[:, None] * LEVELS, axis=1)
GUESS = LOG_Z + np.array([0, 0.3, -0.4, 0.2, 0.5, -0.3])


def draw(chains, draws, rng, guess=GUESS):
    """ℓ and place of independent draws from p(x, k) ∝ f_k(x)/Ẑ_k."""
    places = rng.choice(len(BETAS), p=softmax(LOG_Z - guess), size=(chains, draws))
    ell = np.empty(places.shape)
    for k, beta in enumerate(BETAS):
        here = places == k
        p = np.exp(LOG_PRIOR + beta * LEVELS - LOG_Z[k])
        ell[here] = rng.choice(LEVELS, p=p / p.sum(), size=here.sum())
    return ell, places


def test_rts_finds_every_log_z():
    ell, _ = draw(20, 2000, np.random.default_rng(1))
    found = rao_blackwellized(ell, BETAS, GUESS)
    deviations = np.abs(found.log_z - LOG_Z)[1:] / found.error[1:]
    assert (deviations < Z_ALPHA).all()
    assert found.estimate.valid
    assert found.log_z[0] == found.error[0] == 0
    # Broken twin: visits of the first temperature left out of the update
    log_c = logsumexp(log_mean_probabilities(ell, BETAS, GUESS), axis=0) - np.log(20)
    assert abs((GUESS + log_c)[-1] - LOG_Z[-1]) > 2 * Z_ALPHA * found.error[-1]


def test_error_and_bias_of_rts_are_those_of_replicates():
    rng = np.random.default_rng(2)
    samples = [draw(10, 20, rng)[0] for _ in range(1000)]
    runs = [rao_blackwellized(ell, BETAS, GUESS) for ell in samples]
    errors = np.array([run.log_z - LOG_Z for run in runs])[:, 1:]
    claimed = np.array([run.error**2 for run in runs])[:, 1:].mean(axis=0)
    spread = errors.var(axis=0)
    # A variance of 1000 replicates is known to about √(2/1000) = 4.5 %; four of those
    np.testing.assert_allclose(claimed, spread, rtol=0.18)
    bias = np.array([run.bias for run in runs])[:, 1:].mean(axis=0)
    noise = np.sqrt(spread / len(runs))
    assert (np.abs(errors.mean(axis=0) - bias) < Z_ALPHA * noise).all()
    # Broken twin: the first temperature taken to be known
    c = np.exp([log_mean_probabilities(ell, BETAS, GUESS) for ell in samples])
    alone = (c.var(axis=1, ddof=1) / 10 / c.mean(axis=1) ** 2).mean(axis=0)[1:]
    assert (np.abs(alone / spread - 1) > 0.2).all()


def test_one_run_of_the_sequential_likelihood_is_rts():
    ell, _ = draw(12, 300, np.random.default_rng(3))
    one = rao_blackwellized(ell, BETAS, GUESS)
    log_c = log_mean_probabilities(ell, BETAS, GUESS)
    same = sequential_likelihood(log_c[None], GUESS[None], [300])
    np.testing.assert_allclose(same.log_z, one.log_z, atol=1e-9)
    np.testing.assert_allclose(same.error, one.error, rtol=1e-6)


def test_sequential_likelihood_joins_runs_with_different_guesses():
    rng, draws = np.random.default_rng(4), [50, 200, 800]
    guesses = LOG_Z + rng.normal(0, [[2.0], [0.5], [0.1]], size=(3, 6))
    guesses -= guesses[:, :1]
    values, errors = [], []
    for _ in range(150):
        log_c = [
            log_mean_probabilities(draw(10, n, rng, guess)[0], BETAS, guess)
            for n, guess in zip(draws, guesses, strict=True)
        ]
        found = sequential_likelihood(log_c, guesses, draws)
        values.append(found.log_z[1:] - LOG_Z[1:])
        errors.append(found.error[1:])
    values, errors = np.array(values), np.array(errors)
    noise = values.std(axis=0) / np.sqrt(150)
    assert (np.abs(values.mean(axis=0)) < Z_ALPHA * noise + 0.002).all()
    np.testing.assert_allclose(
        (errors**2).mean(axis=0), values.var(axis=0), rtol=0.46
    )  # four times √(2/150)
    # Broken twin: the guesses taken to be the same
    wrong = sequential_likelihood(log_c, np.repeat(guesses[:1], 3, axis=0), draws)
    assert abs(wrong.log_z[-1] - LOG_Z[-1]) > 10 * errors[:, -1].mean()


def test_mbar_error_of_independent_draws_is_that_of_pymbar():
    from pymbar import MBAR

    ell, places = draw(200, 20, np.random.default_rng(5))
    order = np.argsort(places, axis=None, kind="stable")
    energies = -BETAS[:, None] * ell.ravel()[order]
    protocol = ({"method": "adaptive"},)
    solved = MBAR(energies, np.bincount(places.ravel()), solver_protocol=protocol)
    theirs = solved.compute_free_energy_differences()["dDelta_f"][0]
    ours = mbar_error(ell, places, BETAS, -solved.f_k)
    np.testing.assert_allclose(ours[1:], theirs[1:], rtol=0.2)  # 200 chains: √(1/400) = 5 %
    # Chains that repeat every draw four times know half as much
    repeated = np.repeat(ell, 4, axis=1), np.repeat(places, 4, axis=1)
    np.testing.assert_allclose(mbar_error(*repeated, BETAS, -solved.f_k), ours, rtol=1e-6)


def test_places():
    q = np.tile([0.2, 0.5, 0.3], (30_000, 1))
    counts = np.bincount(draw_places(q, np.random.default_rng(7)), minlength=3)
    expected = 30_000 * q[0]
    assert (np.abs(counts - expected) < Z_ALPHA * np.sqrt(expected)).all()
    assert draw_places(np.full((5, 2), 0.4), np.random.default_rng(8)).max() == 1
    np.testing.assert_array_equal(place_probabilities(-np.inf, [0, 0.5, 1], [0, 0, 0]), [1, 0, 0])


def test_one_chain_has_no_error():
    found = rao_blackwellized(draw(1, 50, np.random.default_rng(9))[0], BETAS, GUESS)
    assert np.isnan(found.error).all()
    assert not found.estimate.valid
    log_c = log_mean_probabilities(np.zeros((1, 5)), BETAS, GUESS)
    assert np.isnan(sequential_likelihood(log_c[None], GUESS[None], [5]).error).all()


def test_stuck_chains_are_called_invalid():
    ell = np.repeat(np.where(np.arange(10) == 0, 10.0, -8.0)[:, None], 100, axis=1)
    assert not rao_blackwellized(ell, BETAS, GUESS).estimate.valid


@pytest.mark.parametrize(("ell", "message"), [(np.zeros(3), "expected"), ([[0.0, np.nan]], "NaN")])
def test_refuses(ell, message):
    with pytest.raises(ValueError, match=message):
        rao_blackwellized(ell, BETAS, GUESS)


def test_refuses_a_guess_for_another_ladder():
    with pytest.raises(ValueError, match="betas, log_z"):
        rao_blackwellized(np.zeros((8, 10)), [0, 0.5, 1], [0, 1])
    with pytest.raises(ValueError, match="betas, log_z"):
        place_probabilities(np.zeros(3), [0, 0.5, 1], 0.0)
