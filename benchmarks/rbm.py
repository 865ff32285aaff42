"""Restricted Boltzmann machines: speed, exact answers, and estimators side by side: docs/rbm.md.

Run as ``python benchmarks/rbm.py [mnistvh_CD25.npz] > docs/rbm.md`` with OMP_NUM_THREADS=1; about
fifteen minutes. The file holds the weights a, b, W of a machine with 784 visible and 500 hidden
units, trained on MNIST by CD-25; without it the page lacks that machine.
"""

import logging
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import zoom

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction
from pymc_bdmc.estimators import bar, jarzynski_forward, jarzynski_reverse
from pymc_bdmc.rbm import RBM, anneal, binary_digits, held_out_log_likelihood, train

IMAGES = Path(__file__).parent.parent / "docs" / "images"
REPLICATES = 8
CHAINS = 20
SMALL = """\
Machines of 64 × 10 and 64 × 20 units are trained on scikit-learn's digits by persistent contrastive
divergence (PCD). *Followed* is log Z as estimated during training, *exact* is log Z by enumeration.
The mean log likelihoods use the followed value.
"""
LARGE = """\
Published estimates of log Z are about 451.3 to 451.4; see Habeck (2017), Figure 4 C. Runs have
100 chains in each direction. Reverse chains start from the last states of 5000 sweeps. The first
half of these is annealed from the prior, so the status of the upper bound is *burned-in*. The base
rates are estimated from samples drawn in this way.
"""
EQUAL = f"""\
All methods have the same number of sweeps and start from the base rates, as in Carlson et al.
(2016), Figure 3. The table has the bias and, after the comma, the root mean square error over
{REPLICATES} runs of {CHAINS} chains. AIS is the forward average and RAISE the reverse average. BAR
spends half of its sweeps on each direction. The sweeps that find the starts of RAISE and BAR are
not counted. RTS has 101 temperatures. It spends up to 47 % of its sweeps on its guess of log Z, for
which 500 sweeps are too few. The sequential likelihood also uses these initial draws, which are
made before equilibrium.

The machine has 784 × 100 units. It is trained on scikit-learn's digits enlarged to 28×28 by PCD in
100 epochs.
"""


def large_digits() -> np.ndarray:
    """Scikit-learn's digits enlarged to 28×28 pixels by linear interpolation, then binary."""
    from sklearn.datasets import load_digits

    return (zoom(load_digits().images, (1, 3.5, 3.5), order=1) > 8).reshape(-1, 784)


def speed(rbm, chains=100, sweeps=20, blocks=40):
    """Median share of a sweep's time that the machine's own sgemm takes for the same shapes."""
    rng = np.random.default_rng(1)
    state, betas = rbm.draw_prior(chains, rng), np.full(chains, 0.5)
    there = rbm.W.astype(np.float32)
    back = np.ascontiguousarray(there.T)
    hidden, visible = (np.empty(shape, np.float32) for shape in (state.hidden.shape, (chains, 784)))
    schedule = np.linspace(0, 1, sweeps + 1)
    shares, bare = {"sweep": [], "anneal": []}, []
    for block in range(blocks):
        started = time.perf_counter()
        rbm.step(state, betas, rng, sweeps=sweeps)
        swept = time.perf_counter()
        rbm.run(state, schedule, Direction.FORWARD, rng)
        annealed = time.perf_counter()
        for _ in range(sweeps):
            np.dot(state.visible, there, out=hidden)
            np.dot(state.hidden, back, out=visible)
        product = time.perf_counter() - annealed
        if block:  # the first one compiles
            shares["sweep"].append(product / (swept - started))
            shares["anneal"].append(product / (annealed - swept))
            bare.append(product / sweeps)
    flops = 4 * chains * rbm.W.size / median(bare) / 1e9
    print(
        f"NumPy's sgemm reaches {flops:.0f} Gflop/s on one thread. For {chains} chains, sweeps "
        f"reach {100 * median(shares['sweep']):.0f} % of that speed, and annealing with its log "
        f"weights {100 * median(shares['anneal']):.0f} % (medians of {blocks - 1} blocks)."
    )


def small_machine():
    data = binary_digits()[np.random.default_rng(1).permutation(1797)]
    print(
        "| hidden units | epochs | followed | exact | train | held out |\n|---|---|---|---|---|---|"
    )
    for hidden in (10, 20):
        for epochs in (10, 50, 200):
            training = train(
                data[:1400],
                hidden,
                epochs=epochs,
                rate=0.2,
                held_out=data[1400:],
                random_seed=1,
                progressbar=False,
            )
            print(
                f"| {hidden} | {epochs} | {training.log_z[-1]:.3f} | "
                f"{training.rbm.log_z():.3f} | {training.log_likelihood[-1]:.2f} | "
                f"{training.held_out[-1]:.2f} |"
            )
    rbm = training.rbm
    exact = rbm.log_z()
    dt = anneal(rbm, chains=100, temperatures=200, random_seed=1, progressbar=False)
    print(f"\nThe last of these machines has the exact log Z = {exact:.4f}. It is annealed by 100")
    print("chains in each direction with 200 temperatures. Simulated tempering has 21")
    print("temperatures, 32 chains and 1000 draws.\n")
    print("| method | value | error | z | valid |\n|---|---|---|---|---|")
    tempered = bdmc.evidence(
        bdmc.temper(rbm, temperatures=20, random_seed=1, progressbar=False)
    ).droplevel(["data", "dataset"])
    annealed = bdmc.evidence(dt).droplevel(["data", "dataset"])
    for name, row in [*annealed.iterrows(), *tempered.iterrows()]:
        z = (row["value"] - exact) / row["error"]
        print(
            f"| {name} | {row['value']:.4f} | {row['error']:.4f} | {z:+.1f} | "
            f"{'yes' if row['valid'] else 'no'} |"
        )
    found = held_out_log_likelihood(rbm, data[1400:], dt)
    print(
        "\nThe mean log likelihood of the 397 held-out digits lies between "
        f"{found.lower.value:.4f} and {found.upper.value:.4f}. The estimate by BAR is "
        f"{found.estimate.value:.4f} ± {found.estimate.error:.4f}, and the exact value is "
        f"{rbm.log_marginal(data[1400:]).mean() - exact:.4f}."
    )


def large_machine(rbm):
    """Both directions on several paths, and the histograms of the best (Habeck's Figure 4 C)."""
    print(
        "| path | temperatures | lower | upper | gap | BAR | valid |\n|---|---|---|---|---|---|---|"
    )
    base = rbm_with_base_rate(rbm)
    paths = {
        "uniform prior": rbm,
        "uniform prior, hidden integrated": replace(rbm, integrated="hidden"),
        "base rates": base,
        "base rates, hidden integrated": replace(base, integrated="hidden"),
        "base rates, visible integrated": replace(base, integrated="visible"),
    }
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained", sharey=True)
    panels = {"uniform prior": axes[0], "base rates": axes[1]}
    for name, system in paths.items():
        for temperatures in (1000, 5000):
            dt = anneal(
                system, temperatures=temperatures, burn_in=5000, random_seed=1, progressbar=False
            )
            f, r = (dt[group]["log_weight"].values.ravel() for group in ("forward", "reverse"))
            found = bar(f, r)
            print(
                f"| {name} | {temperatures} | {f.mean():.2f} | {r.mean():.2f} | "
                f"{r.mean() - f.mean():.2f} | {found.value:.2f} ± {found.error:.2f} | "
                f"{'yes' if found.valid else 'no'} |",
                flush=True,
            )
        if name in panels:
            draw_work(panels[name], f, r, f"{name}, {temperatures} temperatures")
    axes[0].set_ylabel("chains")
    axes[0].legend()
    figure.savefig(IMAGES / "rbm_work.png", dpi=90)
    print("\n![forward and reverse log weights](images/rbm_work.png)\n")
    tempered = bdmc.temper(
        base, chains=100, temperatures=100, draws=4000, random_seed=1, progressbar=False
    )
    print(
        "Simulated tempering on the path from the base rates has 101 temperatures, 100 chains and "
        "4000 draws:\n"
    )
    print("| method | value | error | valid |\n|---|---|---|---|")
    for name, row in bdmc.evidence(tempered).droplevel(["data", "dataset"]).iterrows():
        valid = "yes" if row["valid"] else "no"
        print(f"| {name} | {row['value']:.2f} | {row['error']:.2f} | {valid} |")


def draw_work(axis, forward, reverse, title):
    bins = np.histogram_bin_edges(np.concatenate([forward, reverse]), bins=40)
    for weights, label in ((forward, "forward"), (reverse, "reverse")):
        axis.hist(weights, bins=bins, alpha=0.6, label=label)
    axis.axvline(bar(forward, reverse).value, color="black", label="BAR")
    axis.set(title=title, xlabel="log weight (nats)")


def rbm_with_base_rate(rbm):
    """Base rates of the machine's own samples, for want of its training data."""
    return rbm.with_base_rate(rbm.draw_posterior(400, np.random.default_rng(1), 4000).visible)


def matched(rbm):
    """Bias and root mean square error at equal sweeps; the reference is a long run."""
    base = rbm_with_base_rate(rbm)
    dt = anneal(base, chains=200, temperatures=6000, burn_in=6000, random_seed=0,
                progressbar=False)  # fmt: skip
    forward, reverse = (dt[g]["log_weight"].values.ravel() for g in ("forward", "reverse"))
    reference = bar(forward, reverse)
    print(f"The reference is {reference.value:.2f} ± {reference.error:.2f} by BAR, with 200")
    print("chains in each direction and 6000 temperatures.\n")
    print("| sweeps | AIS | RAISE | BAR | RTS | sequential likelihood |\n|---|---|---|---|---|---|")
    starts = base.draw_posterior(CHAINS * REPLICATES, np.random.default_rng(2), 6000)
    for sweeps in (500, 2000, 8000):
        found = [one_replicate(base, sweeps, seed, starts) for seed in range(REPLICATES)]
        errors = np.array(found) - reference.value
        bias, rmse = errors.mean(axis=0), np.sqrt((errors**2).mean(axis=0))
        cells = " | ".join(f"{b:+.2f}, {e:.2f}" for b, e in zip(bias, rmse, strict=True))
        print(f"| {sweeps} | {cells} |", flush=True)


def one_replicate(base, sweeps, seed, starts):
    """Log Z by each method, every one with so many sweeps of 20 chains."""
    rng = np.random.default_rng([3, seed])
    part = slice(seed * CHAINS, (seed + 1) * CHAINS)
    start = type(starts)(*(values[part].copy() for values in starts))
    betas, half = np.linspace(0, 1, sweeps + 1), np.linspace(0, 1, sweeps // 2 + 1)
    start_again = type(starts)(*(values.copy() for values in start))
    forward = base.run(base.draw_prior(CHAINS, rng), betas, Direction.FORWARD, rng).log_weight
    reverse = base.run(start, betas, Direction.REVERSE, rng).log_weight
    both = [
        base.run(base.draw_prior(CHAINS, rng), half, Direction.FORWARD, rng).log_weight,
        base.run(start_again, half, Direction.REVERSE, rng).log_weight,
    ]
    # At most 40 % for the Wang-Landau start and 7 % for the initial iterations
    options = {"draws": sweeps // 2, "initial": max(sweeps // 100, 1), "iterations": 3}
    tempered = bdmc.temper(
        base, chains=CHAINS, temperatures=100, random_seed=seed, progressbar=False, **options
    )
    rts = bdmc.evidence(tempered, "RTS")["value"]
    sequential = bdmc.evidence(tempered, "sequential likelihood")["value"]
    return [
        jarzynski_forward(forward).value,
        jarzynski_reverse(reverse).value,
        bar(*both).value,
        rts.iloc[0],
        sequential.iloc[0],
    ]


def main(path: str | None = None) -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # short runs are meant to be uneven
    digits = large_digits()
    trained = train(
        digits, 100, epochs=100, rate=0.1, particles=100, random_seed=1, progressbar=False
    ).rbm
    large = RBM.load(path) if path else None
    print("# Restricted Boltzmann machines\n")
    print("This page compares estimates of partition functions with exact and published values.\n")
    print("Made by `python benchmarks/rbm.py mnistvh_CD25.npz > docs/rbm.md`.")
    print("All values are in nats.\n")
    print("## Speed\n")
    rng = np.random.default_rng(1)
    speed(RBM(np.zeros(784), np.zeros(500), 0.1 * rng.normal(size=(784, 500))))
    print("\n## Machines with an exact answer\n")
    print(SMALL)
    small_machine()
    if large:
        print("\n## The machine of 784 × 500 units\n")
        print(LARGE)
        large_machine(large)
    print("\n## Equal sweeps\n")
    print(EQUAL)
    matched(trained)
    if large:
        print("\nThe same comparison on the machine of 784 × 500 units:\n")
        matched(large)


if __name__ == "__main__":
    main(*sys.argv[1:])
