"""Which model do the data favour?
===============================

Newcomb's 66 measurements of the time that light takes for 7.44 km, in the order in which he made
them (deviations from 24.8 µs, in ns; Stigler 1977). Two are far off. Is the noise normal, or are
there outliers? From three models to Bayes factors, the observations that decide, predictions of all
models together, and the paragraph for a paper. The page docs/which_model.md tells more.
"""

from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

import pymc_bdmc as bdmc

times = np.array([
    28, 26, 33, 24, 34, -44, 27, 16, 40, -2, 29, 22, 24, 21, 25, 30, 23, 29, 31, 19, 24, 20, 36, 32,
    36, 28, 25, 21, 28, 29, 37, 25, 28, 26, 30, 32, 36, 26, 30, 22, 36, 23, 27, 27, 28, 27, 31, 27,
    26, 33, 26, 32, 32, 24, 39, 28, 24, 25, 32, 25, 29, 27, 28, 29, 16, 23,
], dtype=float)  # fmt: skip

# %%
# Normal noise, Student's t with 4 degrees of freedom, or rare gross errors:


def newcomb(noise):
    with pm.Model(coords={"measurement": np.arange(1, 67)}) as model:
        centre, scale = pm.Normal("centre", 25, 10), pm.HalfNormal("scale", 10)
        options = {"observed": times, "dims": "measurement"}
        if noise == "normal":
            pm.Normal("time", centre, scale, **options)
        elif noise == "Student t":
            pm.StudentT("time", 4, mu=centre, sigma=scale, **options)
        else:
            share = pm.Beta("share", 1.0, 19.0)
            parts = [pm.Normal.dist(centre, scale), pm.Normal.dist(centre, 10 * scale)]
            pm.Mixture("time", pm.math.stack([1 - share, share]), parts, **options)
    return model


models = {name: newcomb(name) for name in ("normal", "Student t", "gross errors")}
results = {
    name: pm.sample_bdmc(model, simulate=None, random_seed=seed)
    for seed, (name, model) in enumerate(models.items())
}

# %%
# Log ML of one model, of all, and of two:

print(bdmc.log_ml(results["normal"]))

# %%
table = bdmc.compare(results)
print(table)

# %%
print(bdmc.bayes_factor(results["gross errors"], results["Student t"]))

# %%
Path("output").mkdir(exist_ok=True)
bdmc.plot_compare(results).savefig("output/which_model.png")

# %%
# Which measurements decide? Runs along the path of the data add one after another.

in_turn = {
    name: pm.sample_bdmc(models[name], simulate=None, path="data", chains=64, random_seed=seed)
    for seed, name in enumerate(["normal", "Student t"])
}
decide = bdmc.pointwise(in_turn["Student t"], in_turn["normal"])
print(decide.loc[decide["value"].abs().nlargest(4).index].round(2))

# %%
bdmc.plot_pointwise(dict(reversed(in_turn.items()))).savefig("output/which_observations.png")

# %%
# Predictions of all models together, each with its posterior probability as its weight:

for name, dt in results.items():
    pm.sample_posterior_predictive(
        dt, model=models[name], extend_inferencedata=True, random_seed=1, progressbar=False
    )
weights = table["probability"].dropna()
averaged = az.weight_predictions([results[name] for name in weights.index], weights.tolist())
predicted = averaged["posterior_predictive"]["time"]
print(f"P(a new measurement lies below 0) = {float((predicted < 0).mean()):.3f}")

# %%
# Leaving one measurement out, by ArviZ, asks another question: which model predicts better?

for name, dt in results.items():
    pm.compute_log_likelihood(dt, model=models[name], progressbar=False)
left_out = {name: az.loo(dt, pointwise=True) for name, dt in results.items()}
print(az.compare(left_out).round(2))

# %%
# What to write in a paper:

print(bdmc.report(results))
