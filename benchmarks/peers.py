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

OURS = "bdmc, real data"
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
    keep = partial(keep, model=name, method=method)

    def stop(*_):
        raise TimeoutError(f"more than {limit:g} s")

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
        keep(reason=f"{type(exception).__name__}: {exception}".splitlines()[0])
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
        misses = np.array([row["value"] for row in runs]) - CASES[name][1]()
        stated = np.array([row["error"] or np.nan for row in runs], float)
        self.known = self.n > 0
        if self.known:
            self.seconds = np.mean([row["seconds"] for row in runs])
            self.rmse = np.sqrt(np.mean(misses**2))
            self.cost = self.rmse**2 * self.seconds
            self.stated, self.z2 = np.median(stated), np.mean((misses / stated) ** 2)


def matrix(scores: dict, names: list[str], cell: Callable[[Score], str]) -> str:
    """A row a model, a column a method."""
    rows = []
    for name in names:
        of = [scores.get((name, method)) for method in METHODS]
        rows.append([name, *(cell(each) if each and each.known else "—" for each in of)])
    return table(["model", *METHODS], rows)


def standing(scores: dict, names: list[str]) -> tuple[str, list[str]]:
    """Our cost against that of the best peer, a row a model, and the models where it is larger."""
    rows, behind = [], []
    for name in names:
        own = scores.get((name, OURS))
        peers = {
            method: scores[name, method].cost
            for method in METHODS
            if method not in (OURS, "bdmc, simulating") and (name, method) in scores
            and scores[name, method].known
        }  # fmt: skip
        if own and own.known and peers:
            best = min(peers, key=peers.get)
            ratio = own.cost / peers[best]
            rows.append([name, best, f"{ratio:.2g}"])
            if ratio > 1:
                behind.append(name)
    return table(["model", "best peer", "our cost / its cost"], rows), behind


def report(scores: dict, names: list[str]) -> None:
    stands, behind = standing(scores, names)
    reasons = [
        f"- {name}, {method}: {score.n or 'no'} seeds; {reason}"
        for (name, method), score in scores.items() if name in names for reason in score.reasons
    ]  # fmt: skip
    counts = sorted({score.n for score in scores.values() if score.known})
    publish(
        "What was measured",
        f"Made by `python benchmarks/peers.py --docs`. Seeds a cell: {', '.join(map(str, counts))}.\n"
        "CPU seconds of the whole process, one thread, without compilation. RMSE² has a spread of\n"
        "its own: of two equal methods with six seeds each, the ratio of their RMSE² is beyond 4\n"
        "or below 1/4 in one case of nine.",
        "RMSE² × CPU seconds, in nats² s: what an error of 1 nat would cost.",
        matrix(scores, names, lambda s: f"{s.cost:.2g}"),
        f"Behind the best peer on {len(behind)} of {len(names)} models.",
        stands,
        "Root mean square error, and the median of the stated errors, in nats.",
        matrix(scores, names, lambda s: f"{s.rmse:.2g}, {s.stated:.2g}"),
        "Mean of z², the squared error in stated errors: 1 if they are right.",
        matrix(scores, names, lambda s: f"{s.z2:.2g}"),
        "CPU seconds a run.",
        matrix(scores, names, lambda s: f"{s.seconds:.2g}"),
        "Not, or not fully, measured:" if reasons else "",
        "\n".join(reasons),
        page=PAGE,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="those whose names contain one of these")
    parser.add_argument("--methods", nargs="*", help="likewise")
    parser.add_argument("--seeds", type=int, default=6)
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
        print("Without the environment variable BDMC_DATA:", *(set(names) & set(anchors.ANCHORS)))
        names = [name for name in names if name not in anchors.ANCHORS]
    for name, method in product(names, chosen(METHODS, arguments.methods)):
        rows = read(arguments.results)[name, method]
        done = {row["seed"] for row in rows if "seed" in row}
        seeds = [seed for seed in range(1, arguments.seeds + 1) if seed not in done]
        if any("reason" in row for row in rows) or not seeds:
            continue

        measure(name, method, seeds, arguments.limit, partial(keep, arguments.results))
    found = read(arguments.results)
    scores = {key: Score(key[0], rows) for key, rows in found.items() if key[0] in names}
    report(scores, names)


def chosen(names, parts: list[str] | None) -> list[str]:
    return [name for name in names if not parts or any(part in name for part in parts)]


if __name__ == "__main__":
    main()
