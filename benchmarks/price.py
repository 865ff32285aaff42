"""What a default call costs: gradients, CPU seconds and errors, beside `pm.sample`.

Run as ``OMP_NUM_THREADS=1 python benchmarks/price.py [--models …] [--seeds 3] [--docs]``. Every
evaluation of the log density counts as a gradient, with its gradient or without. Each model is
called once before, so that compilation is not counted. What has been measured is kept in
output/price.jsonl, a line a call, and the command goes on where it was stopped; delete the file
where the package or a model has changed. ``--docs`` puts all there is in docs/price.md.
"""

import argparse
import json
import logging
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from common import DOCS, all_rows, made_by, publish, shown, table
from models import LOG_ML, MODELS

import pymc_bdmc as bdmc

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "output" / "price.jsonl"
SIDES = ("real", "forward", "reverse")


def logistic(n: int, d: int) -> pm.Model:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-x @ (0.3 * rng.normal(size=d))))
    with pm.Model() as model:
        weights = pm.Normal("weights", shape=d)
        pm.Bernoulli("y", logit_p=x @ weights, observed=y.astype(int))
    return model


def gaussian_process(n: int) -> pm.Model:
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(0, 10, n))
    with pm.Model() as model:
        length = pm.InverseGamma("length", 5, 5)
        height, noise = pm.HalfNormal("height", 2), pm.HalfNormal("noise", 1)
        process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.ExpQuad(1, length))
        y = np.sin(x) + 0.3 * rng.normal(size=n)
        process.marginal_likelihood("y", X=x[:, None], y=y, sigma=noise)
    return model


def normal(d: int) -> pm.Model:
    """A mean vector with a correlated prior, observed ten times."""
    rng = np.random.default_rng(8)
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    y = rng.multivariate_normal(np.zeros(d), covariance, 10, method="cholesky")
    with pm.Model() as model:
        mean = pm.MvNormal("mean", np.zeros(d), covariance)
        pm.Normal("y", mean, 1.0, observed=y)
    return model


def oscillator(n: int) -> pm.Model:
    """A damped oscillator by a hundred steps of Runge and Kutta in a scan, seen n times."""
    rng = np.random.default_rng(10)
    step, seen = 0.1, np.linspace(4, 99, n).astype(int)

    def slope(x, v, stiffness, damping):
        return v, -stiffness * x - damping * v

    def move(x, v, *constants):
        x1, v1 = slope(x, v, *constants)
        x2, v2 = slope(x + step / 2 * x1, v + step / 2 * v1, *constants)
        x3, v3 = slope(x + step / 2 * x2, v + step / 2 * v2, *constants)
        x4, v4 = slope(x + step * x3, v + step * v3, *constants)
        return x + step / 6 * (x1 + 2 * x2 + 2 * x3 + x4), v + step / 6 * (
            v1 + 2 * v2 + 2 * v3 + v4
        )

    x, v, path = 1.0, 0.0, []
    for _ in range(100):
        x, v = move(x, v, 1.5, 0.3)
        path.append(x)
    y = np.array(path)[seen] + 0.05 * rng.normal(size=n)
    with pm.Model() as model:
        stiffness, damping = pm.LogNormal("stiffness"), pm.HalfNormal("damping")
        noise = pm.HalfNormal("noise", 0.2)
        start = [pt.constant(each, dtype="float64") for each in (1, 0)]
        xs, _ = pytensor.scan(
            move, outputs_info=start, non_sequences=[stiffness, damping], n_steps=100,
            return_updates=False,
        )  # fmt: skip
        pm.Normal("y", xs[seen], noise, observed=y)
    return model


def groups(n: int) -> pm.Model:
    """A normal hierarchy, non-centred, five values in each of n groups."""
    rng = np.random.default_rng(9)
    y = rng.normal(size=(n, 1)) + rng.normal(size=(n, 5))
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 5), pm.HalfNormal("spread", 2)
        effect = mean + spread * pm.Normal("effect", shape=(n, 1))
        pm.Normal("y", effect, 1.0, observed=y)
    return model


def counts(n: int) -> pm.Model:
    """Ten Poisson counts in each of n groups, whose log rates are normal."""
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(n), 10)
    y = rng.poisson(np.exp(rng.normal(1, 0.5, n)[group]))
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0, 2), pm.HalfNormal("spread", 1)
        pm.Poisson("y", pm.math.exp(pm.Normal("effect", mean, spread, shape=n)[group]), observed=y)
    return model


def rates(n: int) -> pm.Model:
    """Gamma rates of n counts."""
    rng = np.random.default_rng(2)
    y = rng.poisson(3 * rng.gamma(2, 0.5, n))
    with pm.Model() as model:
        shape, rate = pm.Exponential("shape", 1), pm.Gamma("rate", 2, 1)
        pm.Poisson("y", 3 * pm.Gamma("each", shape, rate, shape=n), observed=y)
    return model


def crossed(n: int, m: int) -> pm.Model:
    """Answers of n people to m questions, by the ability of the one and the level of the other."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(n, 1)) - rng.normal(size=m)
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, pm.HalfNormal("spread", 1), shape=(n, 1))
        level = pm.Normal("level", pm.Normal("mean"), pm.HalfNormal("range", 1), shape=m)
        answers = (rng.random((n, m)) < 1 / (1 + np.exp(-logits))).astype(int)
        pm.Bernoulli("y", logit_p=ability - level, observed=answers)
    return model


CASES: dict[str, Callable[[], pm.Model]] = {
    **MODELS,
    "logistic 500 × 8": lambda: logistic(500, 8),
    "logistic 2000 × 40": lambda: logistic(2000, 40),
    "logistic 10,000 × 100": lambda: logistic(10_000, 100),
    "logistic 100,000 × 20": lambda: logistic(100_000, 20),
    "Gaussian process, n = 40": lambda: gaussian_process(40),
    "Gaussian process, n = 200": lambda: gaussian_process(200),
    "normal mean, d = 300": lambda: normal(300),
    "oscillator by a scan": lambda: oscillator(20),
    "groups, 100": lambda: groups(100),
    "groups, 1000": lambda: groups(1000),
    "groups, 5000": lambda: groups(5000),
    "counts of groups, 100": lambda: counts(100),
    "counts of groups, 1000": lambda: counts(1000),
    "gamma rates, 10": lambda: rates(10),
    "gamma rates, 1000": lambda: rates(1000),
    "item response 100×15": lambda: crossed(100, 15),
    "crossed effects 37×80": lambda: crossed(37, 80),
}


def ours(model: pm.Model, seed: int, **options) -> dict:
    """Cost and answer of a call."""
    started = time.process_time()
    dt = pm.sample_bdmc(model, random_seed=seed, cores=1, progressbar=False, **options)
    seconds = time.process_time() - started
    stages = {name: n for name, n in dt.attrs.items() if name.startswith("gradients_")}
    runs = {side: dt[side].attrs["gradient_evaluations"] for side in SIDES if side in dt.children}
    rows = bdmc.evidence(dt).query("data == 'real' and recommended")
    found = {} if rows.empty else rows.iloc[0][["value", "error"]].astype(float).to_dict()
    temperatures = dt["real"].sizes["beta"] - 1
    gradients = int(sum(stages.values()) + sum(runs.values()))
    status = bdmc.verdict(dt).status
    return (
        dict(gradients=gradients, seconds=seconds, temperatures=temperatures, status=status) | found
    )


def nuts(model: pm.Model, seed: int) -> dict:
    """Cost of `pm.sample` as it is without options on four cores: four chains."""
    started = time.process_time()
    idata = pm.sample(
        model=model, random_seed=seed, chains=4, cores=1, progressbar=False,
        discard_tuned_samples=False, compute_convergence_checks=False,
    )  # fmt: skip
    seconds = time.process_time() - started
    steps = sum(
        int(idata[each]["n_steps"].sum()) for each in ("sample_stats", "warmup_sample_stats")
    )
    return dict(gradients=steps, seconds=seconds)


WAYS: dict[str, Callable[[pm.Model, int], dict]] = {
    "real data": lambda model, seed: ours(model, seed, simulate=None),
    "with 20 sets": ours,
    "pm.sample": nuts,
}


def read() -> dict[str, dict[str, dict[int, dict]]]:
    """What has been measured, by model, way and seed."""
    kept: dict = defaultdict(lambda: defaultdict(dict))
    for line in RESULTS.read_text().splitlines() if RESULTS.exists() else ():
        row = json.loads(line)
        kept[row.pop("model")][row.pop("way")][row.pop("seed")] = row
    return kept


def measure(name: str, seeds: int) -> None:
    """Add a line to the results for every way and seed; one seed of `pm.sample`."""
    model, done = CASES[name](), read()[name]
    for way, run in WAYS.items():
        wanted = range(1, 2 if way == "pm.sample" else seeds + 1)
        missing = [seed for seed in wanted if seed not in done[way]]
        if missing and way != "pm.sample":
            run(model, 0)  # fills the caches
        for seed in missing:
            row = dict(model=name, way=way, seed=seed, **run(model, seed))
            with RESULTS.open("a") as file:
                print(json.dumps(row), file=file)
            shown(row.values())


def report(seeds: int) -> None:
    """Print the table, or put it on the page."""
    rows, z = [], []
    for name in CASES:
        kept = read()[name]
        if not kept["with 20 sets"]:
            continue

        def median(way: str, of: str, kept: dict = kept) -> float:
            values = [row[of] for row in kept[way].values() if row.get(of) is not None]
            return float(np.median(values)) if values else np.nan

        nuts_gradients = median("pm.sample", "gradients")
        cells = [f"{median(way, 'gradients'):,.0f}" for way in ("real data", "with 20 sets")]
        ratio = median("with 20 sets", "gradients") / nuts_gradients
        cells += [f"{nuts_gradients:,.0f}", f"{ratio:.2f}"]
        cells += [f"{median(way, 'seconds'):.1f}" for way in WAYS]
        calls = kept["with 20 sets"].values()
        cells += [
            " or ".join(str(t) for t in sorted({row["temperatures"] for row in calls})),
            f"{median('with 20 sets', 'error'):.3f}".replace("nan", "none"),
        ]
        cells.append(", ".join(row["status"] for row in calls))
        rows.append([name, *cells])
        if name in LOG_ML:
            told = [row for row in (*calls, *kept["real data"].values()) if "value" in row]
            z += [(row["value"] - LOG_ML[name]()) / row["error"] for row in told]
    known = (
        f"Where log ML is known, mean z² is {np.mean(np.square(z)):.2f} over {len(z)} calls."
        if z else ""
    )  # fmt: skip
    stamp = made_by(f"OMP_NUM_THREADS=1 python benchmarks/price.py --seeds {seeds} --docs", RESULTS)
    publish(
        "What was measured", f"Medians over seeds, on one core. {known}",
        *summary(rows, all_rows("price", HEAD, rows)), page=DOCS / "price.md", made=stamp,
    )  # fmt: skip


HEAD = [
    "model", "gradients, real data", "gradients, with 20 sets", "gradients, pm.sample", "ratio",
    "CPU s, real data", "CPU s, with 20 sets", "CPU s, pm.sample", "T", "error", "verdicts",
]  # fmt: skip


def summary(rows: list[list], link: str) -> list[str]:
    """What the section shows."""
    shown = ["model", "ratio", *HEAD[5:8], "error", "verdicts"]
    return [table(HEAD, rows, only=shown), link]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=[""], help="those whose names contain one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    RESULTS.parent.mkdir(exist_ok=True)
    for name in CASES:
        if any(part in name for part in arguments.models):
            measure(name, arguments.seeds)
    report(arguments.seeds)


if __name__ == "__main__":
    main()
