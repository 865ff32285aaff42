"""Sections of the pages of measurements: their stamps, aggregates, and the files of all rows."""

import csv
import os
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def common(script):
    return script("common")


def test_a_section_is_replaced_and_says_how_it_was_made(common, tmp_path, monkeypatch):
    """The other sections stay; the twin without ``--docs`` writes nothing."""
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nHead.\n\n## One\n\nOld.\n\n## Two\n\nStays.\n")
    before = page.read_text()
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py"])
    common.publish("One", "What it shows.", "| a |\n| --- |\n| 1 |", page=page)
    assert page.read_text() == before
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py", "--docs"])
    common.publish("One", "What it shows.", "| a |\n| --- |\n| 1 |", page=page)
    text = page.read_text()
    stamp = (
        r"Made by `python benchmarks/some\.py --docs` on \d{4}-\d\d-\d\d, code (\w{8}|unknown)\."
    )
    assert re.search(rf"## One What it shows\. {stamp} \| a \|", " ".join(text.split()))
    assert "Old." not in text
    assert text.endswith("| 1 |\n\n## Two\n\nStays.\n")


def test_results_that_are_kept_are_as_old_as_their_file(common, tmp_path):
    kept = tmp_path / "some.jsonl"
    kept.touch()
    os.utime(kept, (86400.0, 86400.0 * 365.5))
    assert "on 1971-01-01, code unknown" in common.made_by("some", kept)


def test_rows_are_kept_in_a_file(common, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DOCS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["some.py", "--docs"])
    assert common.all_rows("some", ["a", "b"], [["x, y", 1]]) == "[All rows](tables/some.csv)."
    assert (tmp_path / "tables" / "some.csv").read_text() == 'a,b\n"x, y",1\n'


def test_aggregates(common):
    """Each row is in one group; a row of none, or of two, is an error."""
    head, rows = ["model", "s"], [["a 1", "1.0"], ["a 2", "1,003"], ["b", "unknown"]]
    columns = {"s": lambda cells: common.median(cells["s"])}
    groups = {"first": ("a",), "second": ("b",)}
    assert common.aggregated(head, rows, groups, columns) == [
        ["first", "2", "502.00"], ["second", "1", ""]
    ]  # fmt: skip
    for wrong in ({"first": ("a",)}, {"first": ("a", "b"), "second": ("b",)}):
        with pytest.raises(ValueError, match="values to unpack"):
            common.aggregated(head, rows, wrong, columns)
    assert common.span(["10", "9.5", "1,000"]) == "9.5 to 1,000"


def test_columns_of_a_table(common):
    """By names, or all of them, even if two have the same name."""
    rows = [[1, 2, 3]]
    assert common.table(["a", "b", "b"], rows).endswith("| 1 | 2 | 3 |")
    assert common.table(["a", "b", "c"], rows, only=["c", "a"]).endswith("| 3 | 1 |")


@pytest.mark.parametrize(
    ("name", "file", "page"),
    [
        ("honesty", "honesty", "honesty"),
        ("honesty", "honesty_none", "honesty"),
        ("price", "price", "price"),
        ("hard", "hard", "hard"),
        ("peers", "peers", "peers"),
        ("mutants", "mutants_package", "mutants"),
    ],
)
def test_a_page_shows_what_its_file_adds_up_to(script, name, file, page):
    """As its command would, from the rows of the file; the twin has every other one."""
    with (DOCS / "tables" / f"{file}.csv").open(newline="") as lines:
        head, *rows = csv.reader(lines)
    module = script(name)
    assert list(module.HEAD) == head
    text = " ".join((DOCS / f"{page}.md").read_text().split())

    def shown(rows):
        if name == "peers":
            rows = {tuple(row[:2]): dict(zip(head, row, strict=True)) for row in rows}
        parts = module.summary(rows, f"[All rows](tables/{file}.csv).")
        return [" ".join(part.split()) in text for part in parts]

    assert all(shown(rows))
    assert not all(shown(rows[::2]))
