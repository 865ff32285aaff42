"""Show that the tests bite: break the package in many ways, one at a time, and see which fail.

Run as ``python benchmarks/mutants.py [--faults NUMBER …] [--docs]``. Every fault is made in a copy
of the repository. The tests that it is likely to fail are run first, and if all of them pass, all
quick tests: what `make test` runs. The first failure is shown. Number 0 is no fault, and the tests
of all faults must pass with it. What has been found is kept in output/mutants.jsonl, and the
command goes on where it was stopped; delete the file where the package or a test has changed.
``--docs`` puts the table in docs/mutants.md.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from common import DOCS, all_rows, made_by, publish, shown, table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "output" / "mutants.jsonl"


class Fault(NamedTuple):
    """A text that occurs once in a file of the package, its replacement, and the likely tests."""

    title: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = [
    # annealing
    Fault(
        "the sign of log w", "run/loop.py",
        "log_weight + increments[t] * ell", "log_weight - increments[t] * ell",
        "systems/test_continuous.py",
    ),
    Fault(
        "each weight one temperature late", "run/chain.py",
        "plan.betas[t] - plan.betas[t - 1]", "plan.betas[min(t + 1, last)] - plan.betas[t]",
        "engines/test_populations.py",
    ),
    Fault(
        "the reversal scans discrete elements in the forward order", "kernels/transition.py",
        "j = n - 1 - k if backwards else k", "j = k",
        "kernels/test_compiled.py engines/test_populations.py",
    ),
    Fault(
        "conditional resampling ignores where the kept particle is", "run/resampling.py",
        "np.roll(systematic(weights, n, phase), -own)", "systematic(weights, n, phase)",
        "engines/test_populations.py",
    ),
    Fault(
        "weights are kept after resampling", "run/chain.py",
        "weights[:] = 1.0 / n", "weights /= weights.sum()",
        "engines/test_populations.py engines/test_loop_twins.py",
    ),
    Fault(
        "the prior is tempered too", "kernels/state.py",
        "value += beta * state.terms[1]",
        "value = beta * (state.terms[0] + state.terms[1])",
        "kernels/test_compiled.py",
    ),
    Fault(
        "HMC accepts by half the error of the energy", "kernels/moves.py",
        "np.exp(-error))\n    if rng", "np.exp(-0.5 * error))\n    if rng",
        "kernels/test_compiled.py",
    ),
    Fault(
        "one interval of β too few", "base/schedules.py",
        "np.linspace(0, 1, size + 1)), dtype", "np.linspace(0, 1, size)), dtype",
        "base/test_schedules.py",
    ),
    Fault(
        "chains of a data set share their random numbers", "base/streams.py",
        "spawn_key=key)", "spawn_key=key[:2])",
        "call/test_streams.py call/test_sampling.py",
    ),
    # densities and data
    Fault(
        "the Jacobians of transforms are left out", "density/graph.py",
        "jacobian=True, sum=True", "jacobian=False, sum=True",
        "density/test_tempered.py test_known_answers.py",
    ),
    Fault(
        "a wrong constant in the density of CAR", "base/upstream.py",
        "np.log(2 * np.pi)).sum()", "np.log(np.pi)).sum()",
        "base/test_corrected.py",
    ),
    Fault(
        "only the first of several data sets counts", "density/compiled.py",
        "ell += values[1]", "ell += 0.0 * values[1]",
        "density/test_from_posterior.py density/test_jitted.py",
    ),
    Fault(
        "θ* and y* come from two draws", "simulations.py",
        "            return point, data\n    raise",
        "            return sampler.draw_supported(*fixed.values())[0], data\n    raise",
        "density/test_simulation.py density/test_joint.py",
    ),
    # fits and importance sampling
    Fault(
        "the log determinant of a t distribution is left out", "reference/student.py",
        "log_constant_of(n, dof) - log_volume", "log_constant_of(n, dof) - 0.0 * log_volume",
        "reference/test_reference.py",
    ),
    Fault(
        "the log determinant of a nested fit is doubled", "reference/nested.py",
        "return np.log(factors[:, self.sparsity.starts[:-1]]).sum(axis=1)",
        "return 2 * np.log(factors[:, self.sparsity.starts[:-1]]).sum(axis=1)",
        "reference/test_nested.py",
    ),
    Fault(
        "the burn-in moves to states of lower weight", "fits/draws.py",
        "g[k] - g[place] >= limit", "g[place] - g[k] >= limit",
        "fits/test_draws.py",
    ),
    Fault(
        "the e-value bets on the particle that was there", "fits/draws.py",
        "bets = 1 / (weights.size * first)", "bets = 1 / (weights.size * weights.min())",
        "fits/test_e_value.py",
    ),
    Fault(
        "no search counts as one that found a mode alone", "fits/modes.py",
        "ends.count(i) == 1}", "ends.count(i) == 0}",
        "fits/test_draws.py",
    ),
    Fault(
        "rays are integrated over a sphere of one dimension less", "fits/fit.py",
        "np.linalg.slogdet(root)[1] + n * log_s", "np.linalg.slogdet(root)[1] + (n - 1) * log_s",
        "fits/test_draws.py",
    ),
    Fault(
        "a density on a grid has the width of its last cell", "reference/grid.py",
        "masses[k] + np.exp(heights[k]) * mean * width",
        "masses[k] + np.exp(heights[k]) * width",
        "reference/test_grid.py",
    ),
    # estimators
    Fault(
        "BAR ignores unequal numbers of runs", "estimators/bar.py",
        "offset = log_z + np.log(forward.size / reverse.size)\n        left",
        "offset = log_z\n        left",
        "estimators/test_bar.py",
    ),
    Fault(
        "runs on one data set count as independent", "estimators/sandwich.py",
        "np.array([row.mean() for row in rows])\n    return float(sample.mean())",
        "np.concatenate(rows)\n    return float(sample.mean())",
        "estimators/test_divergence.py",
    ),
    Fault(
        "every rank of a certified bound spends all of δ", "estimators/certified.py",
        "delta / places.size)", "delta)",
        "estimators/test_certified.py",
    ),
    Fault(
        "the total variation compares a run with its own log Ẑ", "estimators/certified.py",
        "np.split(rotated, [islands - 1], axis=2)",
        "(rotated[:, :, : islands - 1], rotated)",
        "estimators/test_total_variation.py",
    ),
    Fault(
        "log w of reverse runs is averaged as that of forward ones", "estimators/averages.py",
        "return replace(found, value=-found.value, method=\"reverse average\")",
        "return jarzynski_forward(reverse)",
        "estimators/test_coverage.py",
    ),
    # results and calls
    Fault(
        "a verdict is good up to a total variation of a half", "results/checks/total_variation.py",
        "CLOSE = 0.25", "CLOSE = 0.5",
        "results/test_verdict.py",
    ),
    Fault(
        "posterior draws ignore the weights of runs", "results/write.py",
        "weights = np.exp(log_softmax(log_weights))",
        "weights = np.exp(log_softmax(0.0 * log_weights))",
        "call/test_sampling.py results/test_convert.py",
    ),
    Fault(
        "Bayes factors have the sign of their reciprocals", "results/compare.py",
        "known[\"log_ml\"] - first[\"log_ml\"]", "first[\"log_ml\"] - known[\"log_ml\"]",
        "results/test_compare.py",
    ),
    Fault(
        "a store takes runs of another call for its own", "call/store.py",
        "digest(f\"{self._call} {inputs}\")", "digest(inputs[:0])",
        "call/test_store.py",
    ),
    Fault(
        "bridge sampling adds a density to its mirror image", "results/bridge.py",
        "log_joint(2 * centre - thetas)) - np.log(2)", "log_joint(2 * centre - thetas))",
        "results/test_bridge.py",
    ),
    Fault(
        "bridge sampling takes draws as independent", "results/bridge.py",
        "relative.var(ddof=1)) / size", "relative.var(ddof=1)) / n",
        "results/test_bridge.py",
    ),
    Fault(
        "the Bayes factor of a statement is its odds", "results/hypothesis.py",
        "float(logs[1] - logs[0])", "float(logs[1])",
        "results/test_hypothesis.py",
    ),
    Fault(
        "models have equal numbers of averaged draws", "studies/averaged.py",
        "np.cumsum(probability) * n", "np.cumsum(np.full(len(sizes), n / len(sizes)))",
        "studies/test_averaged.py",
    ),
    # checks of other samplers, and lattices
    Fault(
        "a sampler under test shares its random numbers with the data", "testing/bets.py",
        "self.rng = self.generator(Purpose.ANNEAL)", "self.rng = self.generator()",
        "testing/test_samplers.py",
    ),
    Fault(
        "bets that pay on average more than they cost", "testing/bets.py",
        "np.log1p((values[:, :, None] - 1) * STAKES)",
        "np.log1p((values[:, :, None] - 0.9) * STAKES)",
        "testing/test_bets.py testing/test_mutants.py",
    ),
    Fault(
        "a spin of a lattice has the wrong neighbour", "testbeds/lattice_kernels.py",
        "below, above = colours[(x + 1) % side, y], colours[x - 1, y]",
        "below, above = colours[(x + 1) % side, y], colours[x, y - 1]",
        "testbeds/test_tempering.py",
    ),
    Fault(
        "the prior of a unit of an RBM is tempered", "testbeds/rbm_kernels.py",
        "logit = c[j] + beta * (d[j] + inputs[j])\n        below",
        "logit = beta * (c[j] + d[j] + inputs[j])\n        below",
        "testbeds/rbm",
    ),
]  # fmt: skip


def first_failure(copy: Path, tests: list[str]) -> str:
    """Return the name of the first test that fails, or an error; empty if all pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", *tests]
    of_copy = os.environ | {"PYTHONPATH": str(copy)}
    found = subprocess.run(command, cwd=copy, env=of_copy, capture_output=True, text=True)
    if found.returncode == 0:
        return ""
    names = re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", found.stdout, re.MULTILINE)
    return names[0] if names else found.stdout.strip().splitlines()[-1]


def caught_by(copy: Path, fault: Fault) -> str:
    """Return the test that fails with a fault in the copy; empty if none does."""
    path = copy / "pymc_bdmc" / fault.file
    whole = path.read_text("utf-8")
    assert whole.count(fault.old) == 1, f"{fault.title}: {fault.file} is not as it was"
    path.write_text(whole.replace(fault.old, fault.new), "utf-8")
    try:
        first = [f"tests/{each}" for each in fault.tests.split()]
        return first_failure(copy, first) or first_failure(copy, [])
    finally:
        path.write_text(whole, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, nargs="*", default=range(len(FAULTS) + 1))
    parser.add_argument("--docs", action="store_true")  # for `publish`
    chosen = parser.parse_args()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.touch()
    known = dict(map(json.loads, RESULTS.read_text().splitlines()))
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "output", "_build")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for number in set(chosen.faults) - set(known):
            if number == 0:
                likely = sorted({each for fault in FAULTS for each in fault.tests.split()})
                known[number] = first_failure(copy, [f"tests/{each}" for each in likely])
                assert not known[number], f"without a fault: {known[number]}"
            else:
                known[number] = caught_by(copy, FAULTS[number - 1])
            with RESULTS.open("a") as file:
                file.write(json.dumps([number, known[number]]) + "\n")
    rows = [
        shown([number, fault.title, f"`{known[number]}`" if known[number] else "**no test**"])
        for number, fault in enumerate(FAULTS, start=1)
        if number in known
    ]
    stamp = made_by(kept=RESULTS)
    publish(
        "Faults of the package", TEXT, *summary(rows, all_rows("mutants_package", HEAD, rows)),
        page=DOCS / "mutants.md", made=stamp,
    )  # fmt: skip


HEAD = ["", "fault", "first test that fails"]
TEXT = (
    "Faults put into a copy of the package, one at a time, and the folder of the first quick test "
    "that fails with each."
)


def summary(rows: list[list], link: str) -> list[str]:
    """A row a folder of tests, and where all rows are."""
    missed = [row[1] for row in rows if "no test" in row[2]]
    folders = Counter(row[2].split("/")[1] for row in rows if row[1] not in missed)
    lines = [[f"`tests/{folder}`", n] for folder, n in sorted(folders.items())]
    lines += [["no test", len(missed)]] if missed else []
    told = f"No test fails with: {'; '.join(missed)}. " if missed else ""
    return [table(["tests", "faults"], lines), told + link]


if __name__ == "__main__":
    main()
