"""A result is read in one place, and what is said about it suits a reader or a paper."""

import re
from dataclasses import fields
from pathlib import Path

import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.results.finding import PAPER, Finding, Remedy, for_paper
from pymc_bdmc.results.reading import Reading

ROOT = Path(bdmc.__file__).parent


def sources(*rooms):
    return [path for room in rooms for path in (ROOT / room).rglob("*.py")]


def test_no_other_file_touches_the_tree():
    """Twin: the files that do."""

    touch = re.compile(r"^(?! *(>>>|\.\.\.)).*(\bdt\.attrs(\[|\.get)|\.children\b)", re.M)
    found = {
        path.name
        for path in sources("results", "plots", "studies", "testing")
        if touch.search(path.read_text())
    }
    assert found == {"reading.py"}


def test_sentences_speak_to_a_reader_or_in_a_paper():
    told = "Your data differ from yours; your_x is no word to the reader."
    assert for_paper(told) == (
        "The data differ from the real data; your_x is no word to the reader."
    )
    assert for_paper("The 9 draws that you gave are copies") == "The 9 given draws are copies"
    assert for_paper("as there are; bdmc.sensitivity shows how much.") == "as there are."
    said = "".join(path.read_text() for path in sources("results") if path.name != "finding.py")
    for words, in_paper in PAPER.items():
        assert words in said
        assert "you" not in in_paper.lower()
    assert Finding("x", "bad", "One.", Remedy("run it.")).with_remedy == "One.; run it."


def test_attributes_of_a_call_are_those_that_are_read(schools_result):
    """Beside what is there for others: numbers of gradients, and log ML."""
    known = {each.name for each in fields(Reading)} - {"groups", "found"}
    others = ("burn_in", "path_reason", "log_ml", "gradients_")
    written = {name for name in schools_result.attrs if not name.startswith(others)}
    assert written <= known
    read = Reading.of(schools_result)
    assert all(getattr(read, name) == schools_result.attrs[name] for name in written & known)
    assert read.moves == (True, ("HMC",))
    assert Reading.of(None).groups == Reading.of(xr.Dataset()).groups == {}
