"""How often `consistency` flags models that are right, and models that are wrong.

    python benchmarks/consistency.py --docs

writes the table of docs/consistency.md; about an hour on two cores. Names of scenarios as
arguments run those alone.
"""

import logging
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
from common import publish, shown, table

import pymc_bdmc as bdmc

PAGE = Path(__file__).parents[1] / "docs" / "consistency.md"

REPLICATES = 100

N = 200
"""Observations."""

HELD, DRAWN = bdmc.FromHyperparameters(datasets=19), bdmc.FromPrior(datasets=19)


def linear(x: np.ndarray, y: np.ndarray) -> None:
    """Normal noise of unknown scale."""
    a, b, scale = pm.Normal("a", 0, 2), pm.Normal("b", 0, 1), pm.HalfNormal("scale", 2)
    pm.Normal("y", a + b * x, scale, observed=y)


def counts(x: np.ndarray, y: np.ndarray) -> None:
    a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 0.5)
    pm.Poisson("y", pm.math.exp(a + b * x), observed=y)


def regression(rng: np.random.Generator, x: np.ndarray, noise: Callable, missing: float = 0):
    """Linear in the covariate, and in one that the model does not know."""
    return 1 + 0.5 * x + missing * rng.normal(size=N) + noise(rng)


def poisson(rng: np.random.Generator, x: np.ndarray, missing: float = 0):
    return rng.poisson(np.exp(1 + 0.3 * x + missing * rng.normal(size=N)))


def from_prior(rng: np.random.Generator, x: np.ndarray):
    a, b, scale = rng.normal(0, 2), rng.normal(), abs(rng.normal(0, 2))
    return a + b * x + scale * rng.normal(size=N)


def normal_noise(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=N)


def fat_noise(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(2, size=N)


SCENARIOS = {
    "linear, right": (linear, partial(regression, noise=normal_noise), HELD),
    "linear, right, data sets from the prior": (linear, from_prior, DRAWN),
    "linear, noise t with 2 degrees of freedom": (
        linear, partial(regression, noise=fat_noise), HELD,
    ),
    "linear, a normal covariate missing": (
        linear, partial(regression, noise=normal_noise, missing=1.0), HELD,
    ),
    "counts, right": (counts, poisson, HELD),
    "counts, a covariate missing": (counts, partial(poisson, missing=0.5), HELD),
}  # fmt: skip
"""Name: the model, how the data came about, and the simulation."""


def flagged(model: Callable, data: Callable, simulate, seed: int) -> dict[str, bool]:
    """Which checks flag a replicate."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N)
    with pm.Model():
        model(x, data(rng, x))
        dt = pm.sample_bdmc(
            chains=8, particles=8, temperatures=20, path="prior", simulate=simulate,
            random_seed=seed, cores=1, progressbar=False,
        )  # fmt: skip
    found = bdmc.consistency(dt).droplevel("temperatures")
    single = found.loc[["log ML", "path length", "spread of y", "tails of y"], "p_value"]
    return {
        **(single <= 0.05).to_dict(),
        "model": found.loc["model", "flagged"],
        "shortfall": found.loc["shortfall", "flagged"],
    }


def row(name: str, replicates: int) -> list:
    found = [flagged(*SCENARIOS[name], seed) for seed in range(replicates)]
    return shown([name, *(sum(each[check] for each in found) for check in found[0])])


def main(names: list[str], replicates: int = REPLICATES) -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    rows = [row(name, replicates) for name in names]
    head = ["data", "log ML", "path length", "spread", "tails", "**model**", "shortfall"]
    publish("How often it flags", table(head, rows), page=PAGE)


if __name__ == "__main__":
    main([name for name in sys.argv[1:] if name in SCENARIOS] or list(SCENARIOS))
