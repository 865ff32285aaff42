"""The README runs, and the pages are whole."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_readme_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 5
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    table = bdmc.summary(names["dt"])
    # Uniform prior on p: every number of heads from 0 to 20 is equally likely.
    value, error = table.loc[("real", "evidence"), ["value", "error"]]
    assert abs(value + np.log(21)) < 4 * error
    for row in table.index:
        assert f"`{row[1]}`" in (ROOT / "README.md").read_text()


def test_readme_names_the_commands_of_the_makefile():
    makefile, readme = (ROOT / "Makefile").read_text(), (ROOT / "README.md").read_text()
    for target in re.findall(r"^make (\S+)", readme, re.M):
        assert re.search(rf"^{target}:", makefile, re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_whole(page):
    """What a page links is there, and no word in capitals is a gap left to be filled."""
    text = page.read_text()
    for link in re.findall(r"\]\(((?!http)[^)#]+)\)", text):
        assert (page.parent / link).exists(), link
    names = {
        "ADVI",
        "BARRIER",
        "BDMC",
        "BFGS",
        "BREAD",
        "CHANGELOG",
        "CONTRIBUTING",
        "EASY",
        "ELBO",
        "ESTIMATORS",
        "FAILED",
        "HARD",
        "JSON",
        "KERNELS",
        "MBAR",
        "NUTS",
        "PATHS",
        "RAISE",
        "RMSE",
        "STRIDE",
        "SVGD",
    }
    assert set(re.findall(r"\b[A-Z]{4,}\b", text)) <= names


def test_everything_public_is_in_the_reference():
    page = (ROOT / "docs" / "api.md").read_text()
    modules = set(".".join(re.findall(r"automodule:: pymc_bdmc\.([\w.]+)", page)).split("."))
    functions = set(re.findall(r"auto(?:function|class):: (\w+)", page))
    for name in bdmc.__all__:
        if not inspect.ismodule(thing := getattr(bdmc, name)):
            assert name in functions or thing.__module__.split(".")[1] in modules, name
        else:
            assert name in modules, name
