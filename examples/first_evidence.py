"""Your first evidence
===================

Is there a slope in these data? The page docs/first_evidence.md tells more.

Two models of the same ten measurements, with and without a slope. Both are linear and normal, so
their evidence is known exactly, and what is printed can be checked.
"""

from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats

import pymc_bdmc as bdmc

day = np.arange(10) - 4.5
growth = np.array([-0.9, -1.6, 0.4, -1.0, 0.3, 0.9, -0.2, 1.4, 0.5, 1.9])

with pm.Model(coords={"day": day}) as with_slope:
    level = pm.Normal("level", 0, 1)
    slope = pm.Normal("slope", 0, 0.5)
    pm.Normal("growth", level + slope * day, 0.8, observed=growth, dims="day")

# %%
# One call samples the model and judges its draws. The summary has all numbers, in nats.

dt = pm.sample_bdmc(with_slope, random_seed=1)
print(bdmc.summary(dt))

# %%
# The row ``evidence`` is log ML, the logarithm of the probability of the data. With the parameters
# integrated out the data are jointly normal, which gives the exact number.


def exact_log_ml(slope_variance):
    covariance = 0.8**2 * np.eye(10) + 1 + slope_variance * np.outer(day, day)
    return float(stats.multivariate_normal.logpdf(growth, np.zeros(10), covariance))


print(bdmc.log_ml(dt))
print(f"The exact number is {exact_log_ml(0.5**2):.3f}.")

# %%
# Forward runs bound log ML from below and reverse runs from above, on 20 simulated data sets.

Path("output").mkdir(exist_ok=True)
bdmc.plot_sandwich(dt).savefig("output/first_evidence.png")

# %%
# A model without a slope, of the same data:

with pm.Model(coords={"day": day}) as without_slope:
    level = pm.Normal("level", 0, 1)
    pm.Normal("growth", level, 0.8, observed=growth, dims="day")
    dt_flat = pm.sample_bdmc(random_seed=1)

print(bdmc.log_ml(dt_flat))
print(f"The exact number is {exact_log_ml(0.0):.3f}.")

# %%
# The data favour the slope:

print(bdmc.bayes_factor(dt, dt_flat))
