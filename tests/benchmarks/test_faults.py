"""The faults of benchmarks/mutants.py can be made: what they replace is there, and their tests."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_fault_replaces_a_text_that_occurs_once_and_has_tests(script):
    for fault in script("mutants").FAULTS:
        assert (ROOT / "pymc_bdmc" / fault.file).read_text("utf-8").count(fault.old) == 1, fault
        assert fault.new != fault.old
        assert all((ROOT / "tests" / each).exists() for each in fault.tests.split()), fault
