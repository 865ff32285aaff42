"""What a user waits for before the first result: imports, compilation, preparation; in CPU seconds.

Every process is one of its own, and medians of three are printed. A cold process has empty caches,
as after an installation; a warm one finds what the cold one compiled. Data are simulated from the
prior. `--docs` puts the tables on the page.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from common import all_rows, publish, shown, table
from common import median as cells_median

REPEATS = 3
ROOT = Path(__file__).parents[1]

MODELS = {
    "the first example": "coin()",
    "eight schools, non-centred": "eight_schools(centred=False)",
    "conjugate regression, d = 20": "conjugate_regression()[0]",
}

PROGRAM = """
import json, time
started = time.process_time()
import pymc as pm
pymc = time.process_time()
import pymc_bdmc
package = time.process_time()
from numba.core import event
from tests.models import conjugate_regression, eight_schools

class Compilations(event.Listener):
    open, seconds, number = [], dict(), dict()

    def on_start(self, e):
        self.open.append([time.process_time(), 0.0])

    def on_end(self, e):
        began, within = self.open.pop()
        taken = time.process_time() - began
        if self.open:
            self.open[-1][1] += taken
        module = e.data["dispatcher"].py_func.__module__ or ""
        part = "ours" if module.startswith("pymc_bdmc.") else "others"
        self.seconds[part] = self.seconds.get(part, 0.0) + taken - within
        self.number[part] = self.number.get(part, 0) + 1

event.register("numba:compile", Compilations())

def coin():
    with pm.Model() as model:
        pm.Binomial("heads", 20, pm.Beta("p", 1, 1), observed=14)
    return model

model, calls = MODEL, []
for _ in range(2):
    cpu, wall = time.process_time(), time.perf_counter()
    dt = pm.sample_bdmc(model, simulate="prior", random_seed=1, cores=2, progressbar=False)
    calls.append(dict(cpu=time.process_time() - cpu, wall=time.perf_counter() - wall,
                      preparation=dt.attrs["preparation_time"]))
imports = [pymc - started, package - pymc]
print(json.dumps(dict(imports=imports, calls=calls, seconds=Compilations.seconds,
                      number=Compilations.number)))
"""


def measured(model: str, caches: str) -> dict:
    """What a process with its caches in this folder says of two calls."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "NUMBA_CACHE_DIR": f"{caches}/numba",
        "PYTENSOR_FLAGS": f"base_compiledir={caches}/pytensor",
    }
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("MODEL", MODELS[model])],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(child.stdout.splitlines()[-1])


def calls_of(model: str) -> tuple[list[list[str]], list[dict]]:
    """Rows of a model, and what its cold processes said."""
    cold, warm = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as caches:
            cold.append(measured(model, caches))
            warm.append(measured(model, caches))

    def row(name: str, runs: list[dict], call: int) -> list[str]:
        cpu, wall, preparation = (
            median(run["calls"][call][key] for run in runs)
            for key in ("cpu", "wall", "preparation")
        )
        return shown([model, name, f"{cpu:.2f}", f"{wall:.2f}", f"{1000 * preparation:.0f}"])

    rows = [row("cold", cold, 0), row("warm", warm, 0), row("warm, second", warm, 1)]
    return rows, cold + warm


def main() -> None:
    rows, imports = [], []
    for model in MODELS:
        found, runs = calls_of(model)
        rows += found
        imports += [run["imports"] for run in runs]
        for part, name in {"ours": "the package's", "others": "PyTensor's and numba's"}.items():
            of = [(run["number"].get(part, 0), run["seconds"].get(part, 0.0)) for run in runs]
            cold, warm = of[:REPEATS], of[REPEATS:]
            shown([
                model, name,
                *(f"{median(n for n, _ in each)}, {median(s for _, s in each):.1f} s"
                  for each in (cold, warm)),
            ])  # fmt: skip
    pymc, package = (median(each) for each in zip(*imports, strict=True))
    head = ["model", "call", "CPU, s", "wall, s", "preparation, ms"]
    publish(
        "Start-up",
        "Calls on two threads that need no annealing, without imports: medians over three models. "
        "The preparation ends when the first runs begin. A cold process has empty caches; a warm "
        f"one has those of the cold one. `import pymc` takes {pymc:.2f} s, and `import pymc_bdmc` "
        f"{package:.2f} s more.",
        table(["call", *head[2:]], in_the_middle(rows)),
        all_rows("startup", head, rows),
    )


def in_the_middle(rows: list[list[str]]) -> list[list]:
    """Medians over models, a row a call."""
    calls = dict.fromkeys(row[1] for row in rows)
    forms = (".1f", ".1f", ".0f")
    return [
        [call, *(cells_median([row[place] for row in rows if row[1] == call], form)
                 for place, form in enumerate(forms, 2))]
        for call in calls
    ]  # fmt: skip


if __name__ == "__main__":
    main()
