"""Tables of what the estimators do on systems with known answers: docs/estimator_tables.md.

Run as ``python benchmarks/estimator_tables.py > docs/estimator_tables.md``; about ten minutes. It
also draws docs/images/grids.png.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from pymc_bdmc import estimators, testsystems
from tests import systems

REPLICATES = 1000
CHAINS = 100
POSTERIOR_DRAWS = 100
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "grids.png"
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

CHECKS = """
**One direction alone.** A check that uses the same chains as the estimate tends to pass samples
that look better than they are: those that missed heavy weights, or a long tail. Therefore an
average is judged by the skewness of log-normal weights with the same effective sample size and not
by the observed one, and a cumulant expansion of one direction is not valid if the variance of the
work exceeds 1 nat². One case cannot be recognised from one sample: forward weights with a long
lower tail and a bound above (K = 20, gamma (5, 0.5)), whose average covers with an effective sample
size of 8 to 12 of 100 chains, look like those of the bimodal systems, whose average does not cover.
In rows where few replicates pass, these few look better than they are. Pareto k of the tail below
its limit 1 − 1/log₁₀ K is no useful check: it passes 71-97 % of the good samples, and also 13-22 %
of the samples of systems whose intervals cover only 55-91 %.

**Both directions.** By Crooks' relation reverse chains show the forward weights that forward chains
seldom find, and the other way round. So beside a valid BAR the skewness of an average and the bias
of an expansion are computed from the chains of both directions, and these cases can be told apart.
The error of a cumulant expansion includes the terms that it neglects, so where these are large it
covers more than 95 %.

Weights that are equal up to rounding are never valid for one direction alone, since they say
nothing about what no chain has found. The forward weights of the spike and slab are of this kind.
The reverse chains start at the spike, and show it.
"""


def replicated(system, rng):
    n = REPLICATES * CHAINS
    return zip(
        system.forward(n, rng).reshape(REPLICATES, CHAINS),
        system.reverse(n, rng).reshape(REPLICATES, CHAINS),
        strict=True,
    )


def coverage():
    print("| system | interval | covers | said valid | covers | valid beside BAR | covers |")
    print("|---|---|---|---|---|---|---|")
    for name, system in SYSTEMS.items():
        pairs = list(replicated(system, np.random.default_rng(1)))
        compared = [estimators.compare_estimators(*pair).estimates for pair in pairs]
        for method, estimator in ESTIMATORS.items():
            found = [estimator.estimate(forward=f, reverse=r) for f, r in pairs]
            covers = np.array([abs(e.value - system.log_z) < 1.96 * e.error for e in found])
            valid = np.array([e.valid for e in found])
            beside = np.array([c[found[0].method].valid for c in compared])
            cells = [f"{100 * covers.mean():.1f} %"]
            for said in (valid, beside):
                inside = f"{100 * covers[said].mean():.1f} %" if said.sum() >= 50 else "–"
                cells += [f"{100 * said.mean():.1f} %", inside]
            print(f"| {name} | {method} | {' | '.join(cells)} |")
        for kind in ("mean", "order statistics"):
            bounds = [estimators.certified_bounds(*pair, kind=kind) for pair in pairs]
            covers = np.mean([b.lower <= system.log_z <= b.upper for b in bounds])
            width = np.median([b.upper - b.lower for b in bounds])
            print(
                f"| {name} | certified, {kind} (median width {width:.1f}) | "
                f"{100 * covers:.1f} % | always | | | |"
            )


def posterior():
    print("| system | covers | said valid | covers where valid |\n|---|---|---|---|")
    for name in POSTERIOR_SYSTEMS:
        system, covers, valid = SYSTEMS[name], [], []
        for i, pair in enumerate(replicated(system, np.random.default_rng(1))):
            draws = estimators.histogram_posterior(*pair, draws=POSTERIOR_DRAWS, random_seed=i)
            low, high = draws.interval()
            covers.append(low <= system.log_z <= high)
            valid.append(draws.estimate.valid)
        covers, valid = np.array(covers), np.array(valid)
        print(
            f"| {name} | {100 * covers.mean():.1f} % | {100 * valid.mean():.1f} % | "
            f"{100 * covers[valid].mean():.1f} % |"
        )


def bias():
    print("| K | " + " | ".join(ESTIMATORS) + " |")
    print("|---" * (len(ESTIMATORS) + 1) + "|")
    for steps in (2, 5, 10, 20, 50, 100, 200):
        bridge = systems.GaussianBridge.linear(steps, correlation=0.5)
        pairs = list(replicated(bridge, np.random.default_rng(2)))
        cells = []
        for estimator in ESTIMATORS.values():
            values = [estimator.estimate(forward=f, reverse=r).value for f, r in pairs]
            errors = np.array(values) - bridge.log_z
            cells.append(f"{errors.mean():+.2f} ± {errors.std():.2f}")
        print(f"| {steps} | " + " | ".join(cells) + " |")


def typical(name, std):
    """Grid, of a hundred draws, whose B at T = 1000 is nearest to the published one."""
    draws = [systems.Grid.random(std, np.random.default_rng(i)) for i in range(100)]
    runs = [grid.sandwich(np.linspace(0, 1, 1000)) for grid in draws]
    for quantity, published in zip(("jeffreys", "bound"), PUBLISHED[name], strict=True):
        found = np.array([getattr(run, quantity) for run in runs])
        low, middle, high = np.quantile(found, [0.1, 0.5, 0.9])
        print(
            f"| {name} | {'J' if quantity == 'jeffreys' else 'B'} | {low:.4g} | {middle:.4g} | "
            f"{high:.4g} | {published} | {np.mean(found < published):.2f} |"
        )
    return draws[np.argmin([abs(run.bound - PUBLISHED[name][1]) for run in runs])]


def grids():
    print("| grid | | 10 % | median | 90 % | published | rank |\n|---|---|---|---|---|---|---|")
    draws = {
        "EASY": typical("EASY", 2.0),
        "HARD": typical("HARD", 10.0),
        "BARRIER": systems.Grid.barrier(),
    }
    sizes = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    runs = {
        name: [grid.sandwich(np.linspace(0, 1, n)) for n in sizes] for name, grid in draws.items()
    }
    print("\nOne draw of each grid, the one whose B is nearest to the published value:\n")
    print("| T | EASY J | EASY B | HARD J | HARD B | BARRIER J | BARRIER B |")
    print("|---|---|---|---|---|---|---|")
    for i, size in enumerate(sizes):
        cells = " | ".join(f"{r[i].jeffreys:.4g} | {r[i].bound:.4g}" for r in runs.values())
        print(f"| {size} | {cells} |")
    holds = all(run.bound >= run.jeffreys for each in runs.values() for run in each)
    print(f"\nB ≥ J in every cell: {'yes' if holds else 'NO'}.\n")
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    for panel, (name, each) in zip(axes, runs.items(), strict=True):
        panel.loglog(sizes, [run.bound for run in each], "o-", label="bound B")
        panel.loglog(sizes, [run.jeffreys for run in each], "s--", label="divergence J")
        panel.set(title=name, xlabel="number of distributions T", ylabel="nats")
    axes[0].legend()
    figure.savefig(PICTURE, dpi=100)
    print("![B and J against T](images/grids.png)")


if __name__ == "__main__":
    print("# What the estimators do where the answer is known\n")
    print("Made by `python benchmarks/estimator_tables.py > docs/estimator_tables.md`.\n")
    print("## Coverage of nominal 95 % intervals\n")
    print(f"There are {REPLICATES} replicates of {CHAINS} forward and {CHAINS} reverse chains. An")
    print("estimate of one direction is checked with its own chains (*said valid*) and, in")
    print("`compare_estimators`, with those of both directions (*valid beside BAR*). A dash means")
    print("that fewer than 50 replicates were valid.\n")
    coverage()
    print(CHECKS)
    print("\n## Coverage of the histogram posterior\n")
    print(
        f"Intervals contain the central 95 % of {POSTERIOR_DRAWS} draws; {REPLICATES} replicates.\n"
    )
    posterior()
    print("\n## Bias and spread on the Gaussian bridge\n")
    print("The bridge goes from N(20, 10²) to N(0, 1), linear in the parameters, with τ = 0.5. The")
    print("table has the mean error ± its standard deviation over the replicates, in nats.\n")
    bias()
    print("\n## Exact Jeffreys divergence J and bound B on 7×7 grids\n")
    print("These are the grids of Grosse, Ancha and Roy (2016), Appendix B. T is the number of")
    print("distributions on a linear schedule, and all values are in nats. BARRIER agrees with the")
    print("published digits. EASY and HARD were published for one random draw, and J and B vary by")
    print(
        "an order of magnitude between draws. The table has quantiles over 100 draws at T = 1000;"
    )
    print("*rank* is the share of these draws below the published value.\n")
    grids()
