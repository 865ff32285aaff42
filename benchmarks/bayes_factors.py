"""Bayes factors of published data by the default call, beside the numbers that are known.

The data lie in the folder that the environment variable BDMC_ANCHORS names. `--docs` puts the table
on the page.
"""

import time
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
from anchors import ANCHORS, LOG_ML, exchange_rates
from common import publish, shown, table

import pymc_bdmc as bdmc

SEEDS = 3
MODELS = ANCHORS | {
    f"exchange rates, {k} factor{'s' * (k > 1)}": partial(exchange_rates, k) for k in (1, 2, 3)
}
KNOWN = LOG_ML | {
    "exchange rates, 1 factor": -1014.271,
    "exchange rates, 2 factors": -903.452,
    "exchange rates, 3 factors": -905.271,
}
"""Those of the exchange rates by others' bridge sampling."""
PAGE = Path(__file__).parents[1] / "docs" / "which_model.md"

PAIRS = {
    "radiata pine: resin-adjusted density or density": ("radiata pine, z", "radiata pine, x"),
    "the same, independent priors": (
        "radiata pine, z, independent priors", "radiata pine, x, independent priors",
    ),
    "Pima: without age or with it, τ = 0.01": (
        "pima, model 1, τ = 0.01", "pima, model 2, τ = 0.01",
    ),
    "the same, τ = 1": ("pima, model 1, τ = 1", "pima, model 2, τ = 1"),
    "galaxies: 3 components or 2": ("galaxies, 3 of one variance", "galaxies, 2 of one variance"),
    "the same: own variances or one": ("galaxies, 3", "galaxies, 3 of one variance"),
    "hierarchical normal: μ = 0 or free": ("hierarchical normal, μ = 0", "hierarchical normal"),
    "turtles: without clutches or with them": ("turtles", "turtles, clutches"),
    "sleep: an effect or none": ("sleep", "sleep, no effect"),
    "exchange rates: 2 factors or 1": ("exchange rates, 2 factors", "exchange rates, 1 factor"),
    "exchange rates: 2 factors or 3": ("exchange rates, 2 factors", "exchange rates, 3 factors"),
}  # fmt: skip


def found(names: tuple[str, str], seed: int) -> tuple[float, float, float]:
    """Log Bayes factor of the first model, its error, and the seconds of the slower call."""
    results, seconds = {}, []
    for name in names:
        started = time.perf_counter()
        results[name] = pm.sample_bdmc(
            MODELS[name](), simulate=None, chains=64, random_seed=seed, progressbar=False
        )
        seconds.append(time.perf_counter() - started)
    rows = bdmc.compare(results).loc[list(names)]
    factor = rows["log_ml"].iloc[0] - rows["log_ml"].iloc[1]
    return factor, float(np.hypot(*rows["error"])), max(seconds)


def main() -> None:
    rows = []
    for title, names in PAIRS.items():
        found(names, 0)  # compiles
        factors, errors, seconds = np.array([found(names, 1 + k) for k in range(SEEDS)]).T
        known = KNOWN[names[0]] - KNOWN[names[1]]
        z = np.max(np.abs((factors - known) / errors))
        shown([title, f"{np.median(errors):.3f}", f"{np.median(seconds):.1f} s"])
        rows.append([
            title, f"{known:.3f}", f"{factors[0]:.3f} ± {errors[0]:.3f}",
            f"{z:.1f}".replace("nan", "—"),
        ])  # fmt: skip
    publish(
        "Where the answer is known",
        "Log Bayes factors in nats, with `simulate=None, chains=64`; the largest |z| is over "
        f"{SEEDS} seeds. Made by `BDMC_ANCHORS=… python benchmarks/bayes_factors.py --docs`.",
        table(["question", "known", "found, first seed", "largest \\|z\\|"], rows),
        "Known values are from closed forms, quadrature, or importance sampling with an error "
        "below 0.006. Those of the exchange rates are from published bridge sampling, whose error "
        "is not printed. A dash means that not all calls recommend a log ML.",
        page=PAGE,
    )


if __name__ == "__main__":
    main()
