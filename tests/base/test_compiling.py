"""Compiled code on disk: never stale, healed where it is damaged, missed without harm."""

import ast
import importlib
import logging
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import pymc_bdmc
from pymc_bdmc.base import compiling
from pymc_bdmc.base.interrupts import interruptible, nothing_to_keep

ROOT = Path(pymc_bdmc.__file__).parent


@pytest.fixture
def rooms(tmp_path, monkeypatch):
    """A package whose loop calls a kernel of another file, and how to import it anew."""
    package = tmp_path / "rooms"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "kernel.py").write_text(
        "from pymc_bdmc.base.compiling import njit\n\n@njit(cache=True)\n"
        "def step(x):\n    return x + 1\n"
    )
    (package / "loop.py").write_text(
        "from pymc_bdmc.base.compiling import njit\n"
        "from rooms.kernel import step\n"
        "@njit(cache=True, title='the loop')\n"
        "def loop(x):\n"
        "    return step(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")

    def loop():
        importlib.invalidate_caches()
        for name in [name for name in sys.modules if name.split(".")[0] == "rooms"]:
            del sys.modules[name]
        compiling.stamp.cache_clear()
        compiling._imports.cache_clear()
        return importlib.import_module("rooms.loop").loop

    yield package, loop
    for name in [name for name in sys.modules if name.split(".")[0] == "rooms"]:
        del sys.modules[name]


def hits(function) -> int:
    return sum(function.stats.cache_hits.values())


def test_a_cache_is_used_until_a_source_changes(rooms, caplog):
    package, load = rooms
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        assert load()(1) == 2
        assert "Compiling the loop" in caplog.text
        caplog.clear()
        loop = load()
        assert loop(1) == 2
        assert hits(loop) == 1
        assert not caplog.text
    kernel = package / "kernel.py"
    kernel.write_text(kernel.read_text().replace("x + 1", "x + 100"))
    loop = load()
    assert loop(1) == 101
    assert hits(loop) == 0


def test_a_cache_rests_on_files_of_other_rooms():
    assert ROOT / "base" / "compiling.py" in compiling._imports(ROOT / "reference" / "metric.py")


@pytest.mark.parametrize("damaged", ["*.nbi", "*.nbc"])
def test_a_truncated_cache_is_made_anew(rooms, damaged, caplog):
    package, load = rooms
    load()(1)
    for path in package.rglob(damaged):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with caplog.at_level(logging.INFO, "pymc.bdmc"):
        assert load()(1) == 2
    assert "compiled again" in caplog.text
    loop = load()
    assert loop(1) == 2
    assert hits(loop) == 1


def test_a_full_disk_is_no_obstacle(rooms, monkeypatch, caplog):
    _, load = rooms

    def full(self, *args):
        raise OSError("No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", full)
    assert load()(1) == 2
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_import_where_nothing_can_be_written(tmp_path):
    """Files where the folders of caches would be: nobody can write there, not even root."""
    copy = tmp_path / "pymc_bdmc"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()
    (tmp_path / "home").touch()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA")
    } | {
        "HOME": str(tmp_path / "home"),
        "USERPROFILE": str(tmp_path / "home"),
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'pytensor'}",
        "MPLCONFIGDIR": str(tmp_path / "matplotlib"),
    }
    program = (
        "import logging; logging.basicConfig()\n"
        "import numpy as np, pymc_bdmc\n"
        "from pymc_bdmc.reference.metric import standard_normal\n"
        "print(pymc_bdmc.__file__, standard_normal(np.random.default_rng(1)))\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith(str(copy))
    assert child.stderr.count("NUMBA_CACHE_DIR") == 1


def test_ctrl_c_waits_for_what_numba_loads_once(monkeypatch):
    context, loaded = compiling.cpu_target.typing_context, []

    def refresh():
        if not loaded:
            signal.raise_signal(signal.SIGINT)
        loaded.append(True)

    monkeypatch.setattr(context, "refresh", refresh)
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
    def first(x):
        return x[1:][0]

    def copied(x):
        return x.copy()[0]

    does_not = compiling.njit(allocates=False)
    x = np.arange(3.0)
    assert does_not(first)(x) == 1
    assert compiling.njit()(copied)(x) == 0
    with pytest.raises(numba.core.errors.NumbaError, match="NRT required"):
        does_not(copied)(x)


def test_all_compiled_functions_use_it():
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                assert "njit" not in [alias.name for alias in node.names], path
            elif isinstance(node, ast.Attribute) and path != ROOT / "base" / "compiling.py":
                assert node.attr not in ("njit", "jit"), path


def test_the_stamp_of_a_kernel_covers_what_it_imports():
    """The folder whose files count is that of the package, wherever the module stands."""
    sources = compiling._imports(ROOT / "kernels" / "moves.py")
    assert ROOT / "reference" / "metric.py" in sources
    assert ROOT / "base" / "compiling.py" in sources


def test_a_division_by_zero_does_not_raise():
    """No exception passes through a call by address. Twin: numba's default raises."""

    def divide(x, y):
        return x / y

    assert compiling.njit()(divide)(1.0, 0.0) == np.inf
    assert np.isnan(compiling.njit()(divide)(0.0, 0.0))
    with pytest.raises(ZeroDivisionError):
        numba.njit(divide)(1.0, 0.0)
