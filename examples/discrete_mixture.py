"""Discrete assignments
====================

Cluster assignments as discrete variables, with the evidence known by enumeration.

Every observation belongs to one of two clusters with unknown means. Metropolis moves change
the assignments and HMC the means; the two compared models differ in how far apart the prior allows
the means to be.
"""

from pathlib import Path

import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

Y = np.array([-1.9, -1.4, -1.1, 0.8, 1.3, 1.6, 2.1])


def build(spread: float) -> pm.Model:
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, spread, shape=2)
        z = pm.Bernoulli("z", 0.5, shape=len(Y))
        pm.Normal("y", mean[z], 0.5, observed=Y)
    return model


def log_ml(spread: float) -> float:
    """Sum over the 2^7 assignments; given one, each cluster's data are jointly normal."""
    from itertools import product

    from scipy.special import logsumexp
    from scipy.stats import multivariate_normal

    terms = []
    for z in product([0, 1], repeat=len(Y)):
        groups = [Y[np.array(z) == k] for k in (0, 1)]
        covs = [0.25 * np.eye(len(g)) + spread**2 for g in groups]
        terms.append(
            sum(
                multivariate_normal.logpdf(g, np.zeros(len(g)), c)
                for g, c in zip(groups, covs, strict=True)
                if len(g)
            )
        )
    return logsumexp(terms) - len(Y) * np.log(2)


def main(datasets: int = 20, folder: str = "output", **options) -> dict:
    results = {}
    for spread in (2.0, 10.0):
        with build(spread):
            dt = pm.sample_bdmc(simulate=bdmc.FromPrior(datasets), random_seed=1, **options)
        results[spread] = dt
        row = bdmc.summary(dt).loc[("real", "evidence")]
        print(
            f"means ~ N(0, {spread:g}): log ML = {row['value']:.3f} ± {row['error']:.3f} nats, "
            f"exact {log_ml(spread):.3f}"
        )
    Path(folder).mkdir(exist_ok=True)
    compared = {f"means ~ N(0, {spread:g})": dt for spread, dt in results.items()}
    picture = bdmc.plot_compare(compared, backend="matplotlib")
    picture.savefig(Path(folder, "discrete_mixture.png"))
    return results


if __name__ == "__main__":
    main()
