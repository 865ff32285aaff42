"""Private attributes of PyTensor, PyMC and Bambi mean what we think; on old and new versions."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pickle import PicklingError

import bambi
import cloudpickle
import numpy as np
import pandas
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.step_methods.compound import Competence
from pytensor import wrap_py

from pymc_bdmc.base import upstream
from pymc_bdmc.density.tempered import TemperedDensity
from tests.models import interpreted


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    return model


def test_jitted_function_computes_what_the_function_does():
    x = pt.vector("x")
    function = pytensor.function([x], [pt.exp(x).sum(), 2 * x], mode="NUMBA")
    at = np.array([0.5, -1.0])
    for a, b in zip(upstream.jitted_function(function)(at), function(at), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_a_function_of_a_notebook_can_be_sent():
    """PyTensor's own pickling looks for the function by its name; the twin is to rely on it."""
    offset = 2.0

    def shifted(x):
        return np.asarray(x + offset)

    x = pt.dscalar("x")
    graph = [x, wrap_py([pt.dscalar], [pt.dscalar])(shifted)(x)]
    with pytest.raises(PicklingError):
        cloudpickle.dumps(graph)
    x, y = cloudpickle.loads(upstream.dumps(graph))
    assert y.eval({x: 1.0}, mode="FAST_COMPILE") == 3.0


def test_step_methods(model):
    step = pm.NUTS(model=model)
    upstream.set_log_step_size(step, np.log(0.25))
    assert upstream.log_step_size_of(step) == np.log(0.25)
    assert step.step_adapt.current(tune=False) == pytest.approx(0.25)
    upstream.restart_step_size(step)
    assert step.step_adapt.current(tune=True) == pytest.approx(0.25)
    step.step_adapt.update(0.0, tune=True)  # far below the target acceptance
    assert step.step_adapt.current(tune=False) != pytest.approx(0.25)

    potential, stds = step.potential, np.array([0.5, 2.0])
    upstream.set_deviations(potential, stds)
    np.testing.assert_array_equal(upstream.deviations_of(potential), stds)
    np.testing.assert_allclose(potential.velocity(np.ones(2)), stds**2)
    draws = np.array([potential.random() for _ in range(1000)])
    # 1000 variances, relative standard error 4.5 %; 7 of those: two-sided α below 1e-10.
    np.testing.assert_allclose(draws.std(axis=0) * stds, 1, atol=0.16)

    (rv,) = model.free_RVs
    assert upstream.competence(pm.NUTS, rv, True) != [Competence.INCOMPATIBLE]
    assert upstream.competence(pm.BinaryMetropolis, rv, True) == [Competence.INCOMPATIBLE]


def test_history(model):
    """With equal past states, differences are 0 and only the jitter of a proposal is left."""
    step, point = pm.DEMetropolisZ(model=model), model.initial_point()
    step.setup_chain(np.random.default_rng(1), tune=0, draws=3)
    upstream.set_history(step, [np.ones(2), np.ones(2), np.ones(2)])
    moved, _ = step.step(point)
    assert np.abs(moved["x"] - point["x"]).max() < 0.01
    assert len(upstream.history_of(step)) == 4


def settings():
    """PyTensor's settings that its compilation changes."""
    names = ("cxx", "optdb__max_use_ratio", "traceback__limit", "mode")
    return {name: getattr(pytensor.config, name) for name in names}


@pytest.fixture
def restored():
    """Settings that are put back in the end."""
    before = settings()
    yield
    for name, value in before.items():
        setattr(pytensor.config, name, value)


def most_at_once(monkeypatch, work):
    """Count how many of two threads that compile models have settings changed at the same time."""
    changing = type(pytensor.config.change_flags())
    enter, leave = changing.__enter__, changing.__exit__
    inside, most = Counter(), [0]

    def slowly(self):
        enter(self)
        inside[threading.get_ident()] += 1
        time.sleep(0.002)
        most[0] = max(most[0], sum(n > 0 for n in list(inside.values())))

    def left(self, *exc_info):
        inside[threading.get_ident()] -= 1
        leave(self, *exc_info)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(changing, "__enter__", slowly)
        patch.setattr(changing, "__exit__", left)
        results = list(threads.map(work, [new_model(), new_model()]))
    return most[0], results


def new_model():
    """A copy of which nothing is compiled yet."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", shape=3), observed=np.ones(3))
    return model


def log_weights(model):
    dt = pm.sample_bdmc(
        model, step=pm.Metropolis, chains=2, temperatures=1, simulate=None, random_seed=1, cores=1,
        progressbar=False,
    )  # fmt: skip
    return dt["real"]["log_weight"].values.tolist()


@pytest.mark.filterwarnings("ignore")  # filters are those of all threads, which restore old ones
def test_two_calls_in_two_threads_have_the_same_bits(monkeypatch, restored):
    with interpreted():
        before = settings()
        most, (one, other) = most_at_once(monkeypatch, log_weights)
        assert most == 1
        assert one == other
        assert settings() == before


def test_threads_that_are_not_kept_apart_change_settings_at_once(monkeypatch, restored):
    """The broken twin."""
    monkeypatch.setattr(type(upstream.alone), "__enter__", lambda self: None)
    monkeypatch.setattr(type(upstream.alone), "__exit__", lambda self, *exc_info: None)
    assert most_at_once(monkeypatch, TemperedDensity)[0] == 2


@pytest.mark.filterwarnings("ignore:For backward compatibility")  # of pandas, to Bambi
def test_fits_of_bambi_are_turned_into_draws_of_the_model():
    """With predictors of mean 2, the intercept is higher by twice the slope; the offset is 2/4."""
    table = pandas.DataFrame({"x": [1.0, 3.0, 2.0], "y": [0.0, 1.0, 2.0], "g": ["a", "b", "b"]})
    model = bambi.Model("y ~ x + (1 | g)", table)
    model.build()
    draws = {"Intercept": 1.0, "x": 3.0, "1|g": 2.0, "1|g_sigma": 4.0}
    values = {name: (("chain", "draw"), [[value]]) for name, value in draws.items()}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    found = upstream.as_sampled(model, idata)["posterior"].dataset
    assert found["Intercept"] == 7.0
    assert found["1|g_offset"] == 0.5
    assert upstream.as_sampled(model.backend.model, idata) is None
