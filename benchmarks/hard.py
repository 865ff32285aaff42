"""Hard targets whose evidence others have published: log ML, both sides, bounds and CPU seconds.

Run as ``OMP_NUM_THREADS=1 python benchmarks/hard.py [--models …] [--calls …] [--seeds 1]``, with
the data in ../shared/data; then with ``--docs``. Every call has a process of its own and at most
``--limit`` CPU seconds, with compilation; what it said is kept in output/hard.jsonl, a line a call, and the command goes on
where it was stopped. Delete lines there to measure them again. dynesty and nautilus come with the
extra ``peers``; without them their calls are skipped.
"""

import argparse
import importlib.util
import json
import logging
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import hard_models as models
import numpy as np
import pymc as pm
from common import publish, table
from evidence_methods import dynesty, nautilus

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "hard.md", ROOT / "output" / "hard.jsonl"
PEERS = {"dynesty": dynesty, "nautilus": nautilus}
LIKE_DATA = dict(simulate=bdmc.FromHyperparameters("weights"), target_error=0.01)
"""Data simulated at weights drawn from the posterior: the prior alone makes separable data."""
SMC = dict(path="prior", particles=512, temperatures=100, chains=8, simulate=None)

Call = tuple[str | None, dict]
"""The form of the model, or None where there is one only, and options."""
REGRESSION: dict[str, Call] = {
    "default": (None, {}),
    "like the data": (None, LIKE_DATA),
    "from NUTS draws": (None, dict(simulate=None, chains=64)),
}
PLANETS: dict[str, Call] = {
    "default": ("published", {}),
    "512 particles": ("smooth", SMC),
    "dynesty": ("smooth", {}),
    "nautilus": ("smooth", {}),
}
CIRCULAR = {name: (None, options) for name, (_, options) in PLANETS.items()}


def calls(name: str) -> dict[str, Call]:
    """The calls of a target, by what the table names them."""
    if name == "seeds":
        return {
            "default": ("published", {}),
            "default, log precision": ("log precision", {}),
            "log precision, 256 particles": (
                "log precision", dict(path="prior", particles=256, temperatures=200)
            ),
        }  # fmt: skip
    if name == "pines":
        whitened = dict(path="fitted", simulate=None, temperatures=30)
        return {
            "default": ("published", {}),
            "whitened": ("whitened", {}),
            "whitened, fitted": ("whitened", whitened),
        }
    if name.startswith("TOI"):
        return CIRCULAR
    if "EPRV3" not in name:
        return REGRESSION
    return CIRCULAR if "0 planets" in name else PLANETS


def ours(model: pm.Model, seed: int, options: dict) -> dict:
    """What a call says."""
    dt = pm.sample_bdmc(model, random_seed=seed, cores=1, progressbar=False, **options)
    verdict, summary = bdmc.verdict(dt), bdmc.summary(dt)
    said, errors = summary["value"].to_dict(), summary["error"].to_dict()
    of = "simulated" if ("simulated", "upper bound") in said else "real"
    both = {name: said.get((of, name)) for name in ("lower bound", "upper bound")}
    return {
        "value": said.get(("real", "evidence")), "error": errors.get(("real", "evidence")),
        "certified": said.get(("real", "certified lower")), "status": verdict.status,
        "forward": both["lower bound"], "reverse": both["upper bound"],
        "gap": said.get((of, "jeffreys bound")), "of": of,
        "path": dt.attrs["path"], "temperatures": dt["real"].sizes["beta"] - 1,
        "chains": dt["real"].sizes["chain"], "reason": dt.attrs.get("path_reason", ""),
        "verdict": str(verdict),
    }  # fmt: skip


def measure(name: str, call: str, seed: int, limit: int) -> dict:
    """Make the call in this process, which ends at so many CPU seconds."""
    form, options = calls(name)[call]
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    model = models.TARGETS[name](*([form] if form else []))
    started = time.process_time()
    try:
        if call in PEERS:
            value, error = PEERS[call](model)(seed)
            found = {"value": float(value), "error": float(error)}
        else:
            if call == "from NUTS draws":
                idata = pm.sample(model=model, random_seed=seed, cores=1, progressbar=False)
                options = options | {"path": bdmc.FittedPath(idata)}
            found = ours(model, seed, options)
    except (ValueError, FloatingPointError) as error:
        found = {"refused": str(error)}
    return found | {"seconds": time.process_time() - started}


def keep(name: str, call: str, seed: int, limit: int) -> None:
    """Have another process measure, and add a line to the results."""
    command = [sys.executable, __file__, "--one", name, call, str(seed), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        found = json.loads(done.stdout.splitlines()[-1])
    elif done.returncode in (-9, -24, 137, 152):  # killed, or CPU time exceeded
        found = {"refused": f"not finished in {limit / 60:g} CPU minutes"}
    else:
        sys.exit(f"{name}, {call}:\n{done.stderr}")
    row = {"model": name, "call": call, "seed": seed, **found}
    with RESULTS.open("a") as file:
        print(json.dumps(row), file=file)
    shown = {key: row[key] for key in row if key not in ("reason", "verdict")}
    print(shown, flush=True)


def read() -> list[dict]:
    """What has been measured."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=[""], help="those whose names contain one")
    parser.add_argument("--calls", nargs="*", help="these alone")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=900, help="CPU seconds of a call")
    parser.add_argument("--docs", action="store_true", help="put the tables on the page")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    if arguments.one:
        name, call, seed, limit = arguments.one
        print(json.dumps(measure(name, call, int(seed), int(limit))))
        return
    if arguments.docs:
        report()
        return
    if not models.FOLDER.exists():
        sys.exit(f"The data are not at {models.FOLDER}.")
    RESULTS.parent.mkdir(exist_ok=True)
    for name in models.TARGETS:
        if any(part in name for part in arguments.models):
            for call in calls(name):
                if arguments.calls and call not in arguments.calls:
                    continue
                if call in PEERS and importlib.util.find_spec(call) is None:
                    print(f"{call} is not installed: pip install pymc-bdmc[peers]")
                    continue
                done = {(row["model"], row["call"], row["seed"]) for row in read()}
                for seed in range(1, arguments.seeds + 1):
                    if (name, call, seed) not in done:
                        keep(name, call, seed, arguments.limit)


if __name__ == "__main__":
    main()
