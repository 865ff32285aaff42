"""The README runs, and the pages are whole."""

import importlib.util
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
        "MCMC",
        "NUTS",
        "PATHS",
        "RAISE",
        "RMSE",
        "SCHEDULES",
        "STRIDE",
        "SVGD",
    }
    assert set(re.findall(r"\b[A-Z]{4,}\b", text)) <= names


def listed():
    """Full names of all that the reference lists."""
    page, module = (ROOT / "docs" / "api.md").read_text(), ""
    for line in page.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([\w.]+)$", line):
            yield f"{module}.{found[1]}"


def test_everything_public_is_in_the_reference():
    """Each public name has a page, under its module; what is listed exists."""
    names = set(listed())
    functions = [name for name in bdmc.__all__ if not inspect.ismodule(getattr(bdmc, name))]
    wanted = {f"pymc_bdmc.{name}" for name in functions}
    for room in ("estimators", "lattice", "rbm", "testbed", "testing", "testsystems"):
        wanted |= {f"pymc_bdmc.{room}.{name}" for name in getattr(bdmc, room).__all__}
    wanted |= {f"pymc_bdmc.base.schedules.{name}" for name in bdmc.schedules.__all__} - {
        "pymc_bdmc.base.schedules.Schedule"  # it is listed as pymc_bdmc.Schedule
    }
    assert not wanted - names
    for name in names:
        home, _, thing = name.rpartition(".")
        assert hasattr(importlib.import_module(home), thing), name


def words(page):
    """Words of a page without numbers, signs and lines, which differ between processors."""
    return re.findall(r"[^\W\d_]{2,}", page)


@pytest.mark.filterwarnings("ignore")  # of PyMC, on few chains
@pytest.mark.parametrize("name", ["index.md", "howto.md", "first_evidence.md"])
def test_pages_print_what_they_say(name, tmp_path, monkeypatch):
    """The code runs, and prints what is below it, but for the numbers."""
    path = ROOT / "docs" / "outputs.py"
    spec = importlib.util.spec_from_file_location("outputs", path)
    outputs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(outputs)
    (tmp_path / "docs" / "images").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / name).read_text()
    assert words(outputs.renewed(page)) == words(page)
    assert "```text\n```" not in page
