"""Compiled code on disk: never stale, healed where it is damaged, missed without harm."""

import ast
import importlib
import inspect
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_bdmc
from pymc_bdmc.base import compiling
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep
from pymc_bdmc.density.fast import WITH_FAST_LOOPS

ROOT = Path(pymc_bdmc.__file__).parent
KERNEL = """from pymc_bdmc.base.compiling import njit
@njit(cache=True)
def step(x):
    return x + 1
"""
LOOP = """from pymc_bdmc.base.compiling import njit
from rooms.kernel import step
@njit(cache=True, title="the loop")
def loop(x):
    return step(x)
"""


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """A package whose loop calls a kernel of another file, and how to import it anew."""
    package = tmp_path / "rooms"
    package.mkdir()
    for name, text in (("__init__", ""), ("kernel", KERNEL), ("loop", LOOP)):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")

    def forget():
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.split(".")[0] == "rooms"]:
            del sys.modules[name]
        compiling.stamp.cache_clear()
        compiling._imports.cache_clear()

    def loop():
        forget()
        return importlib.import_module("rooms.loop").loop

    yield package, loop
    forget()


def hits(function) -> int:
    return sum(function.stats.cache_hits.values())


def test_a_cache_is_used_until_a_source_changes(rooms, caplog):
    package, load = rooms
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        assert load()(1) == 2
        assert "Compiling the loop" in caplog.text
        caplog.clear()
        loop = load()
        assert (loop(1), hits(loop)) == (2, 1)
        assert not caplog.text
    (package / "kernel.py").write_text(KERNEL.replace("x + 1", "x + 100"))
    loop = load()
    assert (loop(1), hits(loop)) == (101, 0)


def test_a_truncated_cache_is_made_anew(rooms, caplog):
    package, load = rooms
    load()(1)
    for damaged in ("*.nbi", "*.nbc"):
        for path in package.rglob(damaged):
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        caplog.clear()
        with caplog.at_level(logging.INFO, "pymc.bdmc"):
            assert load()(1) == 2
        assert "compiled again" in caplog.text
        loop = load()
        assert (loop(1), hits(loop)) == (2, 1)


def test_the_stamp_of_a_kernel_covers_what_it_imports():
    """The folder whose files count is that of the package, wherever the module stands."""
    sources = compiling._imports(ROOT / "kernels" / "moves.py")
    assert ROOT / "reference" / "metric.py" in sources
    assert ROOT / "base" / "compiling.py" in sources


def test_a_full_disk_is_no_obstacle(rooms, monkeypatch, caplog):
    _, load = rooms

    def full(self, *args):
        raise OSError("No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    assert load()(1) == 2
    assert "NUMBA_CACHE_DIR" in caplog.text


def fused():
    """A value by the loop that PyTensor and numba fuse."""
    x = pt.dvector("x")
    return pytensor.function([x], pt.exp(x).sum(), mode=WITH_FAST_LOOPS)(np.arange(20.0))


def test_a_process_that_can_write_nothing_beside_its_files(tmp_path, monkeypatch):
    """Files where the folders of caches would be: nobody can write there, not even root.

    What PyTensor compiled goes to a folder of its own. This process finds it, and writes nothing.
    """
    copy, home = tmp_path / "pymc_bdmc", tmp_path / "home"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    home.touch()
    hidden = ("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"HOME": str(home), "USERPROFILE": str(home)}
    environment["PYTENSOR_FLAGS"] = f"base_compiledir={tmp_path / 'pytensor'}"
    environment["MPLCONFIGDIR"] = str(tmp_path / "matplotlib")
    program = (
        "import logging; logging.basicConfig()\n"
        "import numpy as np, pymc_bdmc, pytensor, pytensor.tensor as pt\n"
        "from pymc_bdmc.density.fast import WITH_FAST_LOOPS\n"
        "from pymc_bdmc.reference.metric import standard_normal\n"
        f"{inspect.getsource(fused)}"
        "print(pymc_bdmc.__file__, standard_normal(np.random.default_rng(1)), fused())\n"
    )
    run = [sys.executable, "-c", program]
    child = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith(str(copy))
    assert child.stderr.count("NUMBA_CACHE_DIR") == 1

    def written():
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("pytensor/**/*.nb*")}

    before = written()
    assert before
    monkeypatch.setattr("pytensor.link.numba.cache.NUMBA_CACHE_PATH", tmp_path / "pytensor/numba")
    assert child.stdout.split()[-1] == str(fused())
    assert written() == before


def test_ctrl_c_waits_for_what_numba_loads_once(monkeypatch):
    loaded = []

    def refresh():
        if not loaded:
            signal.raise_signal(signal.SIGINT)
        loaded.append(True)

    monkeypatch.setattr(compiling.cpu_target.typing_context, "refresh", refresh)
    compiling.load_numba.cache_clear()
    with pytest.raises(KeyboardInterrupt), nothing_to_keep():
        compiling.load_numba()
    assert loaded
    loaded.clear()
    with interruptible() as stop:
        compiling.load_numba()
    assert loaded
    assert stop[0]


def test_what_does_not_allocate_is_held_to_it():
    def copied(x):
        return x.copy()[0]

    assert compiling.njit()(copied)(np.arange(3.0)) == 0
    with pytest.raises(numba.core.errors.NumbaError, match="NRT required"):
        compiling.njit(allocates=False)(copied)(np.arange(3.0))


def test_a_division_by_zero_does_not_raise():
    """No exception passes through a call by address. Twin: numba's default raises."""

    def divide(x, y):
        return x / y

    assert compiling.njit()(divide)(1.0, 0.0) == np.inf
    with pytest.raises(ZeroDivisionError):
        numba.njit(divide)(1.0, 0.0)


def test_private_attributes_and_compilers_are_used_in_their_modules_only():
    """Private attributes are used as `self._x`, or on an object of a class of the same file."""
    allowed = {"_asdict", "_fields", "_replace"}  # public, in a NamedTuple
    allowed |= {"_exit", "_processes"}  # of the standard library
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                assert "njit" not in [alias.name for alias in node.names], path
            if not isinstance(node, ast.Attribute):
                continue
            place, name = f"{path}:{node.lineno}", node.attr
            assert name not in ("njit", "jit") or path.stem == "compiling", place
            if path.stem not in ("upstream", "compiling"):
                own = f"self.{name}" in text or f"def {name}(" in text
                private = name.startswith("_") and not name.startswith("__")
                assert not private or own or name in allowed, place
                assert name != "jit_fn", place
