"""The default call beside other ways to log ML, where it is known: error, stated error, CPU time.

Run as ``python benchmarks/peers.py [--models …] [--methods …] [--seeds 6] [--docs]``, with the
extra ``peers`` installed. What has been measured is kept in a file, a line a run, so the command
goes on where it was stopped, and can be given in parts; ``--docs`` puts all there is on the page.
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
from common import publish, shown, table
from evidence_methods import COMPILING, METHODS

OURS, SIMULATING = list(METHODS)[:2]
SEEDS = 6
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "peers.md"
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
        told = str(exception).splitlines()[0].split(". ")[0]
        keep(reason=too_long[0] if too_long else told)
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


def number(value: float) -> str:
    return "none" if np.isnan(value) else f"{value:.2g}"


def matrix(scores: dict, names: list[str], cell: Callable[[Score], str]) -> str:
    """A row a model, a column a method."""
    of = [[scores.get((name, method)) for method in METHODS] for name in names]
    cells = [["—" if each is None or not each.n else cell(each) for each in row] for row in of]
    rows = [[name, *row] for name, row in zip(names, cells, strict=True)]
    return table(["model", *METHODS], rows)


def standing(scores: dict, names: list[str]) -> str:
    """Our cost over that of the best peer, a row a model."""
    rows, ratios = [], []
    for name in names:
        costs = {
            method: score.cost
            for (of, method), score in scores.items()
            if of == name and score.n > 1
        }
        own = costs.pop(OURS, None)
        costs.pop(SIMULATING, None)
        if own is not None and costs:
            best = min(costs, key=costs.get)
            ratios.append(own / costs[best])
            rows.append([name, best, f"{ratios[-1]:.2g}"])
    ahead, behind = (sum(each < 1 / 4 for each in ratios), sum(each > 4 for each in ratios))
    return (
        f"On {ahead} of {len(ratios)} models `{OURS}` costs less than a\n"
        f"quarter of the best other method. On {behind} it costs more than 4 times as much as the\n"
        "best. On the rest it is within a factor of 4.\n\n"
        + table(["model", "best other method", "our cost / its cost"], rows)
    )


def report(scores: dict) -> None:
    """Print the tables, or put them on the page."""
    names = [name for name in CASES if any(of == name for of, _ in scores)]
    reasons = defaultdict(list)
    for (name, method), score in scores.items():
        for reason in score.reasons:
            reasons[method, reason].append(f"{name} ({score.n})" if score.n else name)
    publish(
        "What was measured",
        "Made by `python benchmarks/peers.py --docs`. CPU seconds are those of the whole process "
        f"on one thread, without compilation. There are {SEEDS} seeds, or the number in brackets, "
        "which is larger if two methods are close. A dash means that nothing was measured.",
        "RMSE² × CPU seconds, in nats² s. This is the CPU time for an error of 1 nat:",
        matrix(scores, names, lambda s: f"{s.cost:.1e}" + f" ({s.n})" * (s.n != SEEDS)),
        "For two equally good methods with six seeds each, the costs differ by more than 4\n"
        "times in one case of nine by chance. " + standing(scores, names),
        "Root mean square error and, after the comma, the median of the stated errors, in nats:",
        matrix(scores, names, lambda s: f"{s.rmse:.2g}, {number(s.stated)}"),
        "Mean of z², where z is the error divided by the stated error; 1 if stated errors are "
        "right:",
        matrix(scores, names, lambda s: number(s.z2)),
        "CPU seconds of a run:",
        matrix(scores, names, lambda s: f"{s.seconds:.2g}"),
        "Cases without a result, or with only the number of seeds in brackets, and the reason:",
        table(["method", "why", "models"], [[*key, "; ".join(of)] for key, of in reasons.items()]),
        page=PAGE,
    )


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
    report({key: Score(key[0], rows) for key, rows in found.items() if key[0] in names})


def chosen(names, parts: list[str] | None) -> list[str]:
    return [name for name in names if not parts or any(part in name for part in parts)]


if __name__ == "__main__":
    main()
