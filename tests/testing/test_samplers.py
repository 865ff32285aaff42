"""Checks of samplers: which kinds they take, what they cannot see, and what they refuse.

Which faults they see is in test_mutants.py; α = 1e-5 a check.
"""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor import wrap_py

from pymc_bdmc.base.streams import Purpose, entropy_of, stream
from pymc_bdmc.base.types import Move
from pymc_bdmc.testing import check_exact_rank, check_invariance, check_sampler
from tests.testing.mutants.trials import known_mean
from tests.testing.mutants.walks import RandomWalk

QUICK = 300


class Walk:
    """Class of kernels that move as random walk Metropolis does."""

    def __init__(self, density, betas, scale=0.5, forgets_data=False):
        self.density, self.scale = density, scale
        self.betas = 0 * betas if forgets_data else betas

    def reset(self, rng):
        self.rng = rng

    def step(self, t, point):
        new = {
            name: np.asarray(value + self.scale * self.rng.normal(size=value.shape))
            for name, value in point.items()
        }
        (prior, ell), (new_prior, new_ell) = self.density(point), self.density(new)
        log_ratio = new_prior - prior + self.betas[t] * (new_ell - ell)
        accepted = np.log(self.rng.random()) < log_ratio
        return new if accepted else point, Move(float(accepted), False, 0)

    def reversal(self):
        return self


@pytest.mark.parametrize("step", ["metropolis", pm.Metropolis, Walk])
def test_sound_samplers_of_every_kind_pass(step):
    assert check_sampler(step, known_mean(), budget=QUICK, random_seed=1).passed


def test_a_kernel_that_forgets_the_data_fails():
    assert not check_sampler(partial(Walk, forgets_data=True), known_mean(), random_seed=1).passed


@wrap_py([pt.dscalar], [pt.dscalar])
def halved(x):
    """An operation without a gradient."""
    return np.array(x / 2)


@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_a_likelihood_without_a_gradient():
    with pm.Model() as black_box:
        pm.Normal("y", halved(pm.Normal("x", shape=1)[0]), observed=0.0)
    report = check_invariance(RandomWalk(), black_box, budget=QUICK, random_seed=1)
    assert report.passed
    assert "prior standard deviations" in report.blind_to[-1]


def test_the_seed_repeats_it_and_a_larger_budget_sees_smaller_effects():
    """With four times the budget, the smallest visible effects are half as large."""
    check = partial(check_invariance, RandomWalk(), known_mean())
    first = check(budget=50)
    seed = [first.random_seed]  # a list means the same; benchmarks/seeds.py shifts whole numbers
    assert check(budget=50, random_seed=seed).evidence == first.evidence
    other = check(budget=200)
    assert other.evidence != first.evidence
    shifts = [float(each.blind_to[-1].split("about ")[1].split()[0]) for each in (first, other)]
    assert shifts[0] / shifts[1] == pytest.approx(2, rel=0.05)


def test_a_sampler_that_runs_to_where_there_is_no_density_fails():
    def lost(point, target, rng):
        raise FloatingPointError("log p of x is NaN")

    report = check_invariance(lost, known_mean(), random_seed=1)
    assert report.evidence == np.inf
    assert "log p of x is NaN" in report.findings[0]


def test_a_sampler_has_random_numbers_of_its_own():
    """They are not those that simulate the data."""
    used = []

    def recorded(point, target, rng):
        used.append(rng.random())
        return point

    check_invariance(recorded, known_mean(), budget=5, random_seed=1)
    of_data = np.random.default_rng(stream(entropy_of(1), Purpose.SIMULATE)).random(100)
    assert len(used) >= 5
    assert not set(used) & set(of_data)


class Idle:
    """Class without the methods of a kernel."""

    def __init__(self, density, betas):
        pass


def unmoved(point, target, rng):
    return point


@pytest.mark.parametrize(
    ("check", "step", "options", "error", "message"),
    [
        (check_invariance, "gibbs", {}, ValueError, "step: 'gibbs' is none of"),
        (check_invariance, 3, {}, TypeError, "step: a name, a class"),
        (check_invariance, Idle, {}, TypeError,
         r"step: a kernel needs the methods \['reset', 'step', 'reversal'\]"),
        (check_invariance, lambda point, target, rng: None, {}, ValueError,
         "must return a point with the shapes"),
        (check_exact_rank, unmoved, {}, ValueError,
         r"step: the reversal of unmoved is not known.*check_inv"),
        (check_invariance, unmoved, {"alpha": 0.0}, ValueError, "alpha: must lie between 0 and 1"),
        (check_invariance, unmoved, {"budget": 0}, ValueError, "budget: must be a whole number"),
        (check_invariance, unmoved, {"steps": 0}, ValueError, "steps: must be a whole number"),
        (check_invariance, unmoved, {"budget": 4}, ValueError, "budget: one data set takes 5"),
    ],
)  # fmt: skip
def test_refuses(check, step, options, error, message):
    with pytest.raises(error, match=message):
        check(step, known_mean(), **options)
