"""The two paths beside one another, and what the default call makes of every model.

Run as ``python benchmarks/paths.py [--default] [--docs]``; half an hour, with ``--default`` a part
of it for the default call alone. With ``--docs`` tables and picture go to docs/paths.md.
"""

import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import publish, shown, table
from models import LOG_ML, MODELS
from scipy.special import ndtr

import pymc_bdmc as bdmc

DOCS = Path(__file__).parents[1] / "docs"
SEEDS = range(1, 7)


def two_modes(share: float) -> pm.Model:
    """In ten dimensions, 27 standard deviations apart, one with this share of the posterior."""
    sd, apart = 0.3, 4.0 / np.sqrt(10)
    with pm.Model() as model:
        x = pm.Normal("x", 0, 5, shape=10)
        modes = [-0.5 * pm.math.sum((x - at) ** 2) / sd**2 for at in (-apart, apart)]
        logs = np.log([share, 1 - share])
        pm.Potential("modes", pm.math.logaddexp(modes[0] + logs[0], modes[1] + logs[1]))
    return model


def two_modes_log_ml() -> float:
    variance = 25 + 0.3**2
    return 5 * np.log(0.3**2 / variance) - 8 / variance


def funnel() -> pm.Model:
    """Neal's, with one observation of each of nine variables."""
    with pm.Model() as model:
        scale = pm.Normal("scale", 0, 3)
        x = pm.Normal("x", 0, pm.math.exp(scale / 2), shape=9)
        pm.Normal("y", x, 1.0, observed=np.linspace(-2, 2, 9))
    return model


def funnel_log_ml() -> float:
    """Quadrature over the scale."""
    scales = np.arange(-30, 30, 0.01)
    variances = 1 + np.exp(scales)
    y = np.linspace(-2, 2, 9)
    logs = -0.5 * scales**2 / 9 - np.log(3 * np.sqrt(2 * np.pi))
    logs = logs - 4.5 * np.log(2 * np.pi * variances) - 0.5 * np.sum(y**2) / variances
    return float(np.log(np.sum(np.exp(logs)) * 0.01))


CASES: dict[str, tuple[Callable, Callable]] = {
    **{name: (make, LOG_ML[name]) for name, make in MODELS.items()},
    "funnel": (funnel, funnel_log_ml),
    "two equal modes": (partial(two_modes, 0.5), two_modes_log_ml),
    "two modes, 1 : 9": (partial(two_modes, 0.1), two_modes_log_ml),
}


def sample(model: pm.Model, **options):
    """The result, with the CPU and the wall seconds that it took."""
    started = time.process_time(), time.perf_counter()
    dt = pm.sample_bdmc(model, progressbar=False, **options)
    return dt, time.process_time() - started[0], time.perf_counter() - started[1]


def beside(name: str, model: pm.Model, log_ml: float) -> list:
    """Λ² and the evidence on both paths, on the real data."""
    cells: list = [name]
    for path in ("prior", "fitted"):
        found = [sample(model, path=path, simulate=None, random_seed=seed) for seed in SEEDS]
        rows = [bdmc.evidence(dt).iloc[0] for dt, *_ in found]
        values = np.array([row["value"] for row in rows])
        length = np.median([float(dt["real"]["thermodynamic_length"]) for dt, *_ in found])
        n = int(np.median([dt["real"].sizes["beta"] - 1 for dt, *_ in found]))
        error = np.sqrt(np.mean((values - log_ml) ** 2))
        seconds = np.median([cpu for _, cpu, _ in found])
        cells += [f"{length**2:.3g}", n, f"{error:.3f}", f"{seconds:.2f}"]
    return cells


def by_default(name: str, model: pm.Model, log_ml: float) -> list:
    """What a call without options gives."""
    simulate = None if name.startswith("two modes") or name == "two equal modes" else ...
    options = {} if simulate is ... else {"simulate": simulate}
    found = [sample(model, random_seed=seed, **options) for seed in SEEDS]
    rows = [bdmc.evidence(dt).query("data == 'real'").iloc[0] for dt, *_ in found]
    errors = np.array([row["error"] for row in rows])
    scores = np.array([row["value"] - log_ml for row in rows]) / errors
    gaps = [
        bdmc.summary(dt).loc[("simulated", "jeffreys bound"), "value"]
        for dt, *_ in found
        if "forward" in dt.children
    ]
    paths = [dt.attrs["path"] for dt, *_ in found]
    return [
        name,
        f"{paths.count('fitted')} of {len(paths)}",
        f"{np.median(gaps):.3f}" if gaps else "",
        f"{max(gaps):.3f}" if gaps else "",
        f"{np.median(errors):.3f}",
        f"{np.abs(scores).max():.1f}",
        f"{np.mean(scores**2):.2f}",
        sum(not row["valid"] for row in rows),
        f"{np.median([cpu for _, cpu, _ in found]):.1f}",
        f"{np.median([wall for *_, wall in found]):.1f}",
    ]


def draw(rows: list[list]) -> None:
    """Λ² from the prior and from a fit, a line a model."""
    names, prior, fitted = ([row[i] for row in rows] for i in (0, 1, 5))
    prior, fitted = (np.array(each, float) for each in (prior, fitted))
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    places = np.arange(len(rows))[::-1]
    axes.hlines(places, fitted, prior, color="0.7", lw=2)
    axes.plot(prior, places, "o", label="from the prior")
    axes.plot(fitted, places, "o", label="from a fit")
    axes.set_yticks(places, names)
    axes.set_xscale("log")
    axes.set_xlabel("Λ² (nats)")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "paths.png", dpi=150)


def publish_both(both: list[list]) -> None:
    draw(both)
    publish(
        "Two paths beside one another",
        "Made by `python benchmarks/paths.py --docs`. Calls have `simulate=None` and the\n"
        f"path of the column, and there are {len(SEEDS)} seeds. Λ², T and CPU seconds without\n"
        "compilation are medians. The error is the root mean square error of log ML.",
        "![Λ² of both paths](images/paths.png)",
        table(
            ["model", "prior: Λ²", "T", "error", "CPU s", "fitted: Λ²", "T", "error", "CPU s"],
            both,
        ),
        page=DOCS / "paths.md",
    )


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    both, default, alone = [], [], "--default" in sys.argv
    for name, (make, known) in CASES.items():
        model, log_ml = make(), known()
        sample(model, random_seed=0, temperatures=3, simulate=None)  # fills the caches
        if not alone:
            both.append(shown(beside(name, model, log_ml)))
        default.append(shown(by_default(name, model, log_ml)))
    if not alone:
        publish_both(both)
    expected = 2 * ndtr(-4) * len(default) * len(SEEDS)
    publish(
        "What the default call gives",
        "Made by `python benchmarks/paths.py --default --docs`: no option but the seed (for the\n"
        "models with two modes also `simulate=None`, since they are Potentials), "
        f"{len(SEEDS)} seeds, two cores. Gap of the\n"
        "simulated data, stated error of log ML, and its distance z from the truth in stated\n"
        f"errors. Of so many z, {expected:.1g} are expected beyond 4. Seconds are medians, with\n"
        "simulation, without compilation.",
        table(
            ["model", "path fitted", "median gap", "largest gap", "stated error", "worst z",
             "mean z²", "not valid", "CPU s", "wall s"],
            default,
        ),
        page=DOCS / "paths.md",
    )  # fmt: skip


if __name__ == "__main__":
    main()
