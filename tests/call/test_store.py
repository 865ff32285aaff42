"""A store: killed at any moment a call goes on where it was, and what is there is not run again."""

import multiprocessing
import os
import shutil
import sys
import time
from contextlib import suppress
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.call import store
from pymc_bdmc.density.identity import digest
from pymc_bdmc.engines import AnnealTask, PilotTask
from pymc_bdmc.run import workers
from pymc_bdmc.run.tasks import RefitTask

SEED = {"random_seed": 3, "progressbar": False, "simulate": bdmc.FromPrior(1)}
OPTIONS = {"chains": 4, "particles": 4, "temperatures": 20, "cores": 2} | SEED
STEPS = {"chains": 2, "particles": 1, "temperatures": 3, "step": pm.Metropolis} | SEED
CALLS = {
    "compiled": OPTIONS | {"path": "prior"},
    "fitted": OPTIONS,
    "rounds": OPTIONS | {"path": "prior", "target_gap": 0.002, "max_temperatures": 40},
    "steps": STEPS | {"cores": 1},
    "processes": STEPS | {"cores": 2},
    "system": {"chains": 300, "temperatures": 50},
}
SMALL = {"chains": 2, "temperatures": 5, "path": "prior", "cores": 1} | SEED


@cache
def normal(sd=1.0, observed=0.5):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", 0, sd), observed=observed)
    return model


def annealed(distance=3.0, chains=200, random_seed=1, temperatures=5, **options):
    """A call without a model: tasks of 100 chains each way, in milliseconds."""
    system = bdmc.testsystems.BimodalGaussian(2, distance)
    options |= {"temperatures": temperatures, "cores": 1, "progressbar": False}
    return bdmc.anneal(system, chains=chains, random_seed=random_seed, **options)


def call(name, **options):
    options |= CALLS[name]
    return annealed(**options) if name == "system" else pm.sample_bdmc(normal(), **options)


@cache
def whole(name):
    """The result of a call without a store."""
    return call(name)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def tasks_run(monkeypatch, tmp_path):
    """Keys of the tasks that were run, by this process or by one that it started."""
    log = tmp_path / "tasks"
    log.touch()
    for task in (PilotTask, RefitTask, AnnealTask):

        def noted(self, engine, run=task.run):
            with open(log, "a") as file:
                file.write(".".join(map(str, self.seed.spawn_key)) + "\n")
            return run(self, engine)

        monkeypatch.setattr(task, "run", noted)
    return lambda: log.read_text().split()


def committed(path):
    return {each.stem for each in path.glob("runs/*.npz")}


def shown(path):
    """The result so far, as readers of a store find it."""
    with xr.open_datatree(path / "result.nc") as dt:
        return dt.load()


def assert_same(one, other):
    """All numbers, but for times."""
    assert set(one.groups) == set(other.groups)
    for node in one.subtree:
        first, second = (
            each.to_dataset().drop_vars("seconds", errors="ignore").drop_attrs()
            for each in (node, other[node.path])
        )
        xr.testing.assert_identical(first, second)


def readable(dt):
    """What every reader makes of an unfinished store."""
    assert len(bdmc.summary(dt))
    assert isinstance(bdmc.diagnose(dt), list)
    assert len(bdmc.evidence(dt, "all"))
    bdmc.certified(dt)
    str(bdmc.verdict(dt))


@pytest.mark.parametrize(
    "name", ["fitted", "rounds", pytest.param("steps", marks=pytest.mark.slow)]
)
def test_a_finished_store_gives_the_same_result_without_a_run(path, tasks_run, name):
    dt = call(name, store=path)
    n_runs = len(tasks_run())
    assert n_runs == len(set(tasks_run())) == len(committed(path) - {"simulated", "renewed"})
    again = call(name, store=path)
    assert len(tasks_run()) == n_runs
    for each in (again, shown(path)):
        assert_same(each, dt)
    assert (again["rounds"]["seconds"] > 0.5 * dt["rounds"]["seconds"]).all()  # not of reading


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
# JAX warns if another test has loaded it; the children do not use it.
@pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "n_kills"),
    [("system", 2), *(pytest.param(name, 20, marks=pytest.mark.slow) for name in CALLS)],
)
def test_killed_at_random_moments(path, tasks_run, name, n_kills, monkeypatch):
    """In processes of its own. Nothing that is committed is run again, and the end is the same."""
    # A child cannot start workers by a server that its parent started.
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(workers, "_context", lambda: context)
    expected, started = whole(name), time.perf_counter()
    assert_same(call(name), expected)
    longest, rng = 1.5 * (time.perf_counter() - started), np.random.default_rng(n_kills)
    for kill in [True] * n_kills + [False]:
        before, n_run = committed(path), len(tasks_run())
        child = context.Process(target=call, args=[name], kwargs={"store": path})
        child.start()
        child.join(longest * rng.random() if kill else None)
        child.kill()
        child.join()
        assert before.isdisjoint(tasks_run()[n_run:])
        if (path / "result.nc").exists():
            readable(shown(path))
    assert child.exitcode == 0
    assert_same(shown(path), expected)
    assert_same(call(name, store=path), expected)


def test_more_chains_are_only_those_and_the_seed_is_that_of_the_store(path, tasks_run):
    annealed(store=path)
    n_run = len(tasks_run())
    grown, expected = annealed(chains=300, store=path), annealed(chains=300)
    assert_same(grown, expected)
    assert_same(shown(path), expected)
    assert len(tasks_run()) - n_run == 2 + 6
    assert_same(annealed(chains=300, random_seed=None, store=path), expected)
    assert len(tasks_run()) - n_run == 2 + 6


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "run"
    pm.sample_bdmc(normal(), **SMALL, store=path)
    return path


@pytest.fixture
def begun(finished, path):
    return shutil.copytree(finished, path)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ({"sd": 2.0}, {}, r"another x \(variable of the model\), y \(variable"),
        ({"observed": 0.6}, {}, r"another y \(variable of the model\)\. "),
        ({}, {"temperatures": 6}, r"another temperatures \(argument\)\. "),
        ({}, {"random_seed": 2}, r"another random_seed \(argument\)\. "),
        ({}, "version", r"another pymc \(version\)\. "),
        ({}, "damage", r"^store: .*origin\.npz .*\. Restore it from a copy"),
        ({}, "loss", r"^store: .*origin\.npz .*\. Restore it from a copy"),
    ],
)
def test_another_origin_is_refused_by_name(begun, model, change, message, monkeypatch):
    before = committed(begun)
    if change == "version":
        monkeypatch.setattr(pm, "__version__", "0.0")
    elif change == "damage":
        (begun / "origin.npz").write_bytes(b"{}")
    elif change == "loss":
        os.unlink(begun / "origin.npz")
    options = SMALL | (change if isinstance(change, dict) else {})
    with pytest.raises(ValueError, match=message):
        pm.sample_bdmc(normal(**model), **options, store=begun)
    assert committed(begun) == before


def test_places_that_cannot_be_are_errors_and_left_alone(tmp_path):
    file = tmp_path / "thesis.tex"
    file.write_text("42")
    for place, message in [
        (tmp_path, "exists, but not as a store of sample_bdmc"),
        (file, "exists, but not as a store of sample_bdmc"),
        (file / "run", "run cannot be written to"),
        ("s3://bucket/run", "s3://bucket/run is no directory of this"),
    ]:
        with pytest.raises((ValueError, OSError), match=message):
            annealed(store=place)
    assert file.read_text() == "42"


def test_a_call_that_failed_before_its_first_run_binds_nobody(path):
    failing = SMALL | {"simulate": bdmc.Given({"x": 0.0}, {"y": np.nan})}
    with pytest.raises(ValueError, match="y must be numbers"):
        pm.sample_bdmc(normal(), **failing, store=path)
    pm.sample_bdmc(normal(), **SMALL, store=path)


# Of flags that say how a file was packed.
@pytest.mark.filterwarnings("ignore::UserWarning:zipfile")
@pytest.mark.parametrize(
    ("name", "every"), [("runs/3.0.0.1.0.npz", 9), ("runs/simulated.npz", 4), ("origin.npz", 4)]
)
def test_every_damage_of_a_file_is_seen(begun, name, every):
    """A bit that is turned, and an end that is cut off; or it changes nothing that is read."""
    path = begun / name
    content, expected = path.read_bytes(), digest(store.read_record(path))
    bits = np.random.default_rng(1).integers(8, size=len(content))
    for i in range(0, len(content), every):
        turned = bytes([content[i] ^ 1 << int(bits[i])])
        for damaged in (content[:i] + turned + content[i + 1 :], content[:i]):
            path.write_bytes(damaged)
            with suppress(ValueError):
                assert digest(store.read_record(path)) == expected


def test_damaged_files_are_computed_again(begun, tasks_run, caplog):
    expected, names = shown(begun), ("3.0.0.1.0", "simulated")
    for name in names:
        damaged = begun / "runs" / f"{name}.npz"
        damaged.write_bytes(damaged.read_bytes().replace(b"<f8", b"<f4", 1))
    for is_damaged in (True, False):
        caplog.clear()
        assert_same(pm.sample_bdmc(normal(), **SMALL, store=begun), expected)
        told = [f"{name}.npz is damaged (the checksum of arr_" in caplog.text for name in names]
        assert told == [is_damaged, is_damaged]
    assert tasks_run() == ["3.0.0.1.0"]


def test_damage_of_the_result_is_an_error_for_readers(path, monkeypatch):
    """One bit of the log weights is wrong. In the twin the numbers have no checksum."""
    monkeypatch.setattr(store.time, "perf_counter", lambda: 0.0)
    dt = xr.DataTree.from_dict({"real": xr.Dataset({"log_weight": ("chain", [-31.3, -30.0])})})
    file, value = path / "result.nc", dt["real"]["log_weight"].values.tobytes()

    def read_damaged():
        store.open_store(path, {}, 1).show(lambda: dt)
        file.write_bytes(file.read_bytes().replace(value, value[:3] + b"?" + value[4:]))
        return shown(path)

    with pytest.raises((OSError, RuntimeError)):
        read_damaged()
    write = xr.DataTree.to_netcdf
    monkeypatch.setattr(xr.DataTree, "to_netcdf", lambda *args, encoding, **more: write(*args))
    assert not read_damaged()["real"].equals(dt["real"])


def test_one_call_at_a_time_and_none_of_the_dead(path):
    """Any other call is refused meanwhile; a file that a killed one was writing is replaced."""
    told = []

    def again(dt):
        for distance in (3.0, 4.0):
            with pytest.raises(OSError, match=r"run is in use by another call\. Wait until"):
                annealed(distance, store=path)
        told.append(dt)

    assert_same(annealed(store=path, callback=again), annealed())
    assert len(told) == 4
    with pytest.raises(ValueError, match=r"another system \(argument\)"):
        annealed(4.0, store=path)
    (path / "unfinished").touch()
    (path / "runs" / "unfinished").touch()
    assert_same(annealed(chains=300, store=path), annealed(chains=300))
    assert {each.name for each in path.iterdir()} == {"lock", "origin.npz", "result.nc", "runs"}
    assert not (path / "runs" / "unfinished").exists()


def taken_by_another_call(path):
    """What a call finds of the file that one of another seed left, had it passed all checks."""
    one = store.open_store(path, {"argument": {"temperatures": "5"}}, 1)
    one.remember("simulated", lambda: 1.5)
    (path / "origin.npz").unlink()
    (path / "runs" / "simulated.npz").rename(path / "kept")
    other = store.open_store(path, {"argument": {"temperatures": "5"}}, 2)
    (path / "kept").rename(path / "runs" / "simulated.npz")
    return other.remember("simulated", lambda: 2.5) == 1.5


def test_a_file_of_another_call_is_not_taken(path, monkeypatch):
    """In the twin, files are not bound to their call."""
    assert not taken_by_another_call(path / "right")
    monkeypatch.setattr(store.Store, "_bound", lambda self, inputs: inputs)
    assert taken_by_another_call(path / "wrong")


def test_a_failing_disk_is_an_error_and_costs_nothing_that_was_committed(
    path, monkeypatch, tasks_run
):
    """The third result cannot be written."""
    expected = annealed()
    write, room = np.savez, [0, 0, 0, 0, 1]  # the origin comes first, twice

    def limited(*args, **arrays):
        if room and room.pop(0):
            raise OSError(28, "No space left on device")
        return write(*args, **arrays)

    monkeypatch.setattr(np, "savez", limited)
    with pytest.raises(OSError, match=r"run cannot be written to \(No space left on device"):
        annealed(store=path)
    there, n_run = committed(path), len(tasks_run())
    assert len(there) == 2
    assert not list(path.glob("runs/unfinished"))
    assert_same(annealed(store=path), expected)
    assert there.isdisjoint(tasks_run()[n_run:])


def test_nothing_is_unpickled(begun, monkeypatch):
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", pytest.fail)
    for name in committed(begun):
        store.read_record(begun / "runs" / f"{name}.npz")


def test_readers_see_one_result_or_the_next(path, monkeypatch):
    """Whatever the moment at which the writer is stopped: the last step is one `os.replace`."""
    first, replace = annealed(store=path), os.replace

    def killed(new, old):
        if old.name == "result.nc":
            raise SystemExit
        replace(new, old)

    monkeypatch.setattr(store.os, "replace", killed)
    with pytest.raises(SystemExit):
        annealed(chains=400, store=path)
    assert_same(shown(path), first)
    monkeypatch.undo()
    assert_same(annealed(chains=400, store=path), shown(path))


def test_the_result_is_written_as_often_as_takes_its_share(begun, monkeypatch):
    """A minute after that of an earlier call, and so that 3 seconds are a hundredth of the time."""
    now = [1000.0]
    monkeypatch.setattr(store.time, "perf_counter", lambda: now[0])
    continued = store.open_store(begun, store.read_record(begun / "origin.npz")[0], None)

    def slow():
        now[0] += 3.0
        return xr.DataTree()

    due = [continued.is_due]
    for seconds in (60, 100 * 3.0 - 1, 1):
        now[0] += seconds
        due.append(continued.is_due)
        if seconds == 60:
            continued.show(slow)
    assert due == [False, True, False, True]


def test_the_callback_is_told_what_ctrl_c_would_return(path):
    told = []
    result = pm.sample_bdmc(normal(), **SMALL, store=path, callback=told.append)
    assert_same(result, pm.sample_bdmc(normal(), **SMALL))  # a store changes nothing
    groups = ("real", "forward", "reverse")
    finished = [sum(int(dt[g]["log_weight"].notnull().sum()) for g in groups) for dt in told]
    assert finished == list(range(1, 7))
    assert [each.attrs["interrupted"] for each in told] == [1] * 5 + [0]
    assert_same(told[-1], result)
    readable(told[3])
