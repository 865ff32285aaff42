"""The catalogue: a check passes the parent and fails the mutant; α = 1e-5 each, seeds are fixed."""

import json

import pytest

from tests.testing.mutants import MUTANTS
from tests.testing.mutants.__main__ import main

QUICK = [
    ("OldData", "check_geweke", "over 10 rounds: "),
    ("SharedStream", "check_invariance", "over 5 steps: location of slope along x[0]"),
    ("Simultaneous", "check_invariance", "over 5 steps: "),
    ("wrong_error", "check_invariance", "log likelihood"),
    ("NoHastings", "check_exact_rank", "x[0]"),
    ("Untempered", "check_sampler", "order of prior draws moved at all β"),
    ("rounded", "check_prior_sampler", "x: draws repeat a value"),
    ("diagonal_only", "check_prior_sampler", "log p of all variables together"),
    ("JacobianUpsideDown", "check_transform", "log_jac_det is"),
    ("halved_gradient", "check_gradient", "x[0]: the gradient is"),
    ("no_shrinkage", "check_conditionals", "log p(x|…) rises by"),
    ("WeightsKept", "check_bayes_factor", ""),
]
"""A mutant, a check that sees it, and a part of what the check says."""
PARENTS = {mutant.parent: mutant for mutant in MUTANTS.values()}


@pytest.mark.parametrize(("name", "check", "finding"), QUICK)
def test_a_mutant_is_caught_and_its_parent_passes(name, check, finding):
    mutant = MUTANTS[name]
    ask = mutant.trial[check]
    limits = {"budget": 500} if check == "check_prior_sampler" else {}  # which it always spends
    caught = ask(mutant.broken(), random_seed=1, **limits)
    assert not caught.passed
    assert any(finding in each for each in caught.findings), caught.findings
    budget = min(max(caught.cost, 20), 500 if limits else 300)
    passed = ask(mutant.parent(), budget=budget, random_seed=1)
    assert passed.passed
    assert passed.findings == ()
    assert 0.9 * budget <= passed.cost <= budget


def test_a_wrong_temperature_shows_below_one_only():
    mutant = MUTANTS["Untempered"]
    ask = mutant.trial["check_invariance"]
    assert ask(mutant.broken(), budget=500, random_seed=1).passed


def test_the_catalogue_is_whole():
    assert len(MUTANTS) > 40
    for mutant in MUTANTS.values():
        assert mutant.fault.endswith(".")
        assert mutant.seen_by is None or mutant.seen_by in mutant.trial
        assert mutant.parent not in {other.broken for other in MUTANTS.values()}


def test_tables_are_written_to_a_page(tmp_path):
    page, results = tmp_path / "page.md", tmp_path / "results.jsonl"
    titles = ["Which check sees which fault", "How often and how fast"]
    sections = "".join(f"## {title}\nRead on.\n\n| old |\n\nEnd.\n" for title in titles)
    page.write_text(f"Made by\n`python -m tests.testing.mutants`\non some day.\n{sections}")
    command = ["--only", "NoJacobian", "--seeds=2", f"--results={results}", f"--page={page}"]
    for _ in range(2):  # the second time has nothing left to ask
        main(command)
        answers = [json.loads(line) for line in results.read_text().splitlines()]
        assert [(a["mutant"], a["seed"], a["passed"]) for a in answers] == [
            ("NoJacobian", 0, False), ("NoJacobian", 1, False)
        ]  # fmt: skip
    text = page.read_text()
    assert "| old |" not in text
    assert "some day" not in text
    assert text.count("\n\nEnd.\n") == text.count("Read on.\n\n| check |") == 2
    assert "| transform | 1 | 1 | 20 | 20 |  |" in text
    assert "| check_transform | 1 | 2 of 2 | 20 | 20 |" in text
    rows = (tmp_path / "tables" / "mutants_rates.csv").read_text()
    assert "`NoJacobian`,check_transform,2 of 2,20,20," in rows


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
