"""Flow along the ladder: balanced in equilibrium, and with a knot where nothing passes."""

import numpy as np

from pymc_bdmc.estimators import count_passages, place_probabilities, temperature_flow
from tests.estimators.test_simulated_tempering import BETAS, GUESS, LEVELS, LOG_PRIOR, LOG_Z, draw


def test_flow_is_balanced_in_equilibrium_and_not_in_a_drift():
    rng = np.random.default_rng(6)
    ell, places = draw(10, 5000, rng)
    flow = temperature_flow(ell, places, BETAS, GUESS)
    np.testing.assert_allclose(flow.transition.sum(axis=1), 1)
    exact = np.array(
        [
            np.exp(LOG_PRIOR + beta * LEVELS - log_z) @ place_probabilities(LEVELS, BETAS, GUESS)
            for beta, log_z in zip(BETAS, LOG_Z, strict=True)
        ]
    )
    np.testing.assert_allclose(flow.transition, exact, atol=0.02)
    assert flow.relative < 0.02
    assert (flow.conductance > 0.1).all()
    # Chains that only ever cool: ℓ is ahead of the place it was drawn at
    ahead = temperature_flow(ell + 3, places, BETAS, GUESS)
    assert ahead.relative > 0.1
    assert ahead.symmetric_difference > 5 * flow.symmetric_difference


def test_conductance_finds_the_knot():
    # Two states: one belongs to the lower half of the ladder, one to the upper
    places = np.array([[0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]])
    ell = np.where(places < 3, -60.0, 60.0)
    guess = np.where(BETAS < 0.5, -60 * BETAS, 60 * BETAS - 60.0)
    flow = temperature_flow(ell, places, BETAS, guess)
    assert np.argmin(flow.conductance) == 2
    assert flow.conductance[2] < 1e-5


def test_passages():
    assert count_passages([[0, 0, 1, 2, 2, 0], [1, 1, 1, 1, 1, 1]], 3).tolist() == [2, 0]
