"""Reference draws of posteriordb, sound and perturbed, judged by `agreement`; and log ML.

Run as ``python benchmarks/posteriordb.py [names …] [--repeats 20] [--docs]``, with the data of
posteriordb in ../shared/data. What has been measured is kept in output/posteriordb, a file a
posterior, so the command can be given in parts; ``--docs`` puts all there is on the page.

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
from common import publish, table

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[1]
PAGE, KEPT = ROOT / "docs" / "posteriordb.md", ROOT / "output" / "posteriordb"
CALL = dict(simulate=None, chains=32, progressbar=False)
DRAWS = 1000

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


def measure(name: str, repeats: int) -> dict:
    """Statuses by perturbation, log ML, and the cost."""
    model, rng = models.make(name), np.random.default_rng(1)
    started = time.perf_counter()
    dt = pm.sample_bdmc(model, random_seed=1, **CALL)
    seconds = time.perf_counter() - started
    reference = models.reference_draws(name)
    common = [each for each in dt["particles"].data_vars if each in reference]
    reference = reference[common]
    prior = pm.sample_prior_predictive(repeats * DRAWS, model=model, random_seed=1)["prior"].dataset

    def status(draws: xr.Dataset) -> str:
        return bdmc.agreement(dt, draws, var_names=common).status

    whole = bdmc.agreement(dt, reference, model=model, var_names=common)
    statuses: dict[str, list[str]] = {column: [] for column in COLUMNS}
    for i in range(repeats):
        draws = some(reference, DRAWS, rng)
        statuses["sound"].append(status(draws))
        for change, function in CHANGES.items():
            statuses[change].append(status(perturbed(draws, function, i, rng)))
        part = prior[common].isel(draw=slice(i * DRAWS, (i + 1) * DRAWS))
        statuses["draws of the prior"].append(status(part.drop_vars(part.coords)))
        few = some(reference, 100, rng).isel(draw=np.tile(np.arange(100), 10))
        statuses["100 draws repeated"].append(status(few))
        if name in OTHER_DATA:
            other = models.reference_draws(OTHER_DATA[name])[common]
            statuses["other data"].append(status(some(other, DRAWS, rng)))
    value, error = bdmc.summary(dt).loc[("real", "evidence"), ["value", "error"]]
    return {
        "status": whole.status, "own": float(whole.table["own_ess"].median()),
        "log_ml": float(value), "error": float(error), "seconds": seconds, "statuses": statuses,
    }  # fmt: skip


def page() -> str:
    """All that is kept, as tables."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))}
    rows = [
        [
            name, each["status"], f"{each['own']:.0f}",
            f"{each['log_ml']:.3f} ± {each['error']:.3f}", models.LOG_ML.get(name, ""),
            f"{each['seconds']:.0f}",
        ]
        for name, each in found.items()
    ]  # fmt: skip
    head = ["posterior", "4000 reference draws", "run's draws worth", "log ML", "known", "s"]
    counts = []
    for column in COLUMNS:
        told = [status for each in found.values() for status in each["statuses"][column]]
        shares = [str(told.count(status)) for status in ("good", "open", "bad")]
        counts.append([column, *shares, str(len(told))])
    told = table(["1000 draws, of which", "good", "open", "bad", "of"], counts)
    return f"{table(head, rows)}\n\n{told}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(models.WRITTEN))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    if not models.FOLDER.exists():
        sys.exit(f"The data of posteriordb are not at {models.FOLDER}.")
    if options.docs:
        publish("What is caught", page(), page=PAGE)
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        found = measure(name, options.repeats)
        (KEPT / f"{name}.json").write_text(json.dumps(found))
        caught = {column: each.count("bad") for column, each in found["statuses"].items()}
        print(name, found["status"], found["log_ml"], caught, flush=True)


if __name__ == "__main__":
    main()
