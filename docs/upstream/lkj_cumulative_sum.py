"""The log density of `pm.LKJCholeskyCov` is NaN if one standard deviation is tiny."""

import numpy as np
import pymc as pm

sd = pm.HalfNormal.dist(1.0)
x = pm.LKJCholeskyCov.dist(eta=1.0, n=2, sd_dist=sd, compute_corr=False)

print("PyMC", pm.__version__)
for small in (1e-6, 1e-8):
    found = pm.logp(x, np.array([1.0, 0.0, small])).eval()
    right = pm.logp(sd, np.array([1.0, small])).eval().sum() - np.log(2 * small)
    print(f"{small:g}: {found:.4f}, by hand {right:.4f}")
