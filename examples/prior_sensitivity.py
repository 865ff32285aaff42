"""How much does the prior matter?
=================================

The page docs/which_model.md tells more.

Ten patients slept longer or shorter with a drug than without it (Student 1908, hours). Is there an
effect? The Bayes factor depends on the prior scale of the effect. One run gives the whole curve,
and shows at which scale the preference turns.
"""

from pathlib import Path

import numpy as np
import pymc as pm
from scipy import stats

import pymc_bdmc as bdmc

hours = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])


def effect(scale):
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        size = pm.Cauchy("size", 0, scale)
        pm.Normal("hours", size * sigma, sigma, observed=hours)
    return model


with pm.Model() as no_effect:
    sigma = pm.HalfNormal("sigma", 2)
    pm.Normal("hours", 0, sigma, observed=hours)

# %%
# One run on the model with an effect, and one on that without:

options = {"random_seed": 1, "progressbar": False}
dt = pm.sample_bdmc(effect(1.0), simulate=None, **options)
null = pm.sample_bdmc(no_effect, simulate=None, **options)
print(bdmc.bayes_factor(dt, null))

# %%
# Log ML with other scales of the prior, from the same run as far as it reaches, beside the numbers
# that the trapezoidal rule gives:


def exact_log_ml(scale):
    sigma = np.linspace(0.2, 20, 1001)
    size = np.zeros(1) if scale is None else np.linspace(-3, 6, 1001)
    mean = size[:, None] * sigma
    log_likelihood = sum(stats.norm.logpdf(y, mean, sigma) for y in hours)
    given = np.trapezoid(np.exp(log_likelihood) * stats.halfnorm.pdf(sigma, scale=2), sigma)
    if scale is None:
        return float(np.log(given[0]))
    return float(np.log(np.trapezoid(given * stats.cauchy.pdf(size, scale=scale), size)))


table = bdmc.sensitivity(dt, effect, np.geomspace(0.1, 1000, 17).round(3), **options)
table["exact"] = [exact_log_ml(scale) for scale in table.index]
shown = ["log_ml", "error", "exact", "log_bayes_factor", "pareto_k", "how", "seconds"]
print(table[shown].round(3).to_string())

# %%
# Where the curve crosses the line of no effect, the preference turns:

Path("output").mkdir(exist_ok=True)
curves = {"an effect": table.rename_axis("scale of the prior of the effect"), "none": null}
bdmc.plot_sensitivity(curves).savefig("output/prior_sensitivity.png")

# %%
# The slope of the curve at a few scales:

slopes = bdmc.elasticity(dt, effect, [0.1, 1.0, 10.0, 100.0], model=effect(1.0))
print(slopes[["elasticity", "error"]].round(3).to_string())

# %%
# Any part of the model can vary, here the tails of the noise:


def outliers(nu):
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 2)
        size = pm.Cauchy("size", 0, 1)
        pm.StudentT("hours", nu, mu=size * sigma, sigma=sigma, observed=hours)
    return model


tails = bdmc.sensitivity(dt, outliers, [2.0, 5.0, 30.0], model=effect(1.0), **options)
print(tails[["log_ml", "error", "log_bayes_factor", "how"]].round(3).to_string())
