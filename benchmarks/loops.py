"""What vector instructions win in the bare density with its gradient, and cost to compile.

Run as ``OPENBLAS_NUM_THREADS=1 python benchmarks/loops.py``; some five minutes. Both functions run
alternately, at 32 places each, and medians are printed: with the exponentials and logarithms of the
C library, one after the other, and with those of base/elementary.py, eight at once (AVX-512). The
compilation is timed in processes of their own, where the caches of PyTensor are empty but for what
a model of two normal variables needs.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import numpy as np
import pymc as pm
from common import shown, table
from engine import bare
from models import MODELS

from pymc_bdmc.density import compiled
from pymc_bdmc.density.fast import WITH_FAST_LOOPS, WITH_LIGHT_PRODUCTS
from pymc_bdmc.density.tempered import TemperedDensity

MODES = {"scalar": WITH_LIGHT_PRODUCTS, "vector": WITH_FAST_LOOPS}
BLOCKS, SECONDS = 15, 0.05
COMPILED = [
    "eight schools, non-centred", "AR(1)", "logistic 768×8", "mixture of two normals",
]  # fmt: skip


def logistic(n: int, d: int) -> pm.Model:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-x @ rng.normal(0, d**-0.5, size=d)))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=x @ pm.Normal("weights", shape=d), observed=y.astype(int))
    return model


def mixture(n: int, components: int) -> pm.Model:
    rng = np.random.default_rng(3)
    y = rng.normal(3 * rng.integers(components, size=n), 1)
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(components))
        mu = pm.Normal("mu", 0, 3, shape=components)
        sigma = pm.HalfNormal("sigma", 2, shape=components)
        pm.NormalMixture("y", shares, mu, sigma, observed=y)
    return model


def poisson(n: int, d: int) -> pm.Model:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(n, d))
    with pm.Model() as model:
        rate = pm.math.exp(x @ pm.Normal("weights", 0, 0.3, shape=d))
        pm.Poisson("y", rate, observed=rng.poisson(1, n))
    return model


ALL: dict[str, Callable[[], pm.Model]] = MODELS | {
    "logistic 500×8": lambda: logistic(500, 8),
    "logistic 2000×40": lambda: logistic(2000, 40),
    "logistic 10,000×100": lambda: logistic(10_000, 100),
    "mixture, 1000 values, 3 components": lambda: mixture(1000, 3),
    "Poisson 500×8": lambda: poisson(500, 8),
}


def function_of(name: str, mode: str):
    """The compiled density with its gradient, and what to call it with."""
    with patch.object(compiled, "MODES", [MODES[mode]]), patch.object(compiled, "_cfuncs", {}):
        density = TemperedDensity(ALL[name]())
        flat = density.jitted
        thetas = 0.3 * np.random.default_rng(1).normal(size=(32, flat.size))
        gradients = np.empty((2, flat.n_continuous))
        return flat.with_gradient, thetas, flat.ravel_data(density.data), *gradients


def cpu(function, *arguments) -> float:
    """CPU seconds of a call."""
    started = time.process_time()
    function(*arguments)
    return time.process_time() - started


def compare(name: str) -> tuple:
    """Row of the table: CPU µs a call and their ratio."""
    both = [function_of(name, mode) for mode in MODES]
    for each in both:
        bare(*each, 32)
    n = max(3, int(SECONDS * 32 / cpu(bare, *both[0], 32)))
    costs = np.array([[cpu(bare, *each, n) / n for each in both] for _ in range(BLOCKS)])
    scalar, vector = 1e6 * np.median(costs, axis=0)
    return name, f"{scalar:.2f}", f"{vector:.2f}", f"{median(costs[:, 0] / costs[:, 1]):.2f}"


def compiling(name: str) -> tuple:
    """Row of the table: CPU seconds to compile with empty caches and with full ones, by mode."""
    cells = []
    for mode in MODES:
        with tempfile.TemporaryDirectory() as place:
            environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={place}"}
            run = [sys.executable, __file__, "--compile", name, mode]
            for _ in range(2):
                said = subprocess.run(run, env=environment, capture_output=True, check=True).stdout
                cells.append(f"{float(said):.1f}")
    return name, cells[0], cells[2], cells[1], cells[3]


def compile_one(name: str, mode: str) -> None:
    """Print the CPU seconds of one compilation, after that of a small model."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), observed=1.0)
    assert TemperedDensity(model).jitted.with_gradient
    print(cpu(function_of, name, mode))


def main() -> None:
    head = ["model", "before, µs", "vectors, µs", "ratio"]
    rows = [shown(compare(name)) for name in ALL]
    costs = [shown(compiling(name)) for name in COMPILED]
    columns = ["empty, before", "empty, vectors", "full, before", "full, vectors"]
    print(table(head, rows), table(["model", *columns], costs), sep="\n\n")


if __name__ == "__main__":
    compile_one(*sys.argv[2:]) if "--compile" in sys.argv else main()
