"""Time of a transition in the annealing loop against the step method's own bare `step`.

Both are measured alternately in one run on the same states and parameters, at β = 0.5, and the
median ratio of many short blocks is printed: machines are noisy, ratios in one run less so.
"""

import sys
import time
from statistics import median

import numpy as np
import pymc as pm

from pymc_bdmc.base.types import Direction
from pymc_bdmc.density.tempered import TemperedDensity
from pymc_bdmc.engines import PilotTask, StepEngine, anneal

sys.path.insert(0, "examples")
import discrete_mixture
import eight_schools
import logistic_regression

CASES = [
    ("eight schools", eight_schools.non_centred, pm.NUTS),
    ("eight schools", eight_schools.non_centred, pm.HamiltonianMC),
    ("eight schools", eight_schools.non_centred, pm.Metropolis),
    ("eight schools", eight_schools.non_centred, pm.Slice),
    ("logistic regression", logistic_regression.build, pm.NUTS),
    ("discrete mixture", lambda: discrete_mixture.build(2.0), None),
]


def measure(build, step, blocks: int, length: int) -> tuple[float, float]:
    """Median microseconds of a bare step, and median ratio of a transition to it."""
    betas = np.r_[0.0, np.full(length, 0.5)]  # one β throughout: both do exactly the same work
    density = TemperedDensity(build())
    engine = StepEngine(density, np.array([0.0, 0.5, 1.0]), step)
    tuning = engine.pilot(PilotTask(density.data, np.random.SeedSequence(1)))
    engine.betas = betas
    kernel = engine.kernel(tuning)
    bare, ratios = [], []
    start, _ = density.draw_prior(np.random.default_rng(2))
    for block in range(blocks):
        kernel.reset(np.random.default_rng(block))
        kernel.tune(0.5)
        state = start
        started = time.perf_counter()
        for _ in range(length):
            for each in kernel.steps:
                state, _ = each.step(state)
        plain = time.perf_counter() - started
        started = time.perf_counter()
        rng = np.random.default_rng(block)
        chain = anneal(kernel, engine.log_likelihood, betas, [start], Direction.FORWARD, rng)
        ratios.append((time.perf_counter() - started) / plain)
        bare.append(plain / length)
        start = {name: values[0] for name, values in chain.ends.items()}
        assert all(np.array_equal(start[name], state[name]) for name in state)
    return 1e6 * median(bare), median(ratios)


def main(blocks: int = 40, length: int = 200) -> None:
    print(f"{'model':22}{'step methods':34}{'bare step':>12}{'ratio':>8}")
    for name, build, step in CASES:
        microseconds, ratio = measure(build, step, blocks, length)
        label = step.__name__ if step else "PyMC's own (NUTS, BinaryGibbs)"
        print(f"{name:22}{label:34}{microseconds:9.0f} µs{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
