"""The version is known, and a copy that was never installed still works."""

from importlib.metadata import PackageNotFoundError, version

import pymc_bdmc as bdmc
from pymc_bdmc import version as module


def test_version_is_the_installed_one():
    assert bdmc.__version__ == version("pymc-bdmc")


def test_a_copy_that_is_not_installed(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    assert module._installed() == "unknown"
