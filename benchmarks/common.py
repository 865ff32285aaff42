"""What the benchmarks share: chains on a model's own data, and sections of the pages."""

import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from textwrap import fill

import numpy as np
import pymc as pm

from pymc_bdmc.base.schedules import adaptive
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask, StepEngine

__all__ = [
    "DOCS", "Annealer", "aggregated", "all_rows", "made_by", "median", "numbers", "publish",
    "shown", "span", "table", "timed",
]  # fmt: skip

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "performance.md"


class Annealer:
    """Forward chains of one model on its own data, without the front door around them."""

    def __init__(self, model: pm.Model, step: str | type | None = None):
        self.density = TemperedDensity(model)
        self.data = self.density.data
        if isinstance(step, str) or step is None:
            self.engine = CompiledEngine(self.density, step)
        else:
            self.engine = StepEngine(self.density, np.linspace(0, 1, 65) ** 4, step)

    def tasks(self, n_temperatures: int, chains: int, seed: int = 1) -> list[AnnealTask]:
        """Chains on the adaptive schedule of a pilot of their own."""
        first, *seeds = np.random.SeedSequence(seed).spawn(chains + 1)
        tuning = self.engine.combine(
            [PilotTask(self.data, s).run(self.engine) for s in first.spawn(self.engine.pilots)]
        )
        betas = adaptive(tuning.path_betas, tuning.mean_log_likelihood, n_temperatures).betas
        return [AnnealTask(Direction.FORWARD, self.data, betas, tuning, s) for s in seeds]


def timed(function, *arguments):
    """Seconds, and what the function returned."""
    started = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - started, result


def shown(row: Sequence) -> Sequence:
    """Print a row as soon as there is one."""
    print(*row, sep=" | ", flush=True)
    return row


def table(head: Sequence[str], rows: Iterable[Sequence], only: Sequence[str] = ()) -> str:
    """A table in Markdown, of some columns or of all."""
    places = [head.index(name) for name in only] or range(len(head))
    lines = [[row[place] for place in places] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(places))
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def all_rows(name: str, head: Sequence[str], rows: Iterable[Sequence]) -> str:
    """A link to docs/tables/NAME.csv; with ``--docs`` all rows of a table are written there."""
    path = DOCS / "tables" / f"{name}.csv"
    if "--docs" in sys.argv:
        path.parent.mkdir(exist_ok=True)
        with path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return f"[All rows](tables/{name}.csv)."


def aggregated(
    head: Sequence[str],
    rows: Iterable[Sequence],
    groups: dict[str, Sequence[str]],
    columns: dict[str, Callable[[dict[str, list[str]]], str]],
) -> list[list[str]]:
    """A row for every group of rows: its name, their number, and the columns.

    A row belongs to the group that has a prefix of its first cell. A column is a function of the
    cells of the group, as text, by the names in ``head``.
    """
    found: dict[str, list] = {group: [] for group in groups}
    for row in rows:
        (group,) = (each for each in groups if str(row[0]).startswith(tuple(groups[each])))
        found[group].append([str(cell) for cell in row])
    lines = []
    for group, members in found.items():
        if members:
            cells = dict(zip(head, map(list, zip(*members, strict=True)), strict=True))
            lines.append([group, str(len(members)), *(of(cells) for of in columns.values())])
    return lines


def numbers(cells: Iterable[str]) -> np.ndarray:
    """The numbers among cells; those that are empty or hold words are left out."""
    found = []
    for cell in cells:
        try:
            found.append(float(cell.replace(",", "")))
        except ValueError:
            continue
    return np.array(found)[~np.isnan(found)] if found else np.array([])


def median(cells: Iterable[str], form: str = ".2f") -> str:
    """The median of the numbers among cells; nothing where there is none."""
    found = numbers(cells)
    return format(np.median(found), form) if len(found) else ""


def span(cells: Iterable[str]) -> str:
    """From the least to the largest of the numbers among cells, as they are written there."""
    written = sorted(map(str, cells), key=lambda cell: float(cell.replace(",", "")))
    return f"{written[0]} to {written[-1]}"


def made_by(command: str = "", kept: Path | None = None) -> str:
    """Say which command made a table, on which day, and by which code.

    The code is the last commit that changed the package. Results that are kept in a file are as
    old as the file.
    """
    command = command or f"python benchmarks/{Path(sys.argv[0]).name} --docs"
    day = datetime.fromtimestamp(kept.stat().st_mtime if kept else time.time()).astimezone()
    log = ["git", "log", "-1", "--format=%h", "--abbrev=8", f"--before={day.isoformat()}"]
    found = subprocess.run([*log, "--", "pymc_bdmc"], cwd=ROOT, capture_output=True, text=True)
    return f"Made by `{command}` on {day:%Y-%m-%d}, code {found.stdout.strip() or 'unknown'}."


def publish(
    title: str, text: str, *parts: str, page: Path = PAGE, command: str = "", made: str = ""
) -> None:
    """Print a section; with ``--docs`` replace the section of that title on the page.

    It opens with a paragraph, which ends with what ``made_by`` says, unless ``made`` says it.
    Paragraphs are filled to lines of 100 characters; other parts have line breaks.
    """
    parts = (f"{text} {made or made_by(command)}".lstrip(), *parts)
    filled = [
        each if "\n" in each else fill(each, 100, break_on_hyphens=False) for each in parts if each
    ]
    section = "\n\n".join([f"## {title}", *filled]) + "\n"
    print(section)
    if "--docs" in sys.argv:
        head, *sections = page.read_text().split("\n## ")
        found = {each.split("\n", 1)[0]: each.rstrip("\n") + "\n" for each in sections}
        found[title] = section.removeprefix("## ")
        page.write_text("\n## ".join([head.rstrip("\n") + "\n", *found.values()]))
