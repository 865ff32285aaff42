"""How often the checks fail what is correct: shares of runs, beside the α that bounds them.

Run as ``python benchmarks/false_alarms.py [--runs 1000] [--budget 500] [check ...]``; it
prints a table. 1000 runs of every check take about an hour on one core.
"""

import argparse
from functools import partial

import numpy as np
import pymc as pm
from scipy.stats import norm

import pymc_bdmc as bdmc

ALPHAS = {"e-value": 1e-3, "p-value": 0.05}
SAMPLERS = ["check_sampler", "check_invariance", "check_exact_rank", "check_geweke"]


def build() -> pm.Model:
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=np.zeros(3))
    return model


def nested() -> list[pm.Model]:
    models = []
    for width in (1e-6, 1.0):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("mu", 0, width), observed=0.0)
        models.append(model)
    return models


def walk(point, target, rng):
    """Random walk Metropolis, its own reversal."""
    new = {name: value + rng.normal(size=value.shape) for name, value in point.items()}
    return new if np.log(rng.random()) < target(new) - target(point) else point


walk.reversal = walk


def log_bayes_factor(data):
    return norm.logpdf(data["y"], 0, np.sqrt(2)) - norm.logpdf(data["y"])


def main(
    only: list[str] | None = None, runs: int = 1000, budget: int = 500
) -> dict[str, tuple[int, float]]:
    model, testing = build(), bdmc.testing
    checks = {name: partial(getattr(testing, name), walk, model) for name in SAMPLERS} | {
        "check_bayes_factor": partial(testing.check_bayes_factor, log_bayes_factor, *nested()),
        "check_prior_sampler": partial(testing.check_prior_sampler, model),
    }
    evidence, p = ALPHAS.values()
    found = {}
    print("| check | α | runs | false alarms | e ≥ 20 at the end |\n|---|---|---|---|---|")
    for name in only or checks:
        alpha = p if name == "check_prior_sampler" else evidence
        reports = [
            checks[name](alpha=alpha, budget=budget, random_seed=seed) for seed in range(runs)
        ]
        loose = sum(report.evidence >= 20 for report in reports if report.kind == "e-value")
        alarms = sum(not report.passed for report in reports)
        found[name] = alarms, alpha
        print(
            f"| `{name}` | {alpha:g} | {runs} | {alarms} | {loose if alpha == evidence else '—'} |",
            flush=True,
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="check", help="default: all")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--budget", type=int, default=500)
    main(**vars(parser.parse_args()))
