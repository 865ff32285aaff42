"""Exact sandwiches on finite spaces: published numbers, brute force, and refusals."""

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


def test_random_grids_have_the_published_size():
    # Published for one draw at T = 1000: B of 2.309 (hard) and 0.0705 (easy), J of 1.84, 0.00518
    betas = np.linspace(0, 1, 1000)
    hard = [Grid.random(10.0, np.random.default_rng(i)).sandwich(betas) for i in range(10)]
    easy = [Grid.random(2.0, np.random.default_rng(i)).sandwich(betas) for i in range(10)]
    for runs, bound in ((hard, 2.309), (easy, 0.0705)):
        bounds = [r.bound for r in runs]
        assert min(bounds) < bound < max(bounds)
    assert np.median([r.jeffreys for r in easy]) < 0.1 < np.median([r.jeffreys for r in hard])


@pytest.mark.parametrize("distributions", [10, 100, 1000])
@pytest.mark.parametrize("kind", ["easy", "hard", "barrier"])
def test_bound_holds(kind, distributions):
    rng = np.random.default_rng(1)
    grid = {
        "easy": lambda: Grid.random(2.0, rng),
        "hard": lambda: Grid.random(10.0, rng),
        "barrier": Grid.barrier,
    }[kind]()
    run = grid.sandwich(np.linspace(0, 1, distributions))
    assert run.bound >= run.jeffreys > 0
    assert run.log_z - run.lower >= run.forward_divergence
    assert run.upper - run.log_z >= run.reverse_divergence


@pytest.mark.slow
def test_bound_holds_on_long_schedules():
    for grid in (
        Grid.barrier(),
        Grid.random(2.0, np.random.default_rng(2)),
        Grid.random(10.0, np.random.default_rng(2)),
    ):
        runs = [grid.sandwich(np.linspace(0, 1, t)) for t in (10_000, 100_000)]
        assert all(r.bound >= r.jeffreys for r in runs)
        assert runs[1].bound < runs[0].bound


def two_sweeps(log_prior, log_likelihood):
    """A kernel that is not its own reversal: Metropolis across one pair, then another."""
    across, along = np.eye(4)[[1, 0, 3, 2]], np.eye(4)[[2, 3, 0, 1]]
    first = metropolis_transitions(log_prior, log_likelihood, across)
    second = metropolis_transitions(log_prior, log_likelihood, along)
    return lambda betas: first(betas) @ second(betas)


def test_agrees_with_enumeration_of_paths():
    rng = np.random.default_rng(3)
    log_prior, log_likelihood = np.log(rng.dirichlet(np.ones(4))), rng.normal(size=4)
    betas = np.array([0.0, 0.3, 0.7, 1.0])
    kernels = two_sweeps(log_prior, log_likelihood)(betas[1:])
    z = np.exp(log_prior + log_likelihood).sum()
    lower = upper = mean_weight = 0.0
    for path in itertools.product(range(4), repeat=4):
        chance = np.exp(log_prior[path[0]])
        for kernel, here, there in zip(kernels, path, path[1:], strict=False):
            chance *= kernel[here, there]
        log_weight = np.diff(betas) @ log_likelihood[list(path[:3])]
        lower += chance * log_weight
        mean_weight += chance * np.exp(log_weight)
        upper += chance * np.exp(log_weight) / z * log_weight  # Crooks: the reverse chain's chance
    run = exact_sandwich(log_prior, log_likelihood, betas, kernels)
    assert mean_weight == pytest.approx(z, rel=1e-12)
    assert run.log_z == pytest.approx(np.log(z), abs=1e-12)
    assert run.lower == pytest.approx(lower, abs=1e-12)
    assert run.upper == pytest.approx(upper, abs=1e-12)
    # Broken twin: the kernel itself in place of its reversal
    marginal = np.exp(log_prior + log_likelihood) / z
    unreversed = 0.0
    for kernel, step in zip(kernels[::-1], np.diff(betas)[::-1], strict=True):
        marginal = marginal @ kernel
        unreversed += step * (marginal @ log_likelihood)
    assert abs(unreversed - upper) > 1e-6


def test_chains_have_the_exact_means():
    """Means agree for a kernel that is not its own reversal (two-sided α = 6e-5)."""
    rng = np.random.default_rng(4)
    log_prior, log_likelihood = np.log(rng.dirichlet(np.ones(4))), 2 * rng.normal(size=4)
    betas, kernel = np.linspace(0, 1, 5), two_sweeps(log_prior, log_likelihood)
    system = FiniteSystem(log_prior, log_likelihood, betas, kernel)
    exact = exact_sandwich(log_prior, log_likelihood, betas, kernel)
    forward, reverse = system.forward(100_000, rng), system.reverse(100_000, rng)

    def off_by(draws, mean):
        return abs(draws.mean() - mean) / (draws.std() / np.sqrt(draws.size))

    assert off_by(forward, exact.lower) < 4
    assert off_by(reverse, exact.upper) < 4
    assert off_by(np.exp(forward - exact.log_z), 1) < 4
    assert off_by(np.exp(exact.log_z - reverse), 1) < 4
    # Broken twin: each direction against the mean of the other
    assert off_by(forward, exact.upper) > 10
    assert off_by(reverse, exact.lower) > 10


def test_ising_evidence_by_the_transfer_matrix():
    """Z = Tr Tᴸ with T the matrix between rows of spins, over the 2^(side²) states."""
    side, coupling = 3, 0.44
    rows = np.array(list(itertools.product([-1, 1], repeat=side)))
    within = np.sum(rows * np.roll(rows, 1, axis=1), axis=1)
    transfer = np.exp(coupling * (rows @ rows.T + within))
    exact = np.log(np.trace(np.linalg.matrix_power(transfer, side))) - side**2 * np.log(2)
    system = FiniteSystem.ising(side, coupling)
    assert system.log_z == pytest.approx(exact)
    assert FiniteSystem.ising(side, -coupling).log_z != pytest.approx(exact)


def test_takes_a_function_or_matrices():
    grid, betas = Grid.barrier(), np.linspace(0, 1, 30)
    flat = grid.log_likelihood.ravel()
    matrices = grid.transitions(betas[1:])
    assert exact_sandwich(grid.log_prior, flat, betas, matrices) == grid.sandwich(betas)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"log_prior": [0.0, 0.0]}, "normalised"),
        ({"log_likelihood": [0.0, -np.inf]}, "finite"),
        ({"log_likelihood": [0.0]}, "same length"),
        ({"schedule": [0.0, 0.9]}, "from 0 to 1"),
        ({"schedule": [0.0, 0.6, 0.5, 1.0]}, "increase"),
        ({"transitions": np.eye(2)}, "transition matrices"),
        ({"transitions": np.full((1, 2, 2), 0.4)}, "probabilities"),
        ({"transitions": np.full((1, 2, 2), 0.5)}, "invariant"),
    ],
)
def test_refuses(changes, message):
    good = {
        "log_prior": np.log([0.5, 0.5]),
        "log_likelihood": [0.0, 1.0],
        "schedule": [0.0, 1.0],
        "transitions": np.eye(2)[None],
    }
    with pytest.raises(ValueError, match=message):
        exact_sandwich(**(good | changes))


def test_proposal_must_be_symmetric():
    with pytest.raises(ValueError, match="symmetric"):
        metropolis_transitions(np.log([0.5, 0.5]), [0.0, 0.0], [[0.5, 0.5], [0.1, 0.9]])
