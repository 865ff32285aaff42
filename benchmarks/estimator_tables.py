"""Tables of what the estimators do on systems with known answers: docs/estimator_tables.md.

Run as ``python benchmarks/estimator_tables.py > docs/estimator_tables.md``; about three minutes.
"""

import numpy as np

from pymc_bdmc import estimators, testsystems

REPLICATES = 1000
CHAINS = 100

ESTIMATORS = {
    "forward average": lambda f, r: estimators.jarzynski_forward(f),
    "reverse average": lambda f, r: estimators.jarzynski_reverse(r),
    "cumulant forward": lambda f, r: estimators.cumulant_forward(f),
    "cumulant reverse": lambda f, r: estimators.cumulant_reverse(r),
    "cumulant combined": estimators.cumulant_combined,
    "BAR": estimators.bar,
    "histogram": estimators.histogram,
}

SYSTEMS = {
    "Gaussian bridge, equal divergence, K = 200": testsystems.GaussianBridge.equal_divergence(
        200, correlation=0.5
    ),
    "Gaussian bridge, equal divergence, K = 20": testsystems.GaussianBridge.equal_divergence(
        20, correlation=0.5
    ),
    "Gaussian bridge, linear, K = 20": testsystems.GaussianBridge.linear(20, correlation=0.5),
    "gamma work (5, 0.5)": testsystems.GammaWork(shape=5.0, rate=0.5),
    "bimodal Gaussian": testsystems.BimodalGaussian(),
    "bimodal Cauchy": testsystems.BimodalCauchy(),
    "spike and slab": testsystems.SpikeAndSlab(),
}


def replicated(system, rng):
    n = REPLICATES * CHAINS
    return zip(
        system.forward(n, rng).reshape(REPLICATES, CHAINS),
        system.reverse(n, rng).reshape(REPLICATES, CHAINS),
        strict=True,
    )


def coverage():
    print("| system | interval | covers | said valid | covers where valid | valid beside BAR |")
    print("|---|---|---|---|---|---|")
    for name, system in SYSTEMS.items():
        pairs = list(replicated(system, np.random.default_rng(1)))
        compared = [estimators.compare_estimators(*pair).estimates for pair in pairs]
        for method, estimator in ESTIMATORS.items():
            found = [estimator(*pair) for pair in pairs]
            covers = np.array([abs(e.value - system.log_z) < 1.96 * e.error for e in found])
            valid = np.array([e.valid for e in found])
            beside = np.mean([c[found[0].method].valid for c in compared])
            inside = f"{100 * covers[valid].mean():.1f} %" if valid.sum() >= 50 else "–"
            print(
                f"| {name} | {method} | {100 * covers.mean():.1f} % | "
                f"{100 * valid.mean():.1f} % | {inside} | {100 * beside:.1f} % |"
            )
        for kind in ("mean", "order statistics"):
            bounds = [estimators.certified_bounds(*pair, kind=kind) for pair in pairs]
            covers = np.mean([b.lower <= system.log_z <= b.upper for b in bounds])
            width = np.median([b.upper - b.lower for b in bounds])
            print(
                f"| {name} | certified, {kind} (median width {width:.1f}) | "
                f"{100 * covers:.1f} % | always | | |"
            )


def bias():
    print("| K | " + " | ".join(ESTIMATORS) + " |")
    print("|---" * (len(ESTIMATORS) + 1) + "|")
    for steps in (2, 5, 10, 20, 50, 100, 200):
        bridge = testsystems.GaussianBridge.linear(steps, correlation=0.5)
        pairs = list(replicated(bridge, np.random.default_rng(2)))
        cells = []
        for estimator in ESTIMATORS.values():
            errors = np.array([estimator(*pair).value for pair in pairs]) - bridge.log_z
            cells.append(f"{errors.mean():+.2f} ± {errors.std():.2f}")
        print(f"| {steps} | " + " | ".join(cells) + " |")


def grids():
    print("| T | EASY J | EASY B | HARD J | HARD B | BARRIER J | BARRIER B |")
    print("|---|---|---|---|---|---|---|")
    systems = [
        testsystems.Grid.random(2.0, np.random.default_rng(3)),
        testsystems.Grid.random(10.0, np.random.default_rng(3)),
        testsystems.Grid.barrier(),
    ]
    for distributions in (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000):
        runs = [grid.sandwich(np.linspace(0, 1, distributions)) for grid in systems]
        cells = " | ".join(f"{r.jeffreys:.4g} | {r.bound:.4g}" for r in runs)
        print(f"| {distributions} | {cells} |")


if __name__ == "__main__":
    print("# What the estimators do where the answer is known\n")
    print("Made by `python benchmarks/estimator_tables.py > docs/estimator_tables.md`.\n")
    print(f"## Coverage of nominal 95 % intervals\n\n{REPLICATES} replicates of {CHAINS} forward")
    print(f"and {CHAINS} reverse chains. A dash: fewer than 50 replicates were called valid. A")
    print("check that sees one direction only cannot find what the other alone visits (the spike):")
    print("`compare_estimators` sets one-sided estimates against BAR, and its verdict is the last")
    print("column.\n")
    coverage()
    print("\n## Bias and spread on the Gaussian bridge\n\nN(20, 10²) to N(0, 1), linear in the")
    print("parameters, τ = 0.5: mean error ± standard deviation, nats, over as many replicates.\n")
    bias()
    print("\n## Exact Jeffreys divergence J and bound B on 7×7 grids\n\nT counts distributions on")
    print("a linear schedule; nats. EASY and HARD are one random draw each.\n")
    grids()
