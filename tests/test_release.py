"""What a release says of itself is the same everywhere, and what its workflows run is fixed."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("CITATION.cff", r"^version: (\S+)$"),
        ("CHANGELOG.md", r"^## (\S+)"),
        ("recipe/recipe.yaml", r'^  version: "(\S+)"$'),
    ],
)
def test_files_name_the_same_version(file, pattern):
    assert re.findall(pattern, (ROOT / file).read_text(), re.M)[0] == PROJECT["version"]


def test_the_recipe_has_the_dependencies_of_the_project():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    (run,) = re.findall(r"\n  run:\n((?:    - .*\n)+)", recipe)
    found = {re.sub("[ -]+", "", line, count=1).replace(" ", "") for line in run.splitlines()}
    minimum = PROJECT["requires-python"]
    assert f'python_min: "{minimum.removeprefix(">=")}"' in recipe
    expected = {re.sub(r"\[.*\]", "", each).lower() for each in PROJECT["dependencies"]}
    assert found == expected | {"python>=${{python_min}}", "matplotlib-base"}


def test_the_matrix_has_all_versions_of_python_that_are_named():
    (matrix,) = set(
        re.findall(r"python: (\[.*\])", (ROOT / ".github/workflows/tests.yml").read_text())
    )
    named = {each.split(" :: ")[-1] for each in PROJECT["classifiers"] if "Python :: 3." in each}
    assert named <= set(re.findall(r"[\d.]+", matrix))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.stem)
def test_actions_are_pinned(workflow):
    """A tag can be moved to other code, a hash cannot."""
    for action in re.findall(r"uses: (.*)", workflow.read_text()):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
