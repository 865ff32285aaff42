"""``python -m tests.testing.mutants``: which check sees which fault, and at what cost."""

import argparse
import csv
import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
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
    """Run the checks, and print a row a mutant; put a row a check on a page, all in its tables/."""
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
    (head, rows), (columns, lines) = matrix(mutants, known), rates(mutants, known)
    for title, table in {MATRIX: _table(head, rows), RATES: _table(columns, lines)}.items():
        print(f"## {title}\n\n{table}\n")
    if options.page:
        folder = options.page.parent / "tables"
        folder.mkdir(exist_ok=True)
        for name, table in {"mutants": [head, *rows], "mutants_rates": [columns, *lines]}.items():
            with (folder / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(table)
        _replace_table(options.page, MATRIX, by_check(head, rows))
        _replace_table(options.page, RATES, by_quickest(lines))
        _replace_stamp(options.page, options.seeds)


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


def matrix(mutants: Sequence[Mutant], answers: Sequence[dict]) -> tuple[list, list]:
    """Head and rows, one for each mutant: costs, in bold where it was found, and the evidence."""
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
    return head, rows


def by_check(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A row for each check: how many mutants it found, at what cost, and which passed."""
    found, passed = defaultdict(list), defaultdict(list)
    for name, _, *cells in rows:
        for column, cell in zip(head[2:], cells, strict=True):
            check, _, told = cell.partition(": ") if column == "other" else (column, "", cell)
            if told.startswith("**"):
                found[check].append(int(told.split("**")[1]))
            elif told:
                passed[check].append(name)
    lines = [
        [check, len(costs) + len(passed[check]), len(costs), f"{np.median(costs):.0f}", max(costs),
         ", ".join(passed[check])]
        for check, costs in found.items()
    ]  # fmt: skip
    return _table(["check", "mutants", "found", "median cost", "largest", "not found"], lines)


def by_quickest(rows: Sequence[Sequence]) -> str:
    """A row for each check that is the quickest for some mutants, from `rates`."""
    groups = defaultdict(list)
    for _, check, caught, cost, largest, seconds, longest in rows:
        hits, _, seeds = caught.partition(" of ")
        groups[check].append([int(hits), int(seeds), float(cost), int(largest),
                              float(seconds), float(longest)])  # fmt: skip
    lines = []
    for check, own in groups.items():
        hits, seeds, costs, largest, seconds, longest = zip(*own, strict=True)
        lines.append([
            check, len(own), f"{sum(hits)} of {sum(seeds)}", f"{np.median(costs):.0f}",
            max(largest), f"{np.median(seconds):.1f}", f"{max(longest):.1f}",
        ])  # fmt: skip
    head = ["check", "mutants", "caught", "median cost", "largest", "median CPU s", "largest"]
    return _table(head, lines)


def rates(mutants: Sequence[Mutant], answers: Sequence[dict]) -> tuple[list, list]:
    """Return head and rows: how many seeds found each mutant, by the quickest check."""
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
    head = ["mutant", "check", "caught", "median cost", "largest cost", "median CPU s",
            "largest CPU s"]  # fmt: skip
    return head, rows


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


def _replace_stamp(page: Path, seeds: int) -> None:
    """Say on the page when, and by which code, its tables were made."""
    log = ["git", "log", "-1", "--format=%h", "--abbrev=8", "--", "pymc_bdmc"]
    code = subprocess.run(log, capture_output=True, text=True).stdout.strip() or "unknown"
    command = f"python -m tests.testing.mutants --seeds {seeds} --page docs/mutants.md"
    made = f"Made by\n`{command}`\non {datetime.now().astimezone():%Y-%m-%d}, code {code}."
    old = r"Made by\s`python\s-m\stests\.testing\.mutants[^`]*`\son [^.]*\."
    page.write_text(re.sub(old, made, page.read_text()))


if __name__ == "__main__":
    main()
