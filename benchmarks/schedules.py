"""The gap that each schedule leaves at equal cost, and how near it is to the ideal one.

Run as ``python benchmarks/schedules.py [--docs]``; some ten minutes. With ``--docs`` the
section goes to docs/performance.md.
"""

import logging

import numpy as np
import pymc as pm
from common import all_rows, publish, shown
from models import MODELS

import pymc_bdmc as bdmc
from pymc_bdmc.base.schedules import thermodynamic_length
from pymc_bdmc.estimators import jeffreys_bound

SCHEDULES = ["linear", "sigmoid", "power", "adaptive"]
TEMPERATURES = 500
DATASETS = 12
CHAINS = 16
DIRECTIONS = ("forward", "reverse")


def gaps(dt) -> np.ndarray:
    """Mean gap of every data set, nats."""
    forward, reverse = (dt[group]["log_weight"].mean("chain").values for group in DIRECTIONS)
    return reverse - forward


def ratio(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Ratio of mean gaps and its jackknife error over data sets, which both share."""
    left_out = np.array([np.delete(a, i).mean() / np.delete(b, i).mean() for i in range(len(a))])
    return a.mean() / b.mean(), np.sqrt((len(a) - 1) * left_out.var())


def measure(name: str) -> tuple[list[str], float]:
    """Row of the table, and the ratio to sigmoid's gap."""
    found = {}
    for schedule in SCHEDULES:
        dt = pm.sample_bdmc(
            MODELS[name](), chains=CHAINS, particles=1, temperatures=TEMPERATURES, path="prior",
            schedule=schedule, simulate=bdmc.FromPrior(DATASETS), real_data=False, random_seed=1,
            progressbar=False,
        )  # fmt: skip
        found[schedule] = dt
    pilot = found["adaptive"]["forward"]["pilot_log_likelihood"].mean("dataset")
    ideal = thermodynamic_length(pilot["beta"].values, pilot.values) ** 2 / TEMPERATURES
    cells = []
    for dt in found.values():
        gap, error = jeffreys_bound(*(dt[group]["log_weight"].values for group in DIRECTIONS))
        cells.append(f"{gap:.3g} ± {error:.2g}")
    gain, error = ratio(gaps(found["sigmoid"]), gaps(found["adaptive"]))
    excess = gaps(found["adaptive"]).mean() / ideal
    row = [name, *cells, f"{gain:.2f} ± {error:.2f}", f"{ideal:.3g}", f"{excess:.2f}"]
    return shown(row), gain


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    rows, gains = zip(*(measure(name) for name in MODELS), strict=True)
    head = ["model", *SCHEDULES, "sigmoid / adaptive", "Λ²/T", "adaptive · T/Λ²"]
    publish(
        "Schedules",
        f"Jeffreys bound in nats at T = {TEMPERATURES} with HMC and {CHAINS} chains in each "
        f"direction on each of {DATASETS} data sets from the prior, the same for all schedules. "
        f"On {sum(g >= 1.5 for g in gains)} of {len(gains)} models the bound with the adaptive "
        "schedule is smaller than with the sigmoid schedule by a factor of 1.5 or more; the "
        f"smallest factor is {min(gains):.2f}. In the file Λ²/T, estimated by the pilots, is the "
        "bound under perfect mixing on the adaptive schedule. " + all_rows("schedules", head, rows),
    )


if __name__ == "__main__":
    main()
