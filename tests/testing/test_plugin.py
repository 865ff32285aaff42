"""The pytest plugin, run in a project of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"

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

TEST_WORKERS = """
    import pymc as pm
    import pytest


    @pytest.mark.bdmc(alpha=4e-4)
    def test_marked(bdmc):
        assert bdmc._alpha == 4e-4


    @pytest.mark.parametrize("i", range(3))
    def test_others(bdmc, i):
        assert bdmc._alpha == pytest.approx(2e-4)
        if i == 1:
            bdmc.check_transform(pm.distributions.transforms.log, pm.HalfNormal.dist(), budget=1)
"""


def write(folder, files):
    for name, text in files.items():
        (folder / f"{name}.py").write_text(dedent(text))


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """Run pytest on a project with these files in this process, which has imported PyMC."""

    def run(*options, **files):
        write(tmp_path, files)
        monkeypatch.chdir(tmp_path)
        for name in files:
            monkeypatch.delitem(sys.modules, name, raising=False)
        code = pytest.main(["-q", "-s", "-p", "no:xdist", *options])
        for name in files:
            sys.modules.pop(name, None)
        return SimpleNamespace(returncode=code, stdout=capsys.readouterr().out)

    return run


def run_pytest(folder, *options, **files):
    """Run pytest on a project with these files, in a process with the installed plugin."""
    write(folder, files)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )


def reports(folder):
    return json.loads((folder / "checks.json").read_text())


def blocks(language):
    """Return the blocks in this language on the page about testing."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.S)


def repaired(sampler):
    """Return the sampler with the diff of the page applied."""
    (diff,) = blocks("diff")
    old, new = (
        "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+"
    )
    assert sampler.count(old) == 1
    return sampler.replace(old, new)


@pytest.mark.parametrize("passes", [False, True], ids=["planted bug", "repaired"])
def test_the_page_tells_what_happens(tmp_path, run_here, passes):
    """α = 5e-6 for the sound step method, whose seed is fixed."""
    sampler, test = blocks("python")
    test = test.replace("Langevin, model)", "Langevin, model, random_seed=1)")
    files = {"langevin": repaired(sampler) if passes else sampler, "test_langevin": test}
    budget = "2000" if passes else "20000"  # which a fault does not use up
    run = run_here("--bdmc-json=checks.json", f"--bdmc-budget={budget}", **files)
    assert run.returncode == (0 if passes else 1), run.stdout
    found = reports(tmp_path)
    (check,) = found["checks"]
    assert all(f"`{field}`" in PAGE.read_text() for field in [*found, *check])
    assert found["passed"] is check["passed"] is passes
    assert check["test"] == "test_langevin.py::test_langevin_leaves_the_posterior_invariant"
    assert check["check"] == "check_invariance"
    assert check["alpha"] == found["alpha"] / 2 == 5e-6
    assert (check["evidence"] < 1 / check["alpha"]) is passes
    assert check["cost"] <= int(budget)
    assert check["random_seed"] == 1
    assert (check["findings"] == []) is passes
    if not passes:
        assert "CheckFailed: check_invariance of Langevin(mu, sigma_log__): FAILED" in run.stdout
        assert check["findings"][0] in run.stdout
        assert "repeat it with random_seed=1" in run.stdout


def test_workers_of_xdist_come_to_the_same_shares(tmp_path):
    """Each worker sees all tests and runs some, and the reports of all are gathered."""
    options = ("--bdmc-alpha=1e-3", "--bdmc-json=checks.json", "-n2")
    run = run_pytest(tmp_path, *options, test_workers=TEST_WORKERS)
    assert "4 passed" in run.stdout
    assert len(reports(tmp_path)["checks"]) == 1


def test_alpha_is_shared_over_the_checks_of_a_session(tmp_path, run_here):
    options = ("--bdmc-alpha=1e-3", "--bdmc-json=checks.json")
    run = run_here(*options, test_shares=TEST_SHARES)
    assert "1 failed, 4 passed" in run.stdout
    found = reports(tmp_path)
    assert found["alpha"] == 1e-3
    assert not found["passed"]
    shares = {}
    for check in found["checks"]:
        shares.setdefault(check["test"].partition("::")[2], []).append(check["alpha"])
    assert shares == {
        "test_marked": pytest.approx([4e-4 / 2]),
        "test_one[0]": pytest.approx([2e-4 / 2]),
        "test_one[1]": pytest.approx([2e-4 / 2]),
        "test_two": pytest.approx([0, 2e-4 / 2, 2e-4 / 6]),  # nothing is left to chance in one
    }
    title, *rows = run.stdout.partition("= bdmc")[2].splitlines()
    assert "alpha = 0.001" in title
    assert [row.split()[0] for row in rows[:6]].count("FAILED") == 1


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ("alpha=4e-4", "marked tests take alpha = 0.0004 together"),
        ("alpha=2", "expected bdmc(alpha=…) with a probability"),
        ("budget=100", "expected bdmc(alpha=…) with a probability"),
    ],
)
def test_a_mark_that_cannot_be_is_refused(run_here, mark, complaint):
    test = f"""
        import pytest

        @pytest.mark.bdmc({mark})
        def test_marked(bdmc):
            pass
    """
    run = run_here("--bdmc-alpha=1e-4", test_mark=test)
    assert complaint in run.stdout
    assert run.returncode == 1


def test_a_project_without_checks_is_left_alone(tmp_path):
    """Neither NumPy nor PyMC is imported, and nothing is printed or written."""
    test = """
        import sys

        def test_nothing(request):
            assert request.config.pluginmanager.has_plugin("pytest_bdmc")
            assert not {"numpy", "pymc", "pymc_bdmc"} & set(sys.modules)
    """
    # Other plugins of this environment do import NumPy.
    options = ("--disable-plugin-autoload", "-p", "pytest_bdmc")
    run = run_pytest(tmp_path, *options, test_nothing=test)
    assert run.returncode == 0, run.stdout
    assert "bdmc" not in run.stdout
    assert {path.name for path in tmp_path.iterdir()} <= {
        "test_nothing.py", "__pycache__", ".pytest_cache"
    }  # fmt: skip
