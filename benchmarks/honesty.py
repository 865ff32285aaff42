"""What calls say of models made to break their claims, beside what is true of them.

Run as ``python benchmarks/honesty.py [--models …] [--first 1] [--seeds 20] [--simulate …]
[--docs]``. The calls have no option but the seed, and ``simulate`` if it is given, as ``none``,
``prior`` or ``posterior``. ``--references`` prints the known answers instead. What has been
measured is kept in a file, a line a call, so the command goes on where it was stopped, and can be
given in parts that run side by side; delete the file where the package or a model has changed.
``--docs`` puts all there is in docs/honesty.md, seeds above 20 in a section of their own, since no
rule was made on these. The models, and how their answers are known, are in
benchmarks/adversaries.py.
"""

import argparse
import json
import logging
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from adversaries import ADVERSARIES, FRESH, Adversary, Event, few_many_few, three_normals_by_gibbs
from common import publish, shown, table

import pymc_bdmc as bdmc

SEEDS = 20
ROOT = Path(__file__).parents[1]
SIGMAS = 3.0
"""Standard errors that are taken off before a distance from the truth counts."""

KINDS = {
    "none": ", the real data alone",
    "prior": ", data from the prior",
    "posterior": ", data that contain the real ones",
}
"""What the title of a table adds, by the way in which data are simulated."""

STATUSES = ("good", "open", "bad")


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


def report(kept: dict[str, dict[int, dict]], title: str, made: str = "") -> None:
    """Print a table and its totals, or put them on the page."""
    scores = {
        name: Score(make(), list(kept[name].values()))
        for name, make in ADVERSARIES.items()
        if kept.get(name)
    }
    calls, wrong = (sum(getattr(each, of) for each in scores.values()) for of in ("n", "wrong"))
    statuses = sum((each.statuses for each in scores.values()), Counter())
    claims, z = (
        np.concatenate([getattr(each, of) for each in scores.values()]) for of in ("claims", "z")
    )
    fresh = [scores[name] for name in FRESH if name in scores]
    squares = np.concatenate([each.z for each in fresh] or [[]]) ** 2
    unsaid = int(np.isnan(claims).sum())
    without = f" ({unsaid} of them without a claim)" if unsaid else ""
    publish(
        title,
        f"Made by `python benchmarks/honesty.py{made}`, then `--docs`.\n"
        f"{calls} calls on {len(scores)} models.",
        f"- Verdicts: {statuses['good']} good{without}, {statuses['open']} open, "
        f"{statuses['bad']} bad.\n"
        f"- Wrong “good”: {wrong}, {wrong / calls:.1%} of all calls (at most 5 % are allowed).\n"
        f"- Recommended log ML: {len(z)}; none in {calls - len(z)} calls.\n"
        f"- Mean z²: {number(np.mean, z**2)} (0.5 to 1.6 is allowed).\n"
        f"- |z| above 4: {np.sum(np.abs(z) > 4)} (none is allowed)."
        + (
            f"\n- Of these on the {len(fresh)} models from *{FRESH[0]}* to *{FRESH[-1]}*: "
        f"{sum(each.statuses['good'] for each in fresh)} good, "
        f"{sum(each.wrong for each in fresh)} of them wrong; recommended log ML {len(squares)}, "
        f"mean z² {number(np.mean, squares)}, {np.sum(squares > 16)} with |z| above 4."
            if fresh else ""
        ),
        table(
            ["model", "good / open / bad", "claim", "true at least", "wrong “good”",
             "stated error", "no log ML", "mean z", "mean z²", "z beyond 4", "CPU s"],
            [[name, *score.cells()] for name, score in scores.items()],
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
    if any(seen.values()):
        report(seen, f"What was measured{kind}", made)
    if any(unseen.values()):
        n = max(map(len, unseen.values()))
        report(unseen, f"Other seeds{kind}", f"{made} --first {SEEDS + 1} --seeds {n}")


if __name__ == "__main__":
    main()
