"""Eight schools
=============

Centred against non-centred: the same model, two samplers' difficulty.

The evidence must agree; the gap of the sandwich, an upper bound on how far the sampler's last
states are from the posterior, need not. Prints both tables and saves a picture.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

# Rubin (1981): estimated effects of coaching on test scores, with their standard errors.
EFFECT = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
STANDARD_ERROR = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
SCHOOLS = ["Choate", "Deerfield", "Andover", "Exeter", "Hotchkiss", "Lawrenceville", "Paul", "Hill"]
LOG_ML = -31.0362  # quadrature over tau


def centred() -> pm.Model:
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfNormal("tau", 5)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("y", theta, STANDARD_ERROR, observed=EFFECT, dims="school")
    return model


def non_centred() -> pm.Model:
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfNormal("tau", 5)
        z = pm.Normal("z", dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("y", theta, STANDARD_ERROR, observed=EFFECT, dims="school")
    return model


def main(folder: str = "output", **options) -> dict:
    results = {}
    for name, build in [("centred", centred), ("non-centred", non_centred)]:
        with build():
            results[name] = pm.sample_bdmc(simulate="prior", random_seed=8, **options)
    for name, dt in results.items():
        table = bdmc.summary(dt)
        log_ml = table.loc[("real", "evidence")]
        gap = table.loc[("simulated", "jeffreys bound")]
        print(f"\nEight schools, {name} (nats)\n{table.round(3).to_string(na_rep='')}")
        print(f"log ML of the data: {log_ml['value']:.3f} ± {log_ml['error']:.3f}; exact {LOG_ML}")
        print(f"Jeffreys bound: {gap['value']:.3f} ± {gap['error']:.3f}")
        print(bdmc.verdict(dt))
    Path(folder).mkdir(exist_ok=True)
    picture = Path(folder, "eight_schools.png")
    bdmc.plot_sandwich(results, backend="matplotlib")
    plt.savefig(picture)
    print(f"\nThe sandwich is drawn in {picture}")
    return results


if __name__ == "__main__":
    main()
