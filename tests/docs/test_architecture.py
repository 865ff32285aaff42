"""The page on how the library is built names files that exist, and things that are in them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"`([\w./]+(?:\.py|/))`")


def test_the_files_exist():
    """In the package or in the project; twin: a name of no file."""
    places, names = (ROOT / "pymc_bdmc", ROOT), FILE.findall(PAGE)
    assert len(names) > 30
    for name in (*names, "run/loops.py"):
        assert any((place / name).exists() for place in places) == (name != "run/loops.py"), name


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("class Options", "call/options.py"),
        ("class Session", "call/session.py"),
        ("def sample_bdmc", "sampling.py"),
    ],
)
def test_what_the_page_names_is_there(name, file):
    assert name.split()[1] in PAGE
    assert name in (ROOT / "pymc_bdmc" / file).read_text()
