"""How good is my ADVI?
====================

Stopping distances of cars (Ezekiel 1930), by a straight line. Variational inference fits normal
distributions to its posterior. One call tells how far each of them is from it, in nats, and by how
much their probabilities can be off. The page docs/trust.md tells more.
"""

from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats

import pymc_bdmc as bdmc

mph = np.array([
    4, 4, 7, 7, 8, 9, 10, 10, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15,
    15, 16, 16, 17, 17, 17, 18, 18, 18, 18, 19, 19, 19, 20, 20, 20, 20, 20, 22, 23, 24, 24, 24, 24,
    25,
])  # fmt: skip
feet = np.array([
    2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80, 20,
    26, 54, 32, 40, 32, 40, 50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70, 92, 93,
    120, 85,
])  # fmt: skip

# %%
# The speed is not centred, so that intercept and slope are correlated.

with pm.Model() as model:
    intercept, slope = pm.Normal("intercept", 0, 20), pm.Normal("slope", 0, 5)
    spread = pm.HalfNormal("spread", 20)
    pm.Normal("feet", intercept + slope * mph, spread, observed=feet)
    dt = pm.sample_bdmc(simulate=None, random_seed=1)
    idata = pm.sample(1000, chains=2, random_seed=1, progressbar=False)

# %%
# Three approximations: two fits, and a normal with mean and covariance of draws of NUTS, on the
# unconstrained scale.

options = dict(obj_optimizer=pm.adam(learning_rate=0.01), progressbar=False, random_seed=1)
posterior = idata["posterior"]
unconstrained = [posterior["intercept"], posterior["slope"], np.log(posterior["spread"])]
draws = np.array([values.values.ravel() for values in unconstrained])
approximations = {
    "mean field": pm.fit(30_000, model=model, method="advi", **options),
    "full rank": pm.fit(30_000, model=model, method="fullrank_advi", **options),
    "moments of NUTS": stats.multivariate_normal(draws.mean(axis=1), np.cov(draws)),
}

# %%
# How far is each of them from the posterior?

table = bdmc.distance(dt, approximations, model=model, random_seed=1)
print(table[["value", "error", "lower", "upper", "total_variation"]].round(3).to_string())

# %%
Path("output").mkdir(exist_ok=True)
picture = bdmc.plot_distance(dt, approximations, model=model, random_seed=1)
picture.savefig("output/approximations.png")

# %%
# What a mean field does to a probability:

slopes = {"NUTS": posterior["slope"].values}
for name in ("mean field", "full rank"):
    fitted = approximations[name].sample(10_000, random_seed=1)
    slopes[name] = fitted["posterior"]["slope"].values
for name, values in slopes.items():
    near = np.mean((values > 3.7) & (values < 4.1))
    print(f"{name}: sd of slope {values.std():.2f}, P(3.7 < slope < 4.1) = {near:.2f}")
