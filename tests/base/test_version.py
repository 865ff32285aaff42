"""The version is known, and a copy that was never installed still works."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pymc_bdmc as bdmc
from pymc_bdmc.base import version as module


def test_version_is_the_installed_one():
    assert bdmc.__version__ == version("pymc-bdmc")
    citation = Path(__file__).parents[2] / "CITATION.cff"
    assert f"version: {bdmc.__version__}\n" in citation.read_text()


def test_a_copy_that_is_not_installed(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    assert module._installed() == "unknown"
