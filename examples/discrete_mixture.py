"""Discrete assignments
====================

Cluster assignments as discrete variables, with the evidence known by enumeration.

Every observation belongs to one of two clusters with unknown means. Metropolis moves change
the assignments and HMC the means; the two compared models differ in how far apart the prior allows
the means to be.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import pymc_bdmc as bdmc

y = np.array([-1.9, -1.4, -1.1, 0.8, 1.3, 1.6, 2.1])
results = {}
for spread in (2.0, 10.0):
    with pm.Model():
        mean = pm.Normal("mean", 0, spread, shape=2)
        z = pm.Bernoulli("z", 0.5, shape=len(y))
        pm.Normal("y", mean[z], 0.5, observed=y)
        results[spread] = pm.sample_bdmc(simulate="prior", random_seed=1)

# %%
# Given the assignments, the data of each cluster are jointly normal. So the exact log ML is a sum
# over the 2^7 assignments.


def exact_log_ml(spread):
    terms = []
    for z in product([0, 1], repeat=len(y)):
        groups = [y[np.array(z) == k] for k in (0, 1)]
        terms.append(
            sum(
                multivariate_normal.logpdf(group, cov=0.25 * np.eye(len(group)) + spread**2)
                for group in groups
                if len(group)
            )
        )
    return logsumexp(terms) - len(y) * np.log(2)


for spread, dt in results.items():
    print(f"means ~ N(0, {spread:g}): {bdmc.log_ml(dt)} Exact: {exact_log_ml(spread):.3f}.")

# %%
# A prior that is five times as wide costs about log 5 = 1.6 nats for each of the two means:

print(bdmc.bayes_factor(results[2.0], results[10.0]))

# %%
# Intervals of log ML, and the probabilities of the models:

Path("output").mkdir(exist_ok=True)
compared = {f"means ~ N(0, {spread:g})": dt for spread, dt in results.items()}
bdmc.plot_compare(compared).savefig("output/discrete_mixture.png")
