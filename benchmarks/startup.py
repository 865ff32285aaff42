"""CPU seconds until a user sees the first result: import, first call, second call.

Every row is measured in child processes of its own, and the median of three is printed. A cold one
has empty caches, as after an installation; a warm one finds what an earlier process compiled. The
model is the first example of the README, with the data simulated from the prior, and two models on
which preparing was once the greater part of a call.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

REPEATS = 3
ROOT = Path(__file__).parents[1]

MODELS = {
    "README": "coin()",
    "eight schools, non-centred": "eight_schools(centred=False)",
    "conjugate regression, d = 20": "conjugate_regression()[0]",
}

CALLS = """
import json, sys, time
started = time.process_time()
import pymc as pm
pymc = time.process_time()
import pymc_bdmc
imported = time.process_time()
from tests.models import conjugate_regression, eight_schools

def coin():
    with pm.Model() as model:
        pm.Binomial("heads", 20, pm.Beta("p", 1, 1), observed=14)
    return model

model, calls, clocks = {model}, [], []
for _ in range({n_calls}):
    before, clock = time.process_time(), time.perf_counter()
    dt = pm.sample_bdmc(model, simulate="prior", temperatures=200, random_seed=1, cores=2,
                        progressbar=False)
    calls.append((time.process_time() - before, dt.attrs["preparation_time"]))
    clocks.append(time.perf_counter() - clock)
print(json.dumps(dict(pymc=pymc - started, package=imported - pymc, calls=calls, wall=clocks)))
"""

COMPILED = """
import json, time
from numba.core import event

class Listener(event.Listener):
    found, open = {{}}, []

    def on_start(self, e):
        self.open.append([time.process_time(), 0.0])

    def on_end(self, e):
        began, within = self.open.pop()
        seconds = time.process_time() - began
        if self.open:
            self.open[-1][1] += seconds
        function = e.data["dispatcher"].py_func
        library = function.__module__.split(".")[0]
        n, total = self.found.get(library, (0, 0.0))
        self.found[library] = n + 1, total + seconds - within

event.register("numba:compile", Listener())
"""


def measured(program: str, caches: Path) -> dict:
    """What a child process prints last, with its caches in a folder."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "NUMBA_CACHE_DIR": str(caches / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={caches / 'pytensor'}",
    }
    child = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(child.stdout.splitlines()[-1])


def rows_of(model: str) -> list[list[str]]:
    """Cold and warm calls of a model."""
    cold, warm = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            caches = Path(folder)
            cold.append(measured(CALLS.format(model=MODELS[model], n_calls=1), caches))
            warm.append(measured(CALLS.format(model=MODELS[model], n_calls=3), caches))

    def middle(runs, call):
        seconds = [median(run["calls"][call][part] for run in runs) for part in (0, 1)]
        return [f"{seconds[0]:.2f}", f"{seconds[1]:.3f}",
                f"{median(run['wall'][call] for run in runs):.2f}"]  # fmt: skip

    return [
        [model, "cold", *middle(cold, 0)],
        [model, "warm, first", *middle(warm, 0)],
        [model, "warm, second", *middle(warm, 1)],
    ]
