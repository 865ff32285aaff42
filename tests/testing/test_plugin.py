"""The pytest plugin, run in a project of its own."""

import json
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()

# The Bayes factor of a model against itself is 1; e is wrong, and that shows in 30 data sets.
TEST_SHARES = """
    import pymc as pm
    import pytest


    @pytest.fixture
    def check(bdmc):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("x"), 0.5, observed=0.3)
        return lambda value: bdmc.check_bayes_factor(lambda data: value, model, budget=30)


    @pytest.mark.bdmc(alpha=4e-4)
    def test_marked(check):
        check(0.0)


    @pytest.mark.parametrize("value", [0, 1])
    def test_one(check, value):
        check(value)


    def test_two(bdmc, check):
        bdmc.check_transform(pm.distributions.transforms.log, pm.HalfNormal.dist())
        check(0.0)
        check(0.0)


    def test_without_a_check():
        pass
"""

# In place of the package, which takes seconds to import
TEST_WORKERS = """
    import sys
    from types import SimpleNamespace

    import pytest

    sys.modules["pymc_bdmc.testing.report"] = SimpleNamespace(Checks=lambda *given: given)
    REPORT = {"check": "check_it", "subject": "it", "passed": True, "kind": "p-value"}
    REPORT |= {"evidence": 1.0, "cost": 1, "seconds": 1.0}


    @pytest.mark.parametrize("i", range(4))
    def test_one(bdmc, i):
        alpha, _, reports = bdmc
        reports.append(REPORT | {"alpha": alpha})
"""

TEST_NOTHING = """
    import sys

    def test_nothing(request):
        assert request.config.pluginmanager.has_plugin("pytest_bdmc")
        assert not {"numpy", "pymc", "pymc_bdmc"} & set(sys.modules)
"""


UNUSED = ["xdist", "zarr", "hypothesispytest", "unraisableexception"]
"""Plugins that import much, and one that collects garbage."""
ALONE = ("-q", "--disable-plugin-autoload", "-p", "pytest_bdmc", "-p", "no:unraisableexception")
JSON = "--bdmc-json=checks.json"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run pytest on a project with these files, in this process, which has imported PyMC.

    The fixture ``pytester`` would remove modules of numba that cannot be imported twice.
    """

    def run(*options, **files):
        monkeypatch.chdir(tmp_path)
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(dedent(text))
        code = pytest.main(["-q", "-s", *(f"-pno:{each}" for each in UNUSED), *options])
        for name in files:
            sys.modules.pop(name, None)
        return code, capsys.readouterr().out

    return run


def reports(folder):
    return json.loads((folder / "checks.json").read_text())


def blocks(language):
    """Return the blocks in this language on the page about testing."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def repaired(sampler):
    """Return the sampler with the diff of the page applied."""
    (diff,) = blocks("diff")
    old, new = (
        "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+"
    )
    assert sampler.count(old) == 1
    return sampler.replace(old, new)


@pytest.mark.parametrize(
    ("passes", "alpha", "budget"),
    [(False, 1e-3, 20_000), (True, 1e-5, 500)],
    ids=["planted bug", "repaired"],
)
def test_the_page_tells_what_happens(tmp_path, run, passes, alpha, budget):
    """α = 5e-6 for the sound step method, whose seed is fixed."""
    sampler, test = blocks("python")
    test = test.replace("Langevin, model)", "Langevin, model, random_seed=1)")
    files = {"langevin": repaired(sampler) if passes else sampler, "test_langevin": test}
    options = f"--bdmc-alpha={alpha}", f"--bdmc-budget={budget}"
    code, printed = run(JSON, *options, **files)
    assert code == (0 if passes else 1), printed
    found = reports(tmp_path)
    (check,) = found["checks"]
    assert all(f"`{field}`" in PAGE for field in [*found, *check])
    assert found["passed"] is check["passed"] is passes
    assert check["test"] == "test_langevin.py::test_langevin_leaves_the_posterior_invariant"
    assert check["alpha"] == found["alpha"] / 2 == alpha / 2
    assert (check["evidence"] < 1 / check["alpha"]) is passes
    assert check["cost"] <= budget
    assert (check["findings"] == []) is passes
    if not passes:
        assert "CheckFailed: check_invariance of Langevin(mu, sigma_log__): FAILED" in printed
        assert check["findings"][0] in printed
        assert f"repeat it with random_seed={check['random_seed']}" in printed


def test_alpha_is_shared_over_the_checks_of_a_session(tmp_path, run):
    _, printed = run("--bdmc-alpha=1e-3", JSON, test_shares=TEST_SHARES)
    assert "1 failed, 4 passed" in printed
    found, shares = reports(tmp_path), {}
    assert found["alpha"] == 1e-3
    assert not found["passed"]
    for check in found["checks"]:
        shares.setdefault(check["test"].partition("::")[2], []).append(check["alpha"])
    assert shares == {
        "test_marked": pytest.approx([4e-4 / 2]),
        "test_one[0]": pytest.approx([2e-4 / 2]),
        "test_one[1]": pytest.approx([2e-4 / 2]),
        "test_two": pytest.approx([0, 2e-4 / 2, 2e-4 / 6]),  # nothing is left to chance in one
    }
    title, *rows = printed.partition("= bdmc")[2].splitlines()[:7]
    assert "alpha = 0.001" in title
    assert sum(row.startswith("FAILED") for row in rows) == 1


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ("alpha=4e-4", "marked tests take alpha = 0.0004 together"),
        ("alpha=2", "expected bdmc(alpha=…) with a probability"),
    ],
)
def test_a_mark_that_cannot_be_is_refused(run, mark, complaint):
    test = f"import pytest\n@pytest.mark.bdmc({mark})\ndef test_marked(bdmc): pass"
    code, printed = run("--bdmc-alpha=1e-4", test_mark=test)
    assert complaint in printed
    assert code == 1


def test_workers_of_xdist_come_to_the_same_shares(pytester):
    """Each worker sees all tests and runs some, and the reports of all are gathered."""
    pytester.makepyfile(test_workers=TEST_WORKERS)
    done = pytester.runpytest_subprocess(*ALONE, "--bdmc-alpha=1e-3", "-p", "xdist", "-n2", JSON)
    done.assert_outcomes(passed=4)
    assert [check["alpha"] for check in reports(pytester.path)["checks"]] == [1e-3 / 4] * 4


def test_a_project_without_checks_is_left_alone(pytester):
    """Neither NumPy, which other plugins import, nor PyMC is imported, and nothing is printed."""
    pytester.makepyfile(test_nothing=TEST_NOTHING)
    done = pytester.runpytest_subprocess(*ALONE)
    done.assert_outcomes(passed=1)
    assert "= bdmc" not in done.stdout.str()
    assert not list(pytester.path.glob("*.json"))
