"""Your first evidence
===================

Is there a slope in these data? The page docs/first_evidence.md tells more.

Two models of the same ten measurements, with and without a slope. Both are linear and normal, so
their evidence is known exactly, and what is printed can be checked.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy import stats

import pymc_bdmc as bdmc

DAY = np.arange(10) - 4.5
GROWTH = np.array([-0.9, -1.6, 0.4, -1.0, 0.3, 0.9, -0.2, 1.4, 0.5, 1.9])
NOISE = 0.8


def with_slope() -> pm.Model:
    with pm.Model(coords={"day": DAY}) as model:
        level = pm.Normal("level", 0, 1)
        slope = pm.Normal("slope", 0, 0.5)
        pm.Normal("growth", level + slope * DAY, NOISE, observed=GROWTH, dims="day")
    return model


def without_slope() -> pm.Model:
    with pm.Model(coords={"day": DAY}) as model:
        level = pm.Normal("level", 0, 1)
        pm.Normal("growth", level, NOISE, observed=GROWTH, dims="day")
    return model


def log_ml(slope: bool) -> float:
    """Exact log ML: with the parameters integrated out the data are jointly normal."""
    covariance = NOISE**2 * np.eye(10) + 1 + slope * 0.5**2 * np.outer(DAY, DAY)
    return float(stats.multivariate_normal.logpdf(GROWTH, np.zeros(10), covariance))


def main(folder: str = "output", **options) -> dict:
    models = {"with slope": with_slope(), "without slope": without_slope()}
    results = {
        name: pm.sample_bdmc(model, random_seed=1, **options) for name, model in models.items()
    }
    print(bdmc.summary(results["with slope"]).round(3).to_string(na_rep=""))
    evidence = {name: bdmc.summary(dt).loc[("real", "evidence")] for name, dt in results.items()}
    for name, row in evidence.items():
        exact = log_ml(name == "with slope")
        print(f"\nlog ML {name}: {row['value']:.3f} ± {row['error']:.3f} nats; exact {exact:.3f}")
    first, second = evidence.values()
    factor, error = first["value"] - second["value"], np.hypot(first["error"], second["error"])
    print(f"log Bayes factor for a slope: {factor:.3f} ± {error:.3f} nats")
    Path(folder).mkdir(exist_ok=True)
    bdmc.plot_sandwich(results["with slope"], backend="matplotlib")
    plt.savefig(Path(folder, "first_evidence.png"))
    return results


if __name__ == "__main__":
    main()
