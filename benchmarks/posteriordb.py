"""Reference draws of posteriordb, sound and perturbed, judged by `agreement`; and log ML.

Run as ``python benchmarks/posteriordb.py [names …] [--repeats 20] [--seeds 12] [--docs]``, with the
data of posteriordb in ../shared/data. What has been measured is kept in output/posteriordb, a file
a posterior, so the command can be given in parts; with ``--seeds`` default calls with so many seeds
are added to it, and ``--docs`` puts all there is on the page.

A perturbation changes 1000 of the 4000 reference draws, and of these one element, each time
another; draws of the prior and copies change all. What is caught is called bad.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import posteriordb_models as models
import pymc as pm
import xarray as xr
from common import all_rows, made_by, publish, table

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[1]
PAGE, KEPT = ROOT / "docs" / "posteriordb.md", ROOT / "output" / "posteriordb"
SECTIONS = {
    "Log ML and the reference draws": (
        "How default calls judge all 4000 reference draws, and log ML. Where a call does not find "
        "them *good*, a row with 64 runs follows. *Known*: by quadrature, or by importance "
        "sampling for the mixture, `hmm_drive_0` and `lotka_volterra`; these are right to 0.003."
    ),
    "With a path fitted to draws": (
        "`path=bdmc.FittedPath(idata)` with the reference draws, and bridge sampling: the same "
        "with `temperatures=1, chains=64`. The file has gradients, relative to those of the "
        "default call and (*of all*) of the call with simulated data."
    ),
    "What is caught": (
        "1000 of the draws are taken 20 times for each of 15 posteriors, and one element of them "
        "is changed, each time another; draws of the prior, copies and draws of another data set "
        "change all. A change is caught if the draws are called *bad*. The repeats of a posterior "
        "share its run. The rows log p(θ, y) are left out."
    ),
}
"""What is said above each table."""
CALL = dict(simulate=None, random_seed=1, cores=1, progressbar=False)
DRAWS = 1000
ALSO_SIMULATED = {
    "arK-arK", "eight_schools-eight_schools_centered", "eight_schools-eight_schools_noncentered",
    "gp_pois_regr-gp_regr", "sblrc-blr", "sblri-blr",
}  # fmt: skip
"""Posteriors for which the whole default call, with simulated data, is cheap."""

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def scaled(factor: float) -> Change:
    return lambda x, _: x.mean() + factor * (x - x.mean())


def shifted(by: float) -> Change:
    return lambda x, _: x + by * x.std()


CHANGES: dict[str, Change] = {
    **{f"deviation × {factor}": scaled(factor) for factor in (0.5, 0.8, 0.9, 1.1, 1.2, 2.0)},
    **{f"mean + {by} deviations": shifted(by) for by in (0.1, 0.25, 1.0)},
    "upper half alone": lambda x, rng: rng.choice(x[x > np.median(x)], x.size),
}
OTHER_DATA = {"sblri-blr": "sblrc-blr", "sblrc-blr": "sblri-blr"}
COLUMNS = ["sound", *CHANGES, "draws of the prior", "100 draws repeated", "other data"]


def perturbed(draws: xr.Dataset, change: Change, place: int, rng: np.random.Generator):
    """One element of all variables is changed, numbered on and on."""
    owners = [(name, i) for name, v in draws.items() for i in range(v[0, 0].size)]
    name, i = owners[place % len(owners)]
    values = draws[name].values.reshape(*draws[name].shape[:2], -1).copy()
    values[..., i] = change(values[..., i].ravel(), rng).reshape(values.shape[:2])
    return draws.assign({name: draws[name].copy(data=values.reshape(draws[name].shape))})


def some(draws: xr.Dataset, n: int, rng: np.random.Generator) -> xr.Dataset:
    """Of all chains together, as one chain."""
    chosen = rng.permutation(draws.sizes["chain"] * draws.sizes["draw"])[:n]
    flat = draws.stack(sample=("chain", "draw"), create_index=False).isel(sample=chosen)
    return flat.rename(sample="draw").expand_dims("chain").transpose("chain", "draw", ...)


def judged(model: pm.Model, reference: xr.Dataset, **options) -> tuple[xr.DataTree, dict]:
    """A run on the real data, and what it says of all reference draws."""
    started = time.process_time()
    dt = pm.sample_bdmc(model, **CALL | options)
    seconds = time.process_time() - started
    common = [each for each in dt["particles"].data_vars if each in reference]
    whole = bdmc.agreement(dt, reference[common], model=model, var_names=common)
    value, error = log_ml(dt)
    own = float(whole.table["own_ess"].median())
    return dt, {
        "status": whole.status, "own": own, "chains": dt["real"].sizes["chain"], "log_ml": value,
        "error": error, "seconds": seconds, "gradients": gradients(dt), "path": dt.attrs["path"],
    }  # fmt: skip


def log_ml(dt: xr.DataTree) -> tuple[float, float]:
    """The recommended estimate and its error, NaN if none can be trusted."""
    value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
    return float(value), float(error)


def gradients(dt: xr.DataTree) -> int:
    """Evaluations of all stages: fits, pilots, scouts and runs."""
    stages = [n for name, n in dt.attrs.items() if name.startswith("gradients_")]
    return int(sum(stages) + dt["rounds"]["gradient_evaluations"].sum())


def from_draws(model: pm.Model, reference: xr.Dataset) -> dict:
    """Log ML with a path fitted to the draws, and by bridge sampling: the same with T = 1."""
    path = bdmc.FittedPath(xr.DataTree.from_dict({"posterior": reference}))
    found: dict[str, dict] = {}
    calls = {"fitted": {}, "bridge": {"temperatures": 1, "chains": 64}}
    for name, options in calls.items():
        started = time.process_time()
        dt = pm.sample_bdmc(model, path=path, **CALL, **options)
        value, error = log_ml(dt)
        found[name] = {
            "log_ml": value, "error": error, "gradients": gradients(dt),
            "seconds": time.process_time() - started,
        }  # fmt: skip
    return found


def measure(name: str, repeats: int) -> dict:
    """Log ML by several calls, and how often perturbed draws were caught."""
    model = models.make(name)
    reference = models.reference_draws(name)
    dt, default = judged(model, reference)
    found: dict = {"runs": [default]}
    if default["status"] != "good":
        found["runs"].append(judged(model, reference, chains=64)[1])
    if {rv.name for rv in model.free_RVs} <= set(reference.data_vars):
        found |= from_draws(model, reference)
    if name in ALSO_SIMULATED:
        whole = pm.sample_bdmc(model, **CALL | {"simulate": "hyperparameters"})
        found["all_gradients"] = gradients(whole)
    return found | {"statuses": statuses(name, model, dt, reference, repeats)}


def over_seeds(name: str, seeds: int) -> list[dict]:
    """What default calls with several seeds say of all reference draws."""
    model, reference = models.make(name), models.reference_draws(name)
    return [judged(model, reference, random_seed=seed)[1] for seed in range(1, seeds + 1)]


def statuses(name: str, model: pm.Model, dt: xr.DataTree, reference: xr.Dataset, repeats: int):
    """By perturbation, of parts of the draws."""
    rng = np.random.default_rng(1)
    common = [each for each in dt["particles"].data_vars if each in reference]
    reference = reference[common]
    prior = pm.sample_prior_predictive(
        repeats * DRAWS, model=model, var_names=common, random_seed=1
    )["prior"].dataset

    def status(draws: xr.Dataset) -> str:
        return bdmc.agreement(dt, draws, var_names=common).status

    found: dict[str, list[str]] = {column: [] for column in COLUMNS}
    for i in range(repeats):
        draws = some(reference, DRAWS, rng)
        found["sound"].append(status(draws))
        for change, function in CHANGES.items():
            found[change].append(status(perturbed(draws, function, i, rng)))
        part = prior[common].isel(draw=slice(i * DRAWS, (i + 1) * DRAWS))
        found["draws of the prior"].append(status(part.drop_vars(part.coords)))
        few = some(reference, 100, rng).isel(draw=np.tile(np.arange(100), 10))
        found["100 draws repeated"].append(status(few))
        if name in OTHER_DATA:
            other = models.reference_draws(OTHER_DATA[name])[common]
            found["other data"].append(status(some(other, DRAWS, rng)))
    return found


def shown(found: dict) -> str:
    error = f"± {found['error']:.3f}" if np.isfinite(found["error"]) else "error unknown"
    return f"{found['log_ml']:.3f} {error}"


def seeds_row(name: str, calls: list[dict]) -> list[str]:
    """Return a row of the table of other seeds."""
    told = [call["status"] for call in calls]
    from_prior = sum(call["path"] == "prior" for call in calls)
    z = [(call["log_ml"] - models.LOG_ML.get(name, np.nan)) / call["error"] for call in calls]
    square = f"{np.nanmean(np.square(z)):.2f}" if name in models.LOG_ML else ""
    counts = (len(calls), from_prior, *(told.count(each) for each in ("good", "open", "bad")))
    return [name, *map(str, counts), square]


def page() -> list[list[str]]:
    """All that is kept, as tables and links to all rows; that of other seeds is printed."""
    kept = {path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))}
    runs, drawn = [], []
    for name, each in kept.items():
        known = f"{models.LOG_ML[name]:.3f}" if name in models.LOG_ML else ""
        for run in each["runs"]:
            cells = run["status"], f"{run['own']:.0f}", shown(run), known, f"{run['seconds']:.0f}"
            runs.append([name, run["path"], run["chains"], *cells])
        if fitted := each.get("fitted"):
            shares = [
                f"{fitted['gradients'] / n:.0%}" if n else ""
                for n in (each["runs"][0]["gradients"], each.get("all_gradients"))
            ]
            drawn.append([name, shown(fitted), shown(each["bridge"]), known, *shares])
    counts = []
    for column in COLUMNS:
        told = [status for each in kept.values() for status in each["statuses"][column]]
        shares = [str(told.count(status)) for status in ("good", "open", "bad")]
        counts.append([column, *shares, str(len(told))])
    seeds = [seeds_row(name, each["seeds"]) for name, each in kept.items() if "seeds" in each]
    print(table(OTHERS, seeds))
    return parts(runs, drawn, counts)


RUNS = ["posterior", "path", "runs", "4000 draws", "run's own worth", "log ML", "known", "s"]
FIT = ["posterior", "fitted to draws", "bridge sampling", "known", "gradients", "of all"]
OTHERS = ["posterior", "calls", "from the prior", "good", "open", "bad", "z²"]
COUNTS = ["1000 draws, of which", "good", "open", "bad", "of"]


def near(drawn: list[list[str]]) -> str:
    """How near both estimates are to the known values."""
    told = []
    for name, column in (("from a path fitted to draws", 1), ("by bridge sampling", 2)):
        stated = [row for row in drawn if row[3] and "±" in row[column]]
        z = [(float(value) - float(row[3])) / float(error)
             for row in stated for value, error in [row[column].split(" ± ")]]  # fmt: skip
        told.append(f"{len(z)} {name} (largest |z| {np.max(np.abs(z)):.1f})")
    return f"Estimates with an error, where log ML is known: {'; '.join(told)}."


def parts(runs: list, drawn: list, counts: list) -> list[list[str]]:
    """What each section shows, in the order of ``SECTIONS``."""
    short = ["posterior", "runs", "4000 draws", "log ML", "known"]
    return [
        [table(RUNS, runs, only=short), all_rows("posteriordb", RUNS, runs)],
        [f"{near(drawn)} {all_rows('posteriordb_fitted', FIT, drawn)}"],
        [table(COUNTS, counts)],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(models.WRITTEN))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    if not models.FOLDER.exists():
        sys.exit(f"The data of posteriordb are not at {models.FOLDER}.")
    if options.docs:
        newest = max(KEPT.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for (title, text), part in zip(SECTIONS.items(), page(), strict=True):
            publish(title, text, *part, page=PAGE, made=made_by(kept=newest))
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        file = KEPT / f"{name}.json"
        if options.seeds:
            found = json.loads(file.read_text()) | {"seeds": over_seeds(name, options.seeds)}
            file.write_text(json.dumps(found))
            continue
        found = measure(name, options.repeats)
        file.write_text(json.dumps(found))
        caught = {column: each.count("bad") for column, each in found["statuses"].items()}
        print(name, found["runs"], found.get("fitted"), caught, flush=True)


if __name__ == "__main__":
    main()
