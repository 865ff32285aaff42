"""A result is read in one place, and what is said about it stands in one file."""

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pymc_bdmc as bdmc
from pymc_bdmc.results.attributes import Attributes
from pymc_bdmc.results.checks import remedies
from pymc_bdmc.results.finding import Doubt, message, messages_of_json
from pymc_bdmc.results.reading import Reading, once
from pymc_bdmc.results.say import LISTS, PAPER, READER, WORDS, say
from tests.results.test_summary import tree

ROOT = Path(bdmc.__file__).parent


def sources(*rooms):
    return [path for room in rooms for path in (ROOT / room).rglob("*.py")]


def literals(path):
    """All strings of a file, and the constant parts of formatted ones."""
    tree_of_file = ast.parse(path.read_text())
    return {n.value for n in ast.walk(tree_of_file) if isinstance(n, ast.Constant)}


def test_every_sentence_is_said_somewhere_and_every_message_has_one():
    used = set().union(*map(literals, sources("results", "studies")))
    told = {kind for kind in WORDS if kind in used}
    # Kinds that end in, or begin with, what was found: a source of data, or the start of a path.
    pattern = "start at|from |brief |.* data$|at least and"
    composed = {kind for kind in WORDS if re.match(pattern, kind)}
    assert set(WORDS) == told | composed
    text = (ROOT / "results" / "say.toml").read_text(encoding="utf-8")
    assert len(WORDS) + len(READER) + len(PAPER) == len(re.findall(r"^[^#\[\n].* = ", text, re.M))
    calls = [
        node.args[0].value
        for path in sources("results", "studies")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "message"
        and isinstance(node.args[0], ast.Constant)
    ]
    assert len(calls) > 100
    assert not set(calls) - set(WORDS) - set(LISTS) - {"sum out", "clause"}


def test_no_other_file_touches_the_tree():
    """Twin: the files that do."""

    touch = re.compile(r"^(?! *(>>>|\.\.\.)).*(\bdt\.attrs(\[|\.get)|\.children\b)", re.M)
    found = {
        path.name
        for path in sources("results", "plots", "studies", "testing")
        if touch.search(path.read_text())
    }
    assert found == {"reading.py"}


def test_messages_speak_to_a_reader_or_in_a_paper():
    told = message("like others", p=0.5)
    assert say(told).startswith("Your data do not")
    assert say(told, impersonal=True).startswith("The data do not")
    assert READER.keys() == PAPER.keys()
    assert not any("you" in words.lower() for words in PAPER.values())
    doubt = Doubt({"real": message("wrong draws", n=9, difference="x", bad=1, of=2)}, None)
    assert "9 draws that you gave are" in say(doubt)
    assert "9 given draws are" in say(doubt, impersonal=True)
    doubt = Doubt({"real": message("no chain")}, message("again"))
    assert say(doubt) == "real: no chain was finished; run it again."


def test_messages_survive_a_store():
    told = (message("largest", difference=message("ratio", name="x", value=1.5, limits=message(
        "limits", lower=np.float64(1.2), upper=1.9))),)  # fmt: skip
    kept = messages_of_json(json.dumps(told, default=np.generic.item))
    assert list(map(say, kept)) == list(map(say, told))


def test_a_check_is_computed_once():
    seen = []

    @once
    def check(read, share):
        seen.append(share)
        return 2 * share

    dt = tree(real=np.zeros(3))
    read = Reading.of(dt)
    assert [check(read, 1), check(read, 1), check(read, 2)] == [2, 2, 4]
    assert seen == [1, 2]
    assert check(dt, 1) == 2  # of another reading
    assert seen == [1, 2, 1]
    assert Reading.of(read) is read


@pytest.mark.parametrize(
    ("step", "names"),
    [
        ("compiled Metropolis(z) > AutoStep HMC(mu, tau)", ("Metropolis", "AutoStep HMC")),
        ("compiled NUTS(x)", ("NUTS",)),
        ("CompoundStep(x) > NUTS(y)", ("CompoundStep", "NUTS")),
        ("heat bath", ()),
    ],
)
def test_kernels_of_a_result_that_has_their_description_only(step, names):
    """As results had that were stored before they named their kernels."""
    dt = tree(real=np.zeros(3))
    dt.attrs["step"] = step
    old = Reading.of(dt)
    assert old.moves == (step.startswith("compiled"), names)
    dt.attrs |= {"kernels": ", ".join(names), "is_compiled": int(step.startswith("compiled"))}
    new = Reading.of(dt)
    assert remedies.another_kernel(new) == remedies.another_kernel(old)
    assert remedies.local_steps(new) == remedies.local_steps(old)


def test_attributes_of_a_call_are_those_that_are_read(schools_result):
    """Beside what is there for others: numbers of gradients, and log ML."""
    known = {each.name for each in fields(Attributes)}
    others = ("burn_in", "path_reason", "log_ml", "gradients_")
    written = {name for name in schools_result.attrs if not name.startswith(others)}
    assert written <= known
    read = Reading.of(schools_result)
    assert all(getattr(read, name) == schools_result.attrs[name] for name in written & known)
    assert read.moves == (True, ("HMC",))


def test_what_is_no_result_has_nothing():
    assert Reading.of(xr.Dataset()).groups == {}
    assert Reading.of(None).real_log_weights.size == 0
