"""Restricted Boltzmann machines: speed, exact answers, estimators: sections of docs/testbed.md.

Run as ``python benchmarks/rbm.py [mnistvh_CD25.npz] [--docs]`` with OMP_NUM_THREADS=1; about
fifteen minutes. The file holds the weights a, b, W of a machine with 784 visible and 500 hidden
units, trained on MNIST by CD-25; without it there are no sections on that machine.
"""

import logging
import sys
import time
from dataclasses import replace
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from common import DOCS, all_rows, publish, table
from scipy.ndimage import zoom

import pymc_bdmc as bdmc
from pymc_bdmc.base.types import Direction
from pymc_bdmc.estimators import bar, jarzynski_forward, jarzynski_reverse
from pymc_bdmc.rbm import RBM, anneal, binary_digits, held_out_log_likelihood, train

PAGE, IMAGES = DOCS / "testbed.md", DOCS / "images"
REPLICATES = 8
CHAINS = 20
COMMAND = "OMP_NUM_THREADS=1 python benchmarks/rbm.py mnistvh_CD25.npz --docs"
SMALL = (
    "A machine of 64 × 20 units is trained on scikit-learn's digits by persistent contrastive "
    "divergence (PCD), and its log Z is known by enumeration. It is annealed by 100 chains in each "
    "direction with 200 temperatures. Simulated tempering (RTS, TI, MBAR) has 21 temperatures, 32 "
    "chains and 1000 draws. Values in nats; z is the error divided by the stated one. TI by the "
    "Riemann rule says that it is not valid."
)
LARGE = (
    "Published estimates of log Z are about 451.3 to 451.4; see Habeck (2017), Figure 4 C. Runs "
    "have 100 chains in each direction. Reverse chains start from the last states of 5000 sweeps, "
    "of which the first half is annealed from the prior. Base rates are estimated from samples "
    "drawn in this way. There are 5000 temperatures; the file has 1000 as well."
)
TRAINING = ["hidden units", "epochs", "followed", "exact", "train", "held out"]
SMALL_HEAD = ["method", "value", "error", "z", "valid"]
LARGE_HEAD = ["path", "temperatures", "lower", "upper", "gap", "BAR", "valid"]
TEMPERED = ["method", "value", "error", "valid"]
EQUAL_HEAD = ["sweeps", "AIS", "RAISE", "BAR", "RTS", "sequential likelihood"]


def large_digits() -> np.ndarray:
    """Scikit-learn's digits enlarged to 28×28 pixels by linear interpolation, then binary."""
    from sklearn.datasets import load_digits

    return (zoom(load_digits().images, (1, 3.5, 3.5), order=1) > 8).reshape(-1, 784)


def speed(rbm, chains=100, sweeps=20, blocks=40) -> str:
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
    return (
        f"NumPy's sgemm reaches {flops:.0f} Gflop/s on one thread. For {chains} chains, sweeps "
        f"reach {100 * median(shares['sweep']):.0f} % of that speed, and annealing with its log "
        f"weights {100 * median(shares['anneal']):.0f} % (medians of {blocks - 1} blocks)."
    )


def small_machine() -> tuple[list, list, str]:
    """Rows on the training and of the methods, and what is said of held-out digits."""
    data = binary_digits()[np.random.default_rng(1).permutation(1797)]
    trained = []
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
            log_z = [training.log_z[-1], training.rbm.log_z()]
            means = [training.log_likelihood[-1], training.held_out[-1]]
            trained.append([hidden, epochs, *(f"{x:.3f}" for x in log_z),
                            *(f"{x:.2f}" for x in means)])  # fmt: skip
    rbm = training.rbm
    exact = rbm.log_z()
    dt = anneal(rbm, chains=100, temperatures=200, random_seed=1, progressbar=False)
    tempered = bdmc.evidence(
        bdmc.temper(rbm, temperatures=20, random_seed=1, progressbar=False)
    ).droplevel(["data", "dataset"])
    annealed = bdmc.evidence(dt).droplevel(["data", "dataset"])
    rows = [["exact", f"{exact:.4f}", "", "", ""]]
    for name, row in [*annealed.iterrows(), *tempered.iterrows()]:
        z = (row["value"] - exact) / row["error"]
        valid = "yes" if row["valid"] else "no"
        rows.append([name, f"{row['value']:.4f}", f"{row['error']:.4f}", f"{z:+.1f}", valid])
    found = held_out_log_likelihood(rbm, data[1400:], dt)
    told = (
        "The mean log likelihood of the 397 held-out digits lies between "
        f"{found.lower.value:.4f} and {found.upper.value:.4f}. The estimate by BAR is "
        f"{found.estimate.value:.4f} ± {found.estimate.error:.4f}, and the exact value is "
        f"{rbm.log_marginal(data[1400:]).mean() - exact:.4f}."
    )
    return trained, rows, told


def large_machine(rbm) -> tuple[list, list]:
    """Rows of several paths in both directions and of tempering (Habeck's Figure 4 C)."""
    rows = []
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
            means = (f.mean(), r.mean(), r.mean() - f.mean())
            rows.append([
                name, temperatures, *(f"{each:.2f}" for each in means),
                f"{found.value:.2f} ± {found.error:.2f}", "yes" if found.valid else "no",
            ])  # fmt: skip
        if name in panels:
            draw_work(panels[name], f, r, f"{name}, {temperatures} temperatures")
    axes[0].set_ylabel("chains")
    axes[0].legend()
    figure.savefig(IMAGES / "rbm_work.png", dpi=90)
    tempered = bdmc.temper(
        base, chains=100, temperatures=100, draws=4000, random_seed=1, progressbar=False
    )
    of_tempering = [
        [name, f"{row['value']:.2f}", f"{row['error']:.2f}", "yes" if row["valid"] else "no"]
        for name, row in bdmc.evidence(tempered).droplevel(["data", "dataset"]).iterrows()
    ]
    return rows, of_tempering


def draw_work(axis, forward, reverse, title):
    bins = np.histogram_bin_edges(np.concatenate([forward, reverse]), bins=40)
    for weights, label in ((forward, "forward"), (reverse, "reverse")):
        axis.hist(weights, bins=bins, alpha=0.6, label=label)
    axis.axvline(bar(forward, reverse).value, color="black", label="BAR")
    axis.set(title=title, xlabel="log weight (nats)")


def rbm_with_base_rate(rbm):
    """Base rates of the machine's own samples, for want of its training data."""
    return rbm.with_base_rate(rbm.draw_posterior(400, np.random.default_rng(1), 4000).visible)


def matched(rbm) -> tuple[str, list]:
    """The reference by a long run, and rows of bias and error at equal sweeps.

    As Figure 3 of Carlson et al. (2016): AIS is the forward average and RAISE the reverse one. The
    sweeps that find the starts of RAISE and BAR are not counted.
    """
    base = rbm_with_base_rate(rbm)
    dt = anneal(base, chains=200, temperatures=6000, burn_in=6000, random_seed=0,
                progressbar=False)  # fmt: skip
    forward, reverse = (dt[g]["log_weight"].values.ravel() for g in ("forward", "reverse"))
    reference = bar(forward, reverse)
    rows = []
    starts = base.draw_posterior(CHAINS * REPLICATES, np.random.default_rng(2), 6000)
    for sweeps in (500, 2000, 8000):
        found = [one_replicate(base, sweeps, seed, starts) for seed in range(REPLICATES)]
        errors = np.array(found) - reference.value
        bias, rmse = errors.mean(axis=0), np.sqrt((errors**2).mean(axis=0))
        rows.append([sweeps, *(f"{b:+.2f}, {e:.2f}" for b, e in zip(bias, rmse, strict=True))])
    return f"{reference.value:.2f} ± {reference.error:.2f}", rows


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


def of_small(trained: list, rows: list, told: str) -> list[str]:
    """What the section on the small machine shows."""
    off = max(abs(float(each[2]) - float(each[3])) for each in trained)
    few = ("exact", "bar", "RTS", "TI riemann", "TI corrected", "MBAR")  # fmt: skip
    return [
        table(SMALL_HEAD, [row for row in rows if row[0] in few], only=SMALL_HEAD[:4]),
        all_rows("rbm", SMALL_HEAD, rows),
        f"{told} Log Z as followed during training is at most {off:.3f} nats off the exact one. "
        + all_rows("rbm_training", TRAINING, trained),
    ]


def of_large(rows: list) -> list[str]:
    """What the section on the large machine shows."""
    longest = [row for row in rows if str(row[1]) == "5000"]
    return [
        table(LARGE_HEAD, longest, only=["path", "gap", "BAR", "valid"]),
        all_rows("rbm_large", LARGE_HEAD, rows),
        "![forward and reverse log weights](images/rbm_work.png)",
    ]


def main(path: str | None = None) -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # short runs are meant to be uneven
    digits = large_digits()
    trained = train(
        digits, 100, epochs=100, rate=0.1, particles=100, random_seed=1, progressbar=False
    ).rbm
    large = RBM.load(path) if path else None
    rng = np.random.default_rng(1)
    print(speed(RBM(np.zeros(784), np.zeros(500), 0.1 * rng.normal(size=(784, 500)))))
    where = dict(page=PAGE, command=COMMAND)
    publish("Boltzmann machines with an exact answer", SMALL, *of_small(*small_machine()), **where)
    if large:
        rows, tempered = large_machine(large)
        publish("A machine of 784 × 500 units", LARGE, *of_large(rows), **where)
        print(table(TEMPERED, tempered))
    for rbm in filter(None, (trained, large)):
        reference, rows = matched(rbm)
        print(reference, table(EQUAL_HEAD, rows), sep="\n\n")


if __name__ == "__main__":
    main(*[each for each in sys.argv[1:] if each != "--docs"])
