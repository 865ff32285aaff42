"""Exact samples are exact, and Swendsen-Wang leaves the distribution invariant."""

import numpy as np
import pytest

from pymc_bdmc import lattice
from pymc_bdmc.lattice import Ising, Potts, perfect_samples, random_cluster
from pymc_bdmc.testbeds import lattice_kernels as kernels
from tests.testbeds.lattice.conftest import bond_distribution, chi_square_fits

N = 5_000
CASES = [
    (Ising(3), 0.44),
    (Ising(4), 0.7),
    (Potts(2, 10, coupling=2.0), 0.7),
]


def bond_counts(system, states):
    satisfied = system.satisfied_bonds(np.reshape(states, (-1, system.L, system.L)))
    return np.bincount(satisfied, minlength=system.n_bonds + 1)


def swendsen_wang_states(system, beta, starts, n_sweeps):
    model = random_cluster(system, beta)
    keys = np.random.SeedSequence(2).generate_state(len(starts), np.uint64)
    return [
        kernels.swendsen_wang(*model, start, key, n_sweeps)
        for start, key in zip(starts, keys, strict=True)
    ]


@pytest.mark.parametrize(("system", "beta"), CASES, ids=str)
def test_perfect_samples_follow_the_exact_distribution(system, beta):
    states = perfect_samples(system, N, beta, random_seed=1)
    assert chi_square_fits(bond_counts(system, states), bond_distribution(system, beta))
    assert not chi_square_fits(bond_counts(system, states), bond_distribution(system, 1.1 * beta))
    corner = np.bincount(states[:, 0, 0], minlength=system.n_colours)
    assert chi_square_fits(corner, np.full(system.n_colours, 1 / system.n_colours))


@pytest.mark.parametrize(("system", "beta"), CASES, ids=str)
def test_swendsen_wang_keeps_the_distribution(system, beta):
    starts = perfect_samples(system, N, beta, random_seed=3).reshape(N, -1)
    states = swendsen_wang_states(system, beta, starts, 1)
    assert chi_square_fits(bond_counts(system, states), bond_distribution(system, beta))
    cold = swendsen_wang_states(system, beta, np.zeros_like(starts), 1)
    assert not chi_square_fits(bond_counts(system, cold), bond_distribution(system, beta))
    cold = swendsen_wang_states(system, beta, np.zeros_like(starts), 40)
    assert chi_square_fits(bond_counts(system, cold), bond_distribution(system, beta))


def test_mean_energy_of_large_lattices():
    """The mean of ℓ is the derivative of log Z; four standard errors, α = 6e-5."""
    system, beta = Ising(16), 0.44
    samples = perfect_samples(system, 400, beta, random_seed=1)
    log_likelihood = system.log_likelihood(samples)
    expected = (system.log_z(beta + 1e-5) - system.log_z(beta - 1e-5)) / 2e-5
    assert abs(log_likelihood.mean() - expected) < 4 * log_likelihood.std() / np.sqrt(400)


def test_refuses(monkeypatch):
    with pytest.raises(ValueError, match="n: must be"):
        perfect_samples(Ising(4), 0)
    with pytest.raises(ValueError, match="beta: must not"):
        perfect_samples(Ising(4), 1, beta=-1.0)
    monkeypatch.setattr(lattice, "MAX_SWEEPS", 4)
    with pytest.raises(RuntimeError, match=r'^start: .* Use start="swendsen-wang"'):
        perfect_samples(Potts(16, 10, coupling=2.0), 1, 0.7, random_seed=1)
