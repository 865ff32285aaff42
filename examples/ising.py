"""The Ising model
===============

Across its phase transition, with the partition function known exactly.

Chains are annealed from infinite temperature and, from exact samples, back to it. Slower annealing
closes the gap between the bounds and the loop around the critical temperature.
"""

from pathlib import Path

import matplotlib.pyplot as plt

import pymc_bdmc as bdmc


def main(temperatures=(300, 1000, 3000), folder: str = "output") -> dict:
    system = bdmc.lattice.Ising(32)
    print(
        f"exact log(Z/Z_0) = {system.log_z():.3f} nats; critical β = {system.critical_beta:.4f}\n"
    )
    results = {}
    for n in temperatures:
        dt = bdmc.lattice.anneal(system, temperatures=n, random_seed=1)
        results[f"T = {n}"] = dt
        bounds = bdmc.summary(dt).loc["simulated", "value"]
        value, error = bdmc.evidence(dt, "bar")[["value", "error"]].iloc[0]
        print(
            f"T = {n}: between {bounds['lower bound']:.1f} and {bounds['upper bound']:.1f}, "
            f"BAR {value:.2f} ± {error:.2f}"
        )
    bdmc.plot_hysteresis(results, backend="matplotlib")
    Path(folder).mkdir(exist_ok=True)
    plt.savefig(Path(folder) / "ising_hysteresis.png", dpi=100)
    return results


if __name__ == "__main__":
    main()
