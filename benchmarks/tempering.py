"""Simulated tempering where the answer is known, and where chains get stuck: docs/tempering.md.

Run as ``python benchmarks/tempering.py [mnistvh_CD25.npz] > docs/tempering.md``; about five
minutes. The file holds the weights a, b, W of a machine with 784 visible and 500 hidden units,
trained on MNIST by CD-25; without it the page lacks the section on knots.
"""

import logging
import sys
from pathlib import Path

import numpy as np

import pymc_bdmc as bdmc
from pymc_bdmc.rbm import RBM, binary_digits, train
from pymc_bdmc.testsystems import BimodalGaussian

IMAGES = Path(__file__).parent.parent / "docs" / "images"
REPLICATES = 10
KNOT = """\
This repeats their Figure 8 on the machine of 784 × 500 units, whose published estimates are
about 451.3 to 451.4. On the path from the uniform prior no chain passes a knot, a bottleneck
between temperatures, and the estimate says that it is not valid. On the path from the base
rates chains pass. SD and RSD are the total variation distance between the flow from a
temperature to another and the flow back, and this distance relative to the flow of all moves.
"""


def deviations(system, exact, methods, **options):
    """Mean ± standard deviation of the error of every method over replicates, nats."""
    found = []
    for seed in range(REPLICATES):
        dt = bdmc.temper(system, random_seed=seed, progressbar=False, **options)
        found.append([bdmc.evidence(dt, m)["value"].iloc[0] - exact for m in methods])
    found = np.array(found)
    return [f"{m:+.3f} ± {s:.3f}" for m, s in zip(found.mean(0), found.std(0, ddof=1), strict=True)]


def discretisation(rbm):
    methods = ["RTS", "TI-RB riemann", "TI-RB trapezoid", "TI-RB corrected"]
    print("| K | " + " | ".join(methods) + " |")
    print("|---" * 5 + "|")
    for K in (4, 6, 11, 21, 51, 101):
        cells = deviations(rbm, rbm.log_z(), methods, temperatures=K - 1, draws=400)
        print(f"| {K} | " + " | ".join(cells) + " |", flush=True)


def gaussians():
    system = BimodalGaussian(dimension=10, distance=3.0, prior_std=5.0, upper_weight=0.5)
    methods = ["RTS", "sequential likelihood", "TI-RB corrected", "MBAR"]
    print("| draws | " + " | ".join(methods) + " |")
    print("|---" * 5 + "|")
    for draws in (100, 400, 1600):
        options = {"temperatures": 20, "schedule": "cubic", "draws": draws, "initial": 20}
        cells = deviations(system, system.log_z, methods, **options)
        print(f"| {draws} | " + " | ".join(cells) + " |", flush=True)
    dt = bdmc.temper(system, random_seed=1, progressbar=False, **options)
    table = bdmc.evidence(dt).droplevel(["data", "dataset"])
    print(
        f"\nThis is one run of {draws} draws with the errors that it states. "
        f"The exact value is {system.log_z:.4f}.\n"
    )
    print("| method | value | error | z |\n|---|---|---|---|")
    for name, row in table.iterrows():
        z = (row["value"] - system.log_z) / row["error"]
        print(f"| {name} | {row['value']:.4f} | {row['error']:.4f} | {z:+.1f} |")


def initial_iterations(rbm):
    dt = bdmc.temper(
        rbm,
        temperatures=100,
        draws=3200,
        initial=20,
        iterations=9,
        random_seed=1,
        progressbar=False,
    )
    print("| iteration | draws of a chain | max abs(r - c) K | error, nats |\n|---|---|---|---|")
    K, exact = dt["initial"].sizes["beta"], rbm.log_z()
    for i, row in dt["initial"].dataset.groupby("iteration"):
        uneven = float(np.abs(K * np.exp(row["log_probability"]).mean("chain") - 1).max())
        error = float(row["log_z_guess"].squeeze()[-1]) - exact
        print(f"| {i + 1} | {int(row['draws'].item())} | {uneven:.2f} | {error:+.3f} |")
    final = float(dt["tempering"]["log_z_guess"][-1]) - exact
    print(f"\nThe guess that is used for the final draws has an error of {final:+.3f}.")


def knots(path):
    rbm = RBM.load(path)
    samples = rbm.draw_posterior(200, np.random.default_rng(1), burn_in=2000).visible
    runs = {}
    for name, system in (("uniform prior", rbm), ("base-rate prior", rbm.with_base_rate(samples))):
        runs[name] = bdmc.temper(
            system, chains=50, temperatures=100, draws=2000, random_seed=1, progressbar=False
        )
    bdmc.plot_tempering(runs, backend="matplotlib").savefig(IMAGES / "tempering_knot.png")
    print("![chains on the ladder](images/tempering_knot.png)\n")
    print("| prior | RTS | valid | passages from end to end | least conductance | SD | RSD |")
    print("|---" * 7 + "|")
    for name, dt in runs.items():
        run = dt["tempering"]
        arrays = [run[x].values for x in ("log_likelihood", "place", "beta", "log_z_guess")]
        flow = bdmc.estimators.temperature_flow(*arrays)
        passages = bdmc.estimators.count_passages(arrays[1], len(arrays[2])).sum()
        rts = bdmc.evidence(dt, "RTS").iloc[0]
        print(
            f"| {name} | {rts['value']:.2f} ± {rts['error']:.2f} | "
            f"{'yes' if rts['valid'] else 'no'} | {passages} | "
            f"{np.nanmin(flow.conductance):.2g} | {flow.symmetric_difference:.3f} | "
            f"{flow.relative:.3f} |"
        )


def main(path: str | None = None) -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # short runs are meant to be uneven
    rbm = train(binary_digits(), 20, epochs=100, rate=0.2, random_seed=1, progressbar=False).rbm
    print("# Simulated tempering where the answer is known\n")
    print(
        "Made by `python benchmarks/tempering.py mnistvh_CD25.npz > docs/tempering.md`. The small"
    )
    print("Boltzmann machine has 64 visible and 20 hidden units, and is trained on")
    print("scikit-learn's digits by PCD.")
    print(f"Its exact log Z, by enumeration, is {rbm.log_z():.4f}. The experiments follow")
    print("Carlson, Stinson, Pakman and Paninski (2016). Errors are the mean error ± its standard")
    print(f"deviation over {REPLICATES} runs, in nats.\n")
    print("RTS is Rao-Blackwellised tempered sampling, TI is thermodynamic integration, TI-RB is")
    print("TI with Rao-Blackwellised averages, and MBAR is the multistate form of Bennett's")
    print("acceptance ratio.\n")
    print("## With few temperatures the integration rule matters to TI, but not to RTS\n")
    print("This repeats their Figure 2 with K temperatures, 32 chains and 400 draws.\n")
    discretisation(rbm)
    print("\n## RTS and MBAR on two Gaussians in ten dimensions\n")
    print("The likelihood has two equal modes at ±(3, …, 3) with standard deviation 1, and the")
    print("prior has standard deviation 5. There are 21 temperatures and 32 chains, and a draw is")
    print("20 Metropolis steps.\n")
    gaussians()
    print("\n## The initial iterations\n")
    print("This repeats their Figure 6: the guess of log Z before each iteration, on 101")
    print("temperatures. The first guess comes from the Wang-Landau start.\n")
    initial_iterations(rbm)
    if path:
        print("\n## A knot\n")
        print(KNOT)
        knots(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
