"""How fits are made, and taken over with their tunings from the first data set to the others."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.call import annealing
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, RefitTask
from pymc_bdmc.paths import FittedPath, PriorPath
from pymc_bdmc.reference.metric import Metric
from tests.call.sessions import session_of

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
        return annealing.Annealing(session_of(engine, pool)).tunings(data, path)


def exact(data):
    """Mean and deviation of the posterior."""
    precision = 1 / 100 + len(data["y"]) / 0.49
    return data["y"].sum() / 0.49 / precision, precision**-0.5


def test_only_the_fit_is_made_anew(engine, made):
    """The twin takes over the fit too, which then lies far from the posterior."""
    own, other = tunings(engine, FittedPath(), {0: engine.density.data, 1: OTHER}).values()
    assert made == ["PilotTask", "PilotTask", "RefitTask"]
    np.testing.assert_array_equal(own.kernels.step_sizes, other.kernels.step_sizes)
    np.testing.assert_array_equal(
        other.kernels.scales,
        np.tile(other.reference.scales, (len(other.kernels.betas), 1)),
    )
    mean, deviation = exact(OTHER)
    assert abs(other.reference.locations[0, 0] - mean) < deviation
    assert 0.5 < other.reference.scales[0, 0] / deviation < 2
    assert abs(own.reference.locations[0, 0] - mean) > 10 * deviation


def test_where_members_do_not_mix_a_pilot_makes_the_fit(engine, made, monkeypatch):
    monkeypatch.setattr(annealing, "MAX_RHAT", 0.0)
    _, found = tunings(engine, FittedPath(), {0: engine.density.data, 1: OTHER}).values()
    first, other = ["PilotTask"] * 3, ["RefitTask", *["PilotTask"] * 3]  # prior, fit, fit anew
    assert made == [*first, *other]
    mean, deviation = exact(OTHER)
    assert abs(found.reference.locations[0, 0] - mean) < deviation


class Told(annealing.Annealing):
    """Pilots from the prior and from fits find what a test says."""

    def __init__(self, session, found):
        super().__init__(session)
        self.found, self.starts = iter(found), []

    def _pilots(self, data, references, until_mixed, key):
        self.starts += [float(each.locations[0, 0]) for each in references.values()]
        return {d: next(self.found) for d in data}


def seen(mean, length, rhat):
    """A pilot that saw a normal posterior with this mean, on a path of this Λ."""
    shape = Metric(np.ones(1), np.zeros((0, 1)), np.zeros(0))
    return SimpleNamespace(
        fit=(np.array([mean]), shape),
        rhat=rhat,
        path_betas=np.array([0.0, 1.0]),
        mean_log_likelihood=np.array([0.0, length**2]),
    )


@pytest.mark.parametrize(
    ("rhat", "lengths", "starts", "taken"),
    [
        (1.0, [1.0], [0.5], 1.0),
        (8.0, [3.0, 1.0], [0.5, 2.5], 1.0),  # the second path is shorter
        (8.0, [1.0, 3.0], [0.5, 2.5], 1.0),  # the first one is
    ],
)
def test_a_fit_to_a_pilot_that_did_not_mix_is_made_anew(engine, rhat, lengths, starts, taken):
    """The second fit is made to what the pilot on the first path saw."""
    found = [seen(0.5, 9.0, rhat), *(seen(2.5, length, 1.0) for length in lengths)]
    with interruptible() as stop, engine.pool(1, stop) as pool:
        told = Told(session_of(engine, pool), found)
        tuning = told.tunings({0: engine.density.data}, FittedPath())[0]
    assert told.starts == starts
    assert tuning.mean_log_likelihood[1] == taken**2


def test_from_the_prior_every_data_set_has_a_pilot(engine, made):
    tunings(engine, PriorPath(), {0: engine.density.data, 1: OTHER})
    assert made == ["PilotTask", "PilotTask"]
