"""The default call beside other ways to log ML, where it is known: error, stated error, CPU time.

Run as ``python benchmarks/peers.py [--models …] [--methods …] [--seeds 6] [--docs]``, with the
extra ``peers`` installed. What has been measured is kept in a file, a line a run, so the command
goes on where it was stopped, and can be given in parts; ``--docs`` puts all there is on the page, a
row a method, and in docs/tables, a row a model and method.
A method may use ``--limit`` CPU seconds on a model; its seeds that did not fit are left out. Every
method is given what it wants of the PyMC model, compiled by numba or JAX, with compilation and a
first, short call not counted.
"""

import argparse
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import anchors
import models
import numpy as np
import pymc as pm
import shapes
from common import DOCS, all_rows, made_by, publish, shown, table
from evidence_methods import COMPILING, METHODS

OURS, SIMULATING = list(METHODS)[:2]
SEEDS = 6
ROOT = Path(__file__).parents[1]
PAGE = DOCS / "peers.md"
ONE_THREAD = {
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    "JAX_ENABLE_X64": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}

CASES: dict[str, tuple[Callable[[], pm.Model], Callable[[], float]]] = {
    **{name: (models.MODELS[name], log_ml) for name, log_ml in models.LOG_ML.items()},
    **{name: (make, shapes.LOG_ML[name]) for name, make in shapes.SHAPES.items()},
    **{name: (make, partial(anchors.LOG_ML.get, name)) for name, make in anchors.ANCHORS.items()},
}


HEAD = [
    "model", "method", "seeds", "RMSE", "stated error", "mean z²", "CPU s", "RMSE² × CPU s",
    "why not all seeds",
]  # fmt: skip

GROUPS = {
    "eight models of these benchmarks": models.MODELS,
    "shells, eggbox, spike and others": shapes.SHAPES,
    "published data": anchors.ANCHORS,
}


def keep(results: Path, **row) -> None:
    """Add a line to the results."""
    with results.open("a") as file:
        print(json.dumps(row), file=file)
    shown(row.values())


def measure(name: str, method: str, seeds: list[int], limit: float, keep: Callable) -> None:
    """Keep the estimates of these seeds and their CPU seconds, as far as the limit lets them."""
    keep, too_long = partial(keep, model=name, method=method), []

    def stop(*_):
        too_long.append(f"more than {limit:g} s")
        raise TimeoutError  # which compiled code may hand on as another error

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        run = METHODS[method](CASES[name][0]())
        for seed in seeds:
            started, compiling = time.process_time(), COMPILING.seconds
            value, error = run(seed)
            seconds = time.process_time() - started - (COMPILING.seconds - compiling)
            keep(seed=seed, value=float(value), error=error and float(error), seconds=seconds)
    except Exception as exception:
        keep(reason=too_long[0] if too_long else str(exception).splitlines()[0].split(". ")[0])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def read(results: Path) -> dict[tuple[str, str], list[dict]]:
    """What has been measured, by model and method."""
    found = defaultdict(list)
    for line in results.read_text().splitlines() if results.exists() else ():
        row = json.loads(line)
        found[row.pop("model"), row.pop("method")].append(row)
    return found


class Score:
    """What the seeds of one method on one model come to."""

    def __init__(self, name: str, rows: list[dict]):
        self.reasons = [row["reason"] for row in rows if "reason" in row]
        runs = [row for row in rows if "seed" in row]
        self.n = len(runs)
        if self.n:
            misses = np.array([row["value"] for row in runs]) - CASES[name][1]()
            stated = np.array([row["error"] for row in runs], float)  # None is NaN
            self.seconds = np.mean([row["seconds"] for row in runs])
            self.rmse = np.sqrt(np.mean(misses**2))
            self.cost = self.rmse**2 * self.seconds
            with np.errstate(divide="ignore"):
                self.stated, self.z2 = np.median(stated), np.mean((misses / stated) ** 2)

    def cells(self) -> list:
        """A row of the file, without the names."""
        if not self.n:
            return [0, "", "", "", "", "", "; ".join(self.reasons)]
        found = [f"{each:.2g}" for each in (self.rmse, self.stated, self.z2, self.seconds)]
        return [self.n, *found, f"{self.cost:.1e}", "; ".join(self.reasons)]


Rows = dict[tuple[str, str], dict[str, str]]
"""From a model and a method to the cells of the file, by the names in ``HEAD``."""


def comparable(rows: Rows) -> dict[str, dict[str, float]]:
    """The costs of methods with more than one seed, over ours, by model and method."""
    ratios: dict[str, dict[str, float]] = defaultdict(dict)
    for (name, method), row in rows.items():
        own = rows.get((name, OURS))
        if own and int(own["seeds"]) > 1 and int(row["seeds"]) > 1:
            ratio = float(row["RMSE² × CPU s"]) / float(own["RMSE² × CPU s"])
            if np.isfinite(ratio):
                ratios[name][method] = ratio
    return ratios


def short(value: float) -> str:
    if np.isnan(value):
        return ""
    return format(value, ".2g" if value < 100 else ".0f" if value < 1000 else ".0e")


def by_method(rows: Rows) -> str:
    """A row a method."""
    ratios, lines = comparable(rows), []
    for method in METHODS:
        own = [row for (_, of), row in rows.items() if of == method and int(row["seeds"]) > 1]
        costs = [each[method] for each in ratios.values() if method in each]
        if own:
            columns = ("RMSE", "mean z²", "CPU s")
            error, z2, seconds = (np.array([row[of] for row in own], float) for of in columns)
            stated = not np.all(np.isnan(z2))
            lines.append([
                method, len(own),
                *(short(of(costs)) if costs else "" for of in (np.median, min, max)),
                "" if method == OURS else sum(each < 1 for each in costs),
                short(np.nanmedian(error)),
                *([short(np.median(z2)), np.sum(z2 > 4)] if stated else ["none", ""]),
                short(np.median(seconds)),
            ])  # fmt: skip
    head = ["method", "models", "cost / ours, median", "lowest", "highest", "cheaper on", "RMSE",
            "z²", "z² above 4", "CPU s"]  # fmt: skip
    return table(head, lines)


def by_group(rows: Rows) -> str:
    """Median costs over ours, a row a group of models, a column a method."""
    ratios, others = comparable(rows), [each for each in METHODS if each != OURS]
    lines = []
    for group, names in GROUPS.items():
        found = [[ratios[name][of] for name in names if of in ratios[name]] for of in others]
        if any(found):
            lines.append([group, *(short(np.median(each)) if each else "—" for each in found)])
    return table(["models", *others], lines)


def standing(rows: Rows) -> list[str]:
    """In how many models ours is the cheapest, and a table of those in which it is not."""
    best = {}
    for name, ratios in comparable(rows).items():
        others = {of: each for of, each in ratios.items() if of not in (OURS, SIMULATING)}
        if others:
            method = min(others, key=others.get)
            best[name] = (method, others[method])
    ahead = sum(each > 4 for _, each in best.values())
    behind = sum(each < 1 / 4 for _, each in best.values())
    text = (
        f"On {ahead} of {len(best)} models `{OURS}` costs less than a quarter of the best other "
        f"method, and on {behind} more than four times as much. On these another method costs less:"
    )
    worse = [[name, of, short(each)] for name, (of, each) in best.items() if each < 1]
    return [text, table(["model", "method", "cost / ours"], worse)]


def summary(rows: Rows, link: str) -> list[str]:
    """What the section shows below its first paragraph."""
    return [
        by_method(rows),
        "Median of the cost over ours, by groups of models:",
        by_group(rows),
        *standing(rows),
        link,
    ]


TEXT = (
    "*Cost* is RMSE² × CPU seconds, the CPU time for an error of 1 nat; *ours* is that of "
    f"`{OURS}` on the same model, and *cheaper on* counts the models where a method costs less. "
    "RMSE, z² (the mean over seeds of squared errors in stated errors, 1 if these are right) and "
    "CPU seconds are medians over the models that a method was measured on. There are "
    f"{SEEDS} seeds a model, or 24 where two methods are close; models on which a method ended one "
    "seed or none within the limit are left out. With six seeds, the costs of two equally good "
    "methods differ by more than four times in one case of nine."
)


def report(scores: dict[tuple[str, str], Score], stamp: str) -> None:
    """Print the tables, or put them on the page."""
    rows = {
        (name, method): dict(zip(HEAD, map(str, [name, method, *score.cells()]), strict=True))
        for name in CASES
        for method in METHODS
        if (score := scores.get((name, method)))
    }
    link = all_rows("peers", HEAD, [list(row.values()) for row in rows.values()])
    publish("What was measured", TEXT, *summary(rows, link), page=PAGE, made=stamp)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="those whose names contain one of these")
    parser.add_argument("--methods", nargs="*", help="likewise")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds, model and method")
    parser.add_argument("--results", type=Path, default=ROOT / "output" / "peers.jsonl")
    parser.add_argument("--docs", action="store_true", help="put the tables on the page")
    arguments = parser.parse_args()
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    arguments.results.parent.mkdir(exist_ok=True)
    names = chosen(CASES, arguments.models)
    if not anchors.available():
        skipped = [name for name in names if name in anchors.ANCHORS]
        print("Skipped, since BDMC_ANCHORS is not set:", "; ".join(skipped))
        names = [name for name in names if name not in skipped]
    for name, method in product(names, chosen(METHODS, arguments.methods)):
        rows = read(arguments.results)[name, method]
        done = {row["seed"] for row in rows if "seed" in row}
        seeds = [seed for seed in range(1, arguments.seeds + 1) if seed not in done]
        if any("reason" in row for row in rows) or not seeds:
            continue
        measure(name, method, seeds, arguments.limit, partial(keep, arguments.results))
    found = read(arguments.results)
    scores = {key: Score(key[0], rows) for key, rows in found.items() if key[0] in names}
    report(scores, made_by(kept=arguments.results))


def chosen(names, parts: list[str] | None) -> list[str]:
    return [name for name in names if not parts or any(part in name for part in parts)]


if __name__ == "__main__":
    main()
