"""A logistic regression
=====================

The posterior of a regression on the breast cancer table: can it be trusted?

Data ship with scikit-learn. The call fits the real data, holds the prior scale at what was found,
simulates similar labels, and sandwiches *their* log ML: the gap bounds how far the last states are
from the posterior, on data like the real ones.
"""

from pathlib import Path

import pymc as pm
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import pymc_bdmc as bdmc

table = load_breast_cancer()
x = scale(table.data[:, :6])

with pm.Model(coords={"feature": table.feature_names[:6]}) as model:
    spread = pm.HalfNormal("spread", 2)
    intercept = pm.Normal("intercept", 0, 2)
    direction = pm.Normal("direction", dims="feature")
    slope = pm.Deterministic("slope", spread * direction, dims="feature")
    pm.Bernoulli("benign", logit_p=intercept + x @ slope, observed=table.target)

# %%
# ``FromHyperparameters`` names the variable whose value is held:

dt = pm.sample_bdmc(model, simulate=bdmc.FromHyperparameters("spread", burn_in=50), random_seed=1)
print(bdmc.verdict(dt))

# %%
# All numbers:

print(bdmc.summary(dt))

# %%
# The picture of the sandwich:

Path("output").mkdir(exist_ok=True)
bdmc.plot_sandwich(dt).savefig("output/logistic_regression.png")
