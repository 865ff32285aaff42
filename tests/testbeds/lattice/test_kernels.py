"""Compiled chains move as their transition matrices say, and share no random numbers."""

import numpy as np
import pytest
from scipy.special import expit

from pymc_bdmc.lattice import Ising, IsingChains, Potts, PottsChains
from pymc_bdmc.testbeds.lattice_kernels import flip_planes
from tests.testbeds.lattice.conftest import chi_square_fits

BETA = 0.3
ORDER = np.array([0, 1, 2, 0, 3])  # not the same backwards
CASES = [
    (IsingChains, Ising(2), False),
    (IsingChains, Ising(2), True),
    (PottsChains, Potts(2, 2, coupling=2.0), False),
    (PottsChains, Potts(2, 5, coupling=1.5), False),
    (PottsChains, Potts(2, 5, coupling=1.5), True),
]
IDS = [f"{system}-{'heat bath' if bath else 'metropolis'}" for _, system, bath in CASES]


def single_site_matrix(system, site, heat_bath):
    """Transition matrix of one update, over all q^4 states of a 2 × 2 lattice."""
    q = system.n_colours
    shape = (q,) * 4
    states = np.indices(shape).reshape(4, -1).T
    log_f = BETA * system.log_likelihood(states.reshape(-1, 2, 2))
    matrix = np.zeros((len(states),) * 2)
    for x, state in enumerate(states):
        new = np.repeat(state[None], q, axis=0)
        new[:, site] = np.arange(q)
        y = np.ravel_multi_index(new.T, shape)
        if heat_bath:
            matrix[x, y] = np.exp(log_f[y]) / np.exp(log_f[y]).sum()
        else:
            matrix[x, y] = np.minimum(1, np.exp(log_f[y] - log_f[x])) / (q - 1)
            matrix[x, x] = 0
            matrix[x, x] = 1 - matrix[x].sum()
    return matrix


def arrivals(chain_type, system, heat_bath, order, start, correlate=False):
    """Count how often chains that start from one state arrive at each state."""
    repeats, counts = 100, np.zeros(system.n_colours**4)
    begin = np.broadcast_to(start, (chain_type.lanes, 4)).astype(np.uint8)
    for repeat in range(repeats):
        stream = np.random.SeedSequence(1, spawn_key=(repeat,))
        chains = chain_type(system, stream, heat_bath, begin)
        if correlate:
            for words in (chains.spins, chains.generators):
                words[:] = words[:, :1]
        chains.move(BETA, order)
        counts += np.bincount(codes(chains, system), minlength=counts.size)
    return counts


def codes(chains, system):
    colours = chains.spins
    if isinstance(chains, IsingChains):
        colours = np.unpackbits(colours.view(np.uint8), axis=1, bitorder="little")
    return np.ravel_multi_index(colours.astype(int), (system.n_colours,) * 4)


@pytest.mark.parametrize(("chain_type", "system", "heat_bath"), CASES, ids=IDS)
def test_moves_follow_the_transition_matrix_in_the_order_given(chain_type, system, heat_bath):
    """Broken twins: the wrong order, and heat baths that draw the same numbers."""
    start = (0, 0, 0, 1)
    row = np.eye(system.n_colours**4)[np.ravel_multi_index(start, (system.n_colours,) * 4)]
    backwards = row
    for site in ORDER:
        row = row @ single_site_matrix(system, site, heat_bath)
    for site in ORDER[::-1]:
        backwards = backwards @ single_site_matrix(system, site, heat_bath)
    counts = arrivals(chain_type, system, heat_bath, ORDER, start)
    assert chi_square_fits(counts, row)
    assert not chi_square_fits(counts, backwards)
    if chain_type is IsingChains and heat_bath:
        same = arrivals(chain_type, system, heat_bath, ORDER, start, correlate=True)
        assert not chi_square_fits(same, row)


@pytest.mark.parametrize("side", [2, 5, 16])
@pytest.mark.parametrize("chain_type", [IsingChains, PottsChains])
def test_bonds_are_counted(chain_type, side):
    system = Ising(side)
    rng = np.random.default_rng(1)
    share = np.linspace(0, 1, chain_type.lanes)[:, None]  # from all unsatisfied to all satisfied
    start = (rng.random((chain_type.lanes, side**2)) < share).astype(np.uint8)
    chains = chain_type(system, np.random.SeedSequence(1), False, start)
    expected = system.satisfied_bonds(start.reshape(-1, side, side))
    np.testing.assert_array_equal(chains.satisfied_bonds(), expected)


@pytest.mark.parametrize("heat_bath", [False, True])
@pytest.mark.parametrize("interaction", [1e-9, 0.1, 0.44, 1.0, 30.0, 1e4])
def test_planes_are_the_binary_digits(interaction, heat_bath):
    planes = flip_planes(interaction, heat_bath)
    assert set(np.unique(planes)) <= {0, 2**64 - 1}
    probabilities = (planes > 0).astype(float).T @ 0.5 ** np.arange(1, 65)
    energies = interaction * np.array([8.0, 4.0])
    expected = expit(-energies) if heat_bath else np.exp(-energies)
    np.testing.assert_allclose(probabilities, [*expected, 0.5 * heat_bath], rtol=1e-15, atol=2**-60)


def test_chains_of_potts_do_not_share_numbers():
    """Neighbouring lanes agree as often as chance says, after moves from equal states."""
    system = Potts(8, 10, coupling=0.1)
    chains = PottsChains(
        system, np.random.SeedSequence(1), True, np.zeros((PottsChains.lanes, 64), np.uint8)
    )
    chains.move(1.0, np.tile(np.arange(64), 20))
    agree = np.mean(chains.spins[:, 1:] == chains.spins[:, :-1])
    assert abs(agree - 0.1) < 4 * np.sqrt(0.09 / (64 * (PottsChains.lanes - 1)))
