"""Simulated tempering where the answer is known, a section of docs/testbed.md, and a knot.

Run as ``python benchmarks/tempering.py [mnistvh_CD25.npz] [--docs]``; about five minutes. The file
holds the weights a, b, W of a machine with 784 visible and 500 hidden units, trained on MNIST by
CD-25; without it no knot is looked for.
"""

import logging
import sys

import numpy as np
from common import DOCS, all_rows, publish, table

import pymc_bdmc as bdmc
from pymc_bdmc.rbm import RBM, binary_digits, train
from pymc_bdmc.testsystems import BimodalGaussian

PAGE = DOCS / "testbed.md"
REPLICATES = 10
COMMAND = "python benchmarks/tempering.py mnistvh_CD25.npz --docs"
FEW = (
    "RTS is Rao-Blackwellised tempered sampling, and TI-RB is thermodynamic integration with "
    "Rao-Blackwellised averages. "
    "Mean error ± its standard deviation over {replicates} runs, in nats, on a Boltzmann machine "
    "of 64 × 20 units with an exact log Z, by K temperatures, 32 chains and 400 draws, as in "
    "Carlson, Stinson, Pakman and Paninski (2016), Figure 2."
)
RULES = ["RTS", "TI-RB riemann", "TI-RB trapezoid", "TI-RB corrected"]
METHODS = ["RTS", "sequential likelihood", "TI-RB corrected", "MBAR"]
ONE_RUN = ["method", "value", "error", "z"]
KNOTS = ["prior", "RTS", "valid", "passages from end to end", "least conductance"]


def deviations(system, exact, methods, **options):
    """Mean ± standard deviation of the error of every method over replicates, nats."""
    found = []
    for seed in range(REPLICATES):
        dt = bdmc.temper(system, random_seed=seed, progressbar=False, **options)
        found.append([bdmc.evidence(dt, m)["value"].iloc[0] - exact for m in methods])
    found = np.array(found)
    return [f"{m:+.3f} ± {s:.3f}" for m, s in zip(found.mean(0), found.std(0, ddof=1), strict=True)]


def discretisation(rbm) -> list[list]:
    """A row a number of temperatures."""
    return [
        [K, *deviations(rbm, rbm.log_z(), RULES, temperatures=K - 1, draws=400)]
        for K in (4, 6, 11, 21, 51, 101)
    ]


def gaussians() -> tuple[list[list], list[list]]:
    """A row a number of draws, and a row a method in one run of the last."""
    system = BimodalGaussian(dimension=10, distance=3.0, prior_std=5.0, upper_weight=0.5)
    rows = []
    for draws in (100, 400, 1600):
        options = {"temperatures": 20, "schedule": "cubic", "draws": draws, "initial": 20}
        rows.append([draws, *deviations(system, system.log_z, METHODS, **options)])
    dt = bdmc.temper(system, random_seed=1, progressbar=False, **options)
    one_run = [["exact", f"{system.log_z:.4f}", "", ""]]
    for name, row in bdmc.evidence(dt).droplevel(["data", "dataset"]).iterrows():
        z = (row["value"] - system.log_z) / row["error"]
        one_run.append([name, f"{row['value']:.4f}", f"{row['error']:.4f}", f"{z:+.1f}"])
    return rows, one_run


def knots(path) -> list[list]:
    """A row a prior, as Figure 8 of Carlson et al. (2016).

    From the uniform prior no chain passes a knot, a bottleneck between temperatures.
    """
    rbm = RBM.load(path)
    samples = rbm.draw_posterior(200, np.random.default_rng(1), burn_in=2000).visible
    runs = {}
    for name, system in (("uniform prior", rbm), ("base-rate prior", rbm.with_base_rate(samples))):
        runs[name] = bdmc.temper(
            system, chains=50, temperatures=100, draws=2000, random_seed=1, progressbar=False
        )
    rows = []
    for name, dt in runs.items():
        run = dt["tempering"]
        arrays = [run[x].values for x in ("log_likelihood", "place", "beta", "log_z_guess")]
        flow = bdmc.estimators.temperature_flow(*arrays)
        passages = bdmc.estimators.count_passages(arrays[1], len(arrays[2])).sum()
        rts = bdmc.evidence(dt, "RTS").iloc[0]
        rows.append([
            name, f"{rts['value']:.2f} ± {rts['error']:.2f}", "yes" if rts["valid"] else "no",
            passages, f"{np.nanmin(flow.conductance):.2g}",
        ])  # fmt: skip
    return rows


def main(path: str | None = None) -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # short runs are meant to be uneven
    rbm = train(binary_digits(), 20, epochs=100, rate=0.2, random_seed=1, progressbar=False).rbm
    publish("Simulated tempering with few temperatures", FEW.format(replicates=REPLICATES),
            *summary(discretisation(rbm)), page=PAGE, command=COMMAND)  # fmt: skip
    two, one_run = gaussians()
    print(table(["draws", *METHODS], two), table(ONE_RUN, one_run), sep="\n\n")
    if path:
        print(table(KNOTS, knots(path)))


def summary(few: list) -> list[str]:
    """What the section shows."""
    return [
        table(["K", *RULES], [row for row in few if str(row[0]) in ("4", "21", "101")]),
        all_rows("tempering", ["K", *RULES], few),
    ]


if __name__ == "__main__":
    main(*[each for each in sys.argv[1:] if each != "--docs"])
