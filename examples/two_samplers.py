"""What the bound means
====================

Draws of two samplers from one posterior whose density is known, and what the verdict says of each.

Nine wards counted falls in four quarters. Chains of 30 Metropolis moves do not reach the posterior
of their rates: their draws look like those of any posterior, and are wrong. Annealing by HMC with
100 temperatures reaches it. The verdict has not seen the density.
"""

from pathlib import Path
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from scipy import stats

import pymc_bdmc as bdmc

falls = np.array([
    [9, 5, 8, 6], [2, 3, 0, 2], [6, 5, 6, 9], [3, 4, 7, 3], [1, 0, 1, 2], [4, 2, 6, 3],
    [11, 14, 9, 8], [3, 2, 2, 5], [5, 1, 4, 4],
])  # fmt: skip
WARD = 6
"""The ward whose rate is shown: it has most falls."""

with pm.Model(coords={"ward": range(9), "quarter": range(4)}) as model:
    mean, spread = pm.Normal("mean", 1, 1), pm.HalfNormal("spread", 1)
    z = pm.Normal("z", dims="ward")
    rate = pm.Deterministic("rate", pm.math.exp(mean + spread * z), dims="ward")
    pm.Poisson("falls", rate[:, None], observed=falls, dims=("ward", "quarter"))

# %%
# Data are simulated from the prior, so the bound is proved for both samplers.

options = {"path": "prior", "simulate": "prior", "random_seed": 1}
bad = pm.sample_bdmc(model, step="metropolis", particles=1, temperatures=30, chains=200, **options)
print(bdmc.verdict(bad))

# %%
good = pm.sample_bdmc(model, temperatures=100, chains=16, **options)
print(bdmc.verdict(good))

# %%
# The exact density of the logarithm of one rate, by quadrature over all others. Given mean and
# spread the wards are independent, so each is an integral over its own log rate.


def exact_density(log_rate):
    means, spreads = np.linspace(-1, 3, 161), np.linspace(0.02, 3, 150)
    shape = (len(means), len(spreads), len(log_rate))
    prior = stats.norm.pdf(log_rate, means[:, None, None], spreads[None, :, None])
    joint = np.ones(shape[:2]) * stats.norm.pdf(means, 1, 1)[:, None]
    joint *= stats.halfnorm.pdf(spreads)
    for ward, counts in enumerate(falls):
        likelihood = stats.poisson.pmf(counts[:, None], np.exp(log_rate)).prod(axis=0)
        if ward == WARD:
            shown = prior * likelihood
        else:
            joint *= np.trapezoid(prior * likelihood, log_rate)
    density = np.einsum("ms,msr->r", joint, shown)
    return density / np.trapezoid(density, log_rate)


# %%
# A draw is a particle at the end of a run, before the further moves that are kept, taken by its
# weight within that run.


def draws(dt):
    rates, kept = dt["particles"]["rate"].sel(ward=WARD), dt["particles"].attrs["sweeps"]
    last = rates.isel(particle=slice(rates.sizes["particle"] // kept))
    share = last["bdmc_weight"] / last["bdmc_weight"].sum("particle")
    return last.values.ravel(), share.values.ravel()


log_rate = np.linspace(-4, 5, 901)
density = exact_density(log_rate)
figure, columns = plt.subplots(1, 2, figsize=(6, 5), sharex=True, sharey=True)
figure.subplots_adjust(left=0.03, right=0.98, top=0.93, bottom=0.53, wspace=0.08)
for axes, dt, title, colour in (
    (columns[0], bad, "30 Metropolis moves", "tab:orange"),
    (columns[1], good, "100 HMC moves", "tab:blue"),
):
    rates, shares = draws(dt)
    bars = {"density": True, "color": colour, "alpha": 0.6, "label": "draws"}
    axes.hist(rates, np.arange(0, 18, 0.75), weights=shares, **bars)
    axes.plot(np.exp(log_rate), density / np.exp(log_rate), "k", linewidth=2, label="posterior")
    axes.set(xlim=(0, 18), yticks=[])
    axes.set_title(title, fontsize=13)
    axes.set_xlabel(f"falls a quarter in ward {WARD}", fontsize=11)
    axes.tick_params(labelsize=11)
    axes.spines[["left", "right", "top"]].set_visible(False)
    (status, *rest), bound = (line.split(". ") for line in str(bdmc.verdict(dt)).split("\n")[:2])
    told = "\n".join(fill(line, 34) for line in (*rest, ". ".join(bound)))
    below = {"transform": axes.transAxes, "va": "top", "fontsize": 11}
    axes.text(0.02, -0.33, status.removesuffix(".") + ".", weight="bold", **below)
    axes.text(0.02, -0.44, told, linespacing=1.25, **below)
columns[0].legend(loc="upper right", fontsize=11, frameon=False, borderpad=0, handlelength=1.2)
Path("output").mkdir(exist_ok=True)
figure.savefig("output/two_samplers.png", dpi=150)
