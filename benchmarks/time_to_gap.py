"""Seconds and gradients until the Jeffreys bound is small, beside other ways to the same numbers.

Run as ``python benchmarks/time_to_gap.py [--docs]``; some ten minutes. With ``--docs`` the tables
go to docs/performance.md.
"""

import logging
import time

import numpy as np
import pymc as pm
import xarray as xr
from common import all_rows, publish, shown, span, table
from models import MODELS

from pymc_bdmc import FromPrior

CHAINS, DATASETS, SEEDS = 8, 4, (1, 2, 3)
MAX_TIME = 60.0
BREAD = {
    "factorisation 50×25×5": [(10.9, 4.3), (2.07, 12.6), (0.85, 43.0)],
    "logistic 768×8": [(4.9, 0.09), (0.35, 0.9)],
    "linear 1566×5": [(189.0, 0.3), (3.4, 3.0), (1.8, 5.9)],
    "AR(1)": [(27.0, 0.06), (18.0, 0.12), (2.3, 0.61)],
}
"""(mean gap in nats, seconds a chain) of the tool of Grosse, Ancha and Roy (2016): Stan's NUTS on
the sigmoid schedule, a step size tuned once at β = 1, on data like these; measured by us."""


TO_GAP = [
    "model", "path", "T", "bound, nats", "reached", "seconds", "CPU s", "chains: T",
    "chains: bound, nats", "chains: reached", "chains: seconds", "chains: CPU s",
    "CPU, chains / default",
]  # fmt: skip
AGAINST = [
    "model", "mean gap, nats", "its s a chain", "our T", "gaps around", "our s a chain", "ratio",
    "our pilot, s a data set",
]  # fmt: skip
CHAIN = dict(particles=1, path="prior")
"""As others have it."""


def close(model: pm.Model, target: float, **options) -> xr.DataTree:
    """Rounds until the Jeffreys bound is below the target or the time is up."""
    options = dict(
        chains=CHAINS, simulate=FromPrior(DATASETS), max_time=MAX_TIME, random_seed=1
    ) | options  # fmt: skip
    return pm.sample_bdmc(
        model, target_gap=target, real_data=False, progressbar=False, **options
    )  # fmt: skip


def closing(model: pm.Model, **options) -> tuple[str, list[str], float, bool]:
    """Paths, cells, CPU seconds, and whether every seed came to one nat; medians over seeds."""
    close(model, 1e6, chains=2, simulate=FromPrior(1), **options)  # compiles
    found, reached, paths = [], [], []
    for seed in SEEDS:
        started = time.process_time()
        dt = close(model, 1.0, random_seed=seed, **options)
        spent, last = time.process_time() - started, dt["rounds"].isel(round=-1)
        found.append(
            [last["temperatures"], last["jeffreys_bound"], dt.attrs["sampling_time"], spent]
        )
        reached.append(bool(dt["rounds"]["meets_target"].any()))
        paths.append(dt.attrs["path"])
    n_temperatures, bound, seconds, spent = np.median(np.array(found, float), axis=0)
    cells = [f"{n_temperatures:.0f}", f"{bound:.2g}", f"{sum(reached)}", f"{seconds:.1f}",
             f"{spent:.1f}"]  # fmt: skip
    return ", ".join(dict.fromkeys(paths)), cells, spent, all(reached)


def to_one_nat(name: str) -> list:
    """By default options, and by chains of one particle."""
    model = MODELS[name]()
    path, ours, spent, _ = closing(model)
    _, theirs, chains, reached = closing(model, **CHAIN)
    return [name, path, *ours, *theirs, f"{'' if reached else '> '}{chains / spent:.1f}"]


def against_bread(name: str) -> list[list]:
    """Time a chain, on one core, where the mean gap is as small, between two rounds or in one."""
    target = min(gap for gap, _ in BREAD[name])
    dt = close(MODELS[name](), target, temperatures=8, cores=1, max_time=180.0, **CHAIN)
    rounds = dt["rounds"].dataset
    pilots = dt.attrs["sampling_time"] - float(rounds["seconds"].sum())
    rounds = rounds.isel(round=~rounds["confirms"].values)
    gaps, rows = rounds["jeffreys_bound"].values, []
    for target, theirs in BREAD[name]:
        cells = ["not reached", "", "", ""]
        if (gaps <= target).any():
            end = int(np.argmax(gaps <= target))
            around = slice(max(end - 1, 0), end + 1)
            found = np.log(np.maximum(gaps[around], 1e-3))
            n_temperatures, seconds = (
                np.exp(np.interp(-np.log(target), -found, np.log(rounds[name].values[around])))
                for name in ("temperatures", "seconds")
            )
            ours = seconds / (2 * CHAINS * DATASETS)
            shown_gaps = " → ".join(f"{gap:.2f}" for gap in gaps[around])
            cells = [f"{n_temperatures:.0f}", shown_gaps, f"{ours:.2g}", f"1/{theirs / ours:.0f}"]
        rows.append([name, target, theirs, *cells, f"{pilots / DATASETS:.2g}"])
    return rows


def beside_bread(bread: list[list]) -> str:
    """How many times as long the tool of the authors of BREAD takes to the gaps that we reach."""
    found = [row for row in bread if "/" in row[6]]
    return (
        "The tool of the authors of BREAD (Grosse, Ancha and Roy 2016) uses Stan's NUTS and the "
        f"sigmoid schedule. To mean gaps of {span(row[1] for row in found)} nats on "
        f"{len({row[0] for row in found})} of these models it takes "
        f"{span(row[6].split('/')[1] for row in found)} times as long as chains of one particle "
        "from the prior, on one core of the same kind of machine. Its data have the same size; "
        "ours are simulated from the prior."
    )


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    to_gap = [shown(to_one_nat(name)) for name in MODELS]
    bread = [shown(row) for name in BREAD for row in against_bread(name)]
    publish(
        "Time until the sandwich closes",
        f"Calls with `target_gap=1.0`, `simulate=FromPrior({DATASETS})`, `max_time={MAX_TIME:g}` "
        f"and {CHAINS} runs in each direction on each data set, on two cores, and the same with "
        "chains of one particle on the path from the prior. Numbers are medians over "
        f"{len(SEEDS)} seeds; *reached* counts those that reached a gap of one nat. Seconds "
        "include pilots and scouts, which take most of the time of the default calls, but not "
        "compilation.",
        table(TO_GAP, to_gap,
              only=["model", "path", "bound, nats", "reached", "CPU s", "chains: CPU s"]),
        all_rows("time_to_gap", TO_GAP, to_gap),
        f"{beside_bread(bread)} {all_rows('time_to_gap_bread', AGAINST, bread)}",
    )  # fmt: skip


if __name__ == "__main__":
    main()
