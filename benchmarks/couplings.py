"""When coupled chains at β = 1 meet, with the kernels that anneal, from burned-in starts.

Run as ``OMP_NUM_THREADS=1 python benchmarks/couplings.py [--models …] [--docs]``; some minutes.
With ``--docs`` the table replaces the one on docs/method.md.

The first chain is L moves ahead of the second, and both start at θ*. From then on they move with
the same random numbers. If they meet after τ moves of the second one, the total variation of a
state after S moves is at most E[max(0, ⌈(τ − S)/L⌉)] (Biswas, Jacob and Vanetti 2019). Chains have
met here if no element differs by more than 10⁻⁶ of its spread.
"""

import argparse
import logging
import re
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pymc as pm
from common import shown, table

import pymc_bdmc as bdmc
from pymc_bdmc.engines.compiled import engine, runs

PAGE = Path(__file__).parents[1] / "docs" / "method.md"
LONGEST, CLOSE = 3, 1e-6


def banana() -> pm.Model:
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b", 0, 2)
        scale = pm.HalfNormal("scale")
        pm.Normal("y", b + 3 * a**2, 0.3 * scale, observed=[1.0, 1.4, 0.8])
    return model


def mixture() -> pm.Model:
    rng = np.random.default_rng(3)
    data = np.concatenate([rng.normal(-2, size=20), rng.normal(2, size=20)])
    with pm.Model() as model:
        share = pm.Beta("share", 2, 2)
        weights = pm.math.stack([share, 1 - share])
        means, scale = pm.Normal("means", 0, 3, shape=2), pm.HalfNormal("scale", 2)
        pm.NormalMixture("y", weights, means, scale, observed=data)
    return model


def lasso() -> pm.Model:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 30))
    y = rng.random(100) < 1 / (1 + np.exp(-x[:, :3].sum(axis=1)))
    with pm.Model() as model:
        weights = pm.Laplace("weights", 0, pm.HalfNormal("scale"), shape=30)
        pm.Bernoulli("y", logit_p=x @ weights, observed=y.astype(int))
    return model


def factor() -> pm.Model:
    rng = np.random.default_rng(4)
    y = np.outer(rng.normal(size=30), rng.normal(size=6)) + 0.5 * rng.normal(size=(30, 6))
    with pm.Model() as model:
        loadings = pm.Normal("loadings", 0, pm.HalfNormal("scale"), shape=6)
        factors, noise = pm.Normal("factors", shape=30), pm.HalfNormal("noise")
        pm.Normal("y", factors[:, None] * loadings, noise, observed=y)
    return model


MODELS = {"banana": banana, "mixture": mixture, "lasso": lasso, "factor": factor}


class Coupled:
    """Reverse runs that first couple two chains, once for each data set."""

    def __init__(self):
        self.met, self.cost, self._seen = [], 0, set()

    def __call__(self, problem, moves, task, rng):
        """Anneal a run, after the chains on its data if they are new."""
        start = task.start and problem.jitted.ravel(task.start)[None]
        if task.burn_in and start.tobytes() not in self._seen:
            self._seen.add(start.tobytes())
            self.met.append(self._meeting(problem, moves, task, start))
        return runs.annealed(problem, moves, task, rng)

    def _meeting(self, problem, moves, task, start):
        """The number of moves until the chains meet, in burn-ins; ∞ if they do not."""

        def moved(theta, n, k):
            trace, cost = runs.at_the_end(
                problem,
                moves,
                task.tuning,
                theta,
                n,
                np.random.default_rng([len(self.met), k]),
                adapts=False,
            )
            self.cost += cost
            return trace.thetas[:, 0]

        ahead = moved(start, task.burn_in, 0)
        spread = ahead.std(axis=0)
        pair = ahead[-1:], start
        for k in range(1, LONGEST * task.burn_in + 1):
            pair = [moved(theta.copy(), 1, k) for theta in pair]
            if (np.abs(pair[0] - pair[1]) <= CLOSE * spread).all():
                return k / task.burn_in
        return np.inf


def row(name: str) -> tuple:
    """A row of the table, of one call that holds hyperparameters."""
    model, coupled = MODELS[name](), Coupled()
    with mock.patch.object(engine, "annealed", coupled):
        dt = pm.sample_bdmc(
            model, simulate="hyperparameters", random_seed=1, cores=1, progressbar=False
        )
    met = np.array(coupled.met)
    gradients = sum(group.attrs.get("gradient_evaluations", 0) for group in dt.children.values())
    known = "unknown" if np.isinf(met).any() else f"{np.maximum(np.ceil(met - 1), 0).mean():.2f}"
    elements = sum(np.size(value) for value in model.initial_point().values())
    shares = [f"{(met <= k).mean():.2f}" for k in range(1, LONGEST + 1)]
    return shown(
        (name, elements, *shares, known, f"{100 * coupled.cost / gradients:.0f} %",
         bdmc.verdict(dt).status)
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--docs", action="store_true", help="put the table on the page")
    arguments = parser.parse_args()
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = [row(name) for name in arguments.models]
    head = (
        "model", "elements", "met after 100 moves", "200", "300", "total variation at most",
        "gradients of a call", "verdict",
    )  # fmt: skip
    if arguments.docs:
        new = re.sub(
            r"\| model \| elements \| met.*?\n(?!\|)", table(head, rows) + "\n", PAGE.read_text(),
            flags=re.S,
        )  # fmt: skip
        PAGE.write_text(new)


if __name__ == "__main__":
    main()
