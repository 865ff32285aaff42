"""Exact samples are exact, and Swendsen-Wang leaves the distribution invariant."""

import numpy as np
import pytest

from pymc_bdmc import lattice
from pymc_bdmc.lattice import Ising, Potts, perfect_samples, random_cluster
from pymc_bdmc.testbeds import lattice_kernels as kernels
from tests.testbeds.lattice.conftest import bond_distribution, chi_square_fits

N = 20_000
CASES = [
    (Ising(2), 0.3),
    (Ising(3), 0.44),
    (Ising(4), 0.44),
    (Ising(4), 1.0),
    (Potts(2, 10, coupling=2.0), 0.7),
    (Potts(3, 3), 1.0),
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


@pytest.mark.parametrize(
    ("system", "beta"), [(Ising(16), 0.2), (Ising(16), 0.44), (Ising(16), 1.0)]
)
def test_mean_energy_of_large_lattices(system, beta):
    """The mean of ℓ is the derivative of log Z; four standard errors, α = 6e-5."""
    samples = perfect_samples(system, 1000, beta, random_seed=1)
    log_likelihood = system.log_likelihood(samples)
    expected = (system.log_z(beta + 1e-5) - system.log_z(beta - 1e-5)) / 2e-5
    assert abs(log_likelihood.mean() - expected) < 4 * log_likelihood.std() / np.sqrt(1000)


def test_bonds_join_what_other_bonds_connect():
    """A chain of open bonds along the top row: only its ends are joined by the others."""
    system = Ising(4)
    is_open = np.zeros(system.n_bonds, bool)
    is_open[[0, 2, 4]] = True  # sites 0-1, 1-2, 2-3; the bond 3-0 around the torus is number 6
    work = np.zeros(16, np.uint8), np.zeros((2, 16), np.int64)

    def joined():
        bonds = range(system.n_bonds)
        return [
            bond for bond in bonds if kernels._joined(kernels.neighbours(4), is_open, bond, work)
        ]

    assert joined() == [6]
    is_open[6] = True
    assert joined() == [0, 2, 4, 6]


def test_a_sample_depends_on_its_seed_alone():
    first = perfect_samples(Ising(8), 3, 0.44, random_seed=1)
    np.testing.assert_array_equal(first, perfect_samples(Ising(8), 3, 0.44, random_seed=1))
    assert (first != perfect_samples(Ising(8), 3, 0.44, random_seed=2)).any()


def test_what_does_not_coalesce_is_refused(monkeypatch):
    monkeypatch.setattr(lattice, "MAX_SWEEPS", 4)
    with pytest.raises(RuntimeError, match=r'^start: .* Use start="swendsen-wang"'):
        perfect_samples(Potts(16, 10, coupling=2.0), 1, 0.7, random_seed=1)


def test_refuses():
    with pytest.raises(ValueError, match="n: must be"):
        perfect_samples(Ising(4), 0)
    with pytest.raises(ValueError, match="beta: must not"):
        perfect_samples(Ising(4), 1, beta=-1.0)
