"""What the densities of 32 particles at once would win over one after the other.

Run as ``OPENBLAS_NUM_THREADS=1 python benchmarks/batched.py``, since threads of BLAS count as CPU
time while they wait; some three minutes. PyTensor vectorises the graph; the package itself makes no
use of it.
"""

import time
from statistics import median

import numba
import numpy as np
import pytensor.tensor as pt
from common import shown, table
from engine import bare
from models import MODELS
from pymc.pytensorf import compile as compile_graph
from pytensor.graph.replace import vectorize_graph

import pymc_bdmc as bdmc
from pymc_bdmc.base.upstream import jitted_function
from pymc_bdmc.density.tempered import TemperedDensity

PARTICLES = 32
BLOCKS, SECONDS = 9, 0.1
"""Blocks that alternate, and about how long each takes one after the other."""


def vectorised(jitted):
    """The density and its gradients for all rows of a matrix, inside numba."""
    (theta, data, interval), graph = jitted._graph(gradient=True)
    thetas = pt.matrix("thetas")
    outputs = vectorize_graph(graph, {theta: thetas})
    return jitted_function(
        compile_graph([thetas, data, interval], outputs, mode="NUMBA", on_unused_input="ignore")
    )


@numba.njit(nogil=True)
def at_once(density, thetas, data, n):
    """All rows n times."""
    total, interval = 0.0, np.array([0.0, 1.0])
    for _ in range(n):
        total += density(thetas, data, interval)[0][0]
    return total


def cpu(function, *arguments) -> float:
    """CPU seconds of a call."""
    started = time.process_time()
    function(*arguments)
    return time.process_time() - started


def gradients_of_a_call(name: str) -> int:
    """Of the runs of a default call."""
    dt = bdmc.sample_bdmc(MODELS[name](), random_seed=1, progressbar=False)
    return sum(dt[g].attrs["gradient_evaluations"] for g in ("forward", "reverse", "real"))


def compare(name: str) -> tuple:
    """Row of the table: CPU µs a particle, their ratio, CPU s to compile and saved in a call."""
    density = TemperedDensity(MODELS[name]())
    jitted, data = density.jitted, density.jitted.ravel_data(density.data)
    assert jitted.without_gradient  # compiled before the clock starts: so are the libraries
    thetas = 0.3 * np.random.default_rng(1).normal(size=(PARTICLES, jitted.size))
    gradients = np.empty((2, jitted.n_continuous))

    def one_by_one(n):
        bare(jitted.with_gradient, thetas, data, *gradients, n * PARTICLES)

    def together(n):
        at_once(many, thetas, data, n)

    compiling = [cpu(one_by_one, 1)]
    started = time.process_time()
    many = vectorised(jitted)
    together(1)
    compiling.append(time.process_time() - started)
    n = max(1, int(SECONDS / cpu(one_by_one, 1)))
    costs = np.array([(cpu(one_by_one, n), cpu(together, n)) for _ in range(BLOCKS)])
    ratio = median(costs[:, 0] / costs[:, 1])
    one, each = np.median(costs, axis=0) / n / PARTICLES
    saved = gradients_of_a_call(name) * (one - each)
    cells = f"{1e6 * one:.2f}", f"{1e6 * each:.2f}", f"{ratio:.1f}"
    return name, *cells, *(f"{seconds:.1f}" for seconds in (*compiling, saved))


def main() -> None:
    rows = [shown(compare(name)) for name in MODELS]
    head = ["model", "one by one, µs", "at once, µs a particle", "ratio",
            "compiling one, s", "compiling many, s", "saved in a default call, s"]  # fmt: skip
    print(table(head, rows))


if __name__ == "__main__":
    main()
