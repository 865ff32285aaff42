"""P(S) of a cut prior is measured by many more prior draws than there are chains."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from pymc.distributions import transforms

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.prior import draws_to_accept
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask
from pymc_bdmc.estimators import log_prior_mass
from pymc_bdmc.results.reading import Reading


@pytest.fixture(scope="module")
def cut():
    """Three ordered normal variables: P(S) = 1/6."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=3, transform=transforms.ordered)
        pm.Normal("y", x, 1.0, observed=[-1.0, 0.0, 1.0])
    return model


def test_how_many_accepted_draws_are_counted():
    assert draws_to_accept(512, 512) == 1  # nothing is rejected
    assert draws_to_accept(500, 512) == 64
    assert draws_to_accept(100, 600) == 42
    assert draws_to_accept(3, 5000) == 1


@pytest.mark.parametrize("step", [None, pm.Metropolis])
def test_the_prior_mass_is_known_well(cut, step):
    """Within 4 standard errors of log(1/6) (α = 6e-5), which are 0.04: one
    accepted draw a chain gives 0.23.
    """
    dt = bdmc.sample_bdmc(
        cut, chains=16, temperatures=5, simulate=None, step=step, random_seed=1, cores=1,
        progressbar=False,
    )  # fmt: skip
    draws = dt["real"]["prior_draws"]
    assert draws.dims == ("chain", "accepted_draw")
    mass = log_prior_mass(draws.values)
    assert mass.error < 0.05
    assert abs(mass.estimate - np.log(1 / 6)) < 4 * mass.error
    (found,) = Reading.of(dt).data_sets
    assert found[-1].size == draws.size
    assert np.isfinite(bdmc.certified(dt)["lower"]).all()


def constrained(above):
    with pm.Model() as model:
        pm.Potential("above", pm.math.switch(pm.Normal("x") > above, 0.0, -np.inf))
    return CompiledEngine(TemperedDensity(model), "metropolis")


def accepted(engine, n, batch, seed):
    return engine.on(engine.density.data).accepted(n, batch, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "ask",
    [
        lambda engine, seed: engine.pilot(PilotTask({}, seed)),
        lambda engine, seed: accepted(engine, 32, 256, seed),
    ],
    ids=["pilot", "chain"],
)
def test_every_start_has_its_limit(ask, monkeypatch):
    """P(S) is 0.001: dozens of starts, each within 600 draws, have a probability below 1e-4."""
    monkeypatch.setattr("pymc_bdmc.engines.problem.MAX_PRIOR_DRAWS", 600)
    engine = constrained(3.09)
    with pytest.raises(ValueError, match=r"prior draws, by above\. Check the data"):
        ask(engine, np.random.SeedSequence(1))


def test_draws_in_vain_end_by_ctrl_c():
    engine, seed = constrained(np.inf), np.random.SeedSequence(1)
    tuning = SimpleNamespace(accepted_draws=1, reference=None, kernels=None)
    task = AnnealTask(Direction.FORWARD, {}, np.linspace(0, 1, 5), tuning, seed)
    engine.pool(1, np.ones(1, np.uint8))
    assert engine.pilot(PilotTask({}, seed)) is None
    assert accepted(engine, 2, 256, seed) == ([], [])
    assert engine.run(task) is None
    assert engine.run(replace(task, particles=3)) is None


@pytest.mark.parametrize("batch", [4, 256])
def test_trials_go_on_from_batch_to_batch(cut, batch):
    """Geometric with P = 1/6: mean and P(1), α = 6e-5 each; a count anew in each batch fails."""
    engine = CompiledEngine(TemperedDensity(cut), "metropolis")
    trials = np.array(accepted(engine, 3000, batch, 1)[1])

    def z(trials):
        mean = (trials.mean() - 6) / np.sqrt(30 / len(trials))
        ones = (np.mean(trials == 1) - 1 / 6) / np.sqrt(5 / 36 / len(trials))
        return max(abs(mean), abs(ones))

    assert z(trials) < 4
    assert z((trials - 1) % 4 + 1) > 4
