"""Two representations of one model beside one another: the gap against steps and against time.

Both start their reverse chains from the same exact samples, drawn here. Run as
``python benchmarks/representations.py [--docs] [pair ...]``; some ten minutes. With ``--docs``
tables and pictures go to docs/representations.md.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from common import publish, shown, table
from models import SD_SCHOOLS

import pymc_bdmc as bdmc

PAGE = Path(__file__).parents[1] / "docs" / "representations.md"
STEPS = ["nuts", "hmc", "metropolis"]


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
    at: int
    """The T at which they are compared."""
    chains: int
    datasets: int


PAIRS = {
    "factorisation 50×25×5": Pair(
        factorisation,
        {
            "uncollapsed": (uncollapsed, [30, 100, 300, 1000, 3000]),
            "collapsed": (collapsed, [30, 100, 300]),
        },
        at=300, chains=4, datasets=4,
    ),
    "eight schools": Pair(
        schools,
        {
            "centred": (centred_schools, [10, 30, 100, 300]),
            "non-centred": (non_centred_schools, [10, 30, 100, 300]),
        },
        at=30, chains=32, datasets=12,
    ),
    "funnel": Pair(
        funnel,
        {
            "centred": (centred_funnel, [10, 30, 100, 300]),
            "non-centred": (non_centred_funnel, [10, 30, 100, 300]),
        },
        at=30, chains=32, datasets=12,
    ),
}  # fmt: skip


def measure(model: pm.Model, ladder: list[int], step: str, pair: Pair) -> np.ndarray:
    """Gap in nats and CPU seconds a chain, by data set, of shape (datasets, 2, rungs)."""
    rng, found = np.random.default_rng(1), []
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
        rounds = dt["rounds"]
        seconds = rounds["seconds"].values * busy / (2 * pair.chains)
        found.append([rounds["jeffreys_bound"].values, seconds])
    return np.array(found)


def mean(values: np.ndarray) -> str:
    """With its standard error over the data sets, which both representations share."""
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def difference(pair: Pair, found: list[np.ndarray]) -> list[str]:
    """Gap of the second representation less that of the first, after as many steps and seconds."""
    places = [ladder.index(pair.at) for _, ladder in pair.models.values()]
    gaps = [each[:, 0, place] for each, place in zip(found, places, strict=True)]
    curves = [(np.log(each[:, 1].mean(axis=0)), each[:, 0]) for each in found]
    moment = max(times[place] for (times, _), place in zip(curves, places, strict=True))
    then = [np.array([np.interp(moment, times, gap) for gap in gaps]) for times, gaps in curves]
    return [mean(gaps[1] - gaps[0]), mean(then[1] - then[0])]


def draw(name: str, found: dict[tuple[str, str], np.ndarray]) -> None:
    """Gap against steps and against time, a colour each kernel, a line each representation."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    pair = PAIRS[name]
    for (step, label), each in found.items():
        style = dict(
            color=f"C{STEPS.index(step)}",
            linestyle=["-", "--"][list(pair.models).index(label)],
            marker="o",
            label=f"{step}, {label}",
        )
        gap, seconds = each.mean(axis=0)
        axes[0].plot(pair.models[label][1], gap, **style)
        axes[1].plot(seconds, gap, **style)
    for axis, label in zip(axes, ("temperatures", "CPU seconds a chain"), strict=True):
        axis.set(xscale="log", xlabel=label)
        axis.set_yscale("symlog", linthresh=0.1)
    axes[0].set(ylabel="gap, nats", title=name)
    axes[1].legend(fontsize="small")
    figure.savefig(PAGE.parent / "images" / picture(name))


def picture(name: str) -> str:
    return f"representations_{name.split()[0]}.png"


def main() -> None:
    for name in [each for each in sys.argv[1:] if each in PAIRS] or PAIRS:
        pair = PAIRS[name]
        models = {label: (make(), ladder) for label, (make, ladder) in pair.models.items()}
        ladder = sorted({t for _, rungs in models.values() for t in rungs})
        found, rows, differences = {}, [], []
        for step in STEPS:
            for label, (model, rungs) in models.items():
                each = found[step, label] = measure(model, rungs, step, pair)
                gaps = [mean(each[:, 0, rungs.index(t)]) if t in rungs else "" for t in ladder]
                speed = 1000 * each[:, 1, -1].mean() / rungs[-1]
                rows.append(shown([step, label, *gaps, f"{speed:.3f}"]))
            both = [found[step, label] for label in models]
            differences.append(shown([step, *difference(pair, both)]))
        if "--docs" in sys.argv:
            draw(name, found)
        first, second = models
        publish(
            name[0].upper() + name[1:],
            f"{pair.chains} chains a direction on each of {pair.datasets} data sets.",
            f"![Gaps of both representations](images/{picture(name)})",
            table(
                ["kernel", "representation", *(f"T = {t}" for t in ladder), "CPU ms a step"], rows
            ),
            f"Gap of the {second} representation less that of the {first} one:",
            table(
                [
                    "kernel",
                    f"after {pair.at} steps",
                    "after the slower one's time for them",
                ],
                differences,
            ),
            page=PAGE,
        )


if __name__ == "__main__":
    main()
