"""The version is known, and a copy that was never installed still works."""

import logging
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import pymc_bdmc as bdmc
from pymc_bdmc import base as module

ROOT = Path(__file__).parents[2]


def test_version_is_the_installed_one():
    assert bdmc.__version__ == version("pymc-bdmc")
    assert f"version: {bdmc.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_a_copy_that_is_not_installed(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    assert module._installed() == "unknown"


def test_the_newest_pymc_is_the_one_that_the_project_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["tool"]["pymc_bdmc"]["newest_tested_pymc"] == module.NEWEST_PYMC


@pytest.mark.parametrize(
    ("found", "is_told"),
    [("6.3.0", 0), ("6.4.9", 0), ("6.5.0.dev0+g1", 1), ("6.10.0", 1), ("7.0.0", 1), ("0+x", 0)],
)
def test_a_newer_minor_of_pymc_is_told_once(caplog, found, is_told):
    module.warn_if_newer.cache_clear()
    with caplog.at_level(logging.WARNING, "pymc.bdmc"):
        for _ in range(2):
            module.warn_if_newer(found)
    assert len(caplog.records) == is_told
    assert not is_told or f"PyMC {found}" in caplog.text
    assert not is_told or 'Install "pymc<6.5"' in caplog.text
