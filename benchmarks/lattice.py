"""Ising and Potts models as in Habeck (2017), and how fast they run: sections of docs/testbed.md.

Run as ``python benchmarks/lattice.py [--docs]``; about two minutes on two cores. The picture goes
to docs/images.
"""

import logging
import time
from statistics import median

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from common import DOCS, all_rows, publish, span, table
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

PAGE, PICTURE = DOCS / "testbed.md", DOCS / "images" / "lattice_work.png"
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


def speed(blocks: int = 21) -> list[list[str]]:
    """Nanoseconds of a single-site update on one core; the two loops take turns."""
    rows = []
    rng = np.random.default_rng(1)
    sites = rng.integers(ISING.n_sites, size=2 * ISING.n_sites)
    signs = rng.choice(np.array([-1, 1], dtype=np.int8), size=(32, 32))
    colours = rng.integers(POTTS.q, size=(32, 32))
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
            rows.append([
                name, move, f"{beta:g}", f"{plain:.1f} ns", f"{ours:.2f} ns", f"{ratio:.0f}"
            ])  # fmt: skip
    return rows


def timed(system, **options):
    options |= {"random_seed": 1, "progressbar": False}
    anneal(system, **{**options, "chains": 2, "temperatures": 2})  # compiles
    started = time.perf_counter()
    dt = anneal(system, **options)
    return dt, time.perf_counter() - started


def ising() -> tuple[list[list[str]], xr.DataTree]:
    """Rows of the table of Fig. 3, and the result with random sites, as in the paper."""
    random, took = timed(ISING, sites="random", updates=1000)
    checkerboard, took_checkerboard = timed(ISING)
    columns, rows = [], []
    for dt in (random, checkerboard):
        found = bdmc.evidence(dt).loc[("simulated", 0)]
        bounds = bdmc.summary(dt).loc["simulated"]
        columns.append({**found.T.to_dict(), **bounds.T.to_dict()})
    for name, published in PAPER.items():
        cells = [f"{c[name]['value']:.2f} ± {c[name]['error']:.2f}" for c in columns]
        rows.append([name, f"{published}", *cells])
    rows.append(["exact", "1339.267", *2 * [f"{ISING.log_z():.3f}"]])
    rows.append(["time", "", f"{took:.1f} s", f"{took_checkerboard:.1f} s"])
    return rows, random


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


def potts() -> tuple[list[list[str]], xr.DataTree, xr.DataTree]:
    """Routes to one number, and the results with the linear and with the dense schedule."""
    linear, _ = timed(POTTS, kernel="heat bath")
    betas = dense_near_transition(POTTS)
    dense, took = timed(
        POTTS, kernel="heat bath", temperatures=betas, updates=30 * POTTS.n_sites, chains=256
    )
    rows = [["published", "about 1742, about 1745"]]
    for name, dt in (("linear schedule, T = 1000, one sweep", linear),
                     (f"dense near β_c, T = {len(betas) - 1}, 30 sweeps", dense)):  # fmt: skip
        bounds = bdmc.summary(dt).loc["simulated", "value"]
        rows.append([
            f"bounds, {name}", f"{bounds['lower bound']:.1f} … {bounds['upper bound']:.1f}"
        ])  # fmt: skip
    value, error = bdmc.evidence(dense, "bar")[["value", "error"]].iloc[0]
    rows.append([f"BAR, dense near β_c ({took:.0f} s)", f"{value:.2f} ± {error:.2f}"])
    value, error = from_zero_temperature(POTTS)
    rows.append(["integration from zero temperature", f"{value:.2f} ± {error:.2f}"])
    for side in (4, 5):
        exact = f"{from_small_lattice(side):.4f}"
        rows.append([f"exact for L = {side}, scaled to 32 × 32", exact])
    return rows, linear, dense


def draw(ising: xr.DataTree, linear: xr.DataTree, dense: xr.DataTree) -> None:
    """Save the picture of the page."""
    panels = {"Ising": ising, "Potts, linear": linear, "Potts, dense near β_c": dense}
    bdmc.plot_sandwich(panels, kind="hist", backend="matplotlib")
    plt.savefig(PICTURE, dpi=100)


TEXTS = {
    "Ising, 32 × 32": (
        "Log(Z/Z_0) at β = 1 in nats, as in Habeck (2017), Fig. 3: a linear schedule with "
        "T = 1000, 1000 single-site updates at each temperature, and 1000 chains in each "
        "direction. The paper updates random sites. A checkerboard sweep is 1024 updates. Here "
        "reverse chains start from exact samples."
    ),
    "Potts, q = 10, 32 × 32, E = −2 Σ δ": (
        "As in Habeck (2017), Fig. 4. The phase transition is of first order, so on a linear "
        "schedule the work distributions of the two directions do not overlap."
    ),
    "Speed of lattices": (
        "Time of a single-site update on one core, beside a compiled scalar loop with NumPy's "
        "PCG64: 1024 Ising chains as bits, or 128 Potts chains as bytes. Medians of alternating "
        "runs."
    ),
}
HEADS = (
    ["", "paper", "random sites", "checkerboard"],
    ["method", "log(Z/Z_0)"],
    ["model", "move", "β", "scalar loop", "library", "ratio"],
)


def contents(*rows: list[list[str]]) -> dict[str, list[str]]:
    """What each section shows, by its title."""
    tables = [[table(head, each)] for head, each in zip(HEADS, rows, strict=True)]
    cold = [row for row in rows[2] if row[2] == "1"]
    tables[2] = [
        f"At β = 1 an update takes {span(row[4].split()[0] for row in cold)} ns, and the scalar "
        f"loop {span(row[5] for row in cold)} times as long. "
        + all_rows("lattice_speed", HEADS[2], rows[2]),
    ]
    tables[1] += [
        "![Log weights](images/lattice_work.png)",
        "*Log weights of both models. Their means are the bounds.*",
    ]
    return dict(zip(TEXTS, tables, strict=True))


def main() -> None:
    logging.getLogger("pymc.bdmc").setLevel(logging.ERROR)  # the paper's runs are hard on purpose
    of_ising, random = ising()
    of_potts, linear, dense = potts()
    draw(random, linear, dense)
    for title, parts in contents(of_ising, of_potts, speed()).items():
        publish(title, TEXTS[title], *parts, page=PAGE)


if __name__ == "__main__":
    main()
