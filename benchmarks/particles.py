"""What several particles a run are worth at fixed cost.

Run as ``python benchmarks/particles.py [--docs]``; some fifteen minutes. With ``--docs`` a
section goes to docs/performance.md, and its picture to docs/images.
"""

import logging

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import DOCS, all_rows, publish, table
from models import MODELS

import pymc_bdmc as bdmc

PARTICLES = (1, 4, 16, 64)
RUNS, TEMPERATURES = 8, 50
"""A direction and data set, where a run has the most particles."""
BUDGET = RUNS * PARTICLES[-1] * TEMPERATURES
"""Transitions a direction and data set, however they are spent."""
DATASETS = 4
SHOWN = [
    "factorisation 50×25×5",
    "conjugate regression, d = 100",
    "linear 1566×5",
    "mixture of two normals",
]
FLOOR = 0.01
"""Least gap in the picture, nats."""


def sample(name: str, **options):
    defaults = dict(
        chains=RUNS, simulate=bdmc.FromPrior(DATASETS), schedule="adaptive", path="prior",
        real_data=False, random_seed=1, progressbar=False,
    )  # fmt: skip
    return pm.sample_bdmc(MODELS[name](), **defaults | options)


def gaps(dt) -> np.ndarray:
    """Difference of the directions' medians over runs, by data set, nats."""
    medians = (dt[group]["log_weight"].median("chain") for group in ("reverse", "forward"))
    return np.subtract(*medians)


def error_of_bar(dt) -> str:
    """Return the median error of log ML, nats; with a star unless most data sets call it valid."""
    found = bdmc.evidence(dt, "bar")
    return f"{found['error'].median():.2g}{'' if found['valid'].mean() > 0.5 else '*'}"


def at_fixed_cost() -> None:
    """As many transitions in all for every number of particles."""
    splits = {
        "runs": [(RUNS * PARTICLES[-1] // n, TEMPERATURES) for n in PARTICLES],
        "temperatures": [(RUNS, TEMPERATURES * PARTICLES[-1] // n) for n in PARTICLES],
    }
    found, errors = {}, {}
    for name in SHOWN:
        for split, sizes in splits.items():
            results = [
                sample(name, particles=n, chains=runs, temperatures=temperatures)
                for n, (runs, temperatures) in zip(PARTICLES, sizes, strict=True)
            ]
            found[name, split] = np.array([gaps(dt) for dt in results])
            errors[name, split] = [error_of_bar(dt) for dt in results]
    draw(found, splits)
    publish("Particles", TEXT, *summary(
        [[*key, *(f"{np.median(each):.2g}" for each in values)] for key, values in found.items()],
    ))  # fmt: skip
    print(table(HEAD, [[*key, *values] for key, values in errors.items()]))


HEAD = ["model", "paid with", *(f"N = {n}" for n in PARTICLES)]
TEXT = (
    "Gaps in nats on the path from the prior, with the adaptive schedule, on "
    f"{DATASETS} data sets from the prior. Each has {BUDGET:,} transitions in each direction. N "
    f"particles are paid with runs, {RUNS * PARTICLES[-1]}/N of them at T = {TEMPERATURES}, or "
    f"with temperatures, {RUNS} runs at T = {TEMPERATURES * PARTICLES[-1]}/N."
)


def summary(found: list[list]) -> list[str]:
    """What the section shows."""
    return [
        "![gap against the number of particles](images/particles.png)",
        "*A point is a data set: the median log weight of reverse runs less that of forward runs. "
        f"Lines join the medians. Gaps below {FLOOR} nats are drawn at {FLOOR}.*",
        all_rows("particles", HEAD, found),
    ]


def draw(found: dict, splits: dict) -> None:
    """A panel for each way to pay for the particles."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    titles = [
        f"paid with runs: {RUNS * PARTICLES[-1]}/N at T = {TEMPERATURES}",
        f"paid with temperatures: {RUNS} runs at T = {TEMPERATURES * PARTICLES[-1]}/N",
    ]
    for axes, split, title in zip(panels, splits, titles, strict=True):
        for i, name in enumerate(SHOWN):
            values = np.maximum(found[name, split], FLOOR)
            axes.plot(PARTICLES, values, "o", color=f"C{i}", alpha=0.3, markersize=4)
            axes.plot(PARTICLES, np.median(values, axis=1), color=f"C{i}", label=name)
        axes.loglog()
        axes.set(title=title, xlabel="particles of a run, N")
        axes.set_xticks(PARTICLES, labels=PARTICLES)
        axes.minorticks_off()
    panels[0].plot(PARTICLES, 300 / np.array(PARTICLES), "--", color="grey", label="1/N")
    panels[0].set_ylabel("gap of a run, nats")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(DOCS / "images" / "particles.png", dpi=100)


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    at_fixed_cost()


if __name__ == "__main__":
    main()
