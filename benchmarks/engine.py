"""What a gradient costs in the compiled engine, beside the bare density and PyMC's step methods.

Run as ``python benchmarks/engine.py [--docs]``; some three minutes. With ``--docs`` the tables go
to docs/performance.md. Whatever is compared runs alternately, and medians of ratios are printed:
machines are noisy, ratios in one run less so.
"""

import subprocess
import sys
from pathlib import Path
from statistics import median

import numba
import numpy as np
import pymc as pm
from common import Annealer, all_rows, publish, shown, span, table, timed
from models import MODELS

from pymc_bdmc.base.interrupts import interruptible

BLOCKS = 9
SCHOOLS = "eight schools, non-centred"


@numba.njit(nogil=True)
def bare(density, thetas, data, first, second, n):
    """The jitted density and its gradients n times, at a new place every time, as in a chain."""
    interval = np.array([0.0, 1.0])
    for i in range(n):
        density(thetas[i % len(thetas)], data, interval, first, second)


def overhead(name: str) -> tuple:
    """Row of the table: costs in µs, and ratios to them."""
    annealer = Annealer(MODELS[name](), "hmc")
    engine, jitted = annealer.engine, annealer.engine.jitted
    data, gradients = jitted.ravel_data(annealer.data), np.empty((2, jitted.n_continuous))
    rng, costs, ratios = np.random.default_rng(1), [], []
    for task in annealer.tasks(1000, BLOCKS):
        seconds, chain = timed(task.run, engine)
        n, end = chain.gradient_evaluations, jitted.ravel(chain.ends)
        scales = task.tuning.at(task.betas).scales
        thetas = end + scales * rng.normal(size=scales.shape)
        bare(jitted.with_gradient, thetas, data, *gradients, 1)
        plain, _ = timed(bare, jitted.with_gradient, thetas, data, *gradients, n)
        costs.append(plain / n)
        ratios.append(seconds / plain)
    draw = median(timed(annealer.density.prior.draw_many, 250, rng)[0] for _ in range(BLOCKS))
    cells = f"{1e6 * median(costs):.2f}", f"{median(ratios):.2f}", f"{1e6 * draw:.0f}"
    return name, *cells, threads(annealer)


def threads(annealer: Annealer) -> str:
    """How much faster two threads run sixteen chains."""
    tasks = annealer.tasks(1000, 16)

    def run(cores):
        with interruptible() as stop, annealer.engine.pool(cores, stop) as pool:
            return list(pool.run(tasks))

    ratios = [timed(run, 1)[0] / timed(run, 2)[0] for _ in range(BLOCKS // 3)]
    return f"{median(ratios):.2f}"


def against_step_methods() -> list[tuple]:
    """Time of the same number of temperatures, by gradient and by transition."""
    rows = []
    for name, method in (("hmc", pm.HamiltonianMC), ("nuts", pm.NUTS), ("hmc", pm.NUTS)):
        compiled = Annealer(MODELS[SCHOOLS](), name)
        steps = Annealer(MODELS[SCHOOLS](), method)
        costs = []
        for pair in zip(compiled.tasks(5000, BLOCKS), steps.tasks(200, BLOCKS), strict=True):
            for annealer, task in zip((compiled, steps), pair, strict=True):
                seconds, chain = timed(task.run, annealer.engine)
                costs.append((seconds / chain.gradient_evaluations, seconds / len(task.betas)))
        ours, theirs = np.array(costs)[::2], np.array(costs)[1::2]
        ratios = np.median(theirs / ours, axis=0)
        cells = [f"{1e6 * each:.3g}" for each in np.median([ours, theirs], axis=1).ravel()]
        rows.append((f"`{name}`, pm.{method.__name__}", *cells, *(f"{r:.0f}" for r in ratios)))
    return rows


def peak_memory() -> None:
    """MB that 64 chains of 10^5 temperatures add at their peak; on Linux, in its own process."""
    for chains, temperatures in ((2, 10), (64, 100_000)):  # the first compiles everything
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts over from what is held now
        before = memory("VmRSS")
        pm.sample_bdmc(
            MODELS[SCHOOLS](), chains=chains, particles=1, temperatures=temperatures, path="prior",
            simulate=None, random_seed=1, progressbar=False,
        )  # fmt: skip
    print((memory("VmHWM") - before) // 1024)


def memory(field: str) -> int:
    """Kilobytes of this process, now or at the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field)))


CHAINS = [
    "model", "bare gradient, µs", "chain, bare costs a gradient", "250 prior draws, µs",
    "two threads, × faster",
]  # fmt: skip


def main() -> None:
    rows = [shown(overhead(name)) for name in MODELS]
    steps = against_step_methods()
    peak = subprocess.run(
        [sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True
    ).stdout.strip()
    publish(
        "The engine",
        "A chain is 250 draws from the prior and HMC along 1000 temperatures. On "
        f"{len(rows)} models one of its gradients costs as much as {span(row[2] for row in rows)} "
        "evaluations of the compiled density with its gradients. "
        f"{all_rows('engine', CHAINS, rows)} The table has compiled kernels and PyMC's step "
        f"methods in the same loop, on {SCHOOLS}, in µs. Equal kernels compare by gradient; the "
        "last row has the defaults of both, which compare by transition.",
        table(
            ["kernel", "compiled, a gradient", "a transition", "step method, a gradient",
             "a transition", "ratio by gradient", "by transition"],
            steps,
        ),
        f"At its peak, a call with 64 chains of 10^5 temperatures holds {peak} MB more than a "
        "short call with the same model.",
    )  # fmt: skip


if __name__ == "__main__":
    peak_memory() if "--memory" in sys.argv else main()
