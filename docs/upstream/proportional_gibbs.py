"""`CategoricalGibbsMetropolis` with proposal "proportional" has another stationary distribution."""

import numpy as np
import pymc as pm

options = dict(chains=2, cores=1, random_seed=1, progressbar=False)
print("PyMC", pm.__version__)
for proposal in ("uniform", "proportional"):
    with pm.Model():
        x = pm.Categorical("x", [0.6, 0.3, 0.1])
        step = pm.CategoricalGibbsMetropolis([x], proposal=proposal)
        draws = pm.sample(10_000, step=step, **options)
    frequencies = np.bincount(draws["posterior"]["x"].values.ravel()) / 20_000
    print(f"{proposal}: {frequencies.round(3)}")
