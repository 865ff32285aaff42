"""Lattice models in simulated tempering, against their exact log Z."""

import numpy as np
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import Ising, Potts
from tests.models import SIGMAS


@pytest.mark.parametrize("system", [Ising(6), Potts(3, q=4, coupling=2.0)], ids=["ising", "potts"])
def test_every_method(system):
    dt = bdmc.temper(system, temperatures=20, draws=600, random_seed=1)
    table = bdmc.evidence(dt).droplevel([0, 1]).loc[["RTS", "sequential likelihood", "MBAR"]]
    assert ((table["value"] - system.log_z()).abs() < SIGMAS * table["error"]).all()
    assert table["error"].max() < 0.3


def test_sweeps_at_one_beta_a_chain():
    """Mean ℓ is the slope of log Z; a broken twin takes the chains' β in the opposite order."""
    system = Ising(4)
    rng, h = np.random.default_rng(2), 1e-4
    betas = np.repeat([0.1, 0.3], 4000)
    state = system.draw_prior(betas.size, rng)
    for _ in range(30):
        state = system.step(state, betas, rng)
    ell = system.log_likelihood(state)
    means = {beta: ell[betas == beta].mean() for beta in (0.1, 0.3)}
    for beta in means:
        slope = (system.log_z(beta + h) - system.log_z(beta - h)) / (2 * h)
        error = ell[betas == beta].std() / np.sqrt(4000)
        assert abs(means[beta] - slope) < SIGMAS * error
        assert abs(means[round(0.4 - beta, 1)] - slope) > SIGMAS * error
