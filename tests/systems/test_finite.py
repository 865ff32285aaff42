"""Exact sandwiches on finite spaces: published numbers and brute force."""

import itertools

import numpy as np
import pytest

from tests.systems import FiniteSystem, Grid, exact_sandwich, metropolis_transitions


@pytest.mark.parametrize(
    ("distributions", "jeffreys", "bound"), [(100, 1.6479, 1.8104), (1000, 1.0847, 1.1844)]
)
def test_barrier_grid(distributions, jeffreys, bound):
    run = Grid.barrier().sandwich(np.linspace(0, 1, distributions))
    assert round(run.jeffreys, 4) == jeffreys
    assert round(run.bound, 4) == bound
    assert run.log_z - run.lower >= run.forward_divergence
    assert run.upper - run.log_z >= run.reverse_divergence


def two_sweeps(log_prior, log_likelihood):
    """A kernel that is not its own reversal: Metropolis across one pair, then another."""
    across, along = np.eye(4)[[1, 0, 3, 2]], np.eye(4)[[2, 3, 0, 1]]
    first = metropolis_transitions(log_prior, log_likelihood, across)
    second = metropolis_transitions(log_prior, log_likelihood, along)
    return lambda betas: first(betas) @ second(betas)


def test_agrees_with_enumeration_of_paths():
    rng = np.random.default_rng(3)
    log_prior, log_likelihood = np.log(rng.dirichlet(np.ones(4))), rng.normal(size=4)
    betas, kernel = np.array([0.0, 0.3, 0.7, 1.0]), two_sweeps(log_prior, log_likelihood)
    kernels, z = kernel(betas[1:]), np.exp(log_prior + log_likelihood).sum()
    lower = upper = mean_weight = 0.0
    for path in itertools.product(range(4), repeat=4):
        chance = np.exp(log_prior[path[0]])
        for matrix, here, there in zip(kernels, path, path[1:], strict=False):
            chance *= matrix[here, there]
        log_weight = np.diff(betas) @ log_likelihood[list(path[:3])]
        lower += chance * log_weight
        mean_weight += chance * np.exp(log_weight)
        upper += chance * np.exp(log_weight) / z * log_weight  # Crooks: the reverse chain's chance
    run = exact_sandwich(log_prior, log_likelihood, betas, kernel)
    assert mean_weight == pytest.approx(z, rel=1e-12)
    np.testing.assert_allclose([run.log_z, run.lower, run.upper], [np.log(z), lower, upper])
    # Broken twin: the kernel itself in place of its reversal
    marginal, unreversed = np.exp(log_prior + log_likelihood) / z, 0.0
    for matrix, step in zip(kernels[::-1], np.diff(betas)[::-1], strict=True):
        marginal = marginal @ matrix
        unreversed += step * (marginal @ log_likelihood)
    assert abs(unreversed - upper) > 1e-6


def test_chains_have_the_exact_means():
    """Means agree for a kernel that is not its own reversal (two-sided α = 6e-5)."""
    rng = np.random.default_rng(4)
    log_prior, log_likelihood = np.log(rng.dirichlet(np.ones(4))), 2 * rng.normal(size=4)
    system = FiniteSystem(
        log_prior, log_likelihood, np.linspace(0, 1, 5), two_sweeps(log_prior, log_likelihood)
    )
    exact = exact_sandwich(log_prior, log_likelihood, system.schedule, system.transitions)
    forward, reverse = system.forward(100_000, rng), system.reverse(100_000, rng)

    def off_by(draws, mean):
        return abs(draws.mean() - mean) / (draws.std() / np.sqrt(draws.size))

    assert max(off_by(forward, exact.lower), off_by(reverse, exact.upper)) < 4
    assert off_by(np.exp(forward - exact.log_z), 1) < 4
    assert off_by(np.exp(exact.log_z - reverse), 1) < 4
    # Broken twin: each direction against the mean of the other
    assert min(off_by(forward, exact.upper), off_by(reverse, exact.lower)) > 10


def test_ising_evidence_by_the_transfer_matrix():
    """Z = Tr Tᴸ with T the matrix between rows of spins, over the 2^(side²) states."""
    side, coupling = 3, 0.44
    rows = np.array(list(itertools.product([-1, 1], repeat=side)))
    within = np.sum(rows * np.roll(rows, 1, axis=1), axis=1)
    transfer = np.exp(coupling * (rows @ rows.T + within))
    exact = np.log(np.trace(np.linalg.matrix_power(transfer, side))) - side**2 * np.log(2)
    assert FiniteSystem.ising(side, coupling).log_z == pytest.approx(exact)
    assert FiniteSystem.ising(side, -coupling).log_z != pytest.approx(exact)
