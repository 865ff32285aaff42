"""Seconds and gradients until the Jeffreys bound is small, beside other ways to the same numbers.

Run as ``python benchmarks/time_to_gap.py [--docs]``; some ten minutes. With ``--docs`` the tables
go to docs/performance.md.
"""

import logging
import time
import warnings
from functools import partial

import numpy as np
import pymc as pm
import xarray as xr
from common import Annealer, publish, shown, table, timed
from models import LOG_ML, MODELS
from scipy.special import logsumexp

from pymc_bdmc import FromPrior

CHAINS, DATASETS, SEEDS = 8, 4, (1, 2, 3)
MAX_TIME = 60.0
RUNS, SMC_CHAINS = 6, 16
SMC = [name for name in LOG_ML if name != "factorisation 50×25×5"]
"""On the other one it is hundreds of nats off (docs/peers.md)."""
STEP_METHODS = ["eight schools, non-centred", "AR(1)", "linear 1566×5"]
BREAD = {
    "factorisation 50×25×5": [(10.9, 4.3), (2.07, 12.6), (0.85, 43.0)],
    "logistic 768×8": [(4.9, 0.09), (0.35, 0.9)],
    "linear 1566×5": [(189.0, 0.3), (3.4, 3.0), (1.8, 5.9)],
    "AR(1)": [(27.0, 0.06), (18.0, 0.12), (2.3, 0.61)],
}
"""(mean gap in nats, seconds a chain) of the tool of Grosse, Ancha and Roy (2016): Stan's NUTS on
the sigmoid schedule, a step size tuned once at β = 1, on data like these; measured by us."""


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


def against_smc(name: str) -> list:
    """Seconds of one run, one core, at the root mean square error of ``sample_smc``'s default."""
    log_ml, seconds = LOG_ML[name](), []
    options = dict(cores=1, compute_convergence_checks=False, progressbar=False, random_seed=1)
    for chains in (1, 1, RUNS + 1):  # the first fills PyTensor's caches
        with MODELS[name](), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            taken, dt = timed(partial(pm.sample_smc, chains=chains, **options))
        seconds.append(taken)
    smc = (seconds[2] - seconds[1]) / RUNS  # without compilation
    values = [run[-1] for run in dt["sample_stats"]["log_marginal_likelihood"].values]
    smc_error = np.sqrt(np.mean((np.array(values, float) - log_ml) ** 2))
    annealer, n_temperatures, error = Annealer(MODELS[name]()), 16, np.inf
    while error > smc_error and n_temperatures < 2**13:
        n_temperatures *= 2
        ours, weights = timed(run_chains, annealer, n_temperatures)
        values = logsumexp(weights, axis=1) - np.log(SMC_CHAINS)
        error = np.sqrt(np.mean((values - log_ml) ** 2))
    ours /= RUNS
    cells = [f"{smc_error:.3f}", f"{smc:.2f}", n_temperatures, f"{error:.3f}", f"{ours:.3f}"]
    return [name, f"{log_ml:.3f}", *cells, f"{smc / ours:.1f}"]


def run_chains(annealer: Annealer, n_temperatures: int) -> list[list[float]]:
    """Log weights of independent runs, each with its pilot."""
    runs = [annealer.tasks(n_temperatures, SMC_CHAINS, seed) for seed in range(RUNS)]
    return [[task.run(annealer.engine).log_weight for task in run] for run in runs]


def against_step_methods(name: str) -> list:
    """Sampling time until one nat, four chains a direction on each of four data sets."""
    model, cells, times = MODELS[name](), [], []
    for step in ("nuts", pm.NUTS):
        close(model, 1e6, temperatures=3, chains=2, step=step, **CHAIN)  # compiles
        dt = close(model, 1.0, temperatures=50, chains=4, step=step, **CHAIN)
        last, done = dt["rounds"].isel(round=-1), dt["rounds"]["meets_target"].any()
        times.append(dt.attrs["sampling_time"])
        cells += [f"{times[-1]:.2f}", f"{float(last['jeffreys_bound']):.2f}"]
    return [name, *cells, f"{'' if done else '> '}{times[1] / times[0]:.0f}"]


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)
    to_gap = [shown(to_one_nat(name)) for name in MODELS]
    bread = [shown(row) for name in BREAD for row in against_bread(name)]
    smc = [shown(against_smc(name)) for name in SMC]
    steps = [shown(against_step_methods(name)) for name in STEP_METHODS]
    publish(
        "Time until the sandwich closes",
        "Made by `python benchmarks/time_to_gap.py --docs`. Calls have `target_gap=1.0`, "
        f"`simulate=FromPrior({DATASETS})`, `max_time={MAX_TIME:g}` and two cores, with {CHAINS} "
        f"runs in each direction on {DATASETS} data sets. In the first columns all other options "
        "are the defaults. The columns from *chains* on are for chains of one particle on the path "
        f"from the prior. Numbers are medians over {len(SEEDS)} seeds; *reached* is the "
        "number of seeds that reached a gap of one nat. Seconds include pilots and scouts, but not "
        "compilation. Pilots and scouts take most of the time of the default calls. If they choose "
        "a fitted path, the gap ends far below one nat.",
        table(
            ["model", "path", "T", "bound, nats", "reached", "seconds", "CPU s",
             "chains: T", "nats", "reached", "seconds", "CPU s", "CPU, chains / default"],
            to_gap,
        ),
        "The next table compares with the tool of the authors of BREAD (Grosse, Ancha and Roy "
        "2016), which uses Stan's NUTS, the sigmoid schedule and one step size tuned at β = 1. We "
        "measured its figures on the same kind of machine and on data of the same size. Our data "
        "are simulated from the prior. As in that tool, chains have one particle and the path is "
        "from the prior; they run on one core. T and the time are interpolated, on logarithmic "
        "axes, between the two rounds whose gaps are shown.",
        table(
            ["model", "its mean gap, nats", "its s a chain", "our T", "gaps around",
             "our s a chain", "ratio", "our pilot, s a data set"],
            bread,
        ),
        "The next table compares with `pm.sample_smc` and its default of 2000 draws, on models "
        f"with a known log ML. Our T is doubled until the root mean square error of {SMC_CHAINS} "
        f"chains over {RUNS} runs is no larger. Seconds are those of a run on one core, with our "
        "pilot and without compilation.",
        table(
            ["model", "log ML", "SMC's error", "s", "our T", "our error", "s", "SMC / ours, s"],
            smc,
        ),
        "The last table compares compiled NUTS with `pm.NUTS` in the same loop. There are 4 chains "
        f"of one particle in each direction on {DATASETS} data sets, T starts at 50, and "
        f"`max_time={MAX_TIME:g}`. The columns are the seconds and the gap at the end.",
        table(["model", "compiled, s", "nats", "`pm.NUTS`, s", "nats", "ratio"], steps),
    )  # fmt: skip


if __name__ == "__main__":
    main()
