"""The scripts of benchmarks/, which are no package."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch):
    """Import a script of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module
