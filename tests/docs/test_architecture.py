"""The page on how the library is built names files that exist, and things that are in them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILE = re.compile(r"`([\w./]+(?:\.py|/))`")


def missing(page: str) -> list[str]:
    """Files and folders that a page names, and that neither the package nor the project has."""
    places = ROOT / "pymc_bdmc", ROOT
    return [name for name in FILE.findall(page) if not any((p / name).exists() for p in places)]


def test_the_files_exist():
    assert len(FILE.findall(PAGE)) > 30
    assert not missing(PAGE)


def test_a_file_that_is_gone_is_found():
    assert missing("See `run/loop.py` and `run/loops.py`.") == ["run/loops.py"]


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
