"""Simulated data sets take over the tuning of the first one, and only the fit is made anew."""

import numpy as np
import pymc as pm
import pytest

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.campaign import annealing
from pymc_bdmc.engines import CompiledEngine, PilotTask, RefitTask
from pymc_bdmc.model.tempered import TemperedDensity
from pymc_bdmc.paths import FittedPath, PriorPath

OTHER = {"y": np.array([-3.1, -2.9, -3.0])}
"""Its posterior lies 14 deviations from that of the model's own data."""


@pytest.fixture(scope="module")
def engine():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, 10), 0.7, observed=[2.9, 3.0, 3.1])
    return CompiledEngine(TemperedDensity(model))


@pytest.fixture
def made(monkeypatch):
    """Names of the tasks that were run."""
    names = []
    for task in (PilotTask, RefitTask):
        run = task.run

        def counted(self, engine, run=run, name=task.__name__):
            names.append(name)
            return run(self, engine)

        monkeypatch.setattr(task, "run", counted)
    return names


def tunings(engine, path, data):
    with interruptible() as stop, engine.pool(1, stop) as pool:
        return annealing.Annealing(pool, engine, 1, progressbar=False).tunings(data, path)


def exact(data):
    """Mean and deviation of the posterior."""
    precision = 1 / 100 + len(data["y"]) / 0.49
    return data["y"].sum() / 0.49 / precision, precision**-0.5


def test_only_the_fit_is_made_anew(engine, made):
    """The twin takes over the fit too, which then lies far from the posterior."""
    own, other = tunings(engine, FittedPath(), {0: engine.density.data, 1: OTHER}).values()
    assert made == ["PilotTask", "PilotTask", "RefitTask"]
    np.testing.assert_array_equal(own.table.step_sizes, other.table.step_sizes)
    np.testing.assert_array_equal(
        other.table.scales, np.tile(other.reference.scales, (len(other.betas), 1))
    )
    mean, deviation = exact(OTHER)
    assert abs(other.reference.locations[0, 0] - mean) < deviation
    assert 0.5 < other.reference.scales[0, 0] / deviation < 2
    assert abs(own.reference.locations[0, 0] - mean) > 10 * deviation


def test_where_members_do_not_mix_a_pilot_makes_the_fit(engine, made, monkeypatch):
    monkeypatch.setattr(annealing, "MAX_RHAT", 0.0)
    _, other = tunings(engine, FittedPath(), {0: engine.density.data, 1: OTHER}).values()
    assert made == ["PilotTask", "PilotTask", "RefitTask", "PilotTask"]
    mean, deviation = exact(OTHER)
    assert abs(other.reference.locations[0, 0] - mean) < deviation


def test_from_the_prior_every_data_set_has_a_pilot(engine, made):
    tunings(engine, PriorPath(), {0: engine.density.data, 1: OTHER})
    assert made == ["PilotTask", "PilotTask"]
