"""The two paths beside one another, and what the default call makes of every model.

Run as ``python benchmarks/paths.py [--default] [--docs]``; half an hour, with ``--default`` a part
of it for the default call alone. With ``--docs`` sections go to docs/performance.md.
"""

import logging
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pymc as pm
from common import all_rows, numbers, publish, shown, table
from models import LOG_ML, MODELS

import pymc_bdmc as bdmc

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


BOTH = [
    "model", "prior: Λ²", "prior: T", "prior: error", "prior: CPU s", "fitted: Λ²", "fitted: T",
    "fitted: error", "fitted: CPU s",
]  # fmt: skip
DEFAULT = [
    "model", "path fitted", "median gap", "largest gap", "stated error", "worst z", "mean z²",
    "not valid", "CPU s", "wall s",
]  # fmt: skip
TEXT = (
    f"Calls with `simulate=None` and the path of the column, with {len(SEEDS)} seeds. CPU seconds "
    "without compilation are medians, the error is the root mean square error of log ML."
)


def beside_one_another(rows: list[list]) -> list[str]:
    """What the section on both paths shows."""
    shown = [name for name in BOTH if not name.endswith((" T", "fitted: Λ²"))]
    return [table(BOTH, rows, only=shown), all_rows("paths", BOTH, rows)]


def of_default(rows: list[list]) -> str:
    """What is said of default calls on these models."""
    columns = dict(zip(DEFAULT, map(list, zip(*rows, strict=True)), strict=True))
    fitted = [str(cell).split(" of ") for cell in columns["path fitted"]]
    took, calls = (sum(int(each[i]) for each in fitted) for i in (0, 1))
    invalid = sum(int(cell) for cell in columns["not valid"])
    return (
        f"{took} of {calls} default calls on these models take the fitted path "
        f"(`simulate=None` for those with two modes, since they are Potentials). The estimate is "
        f"not valid in {invalid}. The mean of z² is "
        f"{np.mean(numbers(map(str, columns['mean z²']))):.2f}, and the largest |z| "
        f"{max(numbers(map(str, columns['worst z'])))}."
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
        publish("Paths", TEXT, *beside_one_another(both))
    text = f"{of_default(default)} {all_rows('paths_default', DEFAULT, default)}"
    publish("Paths of default calls", text, command="python benchmarks/paths.py --default --docs")


if __name__ == "__main__":
    main()
