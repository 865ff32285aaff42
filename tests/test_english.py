"""Docstrings can be read alone: no first sentence leans on the name above it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pymc_bdmc"

LEANING = re.compile(
    r"(Of|That|Those|What|Which|Whose|As|As if|The same|How|Where|By which|With which)\b(?!-)"
)
"""Beginnings that need the name above, or the docstring before, to be understood."""


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, and of the strings beneath constants and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.strip()


def faults(source: str) -> Iterator[tuple[int, str]]:
    """Line and summary of every docstring that leans on its name or does not end."""
    for line, text in docstrings(ast.parse(source)):
        summary = text.split("\n\n")[0]
        if LEANING.match(summary) or not summary.endswith("."):
            yield line, summary


ROOMS = sorted({str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_can_be_read_alone(room):
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": summary
        for path in (PACKAGE / room).glob("*.py")
        for line, summary in faults(path.read_text())
    }
    assert not found


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Of reverse chains."""', 1),
        ('def f():\n    """That a pilot adapts to."""', 2),
        ('def f():\n    """As `g`, on rows."""', 2),
        ('class C:\n    """A state."""\n\n    x: int\n    """Of the metric."""', 5),
        ('N = 3\n"""What a run is worth."""', 2),
        ('def f():\n    """Return the mean"""', 2),
    ],
)
def test_a_docstring_that_leans_is_found(source, line):
    assert [found for found, _ in faults(source)] == [line]


def test_a_docstring_that_stands_passes():
    source = '"""Return the mean."""\n\nx = 1\n"""Whether y. Of no concern."""\n'
    assert list(faults(source)) == []
