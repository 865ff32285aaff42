"""What the default call says of models made to break its claims, beside what is true of them.

Run as ``python benchmarks/honesty.py [--models …] [--seeds 20] [--docs]``; ``--references`` prints
the known answers instead. What has been measured is kept in a file, a line a call, so the command
goes on where it was stopped, and can be given in parts that run side by side; ``--docs`` puts all
there is in docs/honesty.md. The models, and how their answers are known, are in
benchmarks/adversaries.py.
"""

import argparse
import json
import logging
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from adversaries import ADVERSARIES, Adversary, Event, few_many_few, three_normals_by_gibbs
from common import publish, shown, table

import pymc_bdmc as bdmc

SEEDS = 20
ROOT = Path(__file__).parents[1]
SIGMAS = 3.0
"""Standard errors that are taken off before a distance from the truth counts."""
STATUSES = ("good", "open", "bad")


def sample(adversary: Adversary, seed: int) -> dict:
    """One default call: what it says and, for every event, its probability and standard error."""
    started = time.process_time()
    try:
        dt = pm.sample_bdmc(adversary.model, random_seed=seed, progressbar=False)
    except Exception as exception:
        return {"raised": f"{type(exception).__name__}: {str(exception).splitlines()[0]}"}
    seconds = time.process_time() - started
    verdict = bdmc.verdict(dt)
    row = {
        "status": verdict.status,
        "claim": float(verdict.table["upper"].get("total variation", np.nan)),
        "seconds": seconds,
        "events": {name: found(dt, event) for name, event in adversary.events.items()},
    }
    best = bdmc.evidence(dt).query("data == 'real' and recommended")
    return row | ({} if best.empty else {k: float(best[k].iloc[0]) for k in ("value", "error")})


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
    mean = float((weight * of_particles).sum())
    by_run = (weight * (of_particles - mean)).sum("particle").values
    between = len(by_run) / (len(by_run) - 1) * np.sum(by_run**2)
    binomial = event.probability * (1 - event.probability) / holds.size
    return float(holds.mean()), float(np.sqrt(between + binomial))


def measure(name: str, seeds: list[int], results: Path) -> None:
    """Add a line to the results for every seed."""
    adversary = ADVERSARIES[name]()
    sample(adversary, 0)  # fills the caches
    for seed in seeds:
        row = {"model": name, "seed": seed, **sample(adversary, seed)}
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


class Score:
    """What the seeds of one model come to."""

    def __init__(self, adversary: Adversary, calls: list[dict]):
        rows = [call for call in calls if "raised" not in call]
        self.n, self.raised = len(calls), len(calls) - len(rows)
        self.statuses = Counter(row["status"] for row in rows)
        self.seconds = np.median([row["seconds"] for row in rows]) if rows else np.nan
        good = [row for row in rows if row["status"] == "good"]
        self.claims = np.array([row["claim"] for row in good])
        self.wrong = sum(distance(adversary, row) > row["claim"] for row in good)
        shares = {name: [row["events"][name][0] for row in rows] for name in adversary.events}
        self.distance = max(
            (beyond(event, np.mean(shares[name]), spread(shares[name]))
             for name, event in adversary.events.items()),
            default=np.nan,
        ) if len(rows) > 1 else np.nan  # fmt: skip
        told = np.array([(row["value"], row["error"]) for row in rows if "value" in row])
        values, errors = told.reshape(-1, 2).T
        self.z = (values - adversary.log_ml) / np.hypot(errors, adversary.error)
        self.error = np.median(errors) if len(errors) else np.nan


def spread(shares: list[float]) -> float:
    """Standard error of the mean over seeds."""
    return float(np.std(shares, ddof=1) / np.sqrt(len(shares)))


def beyond(event: Event, share: float, error: float) -> float:
    """By how much at least a share differs from the truth: a lower bound of a total variation."""
    return max(abs(share - event.probability) - SIGMAS * np.hypot(error, event.error), 0.0)


def distance(adversary: Adversary, row: dict) -> float:
    """A lower bound of the total variation between the posterior of one call and the truth."""
    return max(beyond(event, *row["events"][name]) for name, event in adversary.events.items())


def number(value: float, form: str = ".2f") -> str:
    return "" if np.isnan(value) else format(value, form)


def mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else np.nan


def row(name: str, score: Score) -> list:
    return [
        name,
        " / ".join(str(score.statuses[each]) for each in STATUSES)
        + f", {score.raised} raised" * (score.raised > 0),
        number(np.median(score.claims)) if len(score.claims) else "",
        number(score.distance),
        score.wrong,
        number(score.error, ".3f"),
        score.n - len(score.z),
        number(mean(score.z)),
        number(mean(score.z**2)),
        np.sum(np.abs(score.z) > 4),
        number(score.seconds, ".1f"),
    ]


def report(kept: dict[str, dict[int, dict]]) -> None:
    """Print the table and the totals, or put them on the page."""
    scores = {
        name: Score(make(), list(kept[name].values()))
        for name, make in ADVERSARIES.items()
        if kept.get(name)
    }
    every = scores.values()
    calls, wrong = (sum(getattr(each, what) for each in every) for what in ("n", "wrong"))
    statuses = sum((each.statuses for each in every), Counter())
    unsaid = sum(np.isnan(each.claims).sum() for each in every)
    z = np.concatenate([each.z for each in every])
    publish(
        "What was measured",
        "Made by `python benchmarks/honesty.py --docs`: no option but the seed.\n"
        f"{calls} calls on {len(scores)} models.",
        f"- Verdicts: {statuses['good']} good, {statuses['open']} open, {statuses['bad']} bad.\n"
        f"- Wrong “good”: {wrong}, {wrong / calls:.1%} of all calls"
        + (f" and {wrong / statuses['good']:.1%} of the good ones" if statuses["good"] else "")
        + f"{f'; {unsaid} that are good claim nothing' if unsaid else ''}.\n"
        f"- Recommended log ML: {len(z)}, and none in {calls - len(z)} calls. Mean z²\n"
        f"  {number(mean(z**2))}; |z| above 4 in {np.sum(np.abs(z) > 4)}.",
        table(
            ["model", "good / open / bad", "claim", "true at least", "wrong “good”",
             "stated error", "no log ML", "mean z", "mean z²", "z beyond 4", "CPU s"],
            [row(name, score) for name, score in scores.items()],
        ),
        page=ROOT / "docs" / "honesty.md",
    )  # fmt: skip


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
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--results", type=Path, default=ROOT / "output" / "honesty.jsonl")
    parser.add_argument("--references", action="store_true", help="print the known answers")
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    if arguments.references:
        return references()
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    arguments.results.parent.mkdir(exist_ok=True)
    parts = arguments.models or [""]
    for name in ADVERSARIES:
        done = read(arguments.results)[name]
        seeds = [seed for seed in range(1, arguments.seeds + 1) if seed not in done]
        if seeds and any(part in name for part in parts):
            measure(name, seeds, arguments.results)
    report(read(arguments.results))


if __name__ == "__main__":
    main()
