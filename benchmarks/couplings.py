"""How far burned-in starts of reverse runs are from the posterior.

Run as ``OMP_NUM_THREADS=1 python benchmarks/couplings.py [--models …] [--docs]``; some ten minutes.
With ``--docs`` a section goes to docs/honesty.md.

*Runs that weigh draws* estimate the distance by the draws of the burn-in. The first table compares
this with the same estimate by many more draws.

*Runs that anneal* do not know it. The second table couples chains at β = 1 with the kernels that
anneal. The first chain is L moves ahead of the second, and both start at θ*. From then on they move
with the same random numbers. If they meet after τ moves of the second one, the total variation of a
state after S moves is at most E[max(0, ⌈(τ − S)/L⌉)] (Biswas, Jacob and Vanetti 2019). Chains have
met here if no element differs by more than 10⁻⁶ of its spread.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from unittest import mock

import numpy as np
import pymc as pm
from adversaries import ADVERSARIES
from common import DOCS, all_rows, publish, shown, table

import pymc_bdmc as bdmc
from pymc_bdmc.engines import compiled, runs
from pymc_bdmc.fits import draws
from pymc_bdmc.fits.draws import log_weights_at

PAGE = DOCS / "honesty.md"
LONGEST, CLOSE, MANY = 3, 1e-6, 1500
OPTIONS = {
    "simulate": bdmc.FromHyperparameters(), "random_seed": 1, "cores": 1, "progressbar": False
}  # fmt: skip


def binary(groups: int, trials: int, share: float, spread: float) -> pm.Model:
    """Few outcomes of each group, so that the posterior of its effect is skewed."""
    rng = np.random.default_rng(groups + trials)
    chance = 1 / (1 + np.exp(-np.log(share / (1 - share)) - spread * rng.normal(size=groups)))
    with pm.Model() as model:
        effects = pm.Normal("effects", 0, pm.HalfNormal("scale", 2), shape=groups)
        logit = pm.Normal("mean", 0, 2) + effects
        pm.Binomial("y", trials, logit_p=logit, observed=rng.binomial(trials, chance))
    return model


def counts(groups: int, rate: float) -> pm.Model:
    """A count of each group, with a log-normal rate."""
    rng = np.random.default_rng(groups)
    y = rng.poisson(rate * np.exp(1.2 * rng.normal(size=groups)))
    with pm.Model() as model:
        effects = pm.Normal("effects", 0, pm.HalfNormal("scale", 2), shape=groups)
        pm.Poisson("y", pm.math.exp(pm.Normal("mean", 0, 2) + effects), observed=y)
    return model


def few(y: tuple[float, ...]) -> pm.Model:
    """Few observations with a scale whose prior has no mean."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0, 10), pm.HalfCauchy("scale", 5), observed=y)
    return model


WEIGHED: dict[str, Callable[[], pm.Model]] = {
    "one outcome a group": lambda: binary(15, 1, 0.5, 2.0),
    "pairs": lambda: binary(20, 2, 0.5, 2.0),
    "triples": lambda: binary(15, 3, 0.5, 2.0),
    "rare triples": lambda: binary(20, 3, 0.1, 2.0),
    "rare, far apart": lambda: binary(30, 4, 0.03, 4.0),
    "counts": lambda: counts(15, 1.0),
    "few counts": lambda: counts(8, 0.3),
    "three observations": lambda: few((0.1, -0.3, 1.2)),
    **{
        name: lambda make=make: make().model
        for name, make in ADVERSARIES.items()
        if name.startswith(("eight", "groups alike", "correlated", "heavy", "misfit"))
    },
}
"""Models with skewed latent variables, heavy tails or data that do not fit."""


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


ANNEALED = {"banana": banana, "mixture": mixture, "lasso": lasso, "factor": factor}


class Remembered:
    """Burn-ins of runs that weigh draws, and once a data set the estimate by `MANY` draws."""

    def __init__(self):
        self.found, self._seen = [], []

    def __call__(self, theta, reference, density, n, rng):
        """Return what `metropolis` does."""
        end, distance = draws.metropolis(theta, reference, density, n, rng)
        if not any(reference is each for each in self._seen):
            self._seen.append(reference)
            more = np.random.default_rng(len(self.found))
            thetas, log_r = reference.sample(MANY, more, density)
            thetas = np.concatenate([theta[None], thetas])
            log_r = np.concatenate([reference.log_density(theta[None], density, more), log_r])
            start, *g = log_weights_at(thetas, log_r, density)
            self.found.append((distance, draws.distance_after(n, start, np.array(g))))
        return end, distance


class Coupled:
    """Reverse runs that first couple two chains, once for each data set."""

    def __init__(self):
        self.met, self.cost, self._seen = [], 0, set()

    def __call__(self, problem, task, rng):
        """Anneal a run, after the chains on its data if they are new."""
        start = task.start and problem.jitted.ravel(task.start)[None]
        if task.burn_in and start.tobytes() not in self._seen:
            self._seen.add(start.tobytes())
            self.met.append(self._meeting(problem, task, start))
        return runs.annealed(problem, task, rng)

    def _meeting(self, problem, task, start):
        """The number of moves until the chains meet, in burn-ins; ∞ if they do not."""

        def moved(theta, n, k):
            trace, cost = runs.at_the_end(
                problem,
                task.tuning.kernels,
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


def weighed(name: str) -> list[tuple]:
    """A row of the first table; none if the call does not weigh draws after a burn-in."""
    remembered = Remembered()
    with mock.patch.object(runs, "metropolis", remembered):
        dt = pm.sample_bdmc(WEIGHED[name](), **OPTIONS)
    if not remembered.found:
        return []
    found = np.array(remembered.found)
    numbers = (f"{x:.4f}" for x in (*found.mean(axis=0), *found.max(axis=0)))
    return [shown((name, len(found), *numbers, bdmc.verdict(dt).status))]


def annealed(name: str) -> tuple:
    """A row of the second table."""
    model, coupled = ANNEALED[name](), Coupled()
    with mock.patch.object(compiled, "annealed", coupled):
        dt = pm.sample_bdmc(model, **OPTIONS)
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
    parser.add_argument("--models", nargs="*", default=[*WEIGHED, *ANNEALED])
    parser.add_argument("--docs", action="store_true", help="put the tables on the page")
    arguments = parser.parse_args()
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    first = [each for name in WEIGHED if name in arguments.models for each in weighed(name)]
    second = [annealed(name) for name in ANNEALED if name in arguments.models]
    publish("Burn-in", *summary(first, second), page=PAGE,
            command="OMP_NUM_THREADS=1 python benchmarks/couplings.py --docs")  # fmt: skip


WEIGHING = ("model", "data sets", "estimate", "by 1500 draws", "largest estimate",
            "largest by 1500 draws", "verdict")  # fmt: skip
ANNEALING = ("model", "elements", "met after 100 moves", "200", "300",
             "total variation at most", "gradients of a call", "verdict")  # fmt: skip


def summary(first: list[tuple], second: list[tuple]) -> list[str]:
    """The paragraph of the section, and what it shows."""
    rises = [float(row[3]) - float(row[2]) for row in first]
    largest = max(float(row[3]) for row in first)
    return [
        "How far burned-in starts of reverse runs are from the posterior, with hyperparameters "
        f"held. Runs that weigh draws estimate it. On {len(first)} models the mean over data sets "
        f"is at most {largest:.4f} by 1500 draws, and rises by at most {max(rises):.4f} from the "
        "estimate by the draws of the burn-in. For runs that anneal, the table has the share of "
        "coupled chains at β = 1 that met (Biswas, Jacob and Vanetti 2019). A bound that a verdict "
        "can use needs nearly all of them to meet during the burn-in.",
        table(ANNEALING, second, only=[*ANNEALING[:6], "verdict"]),
        f"{all_rows('couplings', ANNEALING, second)} Runs that weigh draws: "
        + all_rows("couplings_weighing", WEIGHING, first),
    ]


if __name__ == "__main__":
    main()
