"""Hard targets whose evidence others have published: log ML, both sides, bounds and CPU seconds.

Run as ``OMP_NUM_THREADS=1 python benchmarks/hard.py [--models …] [--calls …] [--seeds 1]``, with
the data in ../shared/data; then with ``--docs``, which puts a row a target on the page and all
calls in docs/tables. Every call has a process of its own and at most ``--limit`` CPU seconds, with
compilation; what it said is kept in output/hard.jsonl, a line a call, and the command goes on where
it was stopped. Delete lines there to measure them again. dynesty and nautilus come with the extra
``peers``; without them their calls are skipped.
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
import xarray as xr
from common import DOCS, all_rows, made_by, publish, span, table
from evidence_methods import dynesty, nautilus

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = DOCS / "hard.md", ROOT / "output" / "hard.jsonl"
PEERS = {"dynesty": dynesty, "nautilus": nautilus}
LIKE_DATA = dict(simulate=bdmc.FromHyperparameters("weights"), target_error=0.01)
"""Data simulated at weights drawn from the posterior: the prior alone makes separable data."""
SMC = dict(path="prior", particles=512, temperatures=60, chains=4, simulate=None)

SHIFT = {
    "German credit, flat prior": 25 * np.log(models.FLAT * np.sqrt(2 * np.pi)),
    "pines": models.PINES_CONSTANT,
}
"""Added to log ML, for the constants that the published targets leave out."""
NELSON = {
    0: (-488.11, -453.87, -390.63, -372.16, -384.60, -414.14),
    1: (-446.69, -386.75, -376.82, -370.33, -380.55, -393.22),
    2: (-400.89, -384.57, -368.81, -373.18, -380.46, -392.97),
    3: (-403.46, -386.85, -371.62, -377.14, -386.50, -396.87),
}
"""Importance sampling, files evidences_000?a.txt of Nelson/MCMC_IS_1.5, in nats."""
PUC = {
    0: (-488.10, -453.86, -390.62, -372.15, -384.59, -414.13),
    1: (-445.96, -386.08, -376.14, -369.64, -379.04, -392.54),
    2: (-399.61, -382.27, -366.96, -371.26, -380.48, -388.43),
    3: (-401.21, -384.00, -368.73, -373.15, -382.03, -390.27),
}
"""The same of TeamPUC/vb-importance-sampling-long."""
PUBLISHED = {
    "seeds": "−73.45 ± 0.01",
    "German credit": "−585.1",
    "German credit, flat prior": "−504.46 ± 0.09",
    "sonar": "−108 to −111",
    "pines": "486.77 ± 0.70",
    "TOI-141, 1 planet": "−805.302 ± 0.027",
    "TOI-141, 2 planets": "−690.892 ± 0.023",
    "TOI-141, 3 planets": "−694.022 ± 0.024",
    **{
        f"EPRV3 set {i + 1}, {n} planet{'s' * (n != 1)}": f"{NELSON[n][i]}; {PUC[n][i]}"
        for n in range(4)
        for i in range(6)
    },
}
Call = tuple[models.Form | None, dict]
"""The form of the model, or None where there is one only, and options."""
REGRESSION: dict[str, Call] = {
    "default": (None, {}),
    "like the data": (None, LIKE_DATA),
    "from NUTS draws": (None, dict(simulate=None, chains=64)),
}
FROM_DRAWS = dict(simulate=None, temperatures=30, chains=16)
THIRD = dict(simulate=None, temperatures=60, chains=16, particles=64)
PLANETS: dict[str, Call] = {
    "default": ("published", {}),
    "512 particles": ("smooth", SMC),
    "from NUTS draws": ("smooth", FROM_DRAWS),
    "dynesty": ("smooth", {}),
    "nautilus": ("smooth", {}),
}
CIRCULAR = {name: (None, options) for name, (_, options) in PLANETS.items() if "NUTS" not in name}
PEAKS_OF_SET_5 = ((1.25, 14.0), (14.0, 29.9), (29.9, 32.3), (32.3, 1e4))
"""Windows of one period that are all periods together; the periodogram has a peak in each."""
WINDOWS: dict[int, models.Windows] = {
    1: ((30, 60), (8, 18)),
    2: ((13, 19), (50, 400)),
    3: ((60, 200), (30, 50)),
    6: ((60, 200), (30, 50)),
}
"""Windows of two planets, by the set, around the two peaks of the periodogram."""


def eprv3_calls(dataset: int, planets: int) -> dict[str, Call]:
    """The calls of a set and a number of planets."""
    if not planets:
        return {"default": PLANETS["default"]}
    if planets == 1:
        windows = PEAKS_OF_SET_5 if dataset == 5 else ()
        names = [f"from NUTS draws, {low:g} to {high:g} days" for low, high in windows]
        return PLANETS | {
            name: ((each,), FROM_DRAWS) for name, each in zip(names, windows, strict=True)
        }
    found = {}
    if dataset in WINDOWS and planets == 2:
        found = {"from NUTS draws": (WINDOWS[dataset], FROM_DRAWS)}
    elif dataset in WINDOWS:
        found = {"third planet from the prior": ((*WINDOWS[dataset], models.PERIODS), THIRD)}
    return {name: PLANETS[name] for name in ("default", *PEERS)} | found


def set_and_planets(name: str) -> tuple[int, int]:
    """Numbers in the name of a target of EPRV3."""
    _, _, dataset, planets, _ = name.replace(",", "").split()
    return int(dataset), int(planets)


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
        both_ways = dict(path="prior", simulate=None, chains=6, particles=8, temperatures=200)
        return {
            "default": ("published", {}),
            "whitened": ("whitened", {}),
            "whitened, reverse from NUTS draws": ("whitened", both_ways),
        }
    if name.startswith("TOI"):
        return CIRCULAR
    if "EPRV3" not in name:
        return REGRESSION
    return eprv3_calls(*set_and_planets(name))


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


def nuts(model: pm.Model, seed: int, **options) -> xr.DataTree:
    """Posterior draws."""
    options = dict(random_seed=seed, cores=1, progressbar=False) | options
    return pm.sample(model=model, compute_convergence_checks=False, **options)


def from_peaks(model: pm.Model, dataset: int, windows: models.Windows, seed: int) -> xr.DataTree:
    """Posterior draws of planets, by chains that start at peaks of the periodogram."""
    start = models.periodogram_start(dataset, windows)
    options = dict(draws=400, tune=400, chains=2, init="adapt_diag", initvals=start)
    return nuts(model, seed, **options)


def two_and_the_prior(dataset: int, windows: models.Windows, seed: int) -> bdmc.ReferencePath:
    """A path from two planets as NUTS finds them, and a third about as in the prior."""
    model = models.eprv3(dataset, 2, windows[:2])
    draws = from_peaks(model, dataset, windows[:2], seed)["posterior"]
    location, scale = {}, {}
    for rv in model.free_RVs:
        values, transform = draws[rv.name].values, model.rvs_to_transforms[rv]
        if transform is not None:
            values = transform.forward(values, *rv.owner.inputs).eval()
        location[rv.name], scale[rv.name] = values.mean(axis=(0, 1)), values.std(axis=(0, 1))
        if rv.ndim:
            last, wide = np.zeros((*rv.shape.eval()[:-1], 1)), 1.8 if transform else 1.0
            location[rv.name] = np.concatenate([location[rv.name], last], axis=-1)
            scale[rv.name] = np.concatenate([scale[rv.name], last + wide], axis=-1)
    return bdmc.ReferencePath(location, scale)


def from_draws(model: pm.Model, name: str, call: str, form: models.Form, seed: int) -> dict:
    """The options of a call that come from draws: its path, or where reverse runs start."""
    if "NUTS" not in call and "third" not in call:
        return {}
    if name == "pines":
        return {"posterior": nuts(model, seed, draws=200, tune=300, chains=2)}
    if "EPRV3" not in name:
        return {"path": bdmc.FittedPath(nuts(model, seed))}
    dataset, planets = set_and_planets(name)
    windows = models.windows_of(planets, form)
    if planets == 3:
        return {"path": two_and_the_prior(dataset, windows, seed)}
    return {"path": bdmc.FittedPath(from_peaks(model, dataset, windows, seed))}


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
            found = ours(model, seed, options | from_draws(model, name, call, form, seed))
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
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def number(value: float | None, shift: float = 0.0, digits: int = 2) -> str:
    return "" if value is None or not np.isfinite(value) else f"{value + shift:.{digits}f}"


def line(row: dict) -> list[str]:
    """A row of the table."""
    form, _ = calls(row["model"])[row["call"]]
    shift, value = SHIFT.get(row["model"], 0.0), ""
    if isinstance(form, tuple):
        shift += models.from_windows(form)
    if row.get("value") is not None:
        error = row["error"] or np.nan
        value = f"{number(row['value'], shift)} "
        value += f"± {error:.2g}" if np.isfinite(error) else "error unknown"
    sides = [number(row.get(side), shift) for side in ("forward", "reverse")]
    if row.get("of") == "real":
        sides = [f"{each} (real data)" if each else "" for each in sides]
    return [
        row["model"], row["call"], value, PUBLISHED.get(row["model"], ""),
        number(row.get("certified"), shift), *sides, row.get("status", ""),
        str(row.get("temperatures", "")), f"{row['seconds']:.0f}" if "seconds" in row else "",
    ]  # fmt: skip


HEAD = [
    "target", "call", "log ML", "published", "certified at least", "forward", "reverse",
    "verdict", "T", "CPU s", "why none",
]  # fmt: skip


def chosen(lines: list[list[str]]) -> list[list[str]]:
    """A line a target: the default call, or else the call with the smallest error."""
    best: dict[str, tuple] = {}
    for each in lines:
        target, call, value = each[:3]
        is_part = "days" in call  # a window of periods, not the target
        error = float(value.split(" ± ")[1]) if " ± " in value else np.inf
        rank = (is_part, not value, not np.isfinite(error), call != "default", error)
        if target not in best or rank < best[target][0]:
            best[target] = (rank, each)
    return [line for _, line in best.values()]


def of_planets(lines: list[list[str]]) -> list[list]:
    """A row a number of planets: log ML less the published ones, over the sets of EPRV3."""
    groups: dict[str, list] = {}
    for target, _, value, published, *_ in lines:
        name, planets = target.split(", ")
        nelson, puc = map(float, published.split("; "))
        ours, error = map(float, value.split(" ± "))
        found = (int(name[-1]), ours - nelson, ours - puc, error)
        groups.setdefault(planets, []).append(found)
    rows = []
    for planets, found in groups.items():
        sets, *differences, errors = zip(*found, strict=True)
        spans = [span(f"{each:.2f}" for each in apart) for apart in differences]
        rows.append([planets, ", ".join(map(str, sets)), *spans, f"{max(errors):.2g}"])
    return rows


def summary(lines: list[list[str]], link: str) -> list[str]:
    """What the section shows below its first paragraph."""
    shown = ["target", "call", "log ML", "published", "certified at least", "verdict"]
    best = chosen(lines)
    others = [line for line in best if not line[0].startswith("EPRV3")]
    planets = of_planets([line for line in best if line not in others and " ± " in line[2]])
    head = ["EPRV3", "sets", "ours less Nelson's", "ours less team PUC's", "largest error"]
    return [table(HEAD, others, only=shown), table(head, planets), link]


TEXT = (
    "One call for each target: the default call if it states an error, or else the one with the "
    "smallest error. For EPRV3 log ML is compared with the importance sampling of Nelson and of "
    "the team PUC. *Certified at least* holds for the real data, with 95 % confidence. "
    "The file has all calls, those without a result as well."
)


def report() -> None:
    """Put the table on the page."""
    order = {name: i for i, name in enumerate(models.TARGETS)}
    rows = sorted(read(), key=lambda row: order[row["model"]])
    lines = [[*line(row), row.get("refused", "").split("\n")[0]] for row in rows]
    stamp = made_by("OMP_NUM_THREADS=1 python benchmarks/hard.py --docs", RESULTS)
    publish("Log ML", TEXT, *summary(lines, all_rows("hard", HEAD, lines)), page=PAGE, made=stamp)


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
