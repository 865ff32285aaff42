"""Populations on both paths against enumeration, and their results as those of any run."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.compiling import CalledByAddress, njit
from pymc_bdmc.testbed import (
    BinaryAttributes,
    Clustering,
    LowRank,
    Problem,
    anneal,
    annealing,
    loops,
)
from pymc_bdmc.types import Direction
from tests.mutants import compile_kernels
from tests.testbed.test_kernels import enumerated

Z = 4.5  # two-sided α = 7e-6 a comparison, 16 comparisons
CASES = [Clustering(2, n=4, size=2), BinaryAttributes(2, n=3, size=2)]


def exact(problem):
    return logsumexp(
        [problem.model.log_joint(rows, problem.y) for rows in enumerated(problem.model)]
    )


def means(dt, log_z):
    """z of the mean weight of each direction, and of its reciprocal in reverse."""
    for direction, sign in (("forward", 1), ("reverse", -1)):
        x = np.exp(sign * (dt[direction]["log_weight"].values[0] - log_z))
        yield (x.mean() - 1) / (x.std(ddof=1) / np.sqrt(x.size))


@pytest.mark.parametrize("particles", [1, 4])
@pytest.mark.parametrize("path", ["prior", "data"])
@pytest.mark.parametrize("model", CASES, ids=lambda model: type(model).__name__)
def test_both_directions_are_unbiased(model, path, particles):
    problem = model.simulate(random_seed=3)
    dt = anneal(
        problem, path=path, particles=particles, chains=1000, schedule="linear",
        temperatures=2 * model.n, random_seed=5, progressbar=False,
    )  # fmt: skip
    assert max(map(abs, means(dt, exact(problem)))) < Z
    # Broken twin: half a nat beside
    assert max(map(abs, means(dt, exact(problem) + 0.5))) > Z


@njit()
def stay(model, rows, y, weights, backwards, aim, rng):
    """A sweep that does nothing, so that a population changes by resampling alone."""
    return 0.0


def reverse_score(problem, runs=2000):
    """z of E_r[1/Ẑ] = 1/Z for pairs of particles, with starts from the enumerated posterior."""
    log_z, rng = exact(problem), np.random.default_rng(1)
    states = enumerated(problem.model)
    p = np.exp([problem.model.log_joint(rows, problem.y) - log_z for rows in states])
    betas = np.linspace(0, 1, 9)
    x = []
    for i in rng.choice(len(states), p=p / p.sum(), size=runs):
        start = replace(problem, rows=states[i])
        log_weight, _ = annealing.run(start, Direction.REVERSE, "prior", betas, 2, rng)
        x.append(np.exp(log_z - log_weight))
    return abs(np.mean(x) - 1) / (np.std(x, ddof=1) / np.sqrt(runs))


def test_conditional_resampling(monkeypatch):
    problem = BinaryAttributes(2, n=3, size=1).simulate(random_seed=4)
    still = CalledByAddress(stay, annealing.MOVES.sweep.signature())
    monkeypatch.setattr(annealing, "MOVES", annealing.MOVES._replace(sweep=still))
    assert reverse_score(problem) < Z
    # Broken twins: particle 0 moves as the others do, or is never the ancestor of another
    for twin in [
        ("first, none = len(states), min(len(kept), 1)", "first, none = len(states), 0"),
        ("resample(weights, first == 1", "resample(weights * (np.arange(n) >= first), first == 1"),
    ]:
        monkeypatch.setattr(annealing, "ascend", compile_kernels(twin, modules=(loops,)).ascend)
        assert reverse_score(problem) > Z


def test_low_rank_of_one_loading():
    """K = D = N = 1: log ML by quadrature over the loading."""
    model = LowRank(1, n=1, size=1)
    problem = model.simulate(random_seed=1)
    grid = np.linspace(-12, 12, 4001)
    values = [model.log_joint(np.array([[x]]), problem.y) for x in grid]
    log_z = logsumexp(values) + np.log(grid[1] - grid[0])
    for path in ("prior", "data"):
        dt = anneal(
            problem, path=path, particles=2, chains=1000, temperatures=3, schedule="linear",
            random_seed=1, progressbar=False,
        )  # fmt: skip
        assert max(map(abs, means(dt, log_z))) < Z
        assert max(map(abs, means(dt, log_z + 0.5))) > Z


def test_results_are_read_like_any_other():
    problem = Clustering(3, n=6, size=2).simulate(random_seed=1)
    options = {"chains": 20, "temperatures": 30, "random_seed": 1, "progressbar": False}
    dt = anneal(problem, cores=1, **options)
    table = bdmc.summary(dt).loc["simulated"]
    assert table.loc["upper bound", "kind"] == "mean log weight, exact start"
    value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
    assert abs(value - exact(problem)) < Z * error
    again = anneal(problem, cores=2, **options)
    np.testing.assert_array_equal(dt["forward"]["log_weight"], again["forward"]["log_weight"])
    np.testing.assert_array_equal(dt["reverse"]["log_weight"], again["reverse"]["log_weight"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Clustering(0), "n_features: must be a whole number"),
        (lambda: LowRank(2, row_scale=0.0), "row_scale: must be a positive number"),
        (lambda: Clustering(2, noise=-1.0), "noise: must be a positive number"),
        (lambda: BinaryAttributes(probability=1.0), "probability: must lie between 0 and 1"),
        (lambda: anneal(Clustering()), "problem: a Problem is needed"),
        (lambda: anneal(Problem(CASES[0], np.zeros((4, 2)))), "reverse runs need the rows"),
        (lambda: anneal(CASES[0].simulate(1), path="posterior"), "path: 'posterior' is none of"),
        (lambda: anneal(CASES[0].simulate(1), particles=0), "particles: must be a whole"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
