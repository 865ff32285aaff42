"""Can I trust my posterior?
=========================

Falls in nine wards, and how each ward's rate differs from the common one. PyMC's NUTS has sampled
the posterior, and ADVI has fitted it. One call says that the first can be relied on and the second
cannot. Others say how far draws of an annealed sampler can be trusted, on data like these, also if
the model does not fit. The page docs/trust.md tells more.
"""

from pathlib import Path

import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

falls = np.array([
    [9, 5, 8, 6], [2, 3, 0, 2], [6, 5, 6, 9], [3, 4, 7, 3], [1, 0, 1, 2], [4, 2, 6, 3],
    [11, 14, 9, 8], [3, 2, 2, 5], [5, 1, 4, 4],
])  # fmt: skip

with pm.Model(coords={"ward": range(9), "quarter": range(4)}) as model:
    mean, spread = pm.Normal("mean", 1, 1), pm.HalfNormal("spread", 1)
    z = pm.Normal("z", dims="ward")
    rate = pm.Deterministic("rate", pm.math.exp(mean + spread * z), dims="ward")
    pm.Poisson("falls", rate[:, None], observed=falls, dims=("ward", "quarter"))
    idata = pm.sample(1000, tune=1000, chains=4, random_seed=1, progressbar=False)
    fit = pm.fit(20_000, random_seed=1, progressbar=False)

# %%
# Are draws of NUTS from the posterior? Sample it in another way, and compare.

dt = pm.sample_bdmc(model, simulate=None, path="prior", chains=64, random_seed=1)
nuts = bdmc.agreement(dt, idata)
print(nuts)

# %%
# Draws of ADVI, which takes all variables to be independent, are judged in the same way.

draws = fit.sample(2000, random_seed=1)
advi = bdmc.agreement(dt, draws)
print(advi)

# %%
Path("output").mkdir(exist_ok=True)
bdmc.plot_agreement(dt, draws).savefig("output/trust_agreement.png")

# %%
# How far are draws of the run itself from the posterior, on data like these? Parameters of
# simulated data are known, so runs can go to the posterior and back.

good = pm.sample_bdmc(model, temperatures=[10, 30, 100], chains=16, path="prior", random_seed=1)
print(bdmc.verdict(good))

# %%
# The verdict is about simulated data. Runs on the real data converge in the same way:

bdmc.plot_consistency(good).savefig("output/trust_consistency.png")

# %%
# A model that does not fit, with the same rates in all wards: data that are simulated with draws
# from its posterior contain the real ones, so the verdict on its draws holds all the same.

with pm.Model(coords={"ward": range(9), "quarter": range(4)}) as pooled:
    log_rate = pm.Normal("log_rate", 1, 1, dims="quarter")
    pm.Poisson("falls", pm.math.exp(log_rate), observed=falls, dims=("ward", "quarter"))
    misfit = pm.sample_bdmc(simulate=bdmc.FromPosterior(), random_seed=1)

print(bdmc.verdict(misfit))
