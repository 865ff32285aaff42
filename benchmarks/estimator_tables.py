"""Tables of what the estimators do on systems with known answers: docs/estimator_tables.md.

Run as ``python benchmarks/estimator_tables.py [--docs]``; about ten minutes. With ``--docs`` the
tables go to the page, the one of coverage as a row an interval, and all rows to docs/tables. It
also draws docs/images/grids.png.
"""

import matplotlib.pyplot as plt
import numpy as np
from common import DOCS, all_rows, publish, table

from pymc_bdmc import estimators, testsystems
from tests import systems

REPLICATES = 1000
CHAINS = 100
POSTERIOR_DRAWS = 100
PAGE, PICTURE = DOCS / "estimator_tables.md", DOCS / "images" / "grids.png"
PUBLISHED = {"EASY": (0.00518, 0.0705), "HARD": (1.840, 2.309)}  # J and B at T = 1000, one draw

ESTIMATORS = estimators.ESTIMATORS

SYSTEMS = {
    "Gaussian bridge, equal divergence, K = 200": systems.GaussianBridge.equal_divergence(
        200, correlation=0.5
    ),
    "Gaussian bridge, equal divergence, K = 20": systems.GaussianBridge.equal_divergence(
        20, correlation=0.5
    ),
    "Gaussian bridge, linear, K = 20": systems.GaussianBridge.linear(20, correlation=0.5),
    "conjugate regression, 3 of 20": testsystems.ConjugateRegression.random(
        3, 20, np.random.default_rng(1)
    ),
    "Bin(100, p1 p2), 50 successes": testsystems.UnidentifiedBinomial(),
    "Ising 3×3, coupling 0.44": systems.FiniteSystem.ising(3, 0.44),
    "gamma work (1, 2)": systems.GammaWork(shape=1.0, rate=2.0),
    "gamma work (5, 0.5)": systems.GammaWork(shape=5.0, rate=0.5),
    "bimodal Gaussian": testsystems.BimodalGaussian(),
    "bimodal Cauchy": testsystems.BimodalCauchy(),
    "spike and slab": systems.SpikeAndSlab(),
}


POSTERIOR_SYSTEMS = [
    "Gaussian bridge, equal divergence, K = 200",
    "conjugate regression, 3 of 20",
    "Bin(100, p1 p2), 50 successes",
    "Ising 3×3, coupling 0.44",
]


def replicated(system, rng):
    n = REPLICATES * CHAINS
    return zip(
        system.forward(n, rng).reshape(REPLICATES, CHAINS),
        system.reverse(n, rng).reshape(REPLICATES, CHAINS),
        strict=True,
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


COVERAGE = [
    "system", "interval", "covers", "said valid", "covers where valid", "valid beside BAR",
    "covers where valid beside BAR", "median width",
]  # fmt: skip


def coverage() -> list[list[str]]:
    """A row a system and interval. A dash: fewer than 50 replicates are valid."""
    rows = []
    for name, system in SYSTEMS.items():
        pairs = list(replicated(system, np.random.default_rng(1)))
        compared = [estimators.compare_estimators(*pair).estimates for pair in pairs]
        for method, estimator in ESTIMATORS.items():
            found = [estimator.estimate(forward=f, reverse=r) for f, r in pairs]
            covers = np.array([abs(e.value - system.log_z) < 1.96 * e.error for e in found])
            valid = np.array([e.valid for e in found])
            beside = np.array([c[found[0].method].valid for c in compared])
            cells = [percent(covers.mean())]
            for said in (valid, beside):
                inside = percent(covers[said].mean()) if said.sum() >= 50 else "–"
                cells += [percent(said.mean()), inside]
            rows.append([name, method, *cells, ""])
        for kind in ("mean", "order statistics"):
            bounds = [estimators.certified_bounds(*pair, kind=kind) for pair in pairs]
            covers = np.mean([b.lower <= system.log_z <= b.upper for b in bounds])
            width = np.median([b.upper - b.lower for b in bounds])
            rows.append([
                name, f"certified, {kind}", percent(covers), "always", "", "", "", f"{width:.1f}"
            ])  # fmt: skip
    return rows


def by_interval(rows: list[list[str]]) -> str:
    """A row an interval: the lowest coverage over systems, and the median share that is valid."""
    lines = []
    for interval in dict.fromkeys(row[1] for row in rows):
        columns = list(zip(*(row for row in rows if row[1] == interval), strict=True))
        covers, said, inside, beside, within = (
            [float(cell.rstrip(" %")) for cell in column if cell.endswith("%")]
            for column in columns[2:7]
        )
        cells = [
            f"{summary(each):.1f} %" if each else ""
            for each, summary in zip(
                (covers, said, inside, beside, within), (min, np.median, min, np.median, min),
                strict=True,
            )
        ]  # fmt: skip
        lines.append([interval, *cells])
    head = ["interval", "covers, at least", "said valid, median", "covers where valid, at least",
            "valid beside BAR, median", "covers there, at least"]  # fmt: skip
    return table(head, lines)


def posterior() -> list[list[str]]:
    """A row a system."""
    rows = []
    for name in POSTERIOR_SYSTEMS:
        system, covers, valid = SYSTEMS[name], [], []
        for i, pair in enumerate(replicated(system, np.random.default_rng(1))):
            draws = estimators.histogram_posterior(*pair, draws=POSTERIOR_DRAWS, random_seed=i)
            low, high = draws.interval()
            covers.append(low <= system.log_z <= high)
            valid.append(draws.estimate.valid)
        covers, valid = np.array(covers), np.array(valid)
        rows.append([name, *map(percent, (covers.mean(), valid.mean(), covers[valid].mean()))])
    return rows


def bias() -> list[list[str]]:
    """A row a number of temperatures: mean error ± standard deviation, by estimator."""
    rows = []
    for steps in (2, 5, 10, 20, 50, 100, 200):
        bridge = systems.GaussianBridge.linear(steps, correlation=0.5)
        pairs = list(replicated(bridge, np.random.default_rng(2)))
        cells = []
        for estimator in ESTIMATORS.values():
            values = [estimator.estimate(forward=f, reverse=r).value for f, r in pairs]
            errors = np.array(values) - bridge.log_z
            cells.append(f"{errors.mean():+.2f} ± {errors.std():.2f}")
        rows.append([str(steps), *cells])
    return rows


def typical(name: str, std: float) -> tuple[systems.Grid, list[list[str]]]:
    """Grid, of a hundred draws, whose B at T = 1000 is nearest to the published one, and rows."""
    draws = [systems.Grid.random(std, np.random.default_rng(i)) for i in range(100)]
    runs = [grid.sandwich(np.linspace(0, 1, 1000)) for grid in draws]
    rows = []
    for quantity, published in zip(("jeffreys", "bound"), PUBLISHED[name], strict=True):
        found = np.array([getattr(run, quantity) for run in runs])
        rows.append([
            name, "J" if quantity == "jeffreys" else "B",
            *(f"{each:.4g}" for each in np.quantile(found, [0.1, 0.5, 0.9])),
            str(published), f"{np.mean(found < published):.2f}",
        ])  # fmt: skip
    nearest = np.argmin([abs(run.bound - PUBLISHED[name][1]) for run in runs])
    return draws[nearest], rows


SIZES = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def grids() -> tuple[list[list[str]], list[list[str]], bool]:
    """Quantiles over draws, one draw by T, and whether B ≥ J always; the picture is saved."""
    (easy, of_easy), (hard, of_hard) = typical("EASY", 2.0), typical("HARD", 10.0)
    draws = {"EASY": easy, "HARD": hard, "BARRIER": systems.Grid.barrier()}
    runs = {
        name: [grid.sandwich(np.linspace(0, 1, n)) for n in SIZES] for name, grid in draws.items()
    }
    rows = [
        [str(size), *(f"{x:.4g}" for r in runs.values() for x in (r[i].jeffreys, r[i].bound))]
        for i, size in enumerate(SIZES)
    ]
    holds = all(run.bound >= run.jeffreys for each in runs.values() for run in each)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for panel, (name, each) in zip(axes, runs.items(), strict=True):
        panel.loglog(SIZES, [run.bound for run in each], "o-", label="bound B")
        panel.loglog(SIZES, [run.jeffreys for run in each], "s--", label="divergence J")
        panel.set(title=name, xlabel="number of distributions T", ylabel="nats")
    axes[0].legend()
    figure.savefig(PICTURE, dpi=100)
    return [*of_easy, *of_hard], rows, holds


TEXTS = {
    "Coverage of nominal 95 % intervals": (
        f"{REPLICATES} replicates of {CHAINS} forward and {CHAINS} reverse chains on "
        f"{len(SYSTEMS)} systems. An estimate of one direction is checked with its own chains "
        "(*said valid*) and, in `compare_estimators`, with those of both directions (*valid beside "
        "BAR*). Systems with fewer than 50 valid replicates do not count where validity does."
    ),
    "Coverage of the histogram posterior": (
        f"Intervals contain the central 95 % of {POSTERIOR_DRAWS} draws; {REPLICATES} replicates."
    ),
    "Bias and spread on the Gaussian bridge": (
        "The bridge goes from N(20, 10²) to N(0, 1) in K steps, linear in the parameters, with "
        "τ = 0.5. Mean error ± its standard deviation over the replicates, in nats."
    ),
    "Exact Jeffreys divergence J and bound B on 7×7 grids": (
        "The grids of Grosse, Ancha and Roy (2016), Appendix B, with T distributions on a linear "
        "schedule; in nats. BARRIER agrees with the published digits. EASY and HARD were published "
        "for one random draw, and J and B vary by an order of magnitude between draws: quantiles "
        "over 100 draws at T = 1000, and the share of these below the published value (*rank*)."
    ),
}
BIAS = ["K", *ESTIMATORS]
GRIDS = ["T", *(f"{name} {of}" for name in ("EASY", "HARD", "BARRIER") for of in "JB")]


def contents(covered: list, drawn: list, biased: list, over_draws: list, by_size: list,
             holds: bool) -> dict[str, list[str]]:  # fmt: skip
    """What each section shows, by its title."""
    few = ["K", "forward average", "reverse average", "cumulant combined", "bar"]
    parts = [
        [by_interval(covered), all_rows("coverage", COVERAGE, covered)],
        [table(["system", "covers", "said valid", "covers where valid"], drawn)],
        [
            table(BIAS, [row for row in biased if row[0] in ("2", "20", "200")], only=few),
            all_rows("bias", BIAS, biased),
        ],
        [
            table(["grid", "", "10 %", "median", "90 %", "published", "rank"], over_draws),
            "J and B against T for one draw of each grid, the one whose B is nearest to the "
            f"published value. B ≥ J in every case: {'yes' if holds else 'NO'}. "
            + all_rows("grids", GRIDS, by_size),
            "![B and J against T](images/grids.png)",
        ],
    ]
    return dict(zip(TEXTS, parts, strict=True))


if __name__ == "__main__":
    for title, parts in contents(coverage(), posterior(), bias(), *grids()).items():
        publish(title, TEXTS[title], *parts, page=PAGE)
