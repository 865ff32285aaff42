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


@pytest.mark.parametrize(("page", "n_blocks"), [("README.md", 1), ("docs/using.md", 5)])
def test_code_of_the_page_runs(page, n_blocks):
    text, names = (ROOT / page).read_text(), {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(blocks) == n_blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    # Uniform prior on p: every number of heads from 0 to 20 is equally likely.
    found = bdmc.log_ml(names.get("first", names["dt"]))
    assert abs(found.value + np.log(21)) < 4 * found.error
    rows = bdmc.summary(names["dt"]).index.get_level_values("quantity")
    assert all(f"`{row}`" in (ROOT / "docs" / "using.md").read_text() for row in rows)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


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
