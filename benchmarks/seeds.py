"""Run the statistical tests with other seeds, and count how often each fails.

Run as ``python benchmarks/seeds.py [--seeds 200] [--seconds 30] [--docs] [TEST …]``. A test is
statistical if its docstring, or that of its file, states its α. Every whole number that a test or
the package takes as a seed becomes the pair of it and the number of the round. A test that has
taken ``--seconds`` of CPU time in all is left out of further rounds. What has been found is kept in
output/seeds.json, and the command goes on where it was stopped. ``--docs`` puts the table in
docs/mutants.md.
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from common import made_by, publish, table

from pymc_bdmc import testing
from pymc_bdmc.base import streams

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "output" / "seeds.json"


class Round:
    """Plugin of pytest that runs the statistical tests and adds what they did to `found`."""

    def __init__(self, number: int, found: dict[str, dict], seconds: float):
        self._number, self._found, self._seconds = number, found, seconds

    def pytest_collection_modifyitems(self, items):
        """Leave the tests that state their α and have time left."""
        items[:] = [
            each
            for each in items
            if isinstance(each, pytest.Function)
            and "α" in f"{each.obj.__doc__} {each.module.__doc__}"
            and self._found.get(each.nodeid, {"seconds": 0.0})["seconds"] < self._seconds
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Add the time of a test."""
        started = time.process_time()
        outcome = yield
        self._found[item.nodeid]["rounds"] += 1
        self._found[item.nodeid]["seconds"] += time.process_time() - started
        return outcome

    def pytest_runtest_logreport(self, report):
        """Note a failure."""
        if report.failed:
            failures = self._found[report.nodeid]["failures"]
            failures.append(f"{self._number}: {report.longreprtext.splitlines()[-1]}")
            print(report.nodeid, failures[-1], flush=True)


def run_with_other_seeds(number: int, tests: list[str], plugin: Round) -> None:
    """Run tests while every seed that is a whole number comes with the number of the round."""

    def shifting(make):
        return lambda seed=None: make([seed, number] if isinstance(seed, int) else seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", shifting(np.random.default_rng))
        of_calls = streams.entropy_of
        for module in {*sys.modules.values(), testing}:  # which only tests would import
            if getattr(module, "entropy_of", None) is of_calls:
                patch.setattr(module, "entropy_of", shifting(of_calls))
        code = pytest.main(["-q", "--no-summary", "-m", "not slow", *tests], plugins=[plugin])
        assert code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--docs", action="store_true")  # for `publish`
    parser.add_argument("tests", nargs="*", default=["tests"])
    chosen = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rounds": 0, "found": {}}
    found = defaultdict(lambda: {"rounds": 0, "seconds": 0.0, "failures": []}, known["found"])
    for number in range(known["rounds"] + 1, chosen.seeds + 1):
        run_with_other_seeds(number, chosen.tests, Round(number, found, chosen.seconds))
        RESULTS.write_text(json.dumps({"rounds": number, "found": found}, indent=1))
    failed = {name: each for name, each in found.items() if each["failures"]}
    rounds = [each["rounds"] for each in found.values()]
    summary = (
        f"{len(found)} tests that state their α ran {sum(rounds):,} times with other seeds, "
        f"{min(rounds)} to {max(rounds)} times each and {np.median(rounds):.0f} in the median. "
        f"Failures: {sum(len(each['failures']) for each in failed.values())}."
    )
    rows = [
        [f"`{name.removeprefix('tests/')}`", len(each["failures"]), each["rounds"]]
        for name, each in sorted(failed.items())
    ]
    rows = table(["test", "failures", "runs"], rows)
    page = ROOT / "docs" / "mutants.md"
    publish("Other seeds", summary, rows, page=page, made=made_by(kept=RESULTS))


if __name__ == "__main__":
    main()
