"""Two representations of one model beside one another: the gap against steps and against time.

Both start their reverse chains from the same exact samples, drawn here. Run as
``python benchmarks/representations.py [--docs] [pair ...]``; some ten minutes. With ``--docs``
tables go to docs/representations.md.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymc as pm
from common import all_rows, publish, shown, table
from models import SD_SCHOOLS

import pymc_bdmc as bdmc

PAGE = Path(__file__).parents[1] / "docs" / "representations.md"
STEPS = ["nuts", "hmc", "metropolis"]
AT = 100
"""Steps after which representations are compared."""


def uncollapsed() -> pm.Model:
    with pm.Model() as model:
        u = pm.Normal("u", shape=(50, 5))
        v = pm.Normal("v", shape=(5, 25))
        pm.Normal("y", u @ v, 1.0, observed=np.zeros((50, 25)))
    return model


def collapsed() -> pm.Model:
    """With u integrated out, the rows of y are independent and normal."""
    with pm.Model() as model:
        v = pm.Normal("v", shape=(5, 25))
        pm.MatrixNormal(
            "y", np.zeros((50, 25)), rowchol=np.eye(50), colcov=v.T @ v + np.eye(25),
            observed=np.zeros((50, 25)),
        )  # fmt: skip
    return model


def factorisation(rng: np.random.Generator) -> dict[str, np.ndarray]:
    u, v = rng.normal(size=(50, 5)), rng.normal(size=(5, 25))
    return dict(u=u, v=v, y=u @ v + rng.normal(size=(50, 25)))


def centred_schools() -> pm.Model:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, SD_SCHOOLS, observed=np.zeros(8))
    return model


def non_centred_schools() -> pm.Model:
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
        z = pm.Normal("z", shape=8)
        pm.Normal("y", mu + tau * z, SD_SCHOOLS, observed=np.zeros(8))
    return model


def schools(rng: np.random.Generator) -> dict[str, np.ndarray]:
    mu, tau, z = rng.normal(0, 5), abs(rng.normal(0, 5)), rng.normal(size=8)
    theta = mu + tau * z
    return dict(mu=mu, tau=tau, z=z, theta=theta, y=rng.normal(theta, SD_SCHOOLS))


def centred_funnel() -> pm.Model:
    with pm.Model() as model:
        scale = pm.Normal("scale", 0, 3)
        x = pm.Normal("x", 0, pm.math.exp(scale / 2), shape=9)
        pm.Normal("y", x, 1.0, observed=np.zeros(9))
    return model


def non_centred_funnel() -> pm.Model:
    with pm.Model() as model:
        scale, z = pm.Normal("scale", 0, 3), pm.Normal("z", shape=9)
        pm.Normal("y", pm.math.exp(scale / 2) * z, 1.0, observed=np.zeros(9))
    return model


def funnel(rng: np.random.Generator) -> dict[str, np.ndarray]:
    scale, z = rng.normal(0, 3), rng.normal(size=9)
    x = np.exp(scale / 2) * z
    return dict(scale=scale, z=z, x=x, y=rng.normal(x))


class Pair(NamedTuple):
    """Two representations of a model."""

    draw: Callable[[np.random.Generator], dict[str, np.ndarray]]
    """Parameters of both, and the data; a representation takes those that bear its names."""
    models: dict[str, tuple[Callable[[], pm.Model], list[int]]]
    """Each with its ladder of T."""
    chains: int
    datasets: int


PAIRS = {
    "factorisation 50×25×5": Pair(
        factorisation,
        {
            "uncollapsed": (uncollapsed, [30, 100, 300, 1000]),
            "collapsed": (collapsed, [30, 100, 300]),
        },
        chains=4, datasets=3,
    ),
    "eight schools": Pair(
        schools,
        {
            "centred": (centred_schools, [10, 30, 100, 300]),
            "non-centred": (non_centred_schools, [10, 30, 100, 300]),
        },
        chains=32, datasets=6,
    ),
    "funnel": Pair(
        funnel,
        {
            "centred": (centred_funnel, [10, 30, 100, 300]),
            "non-centred": (non_centred_funnel, [10, 30, 100, 300]),
        },
        chains=32, datasets=6,
    ),
}  # fmt: skip


class Measured(NamedTuple):
    """What one kernel makes of one representation."""

    ladder: list[int]
    gaps: np.ndarray
    """Nats, of shape (datasets, rungs)."""
    speed: float
    """CPU milliseconds a step of one chain."""


def measure(model: pm.Model, ladder: list[int], step: str, pair: Pair) -> Measured:
    rng, gaps, speeds = np.random.default_rng(1), [], []
    for seed in range(pair.datasets):
        values = pair.draw(rng)
        point = {rv.name: values[rv.name] for rv in model.free_RVs}
        started = time.process_time(), time.perf_counter()
        dt = pm.sample_bdmc(
            model, simulate=bdmc.Given(point, {"y": values["y"]}, exact=True), real_data=False,
            step=step, particles=1, path="prior", temperatures=ladder, chains=pair.chains,
            random_seed=seed, cores=1, progressbar=False,
        )  # fmt: skip
        # On a busy machine the clock runs on while others have the CPU.
        busy = (time.process_time() - started[0]) / (time.perf_counter() - started[1])
        seconds = dt["rounds"]["seconds"].sum().item() * busy
        gaps.append(dt["rounds"]["jeffreys_bound"].values)
        speeds.append(1000 * seconds / (2 * pair.chains * sum(ladder)))
    return Measured(ladder, np.array(gaps), float(np.mean(speeds)))


def mean(values: np.ndarray) -> str:
    """With its standard error over the data sets, which both representations share."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def difference(found: list[Measured]) -> list[str]:
    """Gap of the second representation less that of the first, after as many steps and seconds."""

    def less(steps: list[float]) -> str:
        first, second = (
            np.array([np.interp(np.log(n), np.log(each.ladder), gap) for gap in each.gaps])
            for n, each in zip(steps, found, strict=True)
        )
        return mean(second - first)

    moment = max(AT * each.speed for each in found)
    return [less([AT, AT]), less([moment / each.speed for each in found])]


def report(name: str, found: dict[tuple[str, str], Measured]) -> None:
    """The section of the page on one pair; by kernel and representation."""
    pair = PAIRS[name]
    ladder = sorted({t for each in found.values() for t in each.ladder})
    rows = []
    for (step, label), each in found.items():
        gaps = dict(zip(each.ladder, map(mean, each.gaps.T), strict=True))
        rows.append([step, label, *(gaps.get(t, "") for t in ladder), f"{each.speed:.3f}"])
    first, second = pair.models
    differences = [[step, *difference([found[step, first], found[step, second]])] for step in STEPS]
    text = TEXT.format(chains=pair.chains, datasets=pair.datasets, first=first, second=second)
    head = ["kernel", "representation", *(f"T = {t}" for t in ladder), "CPU ms a step"]
    publish(name[0].upper() + name[1:], text, *summary(name, differences, head, rows), page=PAGE)


TEXT = (
    f"The gap of the {{second}} representation less that of the {{first}} one, after {AT} steps of "
    f"each, and after the time in which the slower one makes {AT} steps. There are {{chains}} "
    "chains in each direction on each of {datasets} data sets."
)


def summary(name: str, differences: list, head: list, rows: list) -> list[str]:
    """What the section on a pair shows."""
    file = f"representations_{name.split()[0]}"
    return [
        table(["kernel", "at equal steps", "at equal time"], differences),
        all_rows(file, head, rows),
    ]


def main() -> None:
    for name in [each for each in sys.argv[1:] if each in PAIRS] or PAIRS:
        pair, found = PAIRS[name], {}
        models = {label: (make(), ladder) for label, (make, ladder) in pair.models.items()}
        for step in STEPS:
            for label, (model, ladder) in models.items():
                each = found[step, label] = measure(model, ladder, step, pair)
                shown([name, step, label, *map(mean, each.gaps.T), f"{each.speed:.3f}"])
        report(name, found)


if __name__ == "__main__":
    main()
