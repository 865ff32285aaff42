"""Checks of samplers: sound ones pass, twins with one fault each fail; α = 1e-5 a check."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.pytensorf import compile as compile_graph
from pytensor import wrap_py

from pymc_bdmc.base.types import Move
from pymc_bdmc.density import tempered
from pymc_bdmc.density.graph import INTERPRETED
from pymc_bdmc.kernels import StepKernel
from pymc_bdmc.testing import (
    check_exact_rank,
    check_geweke,
    check_invariance,
    check_sampler,
)
from tests.testing.samplers import (
    alternating,
    no_hastings,
    no_jacobian,
    pair,
    stretch,
    walk,
    wrong_beta,
)


@wrap_py([pt.dscalar], [pt.dscalar])
def halved(x):
    """An operation without a gradient."""
    return np.array(x / 2)


CHECKS = [check_invariance, check_geweke, check_exact_rank, check_sampler]
QUICK = 500


@pytest.fixture(scope="module")
def model():
    return pair()


@pytest.mark.parametrize("check", CHECKS)
def test_sound_samplers_pass(check, model):
    report = check(stretch, model, budget=QUICK, random_seed=1)
    assert report.passed
    assert 0.9 * QUICK < report.cost <= QUICK
    assert report.findings == ()


@pytest.mark.parametrize(
    ("check", "step"),
    [
        (check_invariance, no_hastings),
        (check_exact_rank, no_hastings),
        (check_sampler, no_jacobian),
    ],
)
def test_broken_twins_fail_early(check, step, model):
    report = check(step, model, random_seed=1)
    assert not report.passed
    assert report.evidence >= 1e5
    assert report.cost < 20_000
    assert report.findings


def test_a_wrong_temperature_shows_below_one_only(model):
    assert check_invariance(wrong_beta, model, budget=QUICK, random_seed=1).passed
    report = check_sampler(wrong_beta, model, random_seed=1)
    assert report.findings[:1] == ("order of prior draws moved at all β: weight",)


def test_right_marginals_with_a_wrong_joint_distribution():
    """Two variables with correlation 0.95, drawn anew at once, each given the other's old value."""
    with pm.Model() as model:
        a = pm.Normal("a")
        b = pm.Normal("b", 0.95 * a, np.sqrt(1 - 0.95**2))
        pm.Normal("y", a + b, 100.0, observed=0.0)
    report = check_invariance(alternating, model, random_seed=1)
    assert not report.passed
    assert any("log prior" in finding or "a · b" in finding for finding in report.findings)


def lazy(point, target, rng):
    """Draws a coin anew, without looking at the data, every other time."""
    new = {name: rng.integers(2, size=value.shape) for name, value in point.items()}
    accepted = rng.random() < 0.5 or np.log(rng.random()) < target(new) - target(point)
    return new if accepted else point


@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_models_without_slopes():
    """One model has only discrete variables, and the likelihood of the other has no gradient."""
    with pm.Model() as coins:
        pm.Normal("y", pm.Bernoulli("k", 0.5, shape=2).sum(), 0.3, observed=0.0)
    report = check_invariance(lazy, coins, random_seed=1)
    assert not report.passed
    assert "prior standard deviations" in report.blind_to[-1]
    with pm.Model() as black_box:
        pm.Normal("y", halved(pm.Normal("mu")), observed=0.0)
    assert check_invariance(walk, black_box, budget=QUICK, random_seed=1).passed


def test_a_larger_budget_sees_smaller_effects(model):
    """With four times the budget, the smallest visible effects are half as large."""
    shifts = [
        float(check_invariance(walk, model, budget=n).blind_to[-1].split("about ")[1].split()[0])
        for n in (100, 400)
    ]
    np.testing.assert_allclose(shifts[0] / shifts[1], 2, rtol=0.02)


def test_the_seed_repeats_it(model):
    first = check_invariance(walk, model, budget=200)
    again = check_invariance(walk, model, budget=200, random_seed=first.random_seed)
    assert again.evidence == first.evidence
    assert check_invariance(walk, model, budget=200).evidence != first.evidence


class Walk:
    """Class of kernels that move as `walk` does."""

    def __init__(self, density, betas, scale=1.0, forgets_beta=False):
        self.density, self.betas, self.scale = density, betas, scale
        self.forgets_beta = forgets_beta

    def reset(self, rng):
        self.rng = rng

    def step(self, t, point):
        beta = 1.0 if self.forgets_beta else self.betas[t]
        new = {
            name: np.asarray(value + self.scale * self.rng.normal(size=value.shape))
            for name, value in point.items()
        }
        (prior, ell), (new_prior, new_ell) = self.density(point), self.density(new)
        accepted = np.log(self.rng.random()) < new_prior - prior + beta * (new_ell - ell)
        return new if accepted else point, Move(float(accepted), False, 0)

    def reversal(self):
        return self


def test_classes_of_kernels(model):
    assert check_sampler(partial(Walk, scale=0.5), model, budget=QUICK, random_seed=1).passed
    assert not check_sampler(partial(Walk, forgets_beta=True), model, random_seed=1).passed


def test_step_methods(model):
    assert check_sampler(pm.Metropolis, model, budget=QUICK, random_seed=1).passed


class Forgetful(pm.Metropolis):
    """Accepts every other proposal whatever it is."""

    def astep(self, q0):
        moved, stats = super().astep(q0)
        if self.rng.random() < 0.5:
            moved = moved._replace(data=q0.data + 0.5 * self.rng.normal(size=q0.data.shape))
        return moved, stats


def test_broken_step_method(model):
    report = check_invariance(Forgetful, model, random_seed=1)
    assert not report.passed
    assert "Forgetful" in report.subject


def test_compiled_kernels(model):
    assert check_sampler("metropolis", model, budget=QUICK, random_seed=1).passed


def test_a_sampler_that_runs_to_where_there_is_no_density_fails(model, monkeypatch):
    """A pilot whose log p is NaN lets the check fail."""

    def step(self, t, point):
        raise FloatingPointError("log p of mu is NaN")

    monkeypatch.setattr(StepKernel, "step", step)
    report = check_invariance(pm.Metropolis, model, random_seed=1)
    assert report.evidence == np.inf
    assert "log p of mu is NaN" in report.findings[0]


def test_the_gradient_is_compiled_once(monkeypatch):
    """Only log p and one gradient are compiled, for features, the sampler and its reversal."""
    compiled = []

    def count(*args, **options):
        if options.get("mode") is not INTERPRETED:
            compiled.append(args)
        return compile_graph(*args, **options)

    def idle(point, target, rng):
        target.gradient(point)
        return point

    idle.reversal = idle
    monkeypatch.setattr(tempered, "compile_graph", count)
    assert check_exact_rank(idle, pair(), budget=100, random_seed=1).passed
    assert len(compiled) == 2


def test_rank_needs_a_reversal(model):
    with pytest.raises(ValueError, match=r"step: the reversal of <lambda> is not known.*check_inv"):
        check_exact_rank(lambda point, target, rng: point, model)


class Idle:
    """Class without the methods of a kernel."""

    def __init__(self, density, betas):
        pass


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ("gibbs", ValueError, "step: 'gibbs' is none of"),
        (3, TypeError, "step: a name, a class"),
        (Idle, TypeError, r"step: a kernel needs the methods \['reset', 'step', 'reversal'\]"),
        (lambda point, target, rng: None, ValueError, "must return a point with the shapes"),
    ],
)
def test_what_is_no_sampler(step, error, message, model):
    with pytest.raises(error, match=message):
        check_invariance(step, model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.0}, "alpha: must lie between 0 and 1"),
        ({"budget": 0}, "budget: must be a whole number"),
        ({"steps": 0}, "steps: must be a whole number"),
        ({"budget": 4}, "budget: one data set takes 5"),
    ],
)
def test_options(options, message, model):
    with pytest.raises(ValueError, match=message):
        check_invariance(walk, model, **options)
