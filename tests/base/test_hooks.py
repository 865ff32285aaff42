"""Acts that wait for an import are done once, right after it, and disturb nothing."""

import importlib
import importlib.util
import sys

import pytest

from pymc_bdmc.base.hooks import when_imported


@pytest.fixture
def late(tmp_path, monkeypatch):
    """The name of a module that can be imported; afterwards all is as it was."""
    (tmp_path / "late_module.py").write_text("found = __spec__\nbroken = 1 / divisor()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr("builtins.divisor", lambda: 1, raising=False)
    yield "late_module"
    sys.modules.pop("late_module", None)


def test_an_imported_module_is_acted_on_at_once(late):
    module, seen = importlib.import_module(late), []
    finders = sys.meta_path.copy()
    when_imported(late, seen.append)
    assert seen == [module]
    assert sys.meta_path == finders


def test_another_is_acted_on_once_after_its_import(late):
    seen, finders = [], sys.meta_path.copy()
    for _ in range(2):  # who reloads the package asks twice
        when_imported(late, lambda module: seen.append(module.broken))
    assert importlib.util.find_spec(late) is not None  # looks, and imports nothing
    assert not seen
    module = importlib.import_module(late)
    assert seen == [1, 1]
    assert module.found is module.__spec__
    assert sys.meta_path == finders
    importlib.reload(module)
    assert len(seen) == 2


def test_an_import_that_failed_is_waited_for_again(late, monkeypatch):
    seen = []
    when_imported(late, seen.append)
    monkeypatch.setattr("builtins.divisor", lambda: 0)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(late)
    assert not seen
    monkeypatch.setattr("builtins.divisor", lambda: 1)
    module = importlib.import_module(late)
    assert seen == [module]


def test_what_cannot_be_found_is_missing_as_ever(late):
    when_imported("no_such_module", print)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module("no_such_module")
