"""How fits are made, and taken over with their tunings from the first data set to the others."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_bdmc.base.interrupts import interruptible
from pymc_bdmc.call import annealing
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import CompiledEngine, PilotTask, RefitTask
from pymc_bdmc.paths import FittedPath, PriorPath
from tests.call.sessions import FAR, far_from_the_prior, session_of

OTHER = {"y": -FAR}
"""Its posterior lies 31 deviations from that of the model's own data."""


@pytest.fixture(scope="module")
def engine():
    return CompiledEngine(TemperedDensity(far_from_the_prior()))


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


def tunings(engine, path):
    data = {0: engine.density.data, 1: OTHER}
    with interruptible() as stop, engine.pool(1, stop) as pool:
        return annealing.Annealing(session_of(engine, pool)).tunings(data, path)


def exact(data):
    """Mean and deviation of the posterior."""
    precision = 1 / 4 + len(data["y"])
    return data["y"].sum() / precision, precision**-0.5


@pytest.mark.parametrize(
    ("max_rhat", "further"), [(None, []), (0.0, ["PilotTask"])], ids=["refitted", "not mixed"]
)
def test_only_the_fit_is_made_anew(engine, made, max_rhat, further, monkeypatch):
    """By a pilot if members do not mix. A fit that is taken over is far from the posterior."""
    if max_rhat is not None:
        monkeypatch.setattr(annealing, "MAX_RHAT", max_rhat)
    own, other = tunings(engine, FittedPath()).values()
    assert made == ["PilotTask", "PilotTask", "RefitTask", *further]
    mean, deviation = exact(OTHER)
    assert abs(other.reference.locations[0, 0] - mean) < deviation
    assert 0.5 < other.reference.scales[0, 0] / deviation < 2
    assert abs(own.reference.locations[0, 0] - mean) > 10 * deviation
    if not further:
        np.testing.assert_array_equal(own.kernels.step_sizes, other.kernels.step_sizes)
        scales = np.tile(other.reference.scales, (len(other.kernels.betas), 1))
        np.testing.assert_array_equal(other.kernels.scales, scales)


def test_from_the_prior_every_data_set_has_a_pilot(engine, made):
    tunings(engine, PriorPath())
    assert made == ["PilotTask", "PilotTask"]


@pytest.mark.parametrize(
    ("half_range", "temperatures"), [(0.4, 100), (0.6, 192), (9.0, 400), (np.inf, 100)]
)
def test_noisy_scouts_ask_for_more_temperatures(half_range, temperatures):
    """In proportion to the variance of log Ẑ above 0.25 nats², but at most four times as many."""
    engine = SimpleNamespace(default_particles=32, rows=0, description="", moves_further=False)
    prepared = annealing.Annealing(session_of(engine))
    pilot = SimpleNamespace(
        path_betas=np.array([0.0, 1.0]), mean_log_likelihood=np.array([0.0, 480.0]), rhat=1.0
    )
    log_weights = np.array([-1.0, 1.0, -1.0, 1.0]) * half_range
    means = np.zeros(101)  # of ℓ, at 100 temperatures and 0
    scouts = [SimpleNamespace(log_weight=each, log_likelihood=means) for each in log_weights]
    prepared._scouts = {("prior", 0): scouts}
    tunings, path = {0: pilot}, PriorPath()
    assert prepared.size(tunings, path) == (temperatures, 32)
    variance, *_ = prepared.real_runs(tunings, path, temperatures, 32)
    seen = 0.0 if np.isinf(half_range) else np.var(log_weights, ddof=1) * 100 / temperatures
    assert variance == pytest.approx(max(3 * 480 / (32 * temperatures), seen))


@pytest.mark.parametrize(
    ("squares", "temperatures", "n_told"),
    [([5e5], 2000, 0), ([7e5], 100, 1), ([7e5, 1.0], 100, 1), ([4799.0, 1e30], 2000, 0)],
)
def test_hopeless_runs_have_the_fewest_temperatures(squares, temperatures, n_told, caplog):
    """So have their scouts. With 2000 temperatures the gap on the real data is above 10 nats."""
    caplog.set_level("INFO", logger="pymc.bdmc")
    engine = SimpleNamespace(default_particles=32, rows=0, description="")
    prepared, path, betas = annealing.Annealing(session_of(engine)), PriorPath(), np.arange(2.0)
    tunings = {
        d: SimpleNamespace(path_betas=betas, mean_log_likelihood=each * betas)
        for d, each in enumerate(squares)
    }
    assert prepared.size(tunings, path) == (temperatures, 32)
    assert caplog.text.count("Not even 2000 temperatures would do") == n_told
    prepared._tunings = {("prior", d): tuning for d, tuning in tunings.items()}
    scouted = len(prepared._scout_betas(0, path)) - 1
    assert (scouted == 100) == bool(n_told)
