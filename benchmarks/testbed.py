"""Run the study of examples/factor_models, for docs/testbed.md.

Run as ``python benchmarks/testbed.py [--models …] [--docs]`` with OPENBLAS_NUM_THREADS=1; some
twenty minutes. What has been measured is kept in files, so it can be done a model at a time;
``--docs`` puts all there is on the page, and all rows in docs/tables.
"""

import argparse
import logging
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from common import DOCS, all_rows, publish, shown, table

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import factor_models as study
from factor_models import ESTIMATORS, BinaryAttributes, Clustering, LowRank, Problem, standings

ROOT = Path(__file__).parents[1]
PAGE = DOCS / "testbed.md"
OUTPUT = ROOT / "output"
MODELS = {
    "clustering": Clustering(),
    "low rank": LowRank(),
    "binary attributes": BinaryAttributes(),
}
PAPER = [
    ("clustering", "SMC", 4.6, 9.7),
    ("clustering", "AIS", 7.0, 37.8),
    ("clustering", "nested sampling", 5.7, 51.2),
    ("low rank", "AIS", 8.6, 1.6),
    ("binary attributes", "AIS", 7.5, 16.5 * 60),
    ("binary attributes", "nested sampling", 9.0, 15.1 * 60),
    ("binary attributes", "SMC", 4.7, 69 * 60),
]
"""What the paper reports: root mean square error in nats, and seconds."""
OURS = ("population", "reverse population", "populations, BAR")
TRUTH = dict(particles=48, temperatures=300, schedule="linear", chains=8)
BUDGETS, TRIALS, SEED = (100, 500, 2500), 25, 1
LONG_BUDGETS, LONG_TRIALS = (60_000, 160_000), 5
LONG = {"binary attributes": ("SMC", "SMC, one particle", "nested sampling")}
"""What comes to the paper's errors with more than the budgets of the race."""
CROSS_TRIALS, REFERENCE = 3, "population, 4 × the budget"
ERRORS = (10.0, 2.0, 1.0)
TEXTS = {
    "Ground truth": (
        "Eight runs in each direction, with 48 particles and 300 steps. Log ML lies between the "
        "lower and the upper value. All errors below are differences from the estimate by BAR."
    ),
    "The race": (
        f"Root mean square error in nats and CPU seconds of one estimate with {BUDGETS[-1]} "
        f"transitions, over {TRIALS} estimates, and the largest error of a difference in log ML "
        "between two models, over three data sets. For a model that did not make the data the "
        "truth is the estimate by forward populations with four times the budget."
    ),
}


def simulated(name: str) -> Problem:
    return MODELS[name].simulate(random_seed=SEED)


def sandwich(problem: Problem) -> xr.DataTree:
    """The truth of every race on a problem."""
    return study.anneal(problem, random_seed=SEED, progressbar=False, **TRUTH)


def measure(name: str) -> xr.Dataset:
    """The race on one model, and the seconds of its truth."""
    problem = simulated(name)
    study.anneal(problem, temperatures=2, random_seed=0, progressbar=False)  # compiles
    started = time.process_time()
    truth = sandwich(problem)
    seconds = time.process_time() - started
    result = study.race(problem, truth=truth, budgets=BUDGETS, trials=TRIALS, random_seed=SEED)
    result.attrs["truth_seconds"] = seconds
    return result


def cross(name: str) -> xr.Dataset:
    """Log ML of one model's observations under all three, by estimators that need no exact rows."""
    problem, rng = simulated(name), np.random.default_rng(SEED)
    chosen = [each for each, estimator in ESTIMATORS.items() if not estimator.exact]
    entrants = {each: (ESTIMATORS[each], BUDGETS[-1]) for each in chosen}
    entrants[REFERENCE] = ESTIMATORS["population"], 4 * BUDGETS[-1]
    found = np.empty((len(entrants), len(MODELS), CROSS_TRIALS))
    for i, (estimator, budget) in enumerate(entrants.values()):
        for j, model in enumerate(MODELS.values()):
            for k in range(CROSS_TRIALS):
                found[i, j, k], _ = estimator.estimate(Problem(model, problem.y), budget, rng)
    coords = {"estimator": list(entrants), "model": list(MODELS)}
    return xr.Dataset({"log_ml": (("estimator", "model", "trial"), found)}, coords)


def longer(name: str) -> xr.Dataset:
    """The race of the few that need more time."""
    problem, entrants = simulated(name), {each: ESTIMATORS[each] for each in LONG[name]}
    options = {"budgets": LONG_BUDGETS, "trials": LONG_TRIALS, "random_seed": SEED}
    return study.race(problem, entrants, truth=sandwich(problem), **options)


def kept(kind: str, name: str, make) -> xr.Dataset:
    """From its file, or made and put there."""
    file = OUTPUT / f"testbed_{kind}_{name.replace(' ', '_')}.nc"
    if not file.exists():
        OUTPUT.mkdir(exist_ok=True)
        make(name).to_netcdf(file)
    return xr.load_dataset(file)


def number(value: float, sign: str = "") -> str:
    if not np.isfinite(value) or value == 0:
        return "—"
    value = float(f"{value:.2g}")
    return f"{value:{sign}g}" if abs(value) < 100 else f"{value:{sign},.0f}"


def seconds_until(rows, error: float) -> float:
    """CPU seconds at which the error is met, between budgets by a power law; ∞ if it is not."""
    place, size = np.log(rows["seconds"].values), np.log(rows["rmse"].values / error)
    for i in np.flatnonzero(size <= 0):
        if i == 0 or size[i - 1] <= 0:
            return float(np.exp(place[i]))
        share = size[i - 1] / (size[i - 1] - size[i])
        return float(np.exp(place[i - 1] + share * (place[i] - place[i - 1])))
    return np.inf


def truth_table(races: dict) -> str:
    rows = [
        [
            name, f"{each.attrs['lower']:.2f}", f"{each.attrs['upper']:.2f}",
            f"{each.attrs['upper'] - each.attrs['lower']:.2f}",
            f"{each.attrs['log_ml']:.2f} ± {each.attrs['error']:.2f}",
            f"{each.attrs['truth_seconds']:.0f}",
        ]
        for name, each in races.items()
    ]  # fmt: skip
    return table(["model", "lower", "upper", "gap", "BAR", "CPU seconds"], rows)


RACE = [
    "model", "estimator", *(f"{budget} transitions" for budget in BUDGETS), "bias", "combined",
    *(f"s to {error:g}" for error in ERRORS),
]  # fmt: skip


def race_rows(model: str, result: xr.Dataset) -> list[list]:
    scores = standings(result)
    rows = []
    for name in ESTIMATORS:
        own = scores.loc[name]
        last = own.iloc[-1]
        rows.append(
            [
                model, name,
                *[f"{number(each.rmse)} in {number(each.seconds)}" for each in own.itertuples()],
                number(last["bias"], "+"), number(last["combined"], "+"),
                *[number(seconds_until(own, error)) for error in ERRORS],
            ]
        )  # fmt: skip
    return rows


def standing(rows: list[list], differences: list[list]) -> str:
    """The last budget of every model, and the largest error of a difference, by estimator."""
    last = RACE.index(f"{BUDGETS[-1]} transitions")
    found: dict[str, dict] = {}
    for row in rows:
        found.setdefault(row[1], {})[row[0]] = row[last]
    apart = {name: max((abs(float(cell)) for cell in cells), default=np.nan)
             for name, *cells in differences[1:]}  # fmt: skip
    models = list(dict.fromkeys(row[0] for row in rows))
    left_out = ("SMC, one particle", "nested sampling", "variational Bayes, K!")
    lines = [
        [name, *(each.get(model, "—") for model in models),
         number(apart[name]) if name in apart else "—"]
        for name, each in found.items()
        if name not in left_out
    ]  # fmt: skip
    return table(["estimator", *models, "differences, at most"], lines)


LONG_RACE = ["model", "estimator", *(f"{each:,} transitions" for each in LONG_BUDGETS)]


def long_rows(longs: dict) -> list[list]:
    return [
        [name, each, *[f"{number(row.rmse)} in {number(row.seconds)}" for row in own.itertuples()]]
        for name, long in longs.items()
        for each, own in standings(long).groupby(level="estimator", sort=False)
    ]


BESIDE = ["model", "estimator", "RMSE", "paper, s", "the same here, s", "best of populations, s"]


def paper_rows(races: dict, longs: dict) -> list[list]:
    rows = []
    for name, estimator, error, seconds in PAPER:
        if name in races:
            scores = standings(races[name])
            measured = [scores.loc[estimator]]
            if estimator in LONG.get(name, ()):
                measured.append(standings(longs[name]).loc[estimator])
            own = seconds_until(pd.concat(measured), error)
            best = {each: seconds_until(scores.loc[each], error) for each in OURS}
            first = min(best, key=best.get)
            rows.append(
                [
                    name, estimator, error, f"{seconds:g}", number(own),
                    f"{first}: {number(best[first])}",
                ]
            )  # fmt: skip
    return rows


def cross_rows(crosses: dict) -> tuple[list, list]:
    """Head and errors of differences between the model that made the data and another."""
    pairs = [(own, other) for own in crosses for other in MODELS if other != own]
    means = {name: each["log_ml"].mean("trial") for name, each in crosses.items()}
    variances = {name: each["log_ml"].var("trial", ddof=1) for name, each in crosses.items()}

    def difference(estimator, own, other):
        rows = means[own].sel(estimator=estimator)
        return float(rows.sel(model=own) - rows.sel(model=other))

    def error(own, other):
        of_both = variances[own].sel(estimator=REFERENCE, model=[own, other])
        return float(np.sqrt(of_both.sum() / CROSS_TRIALS))

    truth = {pair: difference(REFERENCE, *pair) for pair in pairs}
    rows = [[REFERENCE, *[f"{truth[pair]:.1f} ± {error(*pair):.1f}" for pair in pairs]]]
    rows += [
        [each, *[f"{difference(each, *pair) - truth[pair]:+.1f}" for pair in pairs]]
        for each in next(iter(crosses.values()))["estimator"].values
        if each != REFERENCE
    ]
    return ["", *[f"{own} − {other}" for own, other in pairs]], rows


def picture(races: dict) -> None:
    figure = study.plot_race(races)
    figure.savefig(PAGE.parent / "images" / "testbed_race.png", dpi=70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--docs", action="store_true", help="put the tables on the page")
    chosen = parser.parse_args().models
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    races = {name: kept("race", name, measure) for name in chosen}
    longs = {name: kept("long", name, longer) for name in chosen if name in LONG}
    crosses = {name: kept("cross", name, cross) for name in chosen}
    shown([f"{name}: {each.attrs['log_ml']:.2f}" for name, each in races.items()])
    rows = [row for name, each in races.items() for row in race_rows(name, each)]
    print(table(LONG_RACE, long_rows(longs)), table(BESIDE, paper_rows(races, longs)), sep="\n\n")
    head, differences = cross_rows(crosses)
    tables = {
        "Ground truth": [truth_table(races)],
        "The race": [
            standing(rows, differences),
            f"{all_rows('testbed_race', RACE, rows)} Differences between models: "
            + all_rows("testbed_models", head, differences),
        ],
    }
    for title, text in TEXTS.items():
        publish(title, text, *tables[title], page=PAGE)
    picture(races)


if __name__ == "__main__":
    main()
