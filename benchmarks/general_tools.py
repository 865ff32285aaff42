"""`pm.fit` and dynesty on a low rank factor model: a section of docs/testbed.md.

Run as ``python benchmarks/general_tools.py [--docs]`` with OPENBLAS_NUM_THREADS=1 and the extra
``peers`` installed; half an hour. What has been measured is kept in files.
"""

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from common import all_rows, publish, table
from evidence_methods import Densities, dynesty
from peers import keep, read
from testbed import BUDGETS, OUTPUT, PAGE, Problem, kept, measure, number, simulated

NAME, RESULTS, SEEDS, DRAWS = "low rank", OUTPUT / "general_tools.jsonl", 3, 10_000
FITS = {"pm.fit, mean field": pm.ADVI, "pm.fit, full rank": pm.FullRankADVI}
ITERATIONS = (10_000, 30_000, 100_000, 300_000)
NESTED = {
    "dynesty, 10 slices": ("until done", dict(sample="rslice", slices=10)),
    "dynesty, default": ("6,000,000 likelihoods, then stopped", dict(calls=6_000_000)),
}
OWN = ("variational Bayes", "nested sampling", "nested sampling, 30 particles", "AIS", "population")
TEXT = (
    "Three estimates for each row, and the budget with the smallest error of each tool. The PyMC "
    "model has the loadings integrated out, and 125 features. `pm.fit` has its default options, "
    "and its estimate is the mean lower bound of 10,000 draws, whose time is not included. dynesty "
    "has 500 live points and takes 128 slices for a new point, or ten. Compilation is not counted."
)
HEAD = ["tool", "budget", "RMSE, nats", "bias, nats", "CPU seconds"]


def summary(rows: list[list]) -> list[str]:
    """The budget with the smallest error of each tool."""
    best: dict[str, list] = {}
    for each in (row for row in rows if row[0] not in OWN):
        error = float(str(each[2]).replace(",", ""))
        if each[0] not in best or error < float(str(best[each[0]][2]).replace(",", "")):
            best[each[0]] = each
    return [table(HEAD, best.values()), all_rows("general_tools", HEAD, rows)]


def integrated(problem: Problem) -> pm.Model:
    """Low rank as a PyMC model with the loadings integrated out, its log ML the same."""
    low_rank, y = problem.model, problem.y
    with pm.Model() as model:
        shape = low_rank.n_features, low_rank.size
        features = pm.Normal("features", 0, low_rank.feature_scale, shape=shape)
        signal = low_rank.row_scale**2 * features.T @ features
        covariance = signal + low_rank.noise**2 * pt.eye(low_rank.size)
        pm.MvNormal("y", np.zeros(low_rank.size), covariance, observed=y)
    return model


def lower_bound(log_joint: Callable, mean: np.ndarray, covariance: np.ndarray, seed: int) -> float:
    """Mean of log p(x, y) - log q(x) over draws from a normal q, nats."""
    z = np.random.default_rng(seed).normal(size=(DRAWS, len(mean)))
    root = np.linalg.cholesky(covariance)
    log_q = -np.sum(z**2 + np.log(2 * np.pi), axis=1) / 2 - np.log(root.diagonal()).sum()
    return np.mean([log_joint(x) for x in mean + z @ root.T] - log_q)


def fit(model: pm.Model, method: type, keep: Callable, seed: int) -> None:
    """Keep the bounds that `pm.fit` comes to; more iterations go on where fewer end."""
    log_joint = Densities(model).joint
    inference = method(model=model, random_seed=seed)
    inference.fit(1, progressbar=False)  # compiles
    done, seconds = 1, 0.0
    for n in ITERATIONS:
        started = time.process_time()
        inference.refine(n - done, progressbar=False)
        seconds += time.process_time() - started
        done, normal = n, inference.approx
        value = lower_bound(log_joint, normal.mean.eval(), normal.cov.eval(), seed)
        keep(budget=f"{n:,} iterations", value=value, seconds=seconds)


def nest(model: pm.Model, budget: str, options: dict, keep: Callable, seed: int) -> None:
    """Keep what dynesty says."""
    run = dynesty(model, **options)
    started = time.process_time()
    value, _ = run(seed)
    keep(budget=budget, value=value, seconds=time.process_time() - started)


def tool_rows(log_ml: float) -> Iterator[list]:
    """Errors and seconds of what has been kept, by tool and budget."""
    for (_, tool), runs in read(RESULTS).items():
        for budget in dict.fromkeys(run["budget"] for run in runs):
            of = [run for run in runs if run["budget"] == budget]
            errors = np.array([run["value"] for run in of]) - log_ml
            yield row(tool, budget, errors, np.mean([run["seconds"] for run in of]))


def own_rows(result: xr.Dataset) -> Iterator[list]:
    """The same of the study's own estimators, with the largest budget of their race."""
    last = result.sel(budget=BUDGETS[-1])
    for name in OWN:
        runs = last.sel(estimator=name)
        errors = runs["log_ml"].values - result.attrs["log_ml"]
        yield row(name, f"{BUDGETS[-1]} transitions", errors, float(runs["seconds"].mean()))


def row(tool: str, budget: str, errors: np.ndarray, seconds: float) -> list:
    rmse = np.sqrt(np.mean(errors**2))
    return [tool, budget, number(rmse), number(errors.mean(), "+"), number(seconds)]


def main() -> None:
    for name in ("pymc", "pymc.bdmc"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    result, model = kept("race", NAME, measure), integrated(simulated(NAME))
    for tool, seed in product([*FITS, *NESTED], range(1, SEEDS + 1)):
        if all(run["seed"] != seed for run in read(RESULTS)[NAME, tool]):
            tell = partial(keep, RESULTS, model=NAME, method=tool, seed=seed)
            if tool in FITS:
                fit(model, FITS[tool], tell, seed)
            else:
                nest(model, *NESTED[tool], tell, seed)
    rows = [*tool_rows(result.attrs["log_ml"]), *own_rows(result)]
    publish("General tools on low rank", TEXT, *summary(rows), page=PAGE)


if __name__ == "__main__":
    main()
