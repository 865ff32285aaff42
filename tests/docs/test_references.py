"""References of docstrings are numbered and linked, as `arviz_base.citations` reads them."""

import ast
import re
from pathlib import Path

import pytest

import pymc_bdmc as bdmc

PACKAGE = Path(__file__).parents[2] / "pymc_bdmc"
SECTION = "\nReferences\n----------\n"
OF_2015 = "10.48550/arXiv.1511.02543"
OF_2016 = "10.48550/arXiv.1606.02275"


def documented():
    """Every docstring with references, by its name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        for node in ast.walk(ast.parse(source)) if "References\n" in source else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if SECTION in text:
                    yield pytest.param(text, id=f"{path.stem}.{node.name}")


def entries(text):
    """The numbers and the texts of all references."""
    listed = text.split(SECTION)[1].split("\n\n")[0]
    return re.findall(r"^\.\. \[(\d+)\] (.+(?:\n   .+)*)", listed, re.M)


def identifiers(text):
    """The DOIs, as `arviz_base.citations` finds them: one of each entry."""
    found = [re.search(r"https?://doi\.org/(\S+)", entry) for _, entry in entries(text)]
    return [each[1].rstrip(".") for each in found if each]


@pytest.mark.parametrize("text", list(documented()))
def test_references_are_numbered_and_cited(text):
    before, after = text.split(SECTION)
    numbers = [number for number, _ in entries(text)]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert set(re.findall(r"\[(\d+)\]_", before)) == set(numbers)
    assert "http" not in before  # it would be read as an entry of its own
    assert after.split("\n\n")[0].count(".. [") == len(numbers)
    for link in re.findall(r"https\S+", after):
        assert re.search(rf"{re.escape(link)}(\n|$)", after)
        assert link[-1] not in ".,;)"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (bdmc.sample_bdmc, [OF_2015, OF_2016]),
        (bdmc.verdict, [OF_2016]),
        (bdmc.log_ml, ["10.1198/106186002457", "10.48550/arXiv.2508.14487"]),
    ],
)
def test_citations_find_the_papers(function, expected):
    assert identifiers(function.__doc__.replace("\n    ", "\n")) == expected
