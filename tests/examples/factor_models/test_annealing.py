"""Reverse runs and resampling against enumeration, and results as those of any run.

That both directions are unbiased on both paths, the estimators of `test_race` show.
"""

import inspect
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from factor_models import (
    BinaryAttributes,
    Clustering,
    LowRank,
    Problem,
    anneal,
    annealing,
    loops,
)
from factor_models.kernels import weigh
from scipy.special import logsumexp

import pymc_bdmc as bdmc
from pymc_bdmc.base.compiling import CalledByAddress, njit
from pymc_bdmc.base.types import Direction
from tests.examples.factor_models.test_kernels import enumerated

Z = 4.5  # two-sided α = 7e-6 a comparison, 10 comparisons
CASES = [Clustering(2, n=4, size=2), BinaryAttributes(2, n=3, size=2)]


def exact(problem):
    return solved(problem, enumerated(problem.model))[1]


def solved(problem, states):
    """Posterior probabilities of the only states there are, and log ML."""
    log_joint = np.array([problem.model.log_joint(rows, problem.y) for rows in states])
    log_z = logsumexp(log_joint)
    return np.exp(log_joint - log_z), log_z


BOTH = (Direction.FORWARD, Direction.REVERSE)


def scores(problem, states, p, log_z, path="prior", directions=BOTH, runs=1000):
    """z of E[Ẑ] = Z, and of E_r[1/Ẑ] = 1/Z with starts that have these probabilities."""
    rng, betas = np.random.default_rng(5), np.linspace(0, 1, 9)
    starts = [replace(problem, rows=states[i]) for i in rng.choice(len(states), p=p, size=runs)]
    for direction in directions:
        sign = 1 if direction == Direction.FORWARD else -1
        found = [annealing.run(start, direction, path, betas, 2, rng)[0] for start in starts]
        x = np.exp(sign * (np.array(found) - log_z))
        yield (x.mean() - 1) / (x.std(ddof=1) / np.sqrt(runs))


@njit()
def stay(model, rows, y, weights, backwards, aim, rng):
    """A sweep that does nothing, so that nothing makes good for where a run starts."""
    return 0.0


@pytest.fixture
def still(monkeypatch):
    sweep = CalledByAddress(stay, annealing.MOVES.sweep.signature())
    monkeypatch.setattr(annealing, "MOVES", annealing.MOVES._replace(sweep=sweep))


@pytest.mark.parametrize(("model", "path"), [(CASES[0], "prior"), (CASES[1], "data")])
def test_reverse_runs_start_from_the_posterior(still, model, path):
    """Twins: starts from the prior, and all of them at the sample that the data came with."""
    problem, states = model.simulate(random_seed=3), enumerated(model)
    p, log_z = solved(problem, states)
    assert max(map(abs, scores(problem, states, p, log_z, path))) < Z
    prior = np.full(len(states), 1 / len(states))
    sample = np.array([(rows == problem.rows).all() for rows in states]) * 1.0
    for wrong in (prior, sample):
        (reverse,) = scores(problem, states, wrong, log_z, path, [Direction.REVERSE])
        assert abs(reverse) > Z


def test_conditional_resampling(still, monkeypatch):
    """Twins run in Python: particle 0 moves as the others do, or is the ancestor of none."""
    problem = BinaryAttributes(2, n=3, size=1).simulate(random_seed=4)
    states = enumerated(problem.model)
    answer = solved(problem, states)
    assert max(map(abs, scores(problem, states, *answer))) < Z
    source = inspect.getsource(loops.anneal.py_func).split("\n", maxsplit=1)[1]
    moves = SimpleNamespace(sweep=lambda *arguments: 0.0, weigh=weigh)
    for sound, broken in (
        ("(min(len(kept), 1), 1.0)", "(0 * min(len(kept), 1), 1.0)"),
        ("resample(weights, ", "resample(weights * (np.arange(n) >= first), "),
    ):
        assert source.count(sound) == 1
        exec(source.replace(sound, broken), twin := dict(vars(loops)))
        monkeypatch.setattr(loops, "anneal", lambda _, *rest, f=twin["anneal"]: f(moves, *rest))
        (reverse,) = scores(problem, states, *answer, directions=[Direction.REVERSE])
        assert abs(reverse) > Z


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
