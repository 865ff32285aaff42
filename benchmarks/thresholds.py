"""How sensitive default calls are to the thresholds that choose a fit and a path.

Run as ``OMP_NUM_THREADS=1 python benchmarks/thresholds.py [--models …] [--seed 1] [--docs]``; about
half an hour. The models are those of benchmarks/honesty.py. On each, one default call notes for
every threshold whether a comparison would have another outcome if the threshold were half or twice
as large, or infinite. If so, the call is made again with that threshold. Results are kept in a
file, a line a model, so the command can be stopped and goes on. With ``--docs`` the table replaces
that of docs/thresholds.md.
"""

import argparse
import inspect
import json
import logging
import re
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import partialmethod
from pathlib import Path
from unittest import mock

import numpy as np
from adversaries import ADVERSARIES, Adversary
from common import DOCS, made_by, publish, shown, table
from honesty import distance, sample

from pymc_bdmc.fits import limits

ROOT = Path(__file__).parents[1]
PAGE = DOCS / "thresholds.md"
RESULTS = ROOT / "output" / "thresholds.jsonl"
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/thresholds.py --docs"
FACTORS = {"halved": 0.5, "doubled": 2.0, "left out": np.inf}
COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal)

THRESHOLDS = {name: value for name, value in vars(limits).items() if name.isupper()}
LIMITED = dict(re.findall(r'^(\w+) = .*\n"""([^.:;,]+)', inspect.getsource(limits), re.MULTILINE))
"""What each of them limits: the beginning of its description."""


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


def outcome(adversary: Adversary, seed: int, values: dict[str, float]) -> dict:
    """Return what one call with some thresholds says, and whether that is true."""
    with mock.patch.multiple(limits, **values) if values else nullcontext():
        call = sample(adversary, seed, {"cores": 1})
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
    turned: dict[str, set[str]] = {key: set() for key in THRESHOLDS}
    watched = {key: Watched(value, turned[key]) for key, value in THRESHOLDS.items()}
    found = {"model": name, "seed": seed, "as it is": outcome(adversary, seed, watched)}
    for key, ways in turned.items():
        for way in sorted(ways):
            again = outcome(adversary, seed, {key: FACTORS[way] * THRESHOLDS[key]})
            found[f"{key} {way}"] = again
            shown((name, key, way, found["as it is"]["status"], again["status"], again["wrong"]))
    return found


def cell(key: str, way: str, rows: list[dict]) -> str:
    """Return what a change of one threshold changes."""
    at = f"{key} {way}"
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
        [f"`{name}`", f"{value:g}", " ".join(LIMITED[name].split()),
         *(cell(name, way, rows) for way in FACTORS)]
        for name, value in THRESHOLDS.items()
    ]  # fmt: skip
    publish(
        "What was measured", TEXT.format(calls=len(rows)),
        table(
            ["threshold", "value", "what it limits", *FACTORS],
            [line for line in lines if any(line[3:])],
        ),
        f"Nothing changes with {', '.join(line[0] for line in lines if not any(line[3:]))}.",
        page=PAGE, made=made_by(COMMAND, RESULTS),
    )  # fmt: skip


TEXT = (
    "What changes in {calls} default calls if a threshold is halved, doubled or left out: in how "
    "many calls a comparison with it has another outcome, which were made again; how their "
    "verdicts change; how many more of them are wrong; and by how much their CPU time changes, if "
    "by 5 s or more in all."
)


if __name__ == "__main__":
    main()
