"""Eight schools
=============

Centred against non-centred: the same model, two samplers' difficulty.

The evidence must agree; the gap of the sandwich, an upper bound on how far the sampler's last
states are from the posterior, need not. The data are estimated effects of coaching on test scores,
with their standard errors (Rubin 1981).
"""

from pathlib import Path

import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
schools = ["Choate", "Deerfield", "Andover", "Exeter", "Hotchkiss", "Lawrenceville", "Paul", "Hill"]

# %%
# Centred: the effect of a school has the common mean and spread in its prior.

with pm.Model(coords={"school": schools}):
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
    theta = pm.Normal("theta", mu, tau, dims="school")
    pm.Normal("y", theta, error, observed=effect, dims="school")
    centred = pm.sample_bdmc(simulate="prior", random_seed=8)

print(bdmc.summary(centred))

# %%
# Non-centred: the effect is computed from a standard normal variable.

with pm.Model(coords={"school": schools}):
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
    z = pm.Normal("z", dims="school")
    theta = pm.Deterministic("theta", mu + tau * z, dims="school")
    pm.Normal("y", theta, error, observed=effect, dims="school")
    non_centred = pm.sample_bdmc(simulate="prior", random_seed=8)

print(bdmc.summary(non_centred))

# %%
# Both have the same log ML, which quadrature over tau gives as -31.0362.

print(bdmc.log_ml(centred))
print(bdmc.log_ml(non_centred))

# %%
# Can the draws be trusted?

print(bdmc.verdict(centred))

# %%
print(bdmc.verdict(non_centred))

# %%
# The log weights of forward and reverse runs, whose means are the two bounds:

Path("output").mkdir(exist_ok=True)
picture = bdmc.plot_sandwich({"centred": centred, "non-centred": non_centred})
picture.savefig("output/eight_schools.png")
