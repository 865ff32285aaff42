"""How sensitive default calls are to the thresholds that choose a fit and a path.

Run as ``OMP_NUM_THREADS=1 python benchmarks/thresholds.py [--models …] [--seed 1] [--docs]``; about
half an hour. The models are those of benchmarks/honesty.py. On each, one default call notes for
every threshold whether a comparison would have another outcome if the threshold were half or twice
as large, or infinite. If so, the call is made again with that threshold. Results are kept in a
file, a line a model, so the command can be stopped and goes on. With ``--docs`` the table replaces
the one in docs/thresholds.md.
"""

import argparse
import json
import logging
import re
import sys
import warnings
from collections import Counter
from functools import partialmethod
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
from adversaries import ADVERSARIES, Adversary
from common import shown, table
from honesty import distance, sample

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "thresholds.md"
RESULTS = ROOT / "output" / "thresholds.jsonl"
FACTORS = {"halved": 0.5, "doubled": 2.0, "left out": np.inf}
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal)

THRESHOLDS = {
    ("fits.modes", "LOST"): "share of searches that may end at no mode",
    ("fits.modes", "SEEN_ONCE"): "share of searches that ended at modes of their own",
    ("fits.modes", "RARE"): "share of the posterior at modes that one search found",
    ("fits.nested", "RESOLVED"): "share of a precision that rounding may hide",
    ("fits.modes", "OVERLOOKED"): "chance that searches miss one more mode",
    ("fits.adapt", "UNEVEN"): "variance of weights from which a fit is improved",
    ("fits.fit", "EVEN"): "variance of weights up to which no nested fit is tried",
    ("fits.draws", "MOST_VARIANCE"): "variance of weights up to which draws are weighed",
    ("fits.fit", "RARE"): "nats by which a fit lacks density at a missed state",
    ("fits.fit", "MISSED"): "share of the posterior that a fit may miss",
    ("fits.fit", "MOST_SURPLUS"): "nats of density that searches may have passed",
    ("fits.draws", "EVEN_WEIGHTS"): "largest weight with which a burn-in is short",
    ("call.importance", "LARGEST_GAP"): "mean gap up to which draws are weighed",
    ("call.annealing", "SCOUTED"): "ratio of Λ² up to which there are scouts",
    ("call.annealing", "WORTHWHILE"): "ratio of Λ² up to which the fitted path is taken",
    ("call.annealing", "MAX_SURPLUS"): "nats of density at the ends of scouts that a fit lacks",
    ("call.annealing", "UNSTEADY"): "variance of log Ẑ of scouts up to which T is enough",
    ("call.annealing", "REMEDY"): "ratio of Λ² up to which the prior is a remedy for heavy tails",
    ("estimators.checks", "MOST_SHAPE"): "Pareto k of the weights of a fit that is annealed from",
    ("call.annealing", "QUICK_RHAT"): "R̂ at β = 1 up to which 16 runs suffice",
}
"""What the thresholds decide, by module and name."""


class Watched(float):
    """A threshold that notes by which factors on it a comparison would have another outcome."""

    __slots__ = ("turned",)

    def __new__(cls, value: float, turned: set[str]):
        """Note in a set what turns."""
        watched = super().__new__(cls, value)
        watched.turned = turned
        return watched

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        """Compute with plain numbers, and follow products and comparisons."""

        def found(factor):
            plain = [factor * float(x) if isinstance(x, Watched) else x for x in inputs]
            return getattr(ufunc, method)(*plain, **options)

        told = found(1.0)
        if ufunc is np.multiply and np.ndim(told) == 0:
            return Watched(told, self.turned)
        if ufunc in COMPARISONS:
            self.turned |= {way for way, factor in FACTORS.items() if np.any(found(factor) != told)}
        return told

    __mul__ = __rmul__ = partialmethod(np.multiply)
    __lt__, __le__ = partialmethod(np.less), partialmethod(np.less_equal)
    __gt__, __ge__ = partialmethod(np.greater), partialmethod(np.greater_equal)


def holders(module: str, name: str) -> list[ModuleType]:
    """Return the module that defines a threshold, and those that import it."""
    value = getattr(import_module(f"pymc_bdmc.{module}"), name)
    ours = [each for key, each in sys.modules.items() if key.startswith("pymc_bdmc")]
    return [each for each in ours if vars(each).get(name) is value]


def outcome(adversary: Adversary, seed: int, values: dict[tuple[str, str], float]) -> dict:
    """Return what one call with some thresholds says, and whether that is true."""
    patches = [
        mock.patch.object(module, key[1], value)
        for key, value in values.items()
        for module in holders(*key)
    ]
    for patch in patches:
        patch.start()
    try:
        call = sample(adversary, seed, {"cores": 1})
    finally:
        mock.patch.stopall()
    if "raised" in call:
        return {"status": "raised", "wrong": False, "beyond": False, "seconds": np.nan}
    z = (call.get("value", np.nan) - adversary.log_ml) / np.hypot(
        call.get("error", np.nan), adversary.error
    )
    is_wrong = call["status"] == "good" and distance(adversary, call) > call["claim"]
    return {
        "status": call["status"], "wrong": bool(is_wrong), "beyond": bool(abs(z) > 4),
        "seconds": call["seconds"],
    }  # fmt: skip


def measured(name: str, seed: int) -> dict:
    """Return the outcomes of one model: as it is, and for each threshold that decides something."""
    adversary = ADVERSARIES[name]()
    outcome(adversary, 0, {})  # compiles
    values = {key: float(getattr(holders(*key)[0], key[1])) for key in THRESHOLDS}
    turned: dict[tuple[str, str], set[str]] = {key: set() for key in THRESHOLDS}
    watched = {key: Watched(value, turned[key]) for key, value in values.items()}
    found = {"model": name, "seed": seed, "as it is": outcome(adversary, seed, watched)}
    for key, ways in turned.items():
        for way in sorted(ways):
            again = outcome(adversary, seed, {key: FACTORS[way] * values[key]})
            found[f"{'.'.join(key)} {way}"] = again
            shown((name, *key, way, found["as it is"]["status"], again["status"], again["wrong"]))
    return found


def cell(key: tuple[str, str], way: str, rows: list[dict]) -> str:
    """Return what a change of one threshold changes."""
    at = f"{'.'.join(key)} {way}"
    pairs = [(row["as it is"], row[at]) for row in rows if at in row]
    moves = Counter((a["status"], b["status"]) for a, b in pairs if a["status"] != b["status"])
    found = [f"{n} {a} → {b}" for (a, b), n in sorted(moves.items())]
    if worse := sum(b["wrong"] + b["beyond"] - a["wrong"] - a["beyond"] for a, b in pairs):
        found.append(f"{worse:+d} wrong")
    seconds = np.nansum([b["seconds"] - a["seconds"] for a, b in pairs])
    if abs(seconds) >= 5:
        found.append(f"{seconds:+.0f} s")
    calls = f"{len(pairs)} call{'s' * (len(pairs) > 1)}" if pairs else ""
    return ", ".join([calls, *found]).replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(ADVERSARIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    RESULTS.parent.mkdir(exist_ok=True)
    rows = [json.loads(line) for line in RESULTS.open()] if RESULTS.exists() else []
    done = {(row["model"], row["seed"]) for row in rows}
    for name in arguments.models:
        if (name, arguments.seed) not in done:
            rows.append(measured(name, arguments.seed))
            with RESULTS.open("a") as file:
                print(json.dumps(rows[-1]), file=file)
    lines = [
        [f"`{module}.{name}`", f"{getattr(holders(module, name)[0], name):g}", decides,
         *(cell((module, name), way, rows) for way in FACTORS)]
        for (module, name), decides in THRESHOLDS.items()
    ]  # fmt: skip
    head = ["threshold", "value", "what it limits", *FACTORS]
    print(text := table(head, lines))
    if arguments.docs:
        PAGE.write_text(
            re.sub(r"\| threshold .*?\n(?!\|)", text + "\n", PAGE.read_text(), flags=re.S)
        )


if __name__ == "__main__":
    main()
