"""The catalogue: a check passes the parent and fails the mutant; α = 1e-5 each, seeds are fixed."""

import json

import pytest

from tests.testing.mutants import MUTANTS
from tests.testing.mutants.__main__ import main

QUICK = [
    "BetterOfTwo",
    "JacobianUpsideDown",
    "OldData",
    "SharedStream",
    "WeightsKept",
    "no_shrinkage",
    "rounded",
]
PARENTS = {mutant.parent: mutant for mutant in MUTANTS.values()}


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_caught_and_its_parent_passes(name):
    mutant = MUTANTS[name]
    ask = mutant.trial[mutant.seen_by]
    caught = ask(mutant.broken(), random_seed=1)
    assert not caught.passed
    assert caught.findings
    passed = ask(mutant.parent(), budget=max(caught.cost, 20), random_seed=1)
    assert passed.passed
    assert passed.findings == ()


def test_the_catalogue_is_whole():
    assert len(MUTANTS) >= 24
    for mutant in MUTANTS.values():
        assert mutant.fault.endswith(".")
        assert mutant.seen_by is None or mutant.seen_by in mutant.trial
        assert mutant.parent not in {other.broken for other in MUTANTS.values()}


def test_tables_are_written_to_a_page(tmp_path):
    page, results = tmp_path / "page.md", tmp_path / "results.jsonl"
    titles = ["Which check sees which fault", "How often and how fast"]
    page.write_text("".join(f"## {title}\nRead on.\n\n| old |\n\nEnd.\n" for title in titles))
    command = ["--only", "NoJacobian", "--seeds=2", f"--results={results}", f"--page={page}"]
    main(command)
    answers = [json.loads(line) for line in results.read_text().splitlines()]
    assert [(each["mutant"], each["seed"], each["passed"]) for each in answers] == [
        ("NoJacobian", 0, False), ("NoJacobian", 1, False)
    ]  # fmt: skip
    main(command)  # which has nothing left to ask
    assert len(results.read_text().splitlines()) == 2
    text = page.read_text()
    assert "| old |" not in text
    assert text.count("Read on.") == text.count("End.") == 2
    assert "| `NoJacobian` | check_transform | 2 of 2 | 20 | 20 |" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.seen_by])
def test_every_mutant_is_caught(name):
    mutant = MUTANTS[name]
    assert not mutant.trial[mutant.seen_by](mutant.broken(), random_seed=2).passed


@pytest.mark.slow
@pytest.mark.parametrize("parent", PARENTS, ids=lambda parent: parent.__name__)
def test_every_parent_passes_every_check(parent):
    for ask in PARENTS[parent].trial.values():
        assert ask(parent(), random_seed=2).passed
