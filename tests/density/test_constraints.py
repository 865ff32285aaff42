"""Constraints that are part of log ML are named, and their probability P(S) is measured."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import stats

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.prior import draws_to_accept
from pymc_bdmc.density.refuse import constraints
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask
from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.results.reading import Reading
from tests.models import SIGMAS


@cache
def components():
    """Three ordered components with one observation, in which labels do not matter."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=3, transform=ordered, initval=[-1, 0, 1])
        pm.Normal("y", mu.sum(), 1, observed=0.7)
    return model


def test_log_ml_of_ordered_components_includes_the_probability_of_the_order():
    """Within 4 standard errors of the exact value, α = 6e-5; the twin without −log 3! is not.

    P(S) = 1/6 is known well: with one accepted draw a chain, the error of its log is 0.2.
    """
    options = {"path": "prior", "step": "metropolis", "chains": 24, "cores": 1}
    dt = pm.sample_bdmc(components(), simulate=None, random_seed=1, progressbar=False, **options)
    found, right = bdmc.log_ml(dt), stats.norm.logpdf(0.7, 0, 2)
    assert abs(found.value - right + np.log(6)) < SIGMAS * found.error
    assert abs(found.value - right) > SIGMAS * found.error
    assert "mu is ordered" in found.notes
    assert "−log 3! = −1.79" in repr(found)
    told = found.notes.split("\n")[1]
    assert told.startswith("The likelihood is 0 at some prior draws")
    value, error = map(float, told.rstrip(".").split("of the others, ")[1].split(" ± "))
    assert abs(value + np.log(6)) < SIGMAS * error
    assert "First model: mu is ordered" in repr(bdmc.bayes_factor(dt, dt))
    assert "Caveats: mu is ordered" in bdmc.report(dt)
    draws = dt["real"]["prior_draws"]
    assert draws.dims == ("chain", "accepted_draw")
    assert log_prior_mass(draws.values).error < 0.05
    (read,) = Reading.of(dt).data_sets
    assert read[-1].size == draws.size
    assert np.isfinite(bdmc.certified(dt)["lower"]).all()


@pytest.mark.parametrize(
    ("accepted", "drawn", "n"), [(512, 512, 1), (500, 512, 64), (100, 600, 42), (3, 5000, 1)]
)
def test_how_many_accepted_draws_are_counted(accepted, drawn, n):
    """One if nothing is rejected."""
    assert draws_to_accept(accepted, drawn) == n


def constrained(above):
    with pm.Model() as model:
        pm.Potential("above", pm.math.switch(pm.Normal("x") > above, 0.0, -np.inf))
    return CompiledEngine(TemperedDensity(model), "metropolis")


def accepted(engine, n, batch, seed):
    return engine.on(engine.density.data).accepted(n, batch, np.random.default_rng(seed))


def run_task(seed):
    tuning = SimpleNamespace(accepted_draws=1, reference=None, kernels=None)
    return AnnealTask(Direction.FORWARD, {}, np.linspace(0, 1, 5), tuning, seed)


def test_every_start_has_its_limit(monkeypatch):
    """P(S) is 0.001: dozens of starts, each within 600 draws, have a probability below 1e-4."""
    for module in ("problem", "runs"):
        monkeypatch.setattr(f"pymc_bdmc.engines.{module}.MAX_PRIOR_DRAWS", 600)
    engine, message = constrained(3.09), r"prior draws, by above\. Check the data"
    with pytest.raises(ValueError, match=message):
        engine.pilot(PilotTask({}, np.random.SeedSequence(1)))
    with pytest.raises(ValueError, match=message):
        accepted(engine, 32, 256, np.random.SeedSequence(1))
    with pytest.raises(ValueError, match=message):
        constrained(np.inf).run(run_task(np.random.SeedSequence(1)))


def test_draws_in_vain_end_by_ctrl_c():
    engine, seed = constrained(np.inf), np.random.SeedSequence(1)
    task = run_task(seed)
    engine.pool(1, np.ones(1, np.uint8))
    assert engine.pilot(PilotTask({}, seed)) is None
    assert accepted(engine, 2, 256, seed) == ([], [])
    assert engine.run(task) is None
    assert engine.run(replace(task, particles=3)) is None


def test_trials_go_on_from_batch_to_batch():
    """Geometric with P = 1/6: mean and P(1), α = 6e-5 each; a count anew in each batch fails."""
    engine = CompiledEngine(TemperedDensity(components()), "metropolis")

    def z(trials):
        mean = (trials.mean() - 6) / np.sqrt(30 / len(trials))
        ones = (np.mean(trials == 1) - 1 / 6) / np.sqrt(5 / 36 / len(trials))
        return max(abs(mean), abs(ones))

    for batch in (4, 256):
        trials = np.array(accepted(engine, 600, batch, 1)[1])
        assert z(trials) < 4
        assert z((trials - 1) % 4 + 1) > 4


START = np.arange(4.0)
ROWS = np.tile(START, (2, 1))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mu": 0, "sigma": 2, "shape": 4, "initval": START}, "−log 4! = −3.18."),
        ({"dims": ("row", "cut"), "initval": ROWS}, "−2 log 4! = −6.36."),
        ({"mu": START, "shape": 4, "initval": START}, "the log prior probability of that order."),
    ],
)
def test_only_exchangeable_elements_have_a_known_probability(options, told):
    with pm.Model(coords={"row": range(2), "cut": range(4)}) as model:
        pm.Normal("cuts", transform=ordered, **options)
    assert constraints(model)["constraints"].endswith(told)


def test_potentials_and_densities_of_the_users_own_are_named():
    """Their constants cannot be known; a density that PyMC derives is normalised."""
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", shape=2, transform=ordered, initval=[0.5, 1.0])
        pm.Potential("apart", pm.math.log(rate[1] - rate[0]))
        x = pm.Normal("x")
        pm.CustomDist("mine", x, logp=lambda y, x: -((y - x) ** 2), observed=0.5)
        pm.CustomDist("derived", x, dist=lambda x, size: pm.Normal.dist(x, size=size), observed=0.5)
    first, second, third = constraints(model)["constraints"].split("\n")
    assert first.startswith("rate is ordered")
    assert "−log 2! = −0.69." in first
    told = second + third
    assert "The Potential apart is a part of the likelihood" in told
    assert "The density of mine, a CustomDist, is taken to integrate to 1" in told
