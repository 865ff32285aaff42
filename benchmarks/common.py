"""What the engine's benchmarks share: chains on a model's own data, and sections of the page."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

import numpy as np
import pymc as pm

from pymc_bdmc.base.schedules import adaptive
from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import AnnealTask, CompiledEngine, PilotTask, StepEngine

__all__ = ["Annealer", "publish", "shown", "table", "timed"]

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"


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


def table(head: Sequence[str], rows: Sequence[Sequence]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def publish(title: str, *parts: str, page: Path = PAGE) -> None:
    """Print a section; with ``--docs`` replace the section of that title on the page.

    Parts without a line break are filled to lines of 100 characters.
    """
    filled = [each if "\n" in each else fill(each, 100, break_on_hyphens=False) for each in parts]
    section = "\n\n".join([f"## {title}", *filled]) + "\n"
    print(section)
    if "--docs" in sys.argv:
        head, *sections = page.read_text().split("\n## ")
        found = {each.split("\n", 1)[0]: each.rstrip("\n") + "\n" for each in sections}
        found[title] = section.removeprefix("## ")
        page.write_text("\n## ".join([head.rstrip("\n") + "\n", *found.values()]))
