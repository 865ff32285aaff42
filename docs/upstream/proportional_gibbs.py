"""`CategoricalGibbsMetropolis` with proposal "proportional" has another stationary distribution."""

import numpy as np
import pymc as pm

p = [0.6, 0.3, 0.1]
print("PyMC", pm.__version__)
print("probabilities            ", np.array(p))
for proposal in ("uniform", "proportional"):
    with pm.Model():
        x = pm.Categorical("x", p)
        step = pm.CategoricalGibbsMetropolis([x], proposal=proposal)
        draws = pm.sample(10_000, step=step, chains=2, cores=1, random_seed=1, progressbar=False)
    frequencies = np.bincount(draws["posterior"]["x"].values.ravel()) / 20_000
    print(f"frequencies, {proposal:12}", frequencies.round(3))
