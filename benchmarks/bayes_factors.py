"""Bayes factors of published data by the default call, beside the numbers that are known.

The data lie in the folder that the environment variable BDMC_ANCHORS names. `--docs` writes
docs/tables/bayes_factors.csv. Known values are from closed forms, quadrature, or importance
sampling with an error below 0.006; those of the exchange rates are from others' bridge sampling.
"""

import time
from functools import partial

import numpy as np
import pymc as pm
from anchors import ANCHORS, LOG_ML, exchange_rates
from common import all_rows, shown

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
HEAD = "question", "known", "found, first seed", "largest |z|", "error", "s a call"
"""Largest |z| and medians over seeds; seconds are those of the slower call, without compilation."""

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
        rows.append(shown([
            title, f"{known:.3f}", f"{factors[0]:.3f} ± {errors[0]:.3f}",
            f"{z:.1f}".replace("nan", "—"), f"{np.median(errors):.3f}".replace("nan", "—"),
            f"{np.median(seconds):.1f}",
        ]))  # fmt: skip
    all_rows("bayes_factors", HEAD, rows)


if __name__ == "__main__":
    main()
