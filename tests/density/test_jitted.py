"""The density as a numba function: the same values as the graph's, or a reason why not."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_bdmc as bdmc
from pymc_bdmc.density import compiled as compiling
from pymc_bdmc.density.compiled import JittedDensity, NotJittable
from pymc_bdmc.density.tempered import TemperedDensity


def test_a_point_is_one_vector_with_discrete_elements_last():
    with pm.Model() as model:
        pm.Poisson("k", 3.0)
        pm.HalfCauchy("s", 2.0)
        pm.Categorical("c", [0.2, 0.3, 0.5], shape=2)
    density = TemperedDensity(model)
    flat = JittedDensity(density)
    assert flat.n_continuous == 1
    assert flat.categories.tolist() == [0, 3, 3]
    point = density.prior.draw()[0]
    again = flat.unravel(flat.ravel(point))
    for name, value in point.items():
        assert again[name].dtype == value.dtype
        np.testing.assert_array_equal(again[name], value)


def test_another_linker_is_no_crash(monkeypatch):
    """The reason is told if PyTensor moves the jitted function, or if nothing can be made of it."""
    density = TemperedDensity(normal_mean())
    compiling._cfuncs.clear()  # another test may have compiled this model
    monkeypatch.setattr(compiling, "compile_graph", lambda *_, **__: SimpleNamespace(vm=0))
    with pytest.raises(NotJittable, match="'int' object has no attribute 'jit_fn'"):
        _ = JittedDensity(density).with_gradient
    monkeypatch.setattr(compiling, "_as_cfunc", lambda jitted, *_: jitted.no_such)
    monkeypatch.setattr(compiling, "jitted_function", lambda function: function)
    with pytest.raises(NotJittable, match=r"AttributeError: .* 'no_such'"):
        _ = JittedDensity(density).with_gradient


def normal_mean(y=(1.0, 2.0), regressor=(1.0, 2.0), check_bounds=True):
    with pm.Model(check_bounds=check_bounds) as model:
        pm.Normal("y", pm.Normal("x") * np.array(regressor), observed=np.array(y))
    return model


@pytest.fixture
def uncompiled(monkeypatch):
    """A new object in the place of every compiled function."""
    compiling._cfuncs.clear()
    monkeypatch.setattr(
        compiling, "compile_graph", lambda *_, **__: SimpleNamespace(vm=SimpleNamespace(jit_fn=0))
    )
    monkeypatch.setattr(compiling, "_as_cfunc", lambda *_: object())
    yield
    compiling._cfuncs.clear()


def compiled(model):
    return JittedDensity(TemperedDensity(model)).with_gradient


def of_constant(regressor):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x") * pt.constant(regressor), observed=np.zeros(2))
    return model


def cauchy():
    with pm.Model() as model:
        pm.Cauchy("y", pm.Normal("x") * np.array((1.0, 2.0)), 1, observed=np.array((1.0, 2.0)))
    return model


def test_one_function_for_equal_models_alone(uncompiled):
    """Numba never frees what it compiled."""
    function = compiled(normal_mean())
    assert compiled(normal_mean(y=(3.0, 4.0))) is function
    for other in (
        normal_mean(regressor=(1.0, 3.0)),
        normal_mean(y=(1.0, 2.0, 3.0), regressor=(1.0, 2.0, 3.0)),
        normal_mean(check_bounds=False),
        cauchy(),
    ):
        assert compiled(other) is not function
    regressor = np.array([1.0, 2.0])
    before = compiled(of_constant(regressor))
    regressor[:] = regressor[::-1].copy()  # by its owner; its sum stays
    assert compiled(of_constant(regressor)) is not before


@pytest.mark.slow  # one function for equal models is shown above
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells its memory in /proc")
@pytest.mark.parametrize("is_locked", [True, False])
def test_threads_take_turns_to_compute_what_depends_on_data_alone(is_locked):
    """PyTensor's functions have one place for their arguments. Twin: a lock that locks nothing."""
    density = TemperedDensity(normal_mean())
    if not is_locked:
        density.lock = nullcontext()
    flat, both, met = JittedDensity(density), Barrier(2), []

    def of_data(_):
        with suppress(BrokenBarrierError):
            met.append(both.wait(timeout=0.2))
        return []

    vars(flat)["_of_data"] = of_data
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(flat.ravel_data, [density.data] * 2))
    assert len(met) == (0 if is_locked else 2)


def test_memory_does_not_grow_with_calls():
    def resident_megabytes():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

    before, options = None, {"path": "prior", "chains": 2, "particles": 1, "temperatures": 5}
    for seed in range(8):
        if seed == 3:
            before = resident_megabytes()
        model, simulate = normal_mean(y=(seed, 1.0)), bdmc.FromPrior(1)
        options |= {"random_seed": seed, "cores": 1, "progressbar": False}
        bdmc.sample_bdmc(model, simulate=simulate, **options)
    assert resident_megabytes() - before < 2.5


def test_a_damaged_cache_of_pytensors_names_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", tmp_path)
    model = normal_mean(regressor=(4.0, 5.0))
    _ = JittedDensity(TemperedDensity(model)).without_gradient
    for path in tmp_path.glob("*.nbc"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    compiling._cfuncs.clear()
    with pytest.raises(RuntimeError, match=r"Delete the directory .*numba"):
        _ = JittedDensity(TemperedDensity(model)).without_gradient


def test_rows_of_draws_lie_one_after_the_other():
    """Compiled loops read them so; draws of a single variable may come column by column."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", shape=3).sum(), 1.0, observed=0.0)
    drawn = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = TemperedDensity(model).jitted.ravel_many({"x": drawn})
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, drawn)
