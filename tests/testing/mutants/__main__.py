"""``python -m tests.testing.mutants``: which check sees which fault, and at what cost."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tests.testing.mutants import MUTANTS
from tests.testing.mutants.catalogue import Mutant
from tests.testing.mutants.trials import CHECKS_OF_SAMPLERS

MATRIX = "Which check sees which fault"
RATES = "How often and how fast"
SAMPLERS = [check.__name__ for check in CHECKS_OF_SAMPLERS]
"""Checks with a column of their own; the others share one, since no mutant has two of them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the checks, print the tables, and replace those of a page by them."""
    parser = argparse.ArgumentParser(prog="python -m tests.testing.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="of the best check of each mutant")
    parser.add_argument("--only", nargs="+", choices=MUTANTS, default=list(MUTANTS), metavar="NAME")
    parser.add_argument("--results", type=Path, help="JSON lines, which are not asked again")
    parser.add_argument("--page", type=Path, metavar="FILE", help="such as docs/mutants.md")
    options = parser.parse_args(arguments)
    mutants = [MUTANTS[name] for name in options.only]
    known = []
    if options.results and options.results.exists():
        known = [json.loads(line) for line in options.results.read_text().splitlines()]
    asked = {(each["mutant"], each["check"], each["seed"]) for each in known}
    for mutant, check, seed in _questions(mutants, options.seeds):
        if (mutant.name, check, seed) not in asked:
            known.append(_ask(mutant, check, seed))
            if options.results:
                with options.results.open("a") as file:
                    print(json.dumps(known[-1]), file=file)
    sections = {MATRIX: matrix(mutants, known), RATES: rates(mutants, known)}
    for title, table in sections.items():
        print(f"## {title}\n\n{table}\n")
        if options.page:
            _replace_table(options.page, title, table)


def _questions(mutants: Sequence[Mutant], seeds: int) -> Iterator[tuple[Mutant, str, int]]:
    """The checks that are best first, with one seed after the other."""
    for seed in range(seeds):
        yield from ((each, each.seen_by, seed) for each in mutants if each.seen_by)
    for mutant in mutants:
        yield from ((mutant, check, 0) for check in mutant.trial if check != mutant.seen_by)


def _ask(mutant: Mutant, check: str, seed: int) -> dict:
    """Return the result of a check with default settings on a mutant."""
    started = time.process_time()
    report = mutant.trial[check](mutant.broken(), random_seed=seed).to_dict()
    return {
        "mutant": mutant.name,
        "check": check,
        "seed": seed,
        "cpu_seconds": round(time.process_time() - started, 2),
    } | {name: report[name] for name in ("passed", "kind", "evidence", "cost")}


def matrix(mutants: Sequence[Mutant], answers: Sequence[dict]) -> str:
    """A row for each mutant: costs, in bold where the fault was found, and the evidence."""
    found = {(each["mutant"], each["check"]): each for each in answers if each["seed"] == 0}
    head = ["mutant", "what is wrong", *(name.removeprefix("check_") for name in SAMPLERS), "other"]
    rows = []
    for mutant in mutants:
        cells = {}
        for check in mutant.trial:
            if answer := found.get((mutant.name, check)):
                cost = f"passed, {answer['cost']}" if answer["passed"] else f"**{answer['cost']}**"
                cells[check] = f"{cost} ({answer['kind'][0]} = {answer['evidence']:.1g})"
        other = [
            f"{check.removeprefix('check_')}: {cell}"
            for check, cell in cells.items()
            if check not in SAMPLERS
        ]
        columns = [cells.get(check, "") for check in SAMPLERS]
        rows.append([f"`{mutant.name}`", mutant.fault, *columns, *(other or [""])])
    return _table(head, rows)


def rates(mutants: Sequence[Mutant], answers: Sequence[dict]) -> str:
    """Return how many seeds found each mutant, by the quickest check."""
    rows = []
    for mutant in mutants:
        own = [a for a in answers if (a["mutant"], a["check"]) == (mutant.name, mutant.seen_by)]
        if own:
            caught = sum(not each["passed"] for each in own)
            costs, seconds = ([each[name] for each in own] for name in ("cost", "cpu_seconds"))
            rows.append([
                f"`{mutant.name}`", mutant.seen_by, f"{caught} of {len(own)}",
                f"{np.median(costs):.0f}", max(costs), f"{np.median(seconds):.1f}",
                f"{max(seconds):.1f}",
            ])  # fmt: skip
    head = ["mutant", "check", "caught", "median cost", "largest", "median CPU s", "largest"]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Sequence]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _replace_table(page: Path, title: str, table: str) -> None:
    """Put a table in the place of the one of the section of that title."""
    before, heading, after = page.read_text().partition(f"## {title}\n")
    if not heading:
        raise ValueError(f"{page}: there is no section {title!r}.")
    lines = after.split("\n")
    inside = [i for i, line in enumerate(lines) if line.startswith("|")]
    end = next((i for i, line in enumerate(lines) if line.startswith("## ")), len(lines))
    inside = [i for i in inside if i < end]
    lines[inside[0] : inside[-1] + 1] = [table]
    page.write_text(before + heading + "\n".join(lines))


if __name__ == "__main__":
    main()
