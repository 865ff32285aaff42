"""The pytest plugin of pymc_bdmc: checks of samplers in the tests of a project.

It stands beside the package and not in it, since pytest imports it in every project of an
environment. The package, and PyMC with it, waits for the first test that asks for the fixture
``bdmc``.
"""

import json
from argparse import ArgumentTypeError
from importlib.metadata import version
from pathlib import Path

import pytest

ALPHA = 1e-5
PROPERTY = "bdmc"
"""Name under which a test's report carries those of its checks, from a worker of xdist too."""


def pytest_addoption(parser):
    group = parser.getgroup("bdmc", "checks of samplers and models by pymc_bdmc")
    group.addoption(
        "--bdmc-alpha", type=_probability, default=ALPHA, metavar="PROBABILITY",
        help="that the session fails although everything is correct, at most; shared over the "
        "tests with checks (default: %(default)s)",
    )  # fmt: skip
    group.addoption(
        "--bdmc-budget", type=int, metavar="NUMBER",
        help="of transitions, draws or points that a check may spend (default: what each check "
        "thinks enough)",
    )  # fmt: skip
    group.addoption(
        "--bdmc-json",
        type=Path,
        metavar="FILE",
        help="into which to write the reports of all checks",
    )


def _probability(text):
    value = float(text)
    if not 0 < value < 1:
        raise ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return value


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "bdmc(alpha): probability that the checks of this test fail although everything is "
        "correct; taken from --bdmc-alpha before the other tests share the rest",
    )
    if not hasattr(config, "workerinput"):  # where xdist has workers, they do not print
        config.pluginmanager.register(_Summary(config), "bdmc-summary")


@pytest.fixture
def bdmc(request, _bdmc_shares):
    """The checks of `pymc_bdmc.testing`, each with its share of the session's alpha."""
    from pymc_bdmc.testing.report import Checks

    reports = []
    request.node.user_properties.append((PROPERTY, reports))
    return Checks(_bdmc_shares[request.node.nodeid], request.config.option.bdmc_budget, reports)


@pytest.fixture(scope="session")
def _bdmc_shares(request):
    """Alpha by test: as marked, or an equal share of what marked tests leave.

    All tests that were selected count, so every worker of xdist comes to the same shares.
    """
    items = [item for item in request.session.items if "bdmc" in getattr(item, "fixturenames", ())]
    marks = {item.nodeid: item.get_closest_marker("bdmc") for item in items}
    marked = {name: _marked_alpha(name, mark) for name, mark in marks.items() if mark}
    alpha = request.config.option.bdmc_alpha
    left, sharers = alpha - sum(marked.values()), len(marks) - len(marked)
    if left < 0 or (left == 0 and sharers):
        raise pytest.UsageError(
            f"bdmc: marked tests take alpha = {sum(marked.values()):g} together, and the whole "
            f"session has --bdmc-alpha={alpha:g}. Raise it, or lower theirs."
        )
    return {name: marked.get(name, left / max(1, sharers)) for name in marks}


def _marked_alpha(name, mark):
    if mark.args or set(mark.kwargs) != {"alpha"} or not 0 < mark.kwargs["alpha"] < 1:
        raise pytest.UsageError(f"{name}: expected bdmc(alpha=…) with a probability, got {mark}.")
    return mark.kwargs["alpha"]


class _Summary:
    """Collects the reports of all tests, prints a row for each, and writes them as JSON."""

    def __init__(self, config):
        self._option, self._checks = config.option, []

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            for name, reports in report.user_properties:
                if name == PROPERTY:
                    self._checks += [{"test": report.nodeid} | each for each in reports]

    def pytest_terminal_summary(self, terminalreporter):
        if not self._checks:
            return
        terminalreporter.section(f"bdmc, alpha = {self._option.bdmc_alpha:g} for all tests")
        rows = [_row(check) for check in self._checks]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for check, row in zip(self._checks, rows, strict=True):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            terminalreporter.write_line(line.rstrip(), red=not check["passed"])

    def pytest_sessionfinish(self):
        if self._option.bdmc_json:
            found = {
                "pymc_bdmc": version("pymc-bdmc"),
                "alpha": self._option.bdmc_alpha,
                "passed": all(check["passed"] for check in self._checks),
                "checks": self._checks,
            }
            self._option.bdmc_json.write_text(json.dumps(found, indent=2) + "\n")


def _row(check):
    """Verdict, test, check, evidence, alpha and cost."""
    return (
        "passed" if check["passed"] else "FAILED",
        check["test"],
        f"{check['check']} of {check['subject']}",
        f"{check['kind']} {check['evidence']:.3g}",
        f"alpha {check['alpha']:.2g}",
        f"cost {check['cost']}",
        f"{check['seconds']:.1f} s",
    )
