"""Expected information gain by runs in both directions, and by nested and contrastive sampling.

Run as ``python benchmarks/information.py``; a minute. Experiments are linear, so the gain is half
the logarithm of a determinant. All ways have the same data sets and as many evaluations of the
likelihood.
"""

import logging

import numpy as np
import pymc as pm
from common import shown
from scipy.special import logsumexp

import pymc_bdmc as bdmc

ROWS, DATASETS = 20, 100
HEAD = (
    "elements", "exact", "both directions: lower", "upper", "contrastive: lower", "nested: upper",
    "evaluations a data set",
)  # fmt: skip


def design(n: int, scale: float) -> np.ndarray:
    return scale * np.random.default_rng(1).normal(size=(ROWS, n))


def linear(x: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", shape=x.shape[1])
        pm.Normal("y", x @ b, 1, observed=np.zeros(len(x)))
    return model


def row(n: int, scale: float) -> tuple:
    """One experiment: the exact gain, and all bounds."""
    x = design(n, scale)
    exact = np.linalg.slogdet(np.eye(ROWS) + x @ x.T)[1] / 2
    found = bdmc.information_gain(linear(x), datasets=DATASETS, random_seed=1, progressbar=False)
    dt = found.result
    runs = sum(dt[name].attrs["gradient_evaluations"] for name in ("forward", "reverse"))
    spent = runs + sum(n for name, n in dt.attrs.items() if name.startswith("gradients_"))
    inner = int(spent / DATASETS)
    simulated, rng = dt["simulated"].dataset, np.random.default_rng(2)
    contrastive, nested = [], []
    for d in range(DATASETS):
        b, y = simulated["b"].values[d], simulated["y"].values[d]
        others = rng.normal(size=(inner, n))
        logs = -0.5 * np.sum((y - others @ x.T) ** 2, axis=1)
        own = -0.5 * np.sum((y - x @ b) ** 2)
        contrastive.append(own - logsumexp([own, *logs]) + np.log(inner + 1))
        nested.append(own - logsumexp(logs) + np.log(inner))
    bounds = found.table.mean()
    numbers = exact, bounds["lower"], bounds["upper"], np.mean(contrastive), np.mean(nested)
    return (n, *(f"{each:.2f}" for each in numbers), f"{inner:,}")


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    shown(HEAD)
    for each in ((2, 1.0), (5, 1.0), (10, 3.0), (15, 10.0)):
        shown(row(*each))


if __name__ == "__main__":
    main()
