"""Ising and Potts models as in Habeck (2017), and how fast they run: docs/lattice.md.

Run as ``python benchmarks/lattice.py > docs/lattice.md``; about two minutes on two cores. The
pictures go to docs/images.
"""

import logging
import time
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from numba import njit

import pymc_bdmc as bdmc
from pymc_bdmc.lattice import (
    Ising,
    IsingChains,
    Potts,
    PottsChains,
    anneal,
    perfect_samples,
)

IMAGES = "docs/images"
ISING = Ising(32)
POTTS = Potts(32, q=10, coupling=2.0)
PAPER = {
    "bar": 1338.05,
    "histogram": 1338.28,
    "forward average": 1333.66,
    "reverse average": 1342.05,
    "lower bound": 1290.5,
    "upper bound": 1352.0,
}


@njit
def scalar_ising(spins, interaction, updates, rng):
    """Metropolis at random sites on int8 spins of shape (L, L), with NumPy's PCG64."""
    side = spins.shape[0]
    accept = np.exp(-2 * interaction * np.arange(5))  # of s_i h_i = 0 … 4, looked up
    for _ in range(updates):
        i, j = int(rng.random() * side), int(rng.random() * side)
        field = spins[i - 1, j] + spins[i, j - 1]
        field += spins[(i + 1) % side, j] + spins[i, (j + 1) % side]
        aligned = spins[i, j] * field
        if aligned <= 0 or rng.random() < accept[aligned]:
            spins[i, j] = -spins[i, j]


@njit
def scalar_potts(spins, interaction, q, updates, heat_bath, rng):
    """Metropolis or heat bath at random sites on int64 colours, with NumPy's PCG64."""
    side = spins.shape[0]
    boltzmann = np.exp(interaction * np.arange(5))
    equal = np.empty(q, np.int64)
    for _ in range(updates):
        i, j = int(rng.random() * side), int(rng.random() * side)
        near = (
            spins[i - 1, j], spins[i, j - 1], spins[(i + 1) % side, j], spins[i, (j + 1) % side]
        )  # fmt: skip
        if heat_bath:
            equal[:] = 0
            for colour in near:
                equal[colour] += 1
            total = 0.0
            for colour in range(q):
                total += boltzmann[equal[colour]]
            left = rng.random() * total
            new = 0
            while new < q - 1 and left >= boltzmann[equal[new]]:
                left -= boltzmann[equal[new]]
                new += 1
            spins[i, j] = new
        else:
            new = (spins[i, j] + 1 + int(rng.random() * (q - 1))) % q
            lost = 0
            for colour in near:
                lost += (colour == spins[i, j]) - (colour == new)
            if lost <= 0 or rng.random() * boltzmann[lost] < 1:
                spins[i, j] = new


def speed(blocks: int = 21) -> None:
    """Nanoseconds of a single-site update on one core; the two loops take turns."""
    rng = np.random.default_rng(1)
    sites = rng.integers(ISING.n_sites, size=2 * ISING.n_sites)
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), size=(32, 32))
    colours = rng.integers(POTTS.q, size=(32, 32))
    print("| model | move | β | scalar loop | library | ratio |\n|---|---|---|---|---|---|")
    for name, system, chain_type, heat_bath in [
        ("Ising", ISING, IsingChains, False),
        ("Potts", POTTS, PottsChains, False),
        ("Potts", POTTS, PottsChains, True),
    ]:
        for beta in (0.4, 1.0):
            chains = chain_type(system, np.random.SeedSequence(1), heat_bath)
            times = []
            for _ in range(blocks):
                started = time.perf_counter()
                if system is ISING:
                    scalar_ising(signs, beta, 100_000, rng)
                else:
                    scalar_potts(colours, 2 * beta, POTTS.q, 100_000, heat_bath, rng)
                between = time.perf_counter()
                chains.move(beta, sites)
                ours = (time.perf_counter() - between) / (sites.size * chains.lanes)
                times.append((1e9 * ours, (between - started) * 1e4))
            ours, plain = (median(column) for column in zip(*times[1:], strict=True))
            ratio = median(slow / fast for fast, slow in times[1:])
            move = "heat bath" if heat_bath else "Metropolis"
            print(f"| {name} | {move} | {beta:g} | {plain:.1f} ns | {ours:.2f} ns | {ratio:.0f} |")


def timed(system, **options):
    options |= {"random_seed": 1, "progressbar": False}
    anneal(system, **{**options, "chains": 2, "temperatures": 2})  # compiles
    started = time.perf_counter()
    dt = anneal(system, **options)
    return dt, time.perf_counter() - started


def ising():
    """The table of Fig. 3; returns the result with random sites, as in the paper."""
    random, took = timed(ISING, sites="random", updates=1000)
    checkerboard, took_checkerboard = timed(ISING)
    print("| | paper | random sites | checkerboard |\n|---|---|---|---|")
    columns = []
    for dt in (random, checkerboard):
        found = bdmc.evidence(dt).loc[("simulated", 0)]
        bounds = bdmc.summary(dt).loc["simulated"]
        columns.append({**found.T.to_dict(), **bounds.T.to_dict()})
    for name, published in PAPER.items():
        cells = " | ".join(f"{c[name]['value']:.2f} ± {c[name]['error']:.2f}" for c in columns)
        print(f"| {name} | {published} | {cells} |")
    print(f"| exact | 1339.267 | {ISING.log_z():.3f} | {ISING.log_z():.3f} |")
    print(f"| time | | {took:.1f} s | {took_checkerboard:.1f} s |")
    return random


def dense_near_transition(system, half_width=0.01, n=2001) -> np.ndarray:
    """Inverse temperatures on a linear grid, and many more around the critical one."""
    centre = system.critical_beta
    near = np.linspace(centre - half_width, centre + half_width, n)
    return np.unique(np.r_[np.linspace(0, 1, 1001), near])


def from_zero_temperature(system, nodes: int = 8, samples: int = 500):
    """log(Z/Z_0) and its error from exact samples colder than β = 1, where nothing is crossed.

    ln Z = n_bonds·J + ln q + ∫ J⟨unsatisfied bonds⟩ dβ from 1 to ∞. The integrand falls as
    u = exp(−4J(β − 1)), the weight of one turned spin, and is smooth in it.
    """
    x, weights = np.polynomial.legendre.leggauss(nodes)
    value, variance = 0.0, 0.0
    for i, (u, weight) in enumerate(zip((x + 1) / 2, weights / 2, strict=True)):
        beta = 1 - np.log(u) / (4 * system.coupling)
        states = perfect_samples(system, samples, beta, random_seed=i)
        unsatisfied = (system.n_bonds - system.satisfied_bonds(states)) / (4 * u)
        value += weight * unsatisfied.mean()
        variance += weight**2 * unsatisfied.var() / samples
    ground = system.n_bonds * system.coupling + np.log(system.q)
    return ground + value - system.n_sites * np.log(system.q), np.sqrt(variance)


def from_small_lattice(side: int) -> float:
    """log(Z/Z_0) of the 32 × 32 lattice, with the free energy per site of an exact smaller one.

    In the ordered phase ln Z − ln q grows as the number of sites but for walls around the torus,
    which cost 2·side bonds.
    """
    small = Potts(side, q=POTTS.q, coupling=POTTS.coupling)
    log_q = np.log(POTTS.q)
    return (small.log_z() - log_q) * POTTS.n_sites / small.n_sites + log_q


def potts():
    """Routes to one number; returns the results with the linear and with the dense schedule."""
    linear, _ = timed(POTTS, kernel="heat bath")
    betas = dense_near_transition(POTTS)
    dense, took = timed(
        POTTS, kernel="heat bath", temperatures=betas, updates=30 * POTTS.n_sites, chains=256
    )
    print("| method | log(Z/Z_0) |\n|---|---|")
    print("| published | about 1742, about 1745 |")
    for name, dt in (("linear schedule, T = 1000, one sweep", linear),
                     (f"dense near β_c, T = {len(betas) - 1}, 30 sweeps", dense)):  # fmt: skip
        bounds = bdmc.summary(dt).loc["simulated", "value"]
        print(f"| bounds, {name} | {bounds['lower bound']:.1f} … {bounds['upper bound']:.1f} |")
    value, error = bdmc.evidence(dense, "bar")[["value", "error"]].iloc[0]
    print(f"| BAR, dense near β_c ({took:.0f} s) | {value:.2f} ± {error:.2f} |")
    value, error = from_zero_temperature(POTTS)
    print(f"| integration from zero temperature | {value:.2f} ± {error:.2f} |")
    for side in (4, 5):
        print(f"| exact for L = {side}, scaled to 32 × 32 | {from_small_lattice(side):.4f} |")
    return linear, dense


def estimates_by_chains(results: dict, truths: list[float]) -> None:
    """Draw BAR and the averaged weights against the number of chains (Figs 3 B and 4 B)."""
    figure, axes = plt.subplots(1, len(results), figsize=(4.5 * len(results), 3.2), squeeze=False)
    for axis, truth, (title, dt) in zip(axes[0], truths, results.items(), strict=True):
        forward, reverse = (dt[g]["log_weight"].values[0] for g in ("forward", "reverse"))
        sizes = np.unique(np.geomspace(10, len(forward), 12).astype(int))
        for colour, (label, estimator) in enumerate(
            {
                "averaged weights, forward": lambda f, r: bdmc.estimators.jarzynski_forward(f),
                "averaged weights, reverse": lambda f, r: bdmc.estimators.jarzynski_reverse(r),
                "BAR": bdmc.estimators.bar,
            }.items()
        ):
            found = [estimator(forward[:n], reverse[:n]) for n in sizes]
            values, errors = (np.array([getattr(e, k) for e in found]) for k in ("value", "error"))
            axis.errorbar(sizes, values, errors, color=f"C{colour}", label=label, capsize=2)
        axis.axhline(truth, color="black", linestyle=":", label="exact")
        axis.set(xscale="log", xlabel="chains per direction", title=title)
    axes[0, 0].set_ylabel("log(Z/Z$_0$) (nats)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    figure.set_layout_engine("constrained")


def draw(ising: xr.DataTree, linear: xr.DataTree, dense: xr.DataTree) -> None:
    """Save the pictures of the page."""
    panels = {"Ising": ising, "Potts, linear": linear, "Potts, dense near β_c": dense}
    exact = from_small_lattice(5)
    bdmc.plot_sandwich(panels, kind="hist", backend="matplotlib")
    plt.savefig(f"{IMAGES}/lattice_work.png", dpi=100)
    bdmc.plot_hysteresis(panels, backend="matplotlib")
    plt.savefig(f"{IMAGES}/lattice_hysteresis.png", dpi=100)
    estimates_by_chains(panels, [ISING.log_z(), exact, exact])
    plt.savefig(f"{IMAGES}/lattice_estimates.png", dpi=100)


INTRODUCTION = """\
# Ising and Potts models

This page compares estimates of partition functions with exact and published values.

Made by `python benchmarks/lattice.py > docs/lattice.md`. All values are log(Z/Z_0) at β = 1 in
nats. Errors are one standard error. Times were measured on two cores with warm caches.

## Ising, 32 × 32

This repeats Habeck (2017), Fig. 3: a linear schedule with T = 1000, 1000 single-site updates at
each temperature, and 1000 chains in each direction. The paper updates random sites. A checkerboard
sweep is 1024 updates. Here reverse chains start from exact samples.
"""
POTTS_TEXT = """
## Potts, q = 10, 32 × 32, E = −2 Σ δ

This repeats Habeck (2017), Fig. 4. The phase transition is of first order, so on a linear schedule
the work distributions of the two directions do not overlap at all. Methods that have little in
common agree with each other. The published values lie one to two nats below or above them.
"""
PICTURES_TEXT = """
## Pictures

![Log weights](images/lattice_work.png)

*Log weights. Their means are the bounds.*

![Hysteresis](images/lattice_hysteresis.png)

*Mean ℓ along the path. The dashed line marks the critical β of the infinite lattice.*

![Estimates by number of chains](images/lattice_estimates.png)

*Estimates with one standard error, against the number of chains that are used.*
"""
SPEED_TEXT = """
## Speed

Time of a single-site update on one core. The scalar loop updates one chain in compiled code with
NumPy's PCG64. The library updates 1024 Ising chains as bits, with acceptance probabilities of 64
bits, or 128 Potts chains as bytes. The two are timed alternately, and the table has medians.
"""


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # the paper's runs are hard on purpose
    print(INTRODUCTION)
    random = ising()
    print(POTTS_TEXT)
    linear, dense = potts()
    draw(random, linear, dense)
    print(PICTURES_TEXT + SPEED_TEXT)
    speed()


if __name__ == "__main__":
    main()
