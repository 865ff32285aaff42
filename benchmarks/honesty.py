"""What calls say of models made to break their claims, beside what is true of them.

Run as ``python benchmarks/honesty.py [--models …] [--first 1] [--seeds 20] [--simulate …]
[--docs]``. The calls have no option but the seed, and ``simulate`` if it is given, as ``none``,
``prior`` or ``posterior``. ``--references`` prints the known answers instead. What has been
measured is kept in a file, a line a call, so the command goes on where it was stopped, and can be
given in parts that run side by side; delete the file where the package or a model has changed.
``--docs`` puts all there is in docs/honesty.md, a row a group of models, and a row a model in
docs/tables. Seeds above 20 have a section of their own, since no rule was made on these. The
models, and how their answers are known, are in benchmarks/adversaries.py.
"""

import argparse
import json
import logging
import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from adversaries import ADVERSARIES, Adversary, Event, few_many_few, three_normals_by_gibbs
from common import DOCS, aggregated, all_rows, made_by, median, numbers, publish, shown, table

import pymc_bdmc as bdmc

SEEDS = 20
ROOT = Path(__file__).parents[1]
PAGE = DOCS / "honesty.md"
SIGMAS = 3.0
"""Standard errors that are taken off before a distance from the truth counts."""

KINDS = {
    "none": ", the real data alone",
    "prior": ", data from the prior",
    "posterior": ", data that contain the real ones",
}
"""What the title of a table adds, by the way in which data are simulated."""

STATUSES = ("good", "open", "bad")

HEAD = [
    "model", "good / open / bad", "claim", "true at least", "wrong “good”", "stated error",
    "no log ML", "mean z", "mean z²", "z beyond 4", "CPU s",
]  # fmt: skip

GROUPS = {
    "parts that few runs find": ("spike in slab", "shell", "narrow mode"),
    "several modes": (
        "three normals", "odd data", "two changes", "two modes", "torn location", "lost signs",
        "two tones", "waves", "one tone", "contaminated",
    ),
    "funnels and hierarchies": (
        "horseshoe", "funnel", "groups alike", "correlated slopes", "neck", "eight schools",
        "hinged", "vague",
    ),
    "thin curved ridges": ("product of two", "parabola", "thin ridge", "thinner ridge"),
    "random walks": ("stochastic volatility", "local linear trend"),
    "heavy tails and surprises": (
        "tight scale", "far tail", "separated", "heavy tails", "conflict", "effects with heavy",
    ),
    "data that the model does not make": ("misfit",),
    "others": (
        "capture-recapture", "inflated zeros", "observed CAR", "errors in variables", "two-way",
    ),
}  # fmt: skip
"""Prefixes of the names of models."""


def sample(adversary: Adversary, seed: int, options: dict) -> dict:
    """What one call says and, for every event, its probability and standard error."""
    started = time.process_time()
    try:
        dt = pm.sample_bdmc(adversary.model, random_seed=seed, progressbar=False, **options)
    except Exception as exception:
        return {"raised": f"{type(exception).__name__}: {str(exception).splitlines()[0]}"}
    seconds = time.process_time() - started
    verdict = bdmc.verdict(dt)
    call = {
        "status": verdict.status,
        "claim": float(verdict.table["upper"].get("total variation", np.nan)),
        "seconds": seconds,
        "events": {name: found(dt, event) for name, event in adversary.events.items()},
    }
    rows = bdmc.evidence(dt).query("data == 'real' and recommended")
    return call if rows.empty else call | rows.iloc[0][["value", "error"]].astype(float).to_dict()


def found(dt: xr.DataTree, event: Event) -> tuple[float, float]:
    """Share of the posterior draws of which the event holds, and its Monte Carlo error.

    The draws are the particles, drawn again by their weights. Runs are independent, so the error
    of a weighted share of particles comes from its differences between runs. Where the runs agree
    for want of draws, as all do that have missed a mode, as many independent draws have a share
    with a binomial error about the truth.
    """
    draws, particles = dt["posterior"].dataset, dt["particles"].dataset
    holds = event.holds(draws)
    weight = particles["bdmc_weight"]
    of_particles = event.holds(particles)
    share = (weight * of_particles).sum()
    by_run = (weight * (of_particles - share)).sum("particle").values
    between = len(by_run) / (len(by_run) - 1) * np.sum(by_run**2)
    binomial = event.probability * (1 - event.probability) / holds.size
    return float(holds.mean()), float(np.sqrt(between + binomial))


def measure(name: str, seeds: list[int], results: Path, options: dict) -> None:
    """Add a line to the results for every seed."""
    adversary = ADVERSARIES[name]()
    sample(adversary, 0, options)  # fills the caches
    for seed in seeds:
        row = {"model": name, "seed": seed, **sample(adversary, seed, options)}
        with results.open("a") as file:
            print(json.dumps(row), file=file)
        shown(row.values())


def read(results: Path) -> dict[str, dict[int, dict]]:
    """What has been measured, by model and seed."""
    kept: dict[str, dict[int, dict]] = defaultdict(dict)
    for line in results.read_text().splitlines() if results.exists() else ():
        row = json.loads(line)
        kept[row.pop("model")][row.pop("seed")] = row
    return kept


def beyond(event: Event, share: float, error: float) -> float:
    """By how much at least a share differs from the truth: a lower bound of a total variation."""
    return max(abs(share - event.probability) - SIGMAS * np.hypot(error, event.error), 0.0)


def distance(adversary: Adversary, call: dict) -> float:
    """A lower bound of the total variation between the posterior of one call and the truth."""
    return max(beyond(event, *call["events"][name]) for name, event in adversary.events.items())


def mean_distance(adversary: Adversary, calls: list[dict]) -> float:
    """The same for the law of a draw, from the mean shares over calls."""
    if len(calls) < 2:
        return np.nan
    found = []
    for name, event in adversary.events.items():
        shares = [call["events"][name][0] for call in calls]
        error = np.std(shares, ddof=1) / np.sqrt(len(shares))
        found.append(beyond(event, np.mean(shares), error))
    return max(found)


class Score:
    """What the calls on one model come to."""

    def __init__(self, adversary: Adversary, calls: list[dict]):
        answered = [call for call in calls if "raised" not in call]
        good = [call for call in answered if call["status"] == "good"]
        told = [call for call in answered if "value" in call]
        self.n, self.raised = len(calls), len(calls) - len(answered)
        self.statuses = Counter(call["status"] for call in answered)
        self.claims = np.array([call["claim"] for call in good])
        # A claim that is NaN is none, so it cannot be wrong.
        self.wrong = sum(distance(adversary, call) > call["claim"] for call in good)
        self.distance = mean_distance(adversary, answered)
        self.errors = np.array([call["error"] for call in told])
        misses = np.array([call["value"] for call in told]) - adversary.log_ml
        self.z = misses / np.hypot(self.errors, adversary.error)
        self.seconds = np.array([call["seconds"] for call in answered])

    def cells(self) -> list:
        """A row of the table, without the name."""
        statuses = " / ".join(str(self.statuses[each]) for each in STATUSES)
        return [
            statuses + f", {self.raised} raised" * (self.raised > 0),
            number(np.median, self.claims),
            "" if np.isnan(self.distance) else f"{self.distance:.2f}",
            self.wrong,
            number(np.median, self.errors, ".3f"),
            self.n - len(self.z),
            number(np.mean, self.z),
            number(np.mean, self.z**2),
            np.sum(np.abs(self.z) > 4),
            number(np.median, self.seconds, ".1f"),
        ]


def number(summary: Callable, values: np.ndarray, form: str = ".2f") -> str:
    """A mean or a median as text; nothing where there is none."""
    value = summary(values) if len(values) else np.nan
    return "" if np.isnan(value) else format(value, form)


def added(cells: list[str]) -> str:
    """The sum of the counts in each place of cells such as ``9 / 1 / 0``."""
    found = [re.findall(r"\d+", cell) for cell in cells]
    counts = [sum(map(int, place)) for place in zip(*(each[:3] for each in found), strict=True)]
    raised = sum(int(n) for each in found for n in each[3:])
    return " / ".join(map(str, counts)) + f", {raised} raised" * (raised > 0)


def squares(cells: dict[str, list[str]]) -> str:
    """Mean z² over all calls with a log ML."""
    calls = [sum(map(int, re.findall(r"\d+", cell))) for cell in cells["good / open / bad"]]
    told = np.array(calls) - np.array(cells["no log ML"], int)
    means = np.array([float(cell or 0) for cell in cells["mean z²"]])
    return f"{told @ means / told.sum():.2f}" if told.sum() else ""


COLUMNS = {
    "good / open / bad": lambda cells: added(cells["good / open / bad"]),
    "largest claim": lambda cells: format(max(numbers(cells["claim"]), default=np.nan), ".2f"),
    "wrong “good”": lambda cells: added(cells["wrong “good”"]),
    "stated error": lambda cells: median(cells["stated error"], ".3f"),
    "no log ML": lambda cells: added(cells["no log ML"]),
    "mean z²": squares,
    "z beyond 4": lambda cells: added(cells["z beyond 4"]),
    "CPU s": lambda cells: median(cells["CPU s"], ".1f"),
}


def by_group(rows: list[list]) -> str:
    """The table of the page, from a row a model: a row a group, and one of all."""
    rows = [
        *aggregated(HEAD, rows, GROUPS, COLUMNS),
        *aggregated(HEAD, rows, {"all": ("",)}, COLUMNS),
    ]
    return table(["group", "models", *COLUMNS], rows).replace("| nan |", "|  |")


def summary(rows: list[list], link: str) -> list[str]:
    """What a section shows beside its stamp: the table of the page, and where all rows are."""
    head = {name: place for place, name in enumerate(HEAD)}
    misled = [row[0] for row in rows if int(row[head["wrong “good”"]])]
    beyond = [f"{row[0]} ({n})" for row in rows if (n := int(row[head["z beyond 4"]]))]
    told = [f"A good verdict is wrong on {'; '.join(misled)}."] if misled else []
    told += [f"Numbers more than four errors off: {'; '.join(beyond)}."] if beyond else []
    return [by_group(rows), " ".join([*told, link])]


def report(kept: dict[str, dict[int, dict]], title: str, stamp: str, name: str) -> None:
    """Print a section, or put it on the page; ``name`` is that of its file in docs/tables."""
    rows = [
        [model, *Score(make(), list(kept[model].values())).cells()]
        for model, make in ADVERSARIES.items()
        if kept.get(model)
    ]
    calls = sum(len(each) for each in kept.values())
    parts = summary(rows, all_rows(name, HEAD, rows))
    publish(title, f"{calls} calls on {len(rows)} models.", *parts, page=PAGE, made=stamp)


def references() -> None:
    """Print what is known, and estimate again what is not exact."""
    for name, make in ADVERSARIES.items():
        known = make()
        print(f"{name}: log ML {known.log_ml:.6f} ± {known.error:.2g}")
        for event, (_, probability, error) in known.events.items():
            print(f"    P({event}) = {probability:.4f} ± {error:.2g}")
    print("three normals again:", *(f"{x:.4f}" for x in three_normals_by_gibbs(few_many_few())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", help="those whose names contain one of these")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--simulate", choices=KINDS, help="how data are simulated")
    parser.add_argument("--results", type=Path, help="file of the calls, in output/ by default")
    parser.add_argument("--references", action="store_true", help="print the known answers")
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    if arguments.references:
        return references()
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    options, kind, made, file = {}, "", "", "honesty.jsonl"
    if simulate := arguments.simulate:
        options = {"simulate": None if simulate == "none" else simulate}
        kind, made, file = KINDS[simulate], f" --simulate {simulate}", f"honesty_{simulate}.jsonl"
    results = arguments.results or ROOT / "output" / file
    results.parent.mkdir(exist_ok=True)
    parts = arguments.models or [""]
    for name in ADVERSARIES:
        done = read(results)[name]
        asked = range(arguments.first, arguments.first + arguments.seeds)
        seeds = [seed for seed in asked if seed not in done]
        if seeds and any(part in name for part in parts):
            measure(name, seeds, results, options)
    kept = read(results)
    seen, unseen = (
        {
            name: {seed: call for seed, call in calls.items() if (seed > SEEDS) == is_unseen}
            for name, calls in kept.items()
        }
        for is_unseen in (False, True)
    )
    if not any(kept.values()):
        raise SystemExit("No call is kept: does --models name part of a model's name?")
    for calls, other in ((seen, ""), (unseen, "other_seeds")):
        if n := max(map(len, calls.values()), default=0):
            command = f"python benchmarks/honesty.py{made} --seeds {n}"
            command += f" --first {SEEDS + 1} --docs" if other else " --docs"
            title = ("Other seeds" if other else "What was measured") + kind
            name = "_".join(filter(None, [Path(file).stem, other]))
            report(calls, title, made_by(command, results), name)


if __name__ == "__main__":
    main()
