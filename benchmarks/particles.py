"""What several particles a run are worth, at equal cost and until the gap is below one nat.

Run as ``python benchmarks/particles.py``; some fifteen minutes.
"""

import logging
import time

import numpy as np
import pymc as pm
from common import table
from models import MODELS

import pymc_bdmc as bdmc

BUDGET = 3200
"""Transitions a run, particles times temperatures."""
PARTICLES = (1, 4, 16, 64)
CHAINS, DATASETS = 8, 2
SEEDS = (1, 2, 3)
MAX_TIME = 60.0
POPULATION = 32


class CPU(logging.Handler):
    """CPU seconds since the model was ready, which the logger announces."""

    def __init__(self):
        super().__init__()
        self.started = 0.0

    def emit(self, record):
        """Start where the kernel is named."""
        if record.getMessage().startswith("Kernel:"):
            self.started = time.process_time()

    def seconds(self) -> float:
        """Since then, of all threads."""
        return time.process_time() - self.started


def sample(name: str, **options):
    defaults = dict(
        chains=CHAINS, simulate=bdmc.FromPrior(DATASETS), schedule="adaptive", real_data=False,
        progressbar=False,
    )  # fmt: skip
    return pm.sample_bdmc(MODELS[name](), **defaults | options)


def gap(dt) -> float:
    """Median over data sets of the difference of the directions' medians, nats."""
    medians = (dt[group]["log_weight"].median("chain") for group in ("reverse", "forward"))
    return float(np.median(np.subtract(*medians)))


def at_equal_cost(name: str) -> list[float]:
    """Gaps by particles, each with the temperatures that the budget leaves; medians over seeds."""
    return [
        float(np.median([
            gap(sample(name, particles=n, temperatures=BUDGET // n, random_seed=seed))
            for seed in SEEDS
        ]))
        for n in PARTICLES
    ]  # fmt: skip


def to_one_nat(name: str, cpu: CPU, particles: int) -> tuple[float, float, int]:
    """CPU seconds, gap and T where the Jeffreys bound is below one nat; medians over seeds."""
    found = []
    for seed in SEEDS:
        dt = sample(name, particles=particles, temperatures=32, target_gap=1.0,
                    max_time=MAX_TIME, random_seed=seed)  # fmt: skip
        last = dt["rounds"].isel(round=-1)
        found.append((cpu.seconds(), float(last["jeffreys_bound"]), int(last["temperatures"])))
    seconds, gaps, temperatures = np.median(found, axis=0)
    return seconds, gaps, int(temperatures)


def main() -> None:
    logger, cpu = logging.getLogger("pymc.bdmc"), CPU()
    logger.handlers[:] = [cpu]
    gaps = {name: at_equal_cost(name) for name in MODELS}
    print(f"## At equal cost\n\n{BUDGET} transitions a run, {CHAINS} runs a direction on each of")
    print(f"{DATASETS} data sets from the prior, adaptive schedule. Gap of the medians, nats: the")
    print(f"median over data sets and over {len(SEEDS)} seeds.\n")
    head = ["model", *(f"N = {n}, T = {BUDGET // n}" for n in PARTICLES)]
    print(table(head, [[name, *(f"{v:.3g}" for v in row)] for name, row in gaps.items()]))
    print(
        "\n## Time to one nat\n\n`target_gap=1`, from T = 32 on, with the round that confirms it."
    )
    print(f"CPU seconds without compilation; medians over {len(SEEDS)} seeds. Two cores,")
    print(f"`max_time={MAX_TIME:g}`.\n")
    rows = []
    for name in MODELS:
        to_one_nat(name, cpu, POPULATION)  # fills the caches
        one, many = (to_one_nat(name, cpu, n) for n in (1, POPULATION))
        cells = [cell for s, g, t in (one, many) for cell in (f"{s:.2f}", f"{g:.2f}", t)]
        rows.append([name, *cells, f"{many[0] / one[0]:.2f}"])
    head = ["model", "N = 1: s", "gap", "T", f"N = {POPULATION}: s", "gap", "T", "ratio of s"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
