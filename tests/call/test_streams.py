"""No two tasks of a call have the same random stream, since a store keeps results by its key."""

from types import SimpleNamespace

import pymc as pm
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.base.streams import Fitting, Piloting
from pymc_bdmc.call.importance import ImportanceSampling, Refusal
from pymc_bdmc.run.workers import Workers
from tests.call.sessions import far_from_the_prior

OPTIONS = {"random_seed": 1, "cores": 1, "progressbar": False}


@pytest.fixture
def keys(monkeypatch):
    """The keys of all tasks of the calls in a test, in order."""
    found, run = [], Workers.run

    def recorded(self, tasks):
        found.extend(tuple(map(int, task.seed.spawn_key)) for task in tasks)
        return run(self, tasks)

    monkeypatch.setattr(Workers, "run", recorded)
    return found


def sample(**options):
    pm.sample_bdmc(far_from_the_prior(), **OPTIONS, **options)


def check_unique(keys):
    assert len(keys) > 20
    assert not {key for key in keys if keys.count(key) > 1}


@pytest.mark.parametrize(
    "options",
    [
        {"simulate": bdmc.FromHyperparameters("mean", datasets=3, burn_in=(1, 2))},
        {"simulate": bdmc.FromPrior(2), "target_gap": 0.5, "chains": 2, "particles": 1},
    ],
    ids=["weighs", "rounds"],
)
def test_every_task_of_a_call_has_its_own(keys, options):
    sample(**options)
    check_unique(keys)


def test_a_call_that_anneals_after_weighing_is_refused(keys, monkeypatch):
    """Fits to all data sets are made first. Twins: a key is used again."""
    fit_others = ImportanceSampling._fit_others

    def refuse(self, data):
        fit_others(self, data)
        return Refusal("weights are uneven")

    monkeypatch.setattr(ImportanceSampling, "_fit_others", refuse)
    monkeypatch.setattr("pymc_bdmc.call.annealing.MAX_RHAT", 0.0)
    simulate = bdmc.FromHyperparameters("mean", datasets=2, burn_in=2)
    sample(simulate=simulate)
    check_unique(keys)

    for names, new, old in (
        (Fitting, "FITTED_SCOUTS", Fitting.WEIGHING_SCOUTS),
        (Piloting, "FROM_REFERENCE", Piloting.FROM_PRIOR),
    ):
        keys.clear()
        reused = SimpleNamespace(**{**names.__members__, new: old})
        with monkeypatch.context() as patch:
            patch.setattr(f"pymc_bdmc.call.annealing.{names.__name__}", reused)
            sample(simulate=simulate)
        with pytest.raises(AssertionError):
            check_unique(keys)
