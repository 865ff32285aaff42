"""What CONTRIBUTING.md names is there, and the hooks of a commit see what is wrong with it."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
HOOKS = {
    hook["id"]: hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repo["hooks"]
}


def test_paths_and_tables_that_it_names_are_there():
    names = set(re.findall(r"`((?:pymc_bdmc|tests|benchmarks)/[\w/.]*)`", PAGE))
    assert len(names) > 10
    for name in names:
        assert (ROOT / name).exists(), name
    for table, home in re.findall(r"`([A-Z]+)` in `(\S+)`", PAGE):
        assert re.search(rf"^{table}\b.* = ", (ROOT / home).read_text(), re.M), table


def test_commands_are_those_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text()
    listed = set(re.findall(r"^\| `make ([\w-]+)", PAGE, re.M))
    targets = set(re.findall(r"^\.PHONY: (.*)", makefile, re.M)[0].split())
    assert listed == targets - {"clean", "demo"}
    assert set(re.findall(r"make ([\w-]+)", PAGE)) <= targets
    assert (ROOT / "tests" / re.search(r"ROOM=(\w+)", PAGE)[1]).is_dir()


def refuses(hook, path, text):
    """Whether a hook refuses a commit of this file, with the tools of this environment."""
    path.write_text(text)
    tool, *arguments = shlex.split(HOOKS[hook]["entry"])
    command = [sys.executable, "-m", Path(tool).name, *arguments, path]
    return subprocess.run(command, cwd=ROOT, capture_output=True).returncode != 0


@pytest.mark.parametrize(
    ("hook", "fault"),
    [
        ("ruff-check", '"""One."""\n\nimport os\n'),
        ("ruff-format", '"""One."""\n\nx = [1,2]\n'),
        pytest.param("mypy", '"""One."""\n\nx: int = "1"\n', marks=pytest.mark.slow),
    ],
)
def test_hooks_refuse_a_staged_file_with_a_fault_and_read_no_other(hook, fault, tmp_path):
    assert refuses(hook, tmp_path / "staged.py", fault)
    assert not refuses(hook, tmp_path / "staged.py", '"""One."""\n\nx = [1, 2]\n')
    assert HOOKS[hook].get("pass_filenames", True)
    assert HOOKS[hook]["types"] == ["python"]
