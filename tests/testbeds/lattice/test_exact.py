"""The exact answers agree with each other, with enumeration and with published tables."""

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_bdmc.lattice import (
    Ising,
    Potts,
    density_of_states,
    kaufman_log_z,
    transfer_matrix_log_z,
)

CRITICAL = np.log1p(np.sqrt(2)) / 2
BETAS = [1e-6, 0.1, 0.3, CRITICAL, 0.6, 1.0, 5.0, 200.0]


def listed_log_z(system, beta):
    density = density_of_states(system.L, system.n_colours)
    satisfied = np.nonzero(density)[0]
    log_likelihood = system.log_likelihood_of_bonds(satisfied)
    log_z = logsumexp(beta * log_likelihood, b=density[satisfied])
    return log_z - system.n_sites * np.log(system.n_colours)


@pytest.mark.parametrize("beta", BETAS)
def test_closed_forms_are_enumeration_or_the_transfer_matrix(beta):
    for system in (Ising(2), Ising(3), Ising(4, coupling=0.7), Potts(2, 10), Potts(3, 3)):
        expected = listed_log_z(system, beta)
        assert system.log_z(beta) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    for side in (5, 6):
        by_transfer = transfer_matrix_log_z(side, 2, 2 * beta) - 2 * side**2 * beta
        assert kaufman_log_z(side, beta) == pytest.approx(by_transfer, rel=1e-12)


@pytest.mark.parametrize(("beta", "value"), [(1.0, 1339.2670768), (0.44, 241.8594135)])
def test_known_values(beta, value):
    assert Ising(32).log_z(beta) == pytest.approx(value, abs=1e-7)


def test_cold_lattices_do_not_overflow_and_hot_ones_are_uniform():
    beta = 1e6
    assert Ising(1000).log_z(beta) == pytest.approx(2e6 * beta + (1 - 1e6) * np.log(2))
    assert Potts(4, 10).log_z(beta) == pytest.approx(32 * beta + (1 - 16) * np.log(10))
    assert Ising(50).log_z(0.0) == pytest.approx(Potts(4, 10).log_z(0.0), abs=1e-12) == 0
    # The first term of the expansion in β: half the variance of ℓ, one for each bond.
    assert Ising(50).log_z(1e-4) == pytest.approx(5000 * 0.5e-8, rel=1e-3)


def test_two_colours_are_the_ising_model():
    assert Potts(4, 2, coupling=2.0).log_z() == pytest.approx(Ising(4).log_z() + 32)
    assert Potts(4, 2, coupling=2.0).critical_beta == Ising(4).critical_beta
    assert Ising(4).critical_beta == pytest.approx(CRITICAL)


def test_bonds_and_likelihood_of_states():
    states = np.array([np.zeros((4, 4)), np.indices((4, 4)).sum(axis=0) % 2])
    assert Ising(4).satisfied_bonds(states).tolist() == [32, 0]
    assert Ising(4).log_likelihood(states).tolist() == [32, -32]
    assert Potts(4, 3, coupling=0.5).log_likelihood(states).tolist() == [16, 0]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Ising(1), "L"),
        (lambda: Ising(True), "L"),
        (lambda: Ising(4, coupling=np.nan), "coupling"),
        (lambda: Potts(4, 1), "q"),
        (lambda: Potts(4, 257), "q"),
        (lambda: Potts(8, 10).log_z(), "L"),
        (lambda: Ising(4).log_z(-1.0), "interaction"),
        (lambda: kaufman_log_z(1, 1.0), "side"),
        (lambda: density_of_states(5, 2), "L"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        make()
