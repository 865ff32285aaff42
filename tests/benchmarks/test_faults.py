"""The faults of benchmarks/mutants.py can be made: what they replace is there, and their tests."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mutants(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("mutants")


def test_every_fault_replaces_a_text_that_occurs_once(mutants):
    for fault in mutants.FAULTS:
        assert (ROOT / "pymc_bdmc" / fault.file).read_text("utf-8").count(fault.old) == 1, fault
        assert fault.new != fault.old


def test_the_likely_tests_of_a_fault_exist(mutants):
    for fault in mutants.FAULTS:
        assert all((ROOT / "tests" / each).exists() for each in fault.tests.split()), fault
